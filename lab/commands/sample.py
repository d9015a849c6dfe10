"""residlab sample: let a trained model write, token by token as it chooses."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import tyro

from lab.commands.console import print_json
from lab.commands.writing import check_range, check_seed
from lab.tokenizers import UnknownCharacters, partial_bytes
from model.sampling import SamplingConfig

if TYPE_CHECKING:
    from model.generation import Step
    from model.gpt import GPT

Unknown = Literal["error", "skip", "replace"]


@dataclass(frozen=True)
class Sample:
    """Let a model write. Text appears as it is chosen; the same seed and options write the same text."""

    model: tyro.conf.Positional[str]
    """A run (runs/a, runs/a@500, runs/a@best), a folder with a model, a .gguf or ckpt.pt file, or gpt2, owner/name."""
    prompt: str = ""
    """What to go on from; empty starts at the beginning of a text, where the tokenizer marks one."""
    tokens: int = 200
    """How many tokens to write at most."""
    temperature: float = 1.0
    """Below 1 safer, above 1 wilder; 0 always takes the likeliest token."""
    top_k: int | None = None
    """Choose among the k likeliest tokens."""
    top_p: float | None = None
    """Choose among the likeliest tokens that together hold this probability."""
    min_p: float | None = None
    """Choose among tokens at least this likely, relative to the likeliest."""
    repetition_penalty: float = 1.0
    """Above 1: tokens that occurred lose. As transformers defines it."""
    seed: int | None = None
    """Seed of the choices; by default a new one each time."""
    stop: tuple[str, ...] = ()
    """Stop after one of these tokens."""
    unknown: Unknown = "error"
    """What to do with characters of the prompt that the tokenizer does not know."""
    json: bool = False
    """Print a JSON object: prompt, text, and each token's id, text, probability and likeliest alternatives."""


def sample(options: Sample) -> int:
    """Write to stdout."""
    check_range("--tokens", options.tokens, 1)
    check_seed(options.seed)
    settings = {f.name: getattr(options, f.name) for f in fields(SamplingConfig)}
    SamplingConfig(**settings)  # what nothing can be sampled with is refused before a model is opened

    model = model_with_text(options.model)
    ids = read_prompt(model, options.prompt, options.unknown)
    prompt = model.tokenizer.decode(ids)
    steps = model.stream(
        ids or "", max_new_tokens=options.tokens, seed=options.seed, stop_tokens=options.stop, **settings
    )
    if options.json:
        taken = list(steps)
        result = {
            "model": options.model,
            "prompt": prompt,
            "text": "".join(step.text for step in taken),
            "tokens": [_row(model, step) for step in taken],
        }
        print_json(result)
        return 0
    print(prompt, end="", flush=True)
    for step in steps:
        print(step.text, end="", flush=True)
    print()
    return 0


def model_with_text(name: str) -> GPT:
    """A model that can read: opened, with a tokenizer."""
    from lab.models import describe_model, is_pretrained, open_model

    if is_pretrained(name) and (described := describe_model(name)) is not None and described.is_worth_a_word:
        print(described, file=sys.stderr, flush=True)  # what loading takes, before it is loaded
    model = open_model(name)
    if model.tokenizer is None:
        raise ValueError(f"{name} has no tokenizer, so it cannot read or write text.")
    return model


def read_prompt(model: GPT, prompt: str, unknown: Unknown) -> list[int]:
    """The prompt's ids; [] for an empty prompt, which starts from the mark of a text's beginning, if there is one.

    Raises ValueError naming the characters the tokenizer does not know, unless they are to be skipped or replaced.
    """
    if not prompt:
        if model.tokenizer.bos_id is None:
            raise ValueError('This model\'s tokenizer marks no beginning of a text: give it one, --prompt "...".')
        return []
    try:
        ids = list(model.tokenizer.encode(prompt, unknown=unknown))
    except UnknownCharacters as problem:
        raise ValueError(problem.sentence("--unknown skip", "--unknown replace")) from problem
    if not ids:
        raise ValueError(f"Nothing of the prompt {prompt!r} is left once its unknown characters are skipped.")
    return ids


def _row(model: GPT, step: Step) -> dict[str, Any]:
    """Probabilities are the model's own; sampled_probability is that after temperature and filters."""
    return {
        "id": step.token,
        "text": step.text,
        "bytes": _bytes(model, step.token),
        "probability": step.probability,
        "sampled_probability": step.sampled_probability,
        "entropy": step.entropy,
        "alternatives": [
            {
                "id": token,
                "text": model.tokenizer.decode([token]),
                "bytes": _bytes(model, token),
                "probability": probability,
            }
            for token, probability in step.top
        ],
    }


def _bytes(model: GPT, token: int) -> str | None:
    """The bytes of a token that is no whole character, in hexadecimal digits; None for any other."""
    partial = partial_bytes(model.tokenizer, token)
    return None if partial is None else partial.hex()
