"""Many changed runs of one prompt, for the price of what each of them changes.

A patch at layer L and position p leaves everything before it as it was: layers below L, and, the model being causal,
positions before p. So each run restarts at its own layer, from the unchanged run's stream, with the unchanged keys
and values of earlier positions; runs that have begun are carried through the next layer together, as rows of one
batch that grows from layer to layer. What comes out is what one run at a time would give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from model.gpt import GPT

Edit = Callable[[Tensor], Tensor]

TOKENS_AT_ONCE = 4096
"""Rows x positions of one batch: large enough for matrix products to be efficient, small in memory."""


@dataclass(frozen=True)
class Row:
    """One changed run: it begins at ``layer``, where ``edit`` changes an activation at ``point``.

    edit takes and returns [1, pos, ...], the positions from ``start`` on. key: whatever tells runs apart.
    """

    key: Any
    layer: int
    start: int
    point: str
    edit: Edit


class _Keys:
    """The keys and values of one layer for the positions that are not run again; nothing is added to them."""

    def __init__(self) -> None:
        self.length = 0
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.k is None or self.v is None:  # the unchanged run itself
            self.k, self.v = k, v
        if self.length == 0:
            return k, v
        before_k, before_v = (x[:, :, : self.length].expand(k.shape[0], -1, -1, -1) for x in (self.k, self.v))
        return torch.cat((before_k, k), 2), torch.cat((before_v, v), 2)


class _Prefix:
    """``past_kv_cache`` that always holds the first ``length`` positions of the unchanged run."""

    def __init__(self, n_layers: int):
        self.layers = [_Keys() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        return self.layers[0].length

    def hold(self, length: int) -> None:
        for layer in self.layers:
            layer.length = length


class BaseRun:
    """The unchanged run: its stream before every layer and at the end, and what restarts need of it.

    Activations at ``names`` are kept as well. With a hook of the user's on the model nothing is skipped along the
    prompt, since such a hook may carry information between positions: rows must then start at 0.
    """

    def __init__(self, model: GPT, ids: Tensor, names: Sequence[str] = ()):
        self.model = model
        self.n_layers = model.config.n_layers
        self.watched = model.is_watched()
        self._prefix = _Prefix(self.n_layers)
        streams = [f"blocks.{layer}.hook_resid_pre" for layer in range(self.n_layers)]
        self.final_name = f"blocks.{self.n_layers - 1}.hook_resid_post"
        _, self.cache = model.run_with_cache(
            ids,
            names_filter=[*streams, self.final_name, *names],
            past_kv_cache=self._prefix,
            stop_at_layer=self.n_layers,
        )
        self.streams = [self.cache[name] for name in streams]  # each [1, pos, d_model]

    @property
    def final(self) -> Tensor:
        """The stream after the last layer, [1, pos, d_model]."""
        return self.cache[self.final_name]

    def run(self, rows: Sequence[Row]) -> Tensor:
        """Final streams [row, pos from start on, d_model] of rows that share their start, ascending in layer."""
        start = rows[0].start
        self._prefix.hold(start)
        x = self.streams[0][:0, start:]
        waiting = list(rows)
        for layer in range(rows[0].layer, self.n_layers):
            new = [row for row in waiting if row.layer == layer]
            waiting = waiting[len(new) :]
            if new:
                x = torch.cat((x, self.streams[layer][:, start:].expand(len(new), -1, -1)))
            with self.model.hooks(fwd_hooks=_hooks(new, len(x))):
                x = self.model(x, start_at_layer=layer, stop_at_layer=layer + 1, past_kv_cache=self._prefix)
        return x

    def whole(self, streams: Tensor, start: int) -> Tensor:
        """Final streams with the unchanged positions before ``start`` put in front."""
        if start == 0:
            return streams
        return torch.cat((self.final[:, :start].expand(len(streams), -1, -1), streams), 1)


def _hooks(rows: Sequence[Row], n_rows: int) -> list[tuple[str, Any]]:
    """Hooks that let each of the newest rows' edits act on its own row."""
    by_point: dict[str, list[tuple[int, Edit]]] = {}
    for index, row in enumerate(rows, n_rows - len(rows)):
        by_point.setdefault(row.point, []).append((index, row.edit))

    def hook_for(edits: list[tuple[int, Edit]]) -> Any:
        def hook(activation: Tensor, hook: Any) -> Tensor:
            changed = activation.clone()
            for index, edit in edits:
                changed[index : index + 1] = edit(activation[index : index + 1])
            return changed

        return hook

    return [(point, hook_for(edits)) for point, edits in by_point.items()]


def in_batches(rows: Sequence[Row], length: int) -> list[list[Row]]:
    """Rows with the same start together, ascending in layer, at most ``TOKENS_AT_ONCE`` tokens in one batch."""
    by_start: dict[int, list[Row]] = {}
    for row in rows:
        by_start.setdefault(row.start, []).append(row)
    batches = []
    for start, group in sorted(by_start.items()):
        group.sort(key=lambda row: row.layer)
        size = max(1, TOKENS_AT_ONCE // max(1, length - start))
        batches += [group[at : at + size] for at in range(0, len(group), size)]
    return batches
