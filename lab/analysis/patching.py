"""Activation patching: put one run's activations into another, one place at a time, and see what moves.

Vig et al. 2020 (arXiv 2004.12265), Meng et al. 2022 (arXiv 2202.05262), Heimersheim and Nanda 2024 (arXiv
2404.15255).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.metrics import Metric, Reading, read_metric
from lab.analysis.prompts import Prompt, as_array, prompt_ids, resolve_choice, token_texts, without_dropout
from lab.analysis.restarts import BaseRun, Edit, Row, in_batches
from lab.analysis.results import Result, alike_note, frame, grid, share
from lab.analysis.sites import PATTERN, SITES, Index, Site, resolve_layers, resolve_site

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

DIRECTIONS = ("denoise", "noise")
PATCH_SITES = (
    "resid_pre",
    "resid_mid",
    "resid_post",
    "attn_out",
    "mlp_out",
    "head",
    "q",
    "k",
    "v",
    "pattern",
    "neuron",
    "component",
)
COMPONENTS = ("attn_out", "mlp_out")
UNIT_LETTERS = {"head": "H", "neuron": "N"}

Progress = Callable[[int, int], None]
"""Told (patches done, patches in all) after each batch."""


@dataclass(frozen=True, eq=False)
class PatchingGrid(Result):
    """What the metric becomes for each patch.

    values       [*axes] the metric with that one patch; NaN where a cancelled run did not get to
    axes         names of the axes: "layer" or "component", then "head" (site "head", q, k, v, pattern) or "neuron",
                 then "position"
    layer        [first axis] layer of each row; component [first axis] site of each row
    clean, corrupt   the metric of the two prompts, unpatched
    direction    "denoise": clean activations into the corrupt run; "noise": the other way round
    site         what was patched; metric: in words; method: "exact" or "attribution" (an estimate)
    correlation  of an estimate with the exact grid it was compared to (NaN without one)
    clean_tokens, corrupt_tokens, clean_texts, corrupt_texts   the prompts: ids [pos] and how they are displayed
    cancelled    whether it was stopped before the end
    """

    values: np.ndarray
    axes: tuple[str, ...]
    layer: np.ndarray
    component: tuple[str, ...]
    clean: float
    corrupt: float
    direction: str
    site: str
    metric: str
    method: str
    correlation: float
    clean_tokens: np.ndarray
    corrupt_tokens: np.ndarray
    clean_texts: tuple[str, ...]
    corrupt_texts: tuple[str, ...]
    cancelled: bool = False

    @property
    def base(self) -> float:
        """The metric of the run that is patched into."""
        return self.corrupt if self.direction == "denoise" else self.clean

    @property
    def effect(self) -> np.ndarray:
        """[*axes] what each patch adds to the metric of the run it is patched into."""
        with np.errstate(invalid="ignore"):  # inf - inf
            return self.values - self.base

    @property
    def recovered(self) -> np.ndarray:
        """[*axes] the effect as a share of the whole difference between the two prompts: 1 is all of it. NaN, with a
        ``note``, where both score alike."""
        return share(self.effect, self.clean if self.direction == "denoise" else self.corrupt, self.base)

    @property
    def note(self) -> str:
        return alike_note(self.clean, self.corrupt)

    def labels(self) -> list[str]:
        """The name of each row of the first axis, e.g. "L3" or "L3 mlp"."""
        if self.axes[0] == "layer":
            return [f"L{layer}" for layer in self.layer]
        return [f"L{layer} {site.removesuffix('_out')}" for layer, site in zip(self.layer, self.component, strict=True)]

    def top(self, count: int = 10) -> list[tuple[str, float]]:
        """The patches of largest effect: (name, effect), e.g. ("L5H1", 3.2)."""
        effect = self.effect
        order = np.argsort(-np.abs(np.nan_to_num(effect)), axis=None, kind="stable")[:count]
        return [
            (self.name(*index), float(effect[index]))
            for index in zip(*np.unravel_index(order, effect.shape), strict=True)
        ]

    def name(self, *index: Any) -> str:
        """The name of one cell."""
        said = self.labels()[index[0]]
        for axis, at in zip(self.axes[1:], index[1:], strict=True):
            said += f"{UNIT_LETTERS[axis]}{at}" if axis in UNIT_LETTERS else f" @{at} {self.clean_texts[at]}"
        return said

    def to_frame(self) -> pandas.DataFrame:
        """A row for each patch."""
        index = grid(*self.values.shape)
        columns: dict[str, Any] = {"layer": self.layer[index[0]]}
        columns["component"] = np.array(self.component, dtype=object)[index[0]]
        for axis, at in zip(self.axes[1:], index[1:], strict=True):
            columns[axis] = at
            if axis == "position":
                columns["clean_token"] = np.array(self.clean_texts, dtype=object)[at]
                columns["corrupt_token"] = np.array(self.corrupt_texts, dtype=object)[at]
        values = {"value": self.values, "effect": self.effect, "recovered": self.recovered}
        return frame({**columns, **{name: array.ravel() for name, array in values.items()}})


@dataclass(frozen=True)
class Pair:
    """Two prompts of one length, and which of them is patched into.

    base, source    ids [1, pos]: the run that is patched, and the run the patches come from
    first           the first position at which they differ: before it both runs are the same
    """

    clean: Tensor
    corrupt: Tensor
    direction: str
    first: int

    @property
    def base(self) -> Tensor:
        return self.corrupt if self.direction == "denoise" else self.clean

    @property
    def source(self) -> Tensor:
        return self.clean if self.direction == "denoise" else self.corrupt


def read_pair(model: GPT, clean: Prompt, corrupt: Prompt, direction: str = "denoise") -> Pair:
    """Check two prompts. ValueError, with both tokenizations, unless they have one length and differ."""
    resolve_choice(direction, DIRECTIONS, "direction")
    one, other = prompt_ids(model, clean), prompt_ids(model, corrupt)
    if one.shape != other.shape:
        shown = [" | ".join(token_texts(model, ids[0].tolist())) for ids in (one, other)]
        raise ValueError(
            f"The prompts must have the same number of tokens to be patched position by position: clean has "
            f"{one.shape[1]} ({shown[0]}), corrupt {other.shape[1]} ({shown[1]}). Use words of as many tokens."
        )
    differs = (one[0] != other[0]).nonzero()
    if not len(differs):
        raise ValueError("The clean and the corrupt prompt are the same tokens: there is nothing to patch.")
    return Pair(one, other, direction, int(differs[0, 0]))


@dataclass(frozen=True)
class Plan:
    """The grid of a patching: which sites and layers are rows, and whether heads and positions are axes."""

    site: str
    rows: tuple[tuple[int, Site], ...]
    axes: tuple[str, ...]
    shape: tuple[int, ...]


def make_plan(model: GPT, site: str, layers: Index, each_position: bool | None, length: int) -> Plan:
    """Resolve what to patch. ``each_position`` None means: for streams yes, for heads and neurons no."""
    resolve_choice(site, PATCH_SITES, "site")
    sites = (
        [SITES[name] for name in COMPONENTS]
        if site == "component"
        else [PATTERN if site == "pattern" else resolve_site(site)]
    )
    rows = tuple((layer, place) for layer in resolve_layers(layers, model.config.n_layers) for place in sites)
    axes, shape = ["component" if site == "component" else "layer"], [len(rows)]
    if sites[0].units is not None:
        axes.append(sites[0].units)
        shape.append(sites[0].n_units(model.config))
    if each_position or (each_position is None and sites[0].units is None):
        axes.append("position")
        shape.append(length)
    return Plan(site, rows, tuple(axes), tuple(shape))


def activation_patching(
    model: GPT,
    clean: Prompt,
    corrupt: Prompt,
    metric: Metric,
    *,
    site: str = "resid_pre",
    layers: Index = None,
    each_position: bool | None = None,
    direction: str = "denoise",
    progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> PatchingGrid:
    """The metric after each single patch of a grid.

    clean, corrupt: two prompts of as many tokens, alike but for what is asked about.
    metric: ``LogitDifference(answer, wrong)``, ``Logit``, ``LogProbability``, or a function of logits [pos, vocab].
    site: a stream, "resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out" or "component" (attention and MLP
    outputs of every layer), patched at one position each, which gives [layer, position]; or "head" (what a head
    writes), "q", "k", "v", "pattern" (where a head looks, its values left alone), patched at all positions, which gives
    [layer, head]; or "neuron", [layer, neuron]. each_position=True patches heads and neurons at one position each (of
    the query, for a pattern), [layer, head, position]; False streams at all at once.
    direction: "denoise" puts clean activations into the corrupt run and asks what suffices to bring the answer back;
    "noise" puts corrupt ones into the clean run and asks what is needed.
    progress: told (done, all); cancel: asked between batches, True ends with what is done so far.

    Exactly the numbers of patching one place at a time, for every variant, to the rounding of a batched product;
    what cannot change is not computed (see ``lab.analysis.restarts``).
    """
    pair = read_pair(model, clean, corrupt, direction)
    length = pair.base.shape[1]
    reading = read_metric(model, metric, length)
    plan = make_plan(model, site, layers, each_position, length)
    end = reading.last + 1
    with torch.no_grad(), without_dropout(model):
        points = [place.point(layer) for layer, place in plan.rows]
        run_to = length if model.is_watched() else end  # the user's own hooks see the whole prompt
        base = BaseRun(model, pair.base[:, :run_to], points)
        last = model.config.n_layers
        _, source = model.run_with_cache(
            pair.source[:, :run_to], names_filter=[*points, base.final_name], stop_at_layer=last
        )
        unpatched, other = float(reading(base.final[:, :end])), float(reading(source[base.final_name][:, :end]))

        values = np.full(plan.shape, unpatched)
        rows = _rows(plan, pair, base, source, end)
        waiting = {row.key for row in rows}
        done, total, cancelled = 0, len(rows), False
        for batch in in_batches(rows, run_to):
            if cancel is not None and cancel():
                cancelled = True
                break
            streams = base.run(batch)
            if reading.whole:
                streams = base.whole(streams, batch[0].start)
            read = streams[:, : streams.shape[1] - run_to + end]
            for row, value in zip(batch, reading(read).tolist(), strict=True):
                values[row.key] = value
                waiting.discard(row.key)
            done += len(batch)
            if progress is not None:
                progress(done, total)
    for key in waiting:
        values[key] = np.nan
    return patching_grid(model, pair, plan, reading, values, unpatched, other, cancelled=cancelled)


def _rows(plan: Plan, pair: Pair, base: BaseRun, source: Any, end: int) -> list[Row]:
    """A row for each patch that can change anything: none before the prompts differ or after the metric reads."""
    first = 0 if base.watched else pair.first
    rows: list[Row] = []
    if first >= end:
        return rows
    for number, (layer, place) in enumerate(plan.rows):
        point = place.point(layer)
        given = source[point]  # [1, pos, ...]
        units: Sequence[int | None] = range(plan.shape[1]) if place.units else (None,)
        positions: Sequence[int | None] = range(first, end) if "position" in plan.axes else (None,)
        for unit in units:
            for position in positions:
                start = 0 if base.watched else first if position is None else position
                key = (number, *(index for index in (unit, position) if index is not None))
                rows.append(Row(key, layer, start, point, _put(given, place, start, position, unit)))
    return rows


def _put(given: Tensor, site: Site, start: int, position: int | None, unit: int | None) -> Edit:
    """Replace an activation [1, pos from start, ...] by the given run's: at one position or all, one head or neuron
    or all."""
    where = slice(start, None) if position is None else slice(position, position + 1)
    here = slice(where.start - start, None if where.stop is None else where.stop - start)
    one = slice(None) if unit is None else unit

    def edit(activation: Tensor) -> Tensor:
        changed = activation.clone()
        if site is PATTERN:
            changed[:, one, here] = given[:, one, where]
        else:
            changed[:, here, one] = given[:, where, one]
        return changed

    return edit


def patching_grid(
    model: GPT, pair: Pair, plan: Plan, reading: Reading, values: np.ndarray, base: float, source: float, **more: Any
) -> PatchingGrid:
    """The result object, with prompts and names filled in."""
    clean, corrupt = (source, base) if pair.direction == "denoise" else (base, source)
    return PatchingGrid(
        values=values,
        axes=plan.axes,
        layer=np.array([layer for layer, _ in plan.rows]),
        component=tuple(place.name for _, place in plan.rows),
        clean=clean,
        corrupt=corrupt,
        direction=pair.direction,
        site=plan.site,
        metric=reading.name,
        method=more.pop("method", "exact"),
        correlation=more.pop("correlation", float("nan")),
        clean_tokens=as_array(pair.clean[0]),
        corrupt_tokens=as_array(pair.corrupt[0]),
        clean_texts=token_texts(model, pair.clean[0].tolist()),
        corrupt_texts=token_texts(model, pair.corrupt[0].tolist()),
        **more,
    )
