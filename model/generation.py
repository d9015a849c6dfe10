"""Generation: one token after another, with or without a key-value cache, the same tokens either way.

The model sees at most the last n_ctx tokens. While everything fits, each new token costs one position (with the
cache) or a pass over all of them (without). Past n_ctx the window slides: the last n_ctx tokens are run anew for
each token and positions restart at 0, which is the only exact way, since a dropped token has left its mark in every
later position's activations.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from model.checks import as_whole, whole
from model.decoding import TokenPass
from model.kv_cache import KVCache, LayerCache
from model.prompts import Prompts
from model.sampling import (
    SamplingConfig,
    SamplingError,
    apply_min_p,
    apply_repetition_penalty,
    apply_temperature,
    apply_top_k,
    apply_top_p,
    filtered_logits,
    seen_tokens,
)
from model.text_stream import TextStream

if TYPE_CHECKING:
    from model.gpt import GPT

__all__ = [
    "KVCache",
    "LayerCache",
    "SamplingConfig",
    "SamplingError",
    "Step",
    "apply_min_p",
    "apply_repetition_penalty",
    "apply_temperature",
    "apply_top_k",
    "apply_top_p",
    "filtered_logits",
    "generate",
    "seen_tokens",
    "stream",
]

RETURN_TYPES = ("input", "tokens", "text")
Stop = int | str


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token.

    text: what the token adds to the text; "" without a tokenizer, or while a character's bytes are incomplete. Joined
    over all steps it is the decoded text of their tokens.
    probability, logprob (nats), entropy (nats), top: of the model's own distribution, before temperature and
    filters. top: the likeliest tokens as (id, probability), likeliest first.
    sampled_probability: of this token in the filtered distribution it was drawn from.
    is_last: no step follows: a stop token, or max_new_tokens reached.
    """

    index: int
    token: int
    text: str
    probability: float
    logprob: float
    sampled_probability: float
    entropy: float
    top: tuple[tuple[int, float], ...]
    is_last: bool


def generate(
    model: GPT,
    input: Any = "",
    max_new_tokens: int = 50,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    *,
    seed: int | None = None,
    stop_tokens: Stop | Sequence[Stop] = (),
    use_cache: bool = True,
    return_cache: bool = False,
    return_type: str = "input",
    attention_mask: Tensor | None = None,
) -> Any:
    """Continue a prompt, or several at once, by up to ``max_new_tokens`` tokens.

    input: text or a list of texts (with ``model.tokenizer``), token ids [pos] or [batch, pos], or a list of id lists.
    Prompts of unequal length are left-padded and masked; each row is what its prompt gives alone. A prompt without
    tokens starts from the tokenizer's beginning-of-sequence token.

    Returns prompt and continuation in the form of the input: text for text, a list for a list, a tensor for a tensor
    (and for one text with ``return_type="tokens"``, [1, pos]). ``return_type="text"`` or ``"tokens"`` asks for the
    other form. A row ends at its first stop token, which is kept; in a [batch, pos] tensor the columns after it
    repeat it. With ``return_cache`` returns (that, ActivationCache): the activations of a run over the final sequence
    (its last n_ctx tokens), every generated token included.

    temperature, top_k, top_p, min_p, repetition_penalty: see ``SamplingConfig``. Ids that the tokenizer does not
    know (a padded vocabulary) are never drawn. seed: the draws are a function of (seed, prompt, how many equal
    prompts stand before it in the batch) and of nothing else; torch's random state is neither read nor changed.
    None draws anew each time. stop_tokens: ids, or texts that are one token each.

    Hooks act during generation. With the cache a pass runs over the new positions alone, so a hook sees those:
    one that addresses absolute positions needs ``use_cache=False``. The model's train or eval mode, gradients and
    hooks are afterwards as they were, whatever happened; dropout is off meanwhile.

    Raises ValueError for impossible settings, an empty prompt without a beginning-of-sequence token, ids outside the
    vocabulary, and for logits that are not finite (a diverged model).
    """
    settings = SamplingConfig(temperature, top_k, top_p, min_p, repetition_penalty)
    if return_type not in RETURN_TYPES:
        raise ValueError(f"return_type is {return_type!r}; it must be one of {', '.join(RETURN_TYPES)}.")
    prompts = Prompts(model, input, attention_mask)
    if (return_type == "text" or (return_type == "input" and prompts.is_text)) and model.tokenizer is None:
        raise ValueError('This model has no tokenizer to make text with: ask for return_type="tokens".')
    decoder = _Decoder(model, prompts, max_new_tokens, settings, seed, stop_tokens, use_cache)
    with decoder.at_work():
        decoder.look()
        while not decoder.is_done:
            decoder.step()
        output = prompts.output(decoder, return_type)
        return (output, decoder.activations()) if return_cache else output


def stream(
    model: GPT,
    input: Any = "",
    max_new_tokens: int = 50,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    *,
    seed: int | None = None,
    stop_tokens: Stop | Sequence[Stop] = (),
    use_cache: bool = True,
    n_top: int = 5,
) -> Iterator[Step]:
    """As ``generate`` for one prompt, the same tokens, yielding a ``Step`` for each as it is drawn.

    n_top: how many alternatives a step lists. Settings are checked by this call, before the first step is asked for.
    Between steps the model is in its own mode, so that training may go on.
    """
    settings = SamplingConfig(temperature, top_k, top_p, min_p, repetition_penalty)
    n_top = whole(n_top, "n_top", 0)
    prompts = Prompts(model, input, None)
    if len(prompts.rows) != 1:
        raise ValueError(f"stream takes one prompt, not {len(prompts.rows)}; generate takes a batch.")
    decoder = _Decoder(model, prompts, max_new_tokens, settings, seed, stop_tokens, use_cache)
    return _steps(model, decoder, [] if prompts.bos_added[0] else prompts.rows[0], n_top)


def _steps(model: GPT, decoder: _Decoder, prompt: list[int], n_top: int) -> Iterator[Step]:
    text = TextStream(model.tokenizer, prompt)
    while not decoder.is_done:
        index = decoder.n_new
        with decoder.at_work():
            decoder.look()
            token = decoder.step()[0]
            own = decoder.logits[0].log_softmax(-1)
            probabilities = own.exp()
            likeliest = probabilities.topk(min(n_top, decoder.n_real))
            entropy = torch.special.entr(probabilities).sum().item()
            drawn = 1.0 if decoder.settings.is_greedy else decoder.filtered[0].softmax(-1)[token].item()
        yield Step(
            index=index,
            token=token,
            text=text.add(token, is_last=decoder.is_done),
            probability=probabilities[token].item(),
            logprob=own[token].item(),
            sampled_probability=drawn,
            entropy=entropy,
            top=tuple(zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)),
            is_last=decoder.is_done,
        )


class _Decoder:
    """The state of one generation: tokens so far, cache, random streams, finished rows."""

    def __init__(
        self,
        model: GPT,
        prompts: Prompts,
        max_new_tokens: int,
        settings: SamplingConfig,
        seed: int | None,
        stop_tokens: Stop | Sequence[Stop],
        use_cache: bool,
    ):
        self.model = model
        self.modules = tuple(model.modules())
        self.settings = settings
        self.max_new_tokens = max_new_tokens = whole(max_new_tokens, "max_new_tokens", 0)
        self.stop = _stop_ids(model, stop_tokens)
        self.n_new = 0
        self.width = width = max(map(len, prompts.rows))
        self.starts = [width - len(row) for row in prompts.rows]
        self.ends: list[int | None] = [None] * len(prompts.rows)
        # Padding holds id 0 and is masked, so its id never matters.
        self.ids = [[0] * start + row for start, row in zip(self.starts, prompts.rows, strict=True)]
        self.mask: Tensor | None = None  # [batch, every position to come]
        if any(self.starts):
            self.mask = torch.ones(len(self.ids), width + max_new_tokens, dtype=torch.long, device=model.device)
            for row, start in enumerate(self.starts):
                self.mask[row, :start] = 0
        self.cache = KVCache(model.config) if use_cache else None
        self.randoms = _random_streams(seed, prompts.rows)
        d_vocab = model.config.d_vocab
        self.n_real = min(d_vocab, getattr(model.tokenizer, "vocab_size", d_vocab))
        self.seen: Tensor | None = None  # [batch, vocab]
        if settings.repetition_penalty != 1:
            self.seen = seen_tokens(self._tokens(), d_vocab, None if self.mask is None else self.mask[:, :width])
        self.last = self.logits = self.filtered = torch.empty(0)
        self.token_pass: TokenPass | None = None
        self.is_quick = False

    @property
    def is_done(self) -> bool:
        return self.n_new >= self.max_new_tokens or None not in self.ends

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Evaluation mode, no gradients, and hooks told where the prompt ends; all as before afterwards, also after
        an exception."""
        watch = self.model.watch
        training = [module for module in self.modules if module.training]
        before = watch.prompt_length
        for module in training:
            module.training = False
        watch.prompt_length = min(self.width, self.model.config.n_ctx)
        try:
            with torch.no_grad():
                yield
        finally:
            watch.prompt_length = before
            for module in training:
                module.training = True

    def look(self) -> None:
        """Notice who watches the model: to be called whenever other code may have run since the last step."""
        if self.token_pass is None and self.cache is not None and TokenPass.covers(self.modules):
            self.token_pass = TokenPass(self.model, self.modules, self.mask)
        self.is_quick = self.token_pass is not None and self.token_pass.stands_in

    def step(self) -> list[int]:
        """Draw the next token of every row. Keeps the logits it was drawn from, before and after the filters."""
        end = len(self.ids[0])
        if end > self.model.config.n_ctx:
            self.cache = None  # the window slides: nothing computed before holds for it
        logits = self._logits(end)
        with torch.inference_mode():  # spares autograd's bookkeeping
            logits = logits if logits.dtype == torch.float64 else logits.float()
            if self.n_real < logits.shape[-1]:
                logits = logits.clone()
                logits[:, self.n_real :] = -math.inf
            self.logits = logits
            self.last = self._draw(logits)
            drawn = self._after_stops(self.last.tolist())
            if self.seen is not None:
                self.seen.scatter_(1, self.last[:, None], True)
        for row, token in zip(self.ids, drawn, strict=True):
            row.append(token)
        self.n_new += 1
        return drawn

    def _logits(self, end: int) -> Tensor:
        """Logits [batch, vocab] after position end - 1: the quick way, or through the model's own forward pass."""
        cache, quick = self.cache, self.token_pass
        if quick is None or cache is None or not self.is_quick or self.n_new == 0:
            return self._logits_of_modules(end, cache)
        with torch.inference_mode():
            return quick(self.last, cache)

    def _logits_of_modules(self, end: int, cache: KVCache | None) -> Tensor:
        model, n_layers = self.model, self.model.config.n_layers
        begin = max(0, end - model.config.n_ctx) if cache is None else cache.length
        tokens = self._tokens(begin, end)
        mask = self._mask(begin if cache is None else 0, end)
        if end - begin == 1 or model.is_watched():
            return model(tokens, attention_mask=mask, past_kv_cache=cache)[:, -1]
        # Unwatched, the unembedding is run where it is needed, not on the whole prompt.
        stream = model(tokens, attention_mask=mask, past_kv_cache=cache, stop_at_layer=n_layers)
        return model(stream[:, -1:], start_at_layer=n_layers)[:, 0]

    def _draw(self, logits: Tensor) -> Tensor:
        """One id a row [batch]: the likeliest, or drawn from the filtered distribution."""
        if self.settings.is_greedy:
            if self.seen is not None:
                logits = apply_repetition_penalty(logits, self.seen, self.settings.repetition_penalty)
            largest, likeliest = logits.max(-1)  # documented to be the first of several
            _refuse_non_finite(largest)
            return likeliest
        _refuse_non_finite(logits.amax(-1))
        self.filtered = filtered_logits(logits, self.settings, self.seen)
        probabilities = self.filtered.softmax(-1, dtype=torch.float64).cpu().numpy()
        drawn = []
        for row, stream in zip(probabilities, self.randoms, strict=True):
            # Where the cumulative distribution first exceeds a uniform number. What a filter removed adds nothing to
            # it and so is never there. 52 bits, for then the number times the total never rounds up to the total.
            cumulative = row.cumsum()
            point = stream.getrandbits(52) * 2.0**-52 * cumulative[-1]
            drawn.append(int(cumulative.searchsorted(point, side="right")))
        return torch.tensor(drawn, device=logits.device)

    def _after_stops(self, drawn: list[int]) -> list[int]:
        """Note the rows that end with this token; a row that had ended repeats its stop token."""
        if self.stop:
            for row, end in enumerate(self.ends):
                if end is not None:
                    drawn[row] = self.ids[row][end]
                elif drawn[row] in self.stop:
                    self.ends[row] = len(self.ids[row])
        return drawn

    def _tokens(self, begin: int = 0, end: int | None = None) -> Tensor:
        return torch.tensor([row[begin:end] for row in self.ids], dtype=torch.long, device=self.model.device)

    def _mask(self, begin: int, end: int) -> Tensor | None:
        return None if self.mask is None else self.mask[:, begin:end]

    def new_tokens(self) -> Tensor:
        """What was generated, [batch, new]."""
        return self._tokens(len(self.ids[0]) - self.n_new)

    def rows(self) -> list[list[int]]:
        """Each row's ids, without padding and without what follows its stop token."""
        return [
            ids[start:] if end is None else ids[start : end + 1]
            for ids, start, end in zip(self.ids, self.starts, self.ends, strict=True)
        ]

    def activations(self) -> Any:
        """The activations of a run over the final sequence, or the last n_ctx tokens of it."""
        end = len(self.ids[0])
        begin = max(0, end - self.model.config.n_ctx)
        return self.model.run_with_cache(self._tokens(begin), attention_mask=self._mask(begin, end))[1]


def _refuse_non_finite(largest: Tensor) -> None:
    """largest: of each row's logits; NaN if any of them is."""
    for row, value in enumerate(largest.tolist()):
        if not math.isfinite(value):
            raise ValueError(
                f"The model's logits (row {row}) are not finite numbers: nothing can be sampled from them. "
                "Its weights have probably diverged in training; take an earlier checkpoint."
            )


def _random_streams(seed: int | None, prompts: list[list[int]]) -> list[random.Random]:
    """A stream of uniform numbers for each row, named by (seed, prompt, occurrence of the prompt in the batch).

    So a row draws alone what it draws in company, and equal prompts draw different continuations.
    """
    if seed is None:
        return [random.Random() for _ in prompts]
    if as_whole(seed) is None:
        raise ValueError(f"seed is {seed!r}; it must be a whole number or None.")
    seed = as_whole(seed)
    occurrences: dict[tuple[int, ...], int] = {}
    streams = []
    for prompt in map(tuple, prompts):
        occurrences[prompt] = occurrences.get(prompt, -1) + 1
        streams.append(random.Random(f"{seed} {occurrences[prompt]} {prompt}"))
    return streams


def _stop_ids(model: GPT, stop_tokens: Stop | Sequence[Stop]) -> frozenset[int]:
    several = isinstance(stop_tokens, Iterable) and not isinstance(stop_tokens, str) and as_whole(stop_tokens) is None
    ids = []
    for stop in stop_tokens if several else (stop_tokens,):  # type: ignore[union-attr]
        token = model.to_single_token(stop) if isinstance(stop, str) else whole(stop, "A stop token")
        if not 0 <= token < model.config.d_vocab:
            raise ValueError(f"Stop token {token} is outside the vocabulary, 0 to {model.config.d_vocab - 1}.")
        ids.append(token)
    return frozenset(ids)
