"""Where in the text a forward pass stands, for hooks that act on some positions only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lab.analysis.sites import Index

if TYPE_CHECKING:
    from model.gpt import GPT


@dataclass(frozen=True)
class Pass:
    """The positions that one forward pass reads.

    positions   [batch or 1, pos] position in the text of each column, counted from each row's first real token
                (padding stands at 0 and below: it is never chosen by a position)
    n_past      columns held in the key-value cache
    padding     [batch or 1] columns of padding before each row's text
    """

    positions: Tensor
    real: Tensor
    n_past: int
    padding: Tensor

    def at(self, wanted: Index) -> Tensor | None:
        """[batch or 1, pos] True at the wanted positions; None when every position is wanted."""
        if wanted is None:
            return None
        return self._among(self._resolved(wanted), self.positions, self.real)

    def keys_at(self, wanted: Index, n_keys: int) -> Tensor | None:
        """[batch or 1, key] the same among all keys, those of the cache included."""
        if wanted is None:
            return None
        columns = torch.arange(n_keys, device=self.padding.device)[None] - self.padding[:, None]
        return self._among(self._resolved(wanted), columns, columns >= 0)

    def _resolved(self, wanted: int | Any) -> list[int]:
        chosen = [wanted] if isinstance(wanted, int) else [int(position) for position in wanted]
        if self.n_past:
            return [position for position in chosen if position >= 0]  # negative: of the prompt, which is past
        rows = (self.positions.shape[1] - self.padding).tolist()
        shortest, end = min(rows), max(rows)
        for position in chosen:
            if not -shortest <= position:
                raise ValueError(f"Position {position} is outside the prompt of {shortest} tokens.")
        if any(position < 0 for position in chosen) and shortest != end:
            raise ValueError("Negative positions need prompts of equal length; count these from the start.")
        return [position if position >= 0 else position + end for position in chosen]

    @staticmethod
    def _among(chosen: list[int], positions: Tensor, real: Tensor) -> Tensor:
        values = torch.tensor(chosen, dtype=positions.dtype, device=positions.device)
        return torch.isin(positions, values) & real


@contextmanager
def track_positions(model: GPT, passes: dict[int, Pass]) -> Iterator[None]:
    """Keep ``passes[layer]`` at the pass that is running through each layer."""
    handles = []

    def tracker(layer: int) -> Any:
        def see(_: Any, arguments: tuple[Any, ...]) -> None:
            x, sight, *rest = arguments
            passes[layer] = _read_pass(x, sight, rest[0] if rest else None, model.config.attention_window)

        return see

    try:
        handles = [block.register_forward_pre_hook(tracker(layer)) for layer, block in enumerate(model.blocks)]
        yield
    finally:
        for handle in handles:
            handle.remove()


def _read_pass(x: Tensor, sight: Any, past: Any, window: int | None) -> Pass:
    n_past = 0 if past is None else past.length
    columns = torch.arange(n_past, n_past + x.shape[1], device=x.device)[None]
    padding = _padding(sight.bias, n_past, window)
    if padding is None:
        padding = torch.zeros(1, dtype=torch.long, device=x.device)
    positions = columns - padding[:, None]
    return Pass(positions.clamp(min=0), positions >= 0, n_past, padding)


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
