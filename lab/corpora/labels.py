"""Gold labels: what a generator or a parser knows about each stretch of a text, for any tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

NONE = -1  # the code of "no label here"


@dataclass(frozen=True, eq=False)
class LabelLayer:
    """One question asked of every unit. `values` is the closed set of answers; `codes` [unit] points into
    it, -1 where the question does not apply."""

    name: str
    description: str
    values: tuple[str, ...]
    codes: np.ndarray

    def names(self) -> list[str | None]:
        """The answers as words, None where there is none."""
        return [None if c < 0 else self.values[c] for c in self.codes.tolist()]

    def counts(self) -> dict[str, int]:
        """How often each answer occurs."""
        found = np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))
        return dict(zip(self.values, found.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class GoldLabels:
    """Labels of one split.

    Unit i is text[starts[i]:ends[i]] (of a token task: token i). The units of a text tile it: a word
    carries the space before it. `document` [unit] numbers the document, for splits that keep documents
    whole. `layers` are categorical; `numbers` [unit] hold integers (-1: none), of which those named in
    `pointers` are indices of other units.
    """

    starts: np.ndarray
    ends: np.ndarray
    document: np.ndarray
    layers: Mapping[str, LabelLayer]
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)
    number_descriptions: Mapping[str, str] = field(default_factory=dict)
    pointers: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.starts)

    def layer(self, name: str) -> LabelLayer:
        """The layer of this name; ValueError listing the names there are."""
        if name not in self.layers:
            raise ValueError(f"no label layer {name!r}; there are {', '.join(self.layers)}")
        return self.layers[name]

    def on_tokens(self, text: str, starts: np.ndarray, ends: np.ndarray) -> GoldLabels:
        """The same labels on tokens that cover text[starts[i]:ends[i]].

        A token takes the labels of the unit that holds its last character that is not white space, or
        its last character if all are. A token of white space only, inside a unit that is more (the space
        before a word, under a character tokenizer), has no label: it belongs to no word yet.
        A pointer leads to the last token of the unit it pointed to.
        """
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        blank = np.isin(codes, [ord(c) for c in set(text) if c.isspace()])
        # solid[i]: the last non-blank character at or before i
        at = np.arange(len(codes))
        solid = np.maximum.accumulate(np.where(blank, -1, at)) if len(codes) else at
        last = ends - 1
        anchor = np.where(solid[last] >= starts, solid[last], last)
        unit = np.searchsorted(self.ends, anchor, side="right")
        unit_blank = ~(solid[self.ends - 1] >= self.starts)
        unlabelled = (solid[last] < starts) & ~unit_blank[unit]

        def take(values: np.ndarray) -> np.ndarray:
            return np.where(unlabelled, NONE, values[unit]).astype(values.dtype)

        # a pointer leads to the last token that took its labels from the unit; -1 where no token did
        last_token = np.full(len(self) + 1, NONE, dtype=np.int64)
        last_token[unit[~unlabelled]] = np.flatnonzero(~unlabelled)
        numbers = {n: take(v) for n, v in self.numbers.items()}
        for name in self.pointers:
            numbers[name] = last_token[numbers[name]]  # index -1 reads the extra last entry, itself -1
        layers = {
            n: LabelLayer(layer.name, layer.description, layer.values, take(layer.codes))
            for n, layer in self.layers.items()
        }
        return GoldLabels(
            starts=starts,
            ends=ends,
            document=self.document[unit],
            layers=layers,
            numbers=numbers,
            number_descriptions=self.number_descriptions,
            pointers=self.pointers,
        )
