"""A prompt as a model gets it: its ids, and its tokens made visible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.corpora.examples import Example


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model gets it.

    Attributes:
        text: what was typed.
        ids: token ids, at least one.
        displays: the tokens made visible, one an id.
        html: the same escaped for HTML and plotly.
        joined: the whole characters that a token holds only parts of, one an id; "" for most.
    """

    text: str
    ids: tuple[int, ...]
    displays: tuple[str, ...]
    html: tuple[str, ...]
    joined: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def last(self, most: int) -> Prompt:
        """The prompt's last `most` tokens."""
        return Prompt(self.text, self.ids[-most:], self.displays[-most:], self.html[-most:], self.joined[-most:])


def displays_of(tokenizer: Any, ids: Any) -> list[str]:
    """Visible forms of some token ids that need not form a text (alternatives, a vocabulary).

    A model's vocabulary may have rows that no text uses; those show as #id.
    """
    from lab.tokenizers import vocabulary_labels

    ids = [int(i) for i in ids]
    known = iter(vocabulary_labels(tokenizer, [i for i in ids if i < tokenizer.vocab_size]))
    return [next(known).display if i < tokenizer.vocab_size else f"#{i}" for i in ids]


def tokenize(tokenizer: Any, text: str, unknown: str = "error") -> Prompt:
    """`text` as the tokenizer sees it. Raises UnknownCharacters when `unknown` is `error` and there are some."""
    return tokenize_ids(tokenizer, text, tokenizer.encode(text, unknown=unknown))


def tokenize_ids(tokenizer: Any, text: str, ids: Sequence[int]) -> Prompt:
    """A prompt given by its ids."""
    from lab.tokenizers import token_labels

    labels = token_labels(tokenizer, ids)
    return Prompt(
        text,
        tuple(ids),
        tuple(x.display for x in labels),
        tuple(x.html for x in labels),
        tuple(x.joined for x in labels),
    )


def readable(examples: Iterable[Example], tokenizer: Any, n_ctx: int) -> list[Example]:
    """The examples whose every character this tokenizer knows, and which fit the context."""
    found = []
    for example in examples:
        try:
            fits = 0 < len(tokenizer.encode(example.prompt)) <= n_ctx
        except ValueError:
            continue
        if fits:
            found.append(example)
    return found


def one_token(tokenizer: Any, text: str) -> int | None:
    """The id of a text that is exactly one token; None for any other."""
    try:
        ids = list(tokenizer.encode(text)) if text else []
    except ValueError:
        return None
    return int(ids[0]) if len(ids) == 1 else None
