"""Where in the text a forward pass stands, for hooks that act on some positions only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lab.analysis.sites import Positions
from model.checks import wholes

if TYPE_CHECKING:
    from model.gpt import GPT


@dataclass(frozen=True)
class Pass:
    """The positions that one forward pass reads.

    positions   [batch or 1, pos] position in the text of each column, counted from each row's first real token
                (padding stands at 0 and below: it is never chosen by a position)
    n_past      columns held in the key-value cache
    padding     [batch or 1] columns of padding before each row's text
    end         columns of the prompt: where negative positions count from, in this pass and in all that continue it
    """

    positions: Tensor
    real: Tensor
    n_past: int
    padding: Tensor
    end: int

    def at(self, wanted: Positions) -> Tensor | None:
        """[batch or 1, pos] True at the wanted positions; None when every position is wanted."""
        if wanted is None:
            return None
        return self._among(wanted, self.positions, self.real)

    def keys_at(self, wanted: Positions, n_keys: int) -> Tensor | None:
        """[batch or 1, key] the same among all keys, those of the cache included."""
        if wanted is None:
            return None
        columns = torch.arange(n_keys, device=self.padding.device)[None] - self.padding[:, None]
        return self._among(wanted, columns, columns >= 0)

    def _among(self, wanted: Positions, positions: Tensor, real: Tensor) -> Tensor:
        """Each row's prompt has a length of its own, from which its negative positions count."""
        lengths = (self.end - self.padding).tolist()
        rows = [
            torch.isin(row, row.new_tensor(_resolved(wanted, length)))
            for row, length in zip(positions, lengths, strict=True)
        ]
        return torch.stack(rows) & real


def _resolved(wanted: Positions, length: int) -> list[int]:
    """Positions counted from the start of a prompt of this length. Those beyond it are of text to come."""
    if isinstance(wanted, slice):
        return list(range(*wanted.indices(length)))
    chosen = wholes(wanted, "position")
    for position in chosen:
        if position < -length:
            raise ValueError(f"Position {position} is outside the prompt of {length} tokens.")
    return [position if position >= 0 else position + length for position in chosen]


@contextmanager
def track_positions(model: GPT, passes: dict[int, Pass]) -> Iterator[None]:
    """Keep ``passes[layer]`` at the pass that is running through each layer."""
    handles = []
    ends: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # a layer's cache -> the prompt it began with

    def tracker(layer: int) -> Any:
        def see(_: Any, arguments: tuple[Any, ...]) -> None:
            x, sight, *rest = arguments
            past = rest[0] if rest else None
            end = model.watch.prompt_length
            if end is None:
                end = (0 if past is None else past.length) + x.shape[1]
                if past is not None:
                    # the pass that begins a text, or the first that is seen of it, says where its prompt ends
                    end = ends[past] = end if past.length == 0 else ends.get(past, end)
            passes[layer] = _read_pass(x, sight, past, model.config.attention_window, end)

        return see

    try:
        handles = [block.register_forward_pre_hook(tracker(layer)) for layer, block in enumerate(model.blocks)]
        yield
    finally:
        for handle in handles:
            handle.remove()


def _read_pass(x: Tensor, sight: Any, past: Any, window: int | None, end: int) -> Pass:
    n_past = 0 if past is None else past.length
    columns = torch.arange(n_past, n_past + x.shape[1], device=x.device)[None]
    padding = _padding(sight.bias, n_past, window)
    if padding is None:
        padding = torch.zeros(1, dtype=torch.long, device=x.device)
    positions = columns - padding[:, None]
    return Pass(positions.clamp(min=0), positions >= 0, n_past, padding, end)


def _padding(bias: Tensor | None, n_past: int, window: int | None) -> Tensor | None:
    """[batch] columns of left padding, read off the mask; None when nothing is padded.

    Padding is seen by nobody but itself. The last query sees every real key before it, unless a window hides some;
    then the first pass tells: there a real key is seen by the query after it.
    """
    if bias is None:
        return None
    hidden = torch.isneginf(bias[:, 0])  # [batch, query, key]
    if window is None:
        return hidden[:, -1].sum(-1)
    if n_past:
        if bias.shape[0] > 1:
            raise ValueError("Interventions on a padded batch need a model without an attention window.")
        return None
    return hidden.diagonal(-1, 1, 2).long().cumprod(-1).sum(-1)
