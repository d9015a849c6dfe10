"""residlab sample: let a trained model write, token by token as it chooses."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import tyro

if TYPE_CHECKING:
    from lab.tokenizers import Tokenizer
    from model.gpt import GPT


@dataclass(frozen=True)
class Sample:
    """Let a model write. Text appears as it is chosen; the same seed and options write the same text."""

    model: tyro.conf.Positional[str]
    """A run (runs/a), one of its checkpoints (runs/a@500, runs/a@best), or a folder with a model."""
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
    unknown: Literal["error", "skip", "replace"] = "error"
    """What to do with characters of the prompt that the tokenizer does not know."""
    json: bool = False
    """Print a JSON object: prompt, text, and each token's id, text, probability and likeliest alternatives."""


def sample(options: Sample) -> int:
    """Write to stdout."""
    if options.tokens < 1:
        raise ValueError(f"--tokens is {options.tokens}; it must be at least 1.")
    from model.sampling import SamplingConfig

    settings = {f.name: getattr(options, f.name) for f in fields(SamplingConfig)}
    SamplingConfig(**settings)  # a setting nothing can be sampled with is refused before a model is opened

    model = model_with_text(options.model)
    tokenizer = model.tokenizer
    ids = prompt_ids(tokenizer, options.prompt, options.unknown)
    steps = model.stream(
        ids,
        max_new_tokens=options.tokens,
        seed=options.seed,
        stop_tokens=tuple(_one_token(tokenizer, text) for text in options.stop),
        **settings,
    )
    prompt, written = Writer(tokenizer, quiet=options.json), Writer(tokenizer, quiet=options.json)
    prompt.add(ids)
    rows = []
    for step in steps:
        written.add([step.token])
        if options.json:
            rows.append(_row(tokenizer, step))
    written.end()
    if options.json:
        result = {
            "model": options.model,
            "prompt": prompt.text,
            "prompt_tokens": len(ids),
            "text": written.text,
            "tokens": rows,
        }
        print(json.dumps(result, ensure_ascii=False, allow_nan=False, indent=1))
    return 0


def prompt_ids(tokenizer: Tokenizer, prompt: str, unknown: str = "error") -> list[int]:
    """The prompt's tokens; an empty one is the beginning of a text, where the tokenizer has a mark for it."""
    if prompt:
        ids = list(tokenizer.encode(prompt, unknown=unknown))
        if not ids:
            raise ValueError("Nothing of the prompt is left once its unknown characters are skipped.")
        return ids
    if tokenizer.bos_id is None:
        raise ValueError('This model\'s tokenizer marks no beginning of a text: give it one, --prompt "...".')
    return [tokenizer.bos_id]


def _one_token(tokenizer: Tokenizer, text: str) -> int:
    ids = tokenizer.encode(text)
    if len(ids) != 1:
        raise ValueError(f"--stop {text!r} is {len(ids)} tokens; a stop token is a single one.")
    return ids[0]


def _row(tokenizer: Tokenizer, step: Any) -> dict[str, Any]:
    return {
        "id": step.token,
        "text": tokenizer.decode([step.token]),
        "probability": step.probability,
        "alternatives": [
            {"id": token, "text": tokenizer.decode([token]), "probability": probability}
            for token, probability in step.alternatives
        ],
    }


class Writer:
    """Text as it grows. A character that needs more bytes waits until they have come."""

    def __init__(self, tokenizer: Tokenizer, *, quiet: bool = False):
        self.tokenizer = tokenizer
        self.quiet = quiet
        self.parts: list[str] = []
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def add(self, ids: Sequence[int]) -> None:
        for piece in self.tokenizer.pieces(ids):
            self._write(self._bytes.decode(piece) if isinstance(piece, bytes) else piece)

    def end(self) -> None:
        """A character that was never finished shows as one mark."""
        self._write(self._bytes.decode(b"", final=True))
        if not self.quiet:
            print()

    def _write(self, text: str) -> None:
        self.parts.append(text)
        if text and not self.quiet:
            print(text, end="", flush=True)


def model_with_text(name: str) -> GPT:
    """A model that can read: opened, with a tokenizer."""
    from lab.models import open_model

    model = open_model(name)
    if model.tokenizer is None:
        raise ValueError(f"{name} has no tokenizer, so it cannot read or write text.")
    return model
