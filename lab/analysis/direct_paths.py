"""Path patching: how much of a head's effect goes straight to one reader, past everything in between.

Wang et al. 2022 (arXiv 2211.00593, section 3), Goldowsky-Dill et al. 2023 (arXiv 2304.05969).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.metrics import Metric, Reading, read_metric
from lab.analysis.patching import Pair, read_pair
from lab.analysis.prompts import Prompt, as_array, resolve_choice, resolve_layer, token_texts, without_dropout
from lab.analysis.results import Result, alike_note, frame, grid, share
from lab.analysis.sites import resolve_site, resolve_units
from model.checks import as_whole, whole

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

INPUTS = ("q", "k", "v")
Receiver = str | tuple[int, int, str]
"""Who reads: "logits", or (layer, head, "q" | "k" | "v")."""


@dataclass(frozen=True, eq=False)
class PathPatching(Result):
    """The metric when one head's output reaches one reader directly as in the other run.

    values         [layer, head] for each sender; NaN for heads that are not before the receiver
    base, other    the metric of the run that is patched into, and of the run the outputs come from
    receivers      names of the readers, e.g. "logits" or "L1H0 k"
    direction, metric, clean_tokens, corrupt_tokens, clean_texts, corrupt_texts   as in ``PatchingGrid``
    """

    values: np.ndarray
    base: float
    other: float
    receivers: tuple[str, ...]
    direction: str
    metric: str
    clean_tokens: np.ndarray
    corrupt_tokens: np.ndarray
    clean_texts: tuple[str, ...]
    corrupt_texts: tuple[str, ...]

    @property
    def effect(self) -> np.ndarray:
        """[layer, head] what each path adds to the metric."""
        with np.errstate(invalid="ignore"):  # inf - inf
            return self.values - self.base

    @property
    def recovered(self) -> np.ndarray:
        """[layer, head] the effect as a share of the difference between the two prompts. NaN, with a ``note``, where
        both score alike."""
        return share(self.effect, self.other, self.base)

    @property
    def note(self) -> str:
        return alike_note(self.base, self.other)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each sender that is before the receiver."""
        layer, head = grid(*self.values.shape)
        known = np.isfinite(self.values.ravel())
        columns = {"layer": layer, "head": head, "value": self.values.ravel(), "effect": self.effect.ravel()}
        return frame({name: column[known] for name, column in columns.items()})


def path_patching(
    model: GPT,
    clean: Prompt,
    corrupt: Prompt,
    metric: Metric,
    *,
    receiver: Receiver | Sequence[Receiver] = "logits",
    direction: str = "denoise",
    through_mlps: bool = False,
) -> PathPatching:
    """For every head: its output is the other run's, but only ``receiver`` notices.

    receiver: "logits", or the query, key or value input of a head, (layer, head, "k"); several act together.
    Everything that attention layers in between, and MLPs too unless ``through_mlps``, write is held at the unpatched
    run's values, so the change travels along the stream alone, through the norms that stand in it; then the
    receiver reads the changed stream, and everything after the receiver runs freely.
    direction: as in ``activation_patching``. ValueError for a receiver that does not exist.
    """
    pair = read_pair(model, clean, corrupt, direction)
    length = pair.base.shape[1]
    reading = read_metric(model, metric, length)
    receivers = _receivers(model, receiver)
    n_layers, n_heads = model.config.n_layers, model.config.n_heads
    with torch.no_grad(), without_dropout(model):
        sent = _Sent(model, pair, through_mlps)
        end = reading.last + 1
        values = np.full((n_layers, n_heads), np.nan)
        # where each receiver reads: the stream before its layer, or the final one
        stops = sorted({n_layers if one == "logits" else one[0] for one in receivers})
        for layer in range(stops[-1]):
            arriving = sent.streams(layer, [stop for stop in stops if stop > layer])
            values[layer] = as_array(_read(model, sent, receivers, arriving, reading, end))
        base, other = (float(reading(final[:, :end])) for final in (sent.base_final, sent.source_final))
    return PathPatching(
        values=values,
        base=base,
        other=other,
        receivers=tuple("logits" if one == "logits" else f"L{one[0]}H{one[1]} {one[2]}" for one in receivers),
        direction=direction,
        metric=reading.name,
        clean_tokens=as_array(pair.clean[0]),
        corrupt_tokens=as_array(pair.corrupt[0]),
        clean_texts=token_texts(model, pair.clean[0].tolist()),
        corrupt_texts=token_texts(model, pair.corrupt[0].tolist()),
    )


def _receivers(model: GPT, receiver: Receiver | Sequence[Receiver]) -> list[Any]:
    """The receivers as a list, checked."""
    one_head = isinstance(receiver, tuple) and len(receiver) > 0 and as_whole(receiver[0]) is not None
    several = isinstance(receiver, (list, tuple)) and not one_head
    chosen: list[Any] = list(receiver) if several else [receiver]
    if not chosen:
        raise ValueError('No receiver is given: give "logits" or (layer, head, "q" | "k" | "v").')
    found: list[Any] = []
    for one in chosen:
        if isinstance(one, str):
            found.append(resolve_choice(one, ("logits",), "receiver"))
            continue
        if not isinstance(one, (list, tuple)) or len(one) != 3:
            raise ValueError(f'receiver is {one!r}; give "logits" or (layer, head, "q" | "k" | "v").')
        layer = resolve_layer(one[0], model.config.n_layers)
        if layer == 0:
            raise ValueError(f"receiver {one!r} is in layer 0: no head writes before it.")
        (head,) = resolve_units(resolve_site("head"), whole(one[1], "head"), model.config)
        found.append((layer, head, resolve_choice(one[2], INPUTS, "the receiver's input")))
    return found


class _Sent:
    """Both runs' activations, and the stream as it arrives at later layers when one head's output is swapped."""

    def __init__(self, model: GPT, pair: Pair, through_mlps: bool):
        self.model = model
        self.n_layers = model.config.n_layers
        self.frozen = ["hook_attn_out"] if through_mlps else ["hook_attn_out", "hook_mlp_out"]
        layers = range(self.n_layers)
        z = [f"blocks.{layer}.attn.hook_z" for layer in layers]
        held = [f"blocks.{layer}.{hook}" for layer in layers for hook in (*self.frozen, "hook_resid_pre")]
        self.final_name = f"blocks.{self.n_layers - 1}.hook_resid_post"
        _, self.base = model.run_with_cache(
            pair.base, names_filter=[*held, self.final_name], stop_at_layer=self.n_layers
        )
        _, self.source = model.run_with_cache(
            pair.source, names_filter=[*z, self.final_name], stop_at_layer=self.n_layers
        )

    @property
    def base_final(self) -> Tensor:
        return self.base[self.final_name]

    @property
    def source_final(self) -> Tensor:
        return self.source[self.final_name]

    def stream(self, layer: int) -> Tensor:
        """[1, pos, d_model] of the unpatched run before a layer; after the last one for n_layers."""
        return self.base_final if layer == self.n_layers else self.base[f"blocks.{layer}.hook_resid_pre"]

    def streams(self, layer: int, stops: list[int]) -> dict[int, Tensor]:
        """Layer -> its stream [sender head, pos, d_model] when one head of ``layer`` is swapped and the rest held."""
        n_heads = self.model.config.n_heads
        z = self.source[f"blocks.{layer}.attn.hook_z"]

        def swap(activation: Tensor, hook: Any) -> Tensor:
            changed = activation.clone()
            for head in range(n_heads):
                changed[head, :, head] = z[0, :, head]
            return changed

        def hold(activation: Tensor, hook: Any) -> Tensor:
            return self.base[hook.name].expand_as(activation).clone()

        hooks: list[Any] = [(f"blocks.{layer}.attn.hook_z", swap)]
        for between in range(layer, stops[-1]):
            # the sender's own layer adds what the sender wrote; its MLP is in between
            frozen = [hook for hook in self.frozen if between > layer or hook != "hook_attn_out"]
            hooks += [(f"blocks.{between}.{hook}", hold) for hook in frozen]
        x, at, arriving = self.stream(layer).expand(n_heads, -1, -1), layer, {}
        with self.model.hooks(fwd_hooks=hooks):
            for stop in stops:
                x = self.model(x, start_at_layer=at, stop_at_layer=stop)
                at, arriving[stop] = stop, x
        return arriving


def _read(
    model: GPT, sent: _Sent, receivers: list[Any], arriving: dict[int, Tensor], reading: Reading, end: int
) -> Tensor:
    """The metric [sender head] when only the receivers read the arriving streams."""
    hooks: list[Any] = []
    group = model.config.n_heads // int(model.config.n_key_value_heads or model.config.n_heads)

    def give(activation: Tensor, hook: Any, stream: Tensor, head: int) -> Tensor:
        changed = activation.clone()  # [row, pos, head, d_model]
        changed[:, :, head] = stream
        return changed

    heads = [one for one in receivers if one != "logits" and one[0] in arriving]
    for layer, head, part in heads:
        unit = head if part == "q" else head // group
        hooks.append((f"blocks.{layer}.hook_{part}_input", partial(give, stream=arriving[layer], head=unit)))
    logits = arriving.get(sent.n_layers)
    if not heads:
        return reading(logits[:, :end]) if logits is not None else torch.tensor(float("nan"))
    first = min(layer for layer, _, _ in heads)
    n_rows = model.config.n_heads
    with model.hooks(fwd_hooks=hooks):
        final = model(sent.stream(first).expand(n_rows, -1, -1), start_at_layer=first, stop_at_layer=sent.n_layers)
    if (
        logits is not None
    ):  # both a head and the logits read it: the direct change is added to what the head makes of it
        final = final + logits - sent.base_final
    return reading(final[:, :end])
