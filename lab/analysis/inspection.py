"""One prompt, everything the first pages show, as plain values: what ``residlab inspect`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.analysis.attention import attention_patterns
from lab.analysis.contributions import logit_contributions
from lab.analysis.lens import logit_lens
from lab.analysis.predictions import token_predictions
from lab.analysis.prompts import Prompt, prompt_ids, resolve_position
from lab.tokenizers import partial_bytes

if TYPE_CHECKING:
    from model.gpt import GPT


def inspect_prompt(
    model: GPT,
    tokens: Prompt,
    *,
    position: int = -1,
    token: int | str | None = None,
    versus: int | str | None = None,
    by: str = "component",
    top_k: int = 5,
) -> dict[str, Any]:
    """Tokens, next-token prediction, logit lens, contributions and attention of one prompt, ready for strict
    JSON.

    tokens         list of {index, id, text, bytes, display, probability, surprisal}; text as it is, bytes (hexadecimal)
                   of a token that is no whole character, else None, display with white space and partial bytes made
                   visible; probability of each given what precedes it, surprisal in nats,
                   None for the first
    next_token     list of {id, text, bytes, display, probability}, the likeliest after ``position`` first
    logit_lens     ``LogitLens.to_dict()``
    contributions  ``LogitContributions.to_dict()`` for ``token`` (default: the likeliest) less ``versus``
    attention      ``AttentionPatterns.to_dict()``
    """
    ids = prompt_ids(model, tokens)
    at = resolve_position(position, ids.shape[1])
    predictions = token_predictions(model, ids, top_k)
    contributions = logit_contributions(model, ids, position=at, token=token, versus=versus, by=by)
    lens = logit_lens(model, ids, top_k)
    attention = attention_patterns(model, ids)
    p = predictions.to_dict()
    prompt = zip(p["tokens"], p["token_texts"], p["probability"], p["surprisal"], strict=True)
    following = zip(p["top_tokens"][at], p["top_texts"][at], p["top_probabilities"][at], strict=True)

    def named(token_id: int, display: str) -> dict[str, Any]:
        known = model.tokenizer is not None and token_id < model.tokenizer.vocab_size
        partial = partial_bytes(model.tokenizer, token_id) if known else None
        return {
            "id": token_id,
            "text": model.tokenizer.decode([token_id]) if known else display,
            "bytes": None if partial is None else partial.hex(),
            "display": display,
        }

    return {
        "tokens": [
            {**named(token_id, display), "index": index, "probability": probability, "surprisal": surprisal}
            for index, (token_id, display, probability, surprisal) in enumerate(prompt)
        ],
        "next_token": [{**named(token_id, display), "probability": prob} for token_id, display, prob in following],
        "logit_lens": lens.to_dict(),
        "contributions": contributions.to_dict(),
        "attention": attention.to_dict(),
    }
