"""The residual stream as a sum of what each part of the network put into it, for every placement of norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lab.analysis.path import SPLITS, PathReader, Stop, TermTable, final_output
from lab.analysis.prompts import (
    Prompt,
    as_array,
    prompt_ids,
    resolve_choice,
    resolve_layer,
    resolve_position,
    token_texts,
    watch,
)
from lab.analysis.results import Result, frame

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

SITES = ("resid_pre", "resid_mid", "resid_post", "ln_final")
MEMORY_LIMIT = 4 * 2**30
"""Bytes of component vectors above which a decomposition is refused in favour of one position."""


@dataclass(frozen=True, eq=False)
class ResidualDecomposition(Result):
    """Components whose sum is the stream at ``point``.

    components  [component, pos, d_model]; each as it stands at ``point``, after every norm in between
    labels      one a component, e.g. "embed", "L0 attn", "L1H3", "L1N17", "L2 ln1 bias"
    kind        [component] embed | pos_embed | attn | mlp | head | neuron | bias
    layer, head, neuron   [component] whole numbers, -1 where they do not apply
    total       [pos, d_model]; the stream as the model computed it
    error       [pos]; |sum of components - total| / |total|
    point       name of the hook point; "ln_final" is the final norm's output
    positions   [pos] position in the prompt of each row; tokens [pos] its id; token_texts how it is displayed
    """

    components: np.ndarray
    labels: tuple[str, ...]
    kind: np.ndarray
    layer: np.ndarray
    head: np.ndarray
    neuron: np.ndarray
    total: np.ndarray
    error: np.ndarray
    point: str
    positions: np.ndarray
    tokens: np.ndarray
    token_texts: tuple[str, ...]

    @property
    def norms(self) -> np.ndarray:
        """[component, pos] length of each component."""
        return np.linalg.norm(self.components, axis=-1)

    @property
    def shares(self) -> np.ndarray:
        """[component, pos] each one's part of the stream's squared length, signed; they sum to 1. NaN where the
        stream is zero."""
        along = np.einsum("cpd,pd->cp", self.components, self.total)
        with np.errstate(invalid="ignore"):
            return along / np.einsum("pd,pd->p", self.total, self.total)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each component and position: its length and its share of the stream."""
        n, pos = self.norms.shape
        names = {"kind": self.kind, "layer": self.layer, "head": self.head, "neuron": self.neuron}
        return frame(
            {
                "component": np.repeat(np.array(self.labels, dtype=object), pos),
                **{name: np.repeat(column, pos) for name, column in names.items()},
                "position": np.tile(self.positions, n),
                "token": np.tile(np.array(self.token_texts, dtype=object), n),
                "norm": self.norms.ravel(),
                "share": self.shares.ravel(),
            }
        )


def residual_decomposition(
    model: GPT,
    tokens: Prompt,
    *,
    layer: int | None = None,
    site: str | None = None,
    by: str = "component",
    position: int | None = None,
) -> ResidualDecomposition:
    """Split a point of the residual stream into what was written into it.

    layer, site: where. ``layer=L`` is the input of layer L (``resid_pre``), or with ``site`` the stream after
    that layer's attention (``resid_mid``) or MLP (``resid_post``). Without a layer: the stream after the last
    layer, or with ``site="ln_final"`` what the unembedding reads.
    by: "component" (embeddings, each attention, each MLP), "head" (each head and the output bias instead of
    each attention), "neuron" (each neuron and the output bias instead of each MLP). Norm biases are always
    components.
    position: one position only, else all of them.

    Sums in the model's own precision, fp32 at least; exact to its rounding (fp64: 1e-12) for Pre-, Post- and
    Sandwich-Norm (see ``lab.analysis.path``). ValueError for a layer, position or name that does not exist,
    and when the vectors would not fit ``MEMORY_LIMIT``.
    """
    resolve_choice(by, SPLITS, "by")
    ids = prompt_ids(model, tokens)
    stop = _stop(model.config.n_layers, layer, site)
    where = slice(None)
    if position is not None:
        at = resolve_position(position, ids.shape[1])
        where = slice(at, at + 1)
    dtype = torch.float64 if model.dtype == torch.float64 else torch.float32
    positions = np.arange(ids.shape[1])[where]
    _refuse_if_too_large(model, stop, by, len(positions), dtype.itemsize)

    reader = PathReader(model, stop, by)
    point = stop.hook_name(model.config.n_layers)
    # the hook before a layer fires only when that layer runs
    until = stop.layers + 1 if stop.layers < model.config.n_layers else None
    _, cache = watch(model, ids, [*reader.names(), point], return_type=None, stop_at_layer=until)
    path = reader.read(cache, where, dtype)
    total = cache[point][0, where].to(dtype)
    if stop.final_norm:
        point, total = "ln_final", final_output(model, total)
    components = path.push()
    error = (components.sum(0) - total).norm(dim=-1) / total.norm(dim=-1).clamp_min(torch.finfo(dtype).tiny)
    names = TermTable.of(path.terms())
    return ResidualDecomposition(
        components=as_array(components),
        labels=names.labels,
        kind=names.kind,
        layer=names.layer,
        head=names.head,
        neuron=names.neuron,
        total=as_array(total),
        error=as_array(error),
        point=point,
        positions=positions,
        tokens=as_array(ids[0])[where],
        token_texts=token_texts(model, ids[0].tolist())[where],
    )


def _stop(n_layers: int, layer: int | None, site: str | None) -> Stop:
    if site is not None:
        resolve_choice(site, SITES, "site")
    if site == "ln_final":
        if layer is not None:
            raise ValueError(f"ln_final is after the last layer: leave layer out (it is {layer}).")
        return Stop(n_layers, final_norm=True)
    if layer is None:
        if site in ("resid_pre", "resid_mid"):
            raise ValueError(f"site {site!r} needs a layer, 0 to {n_layers - 1}.")
        return Stop(n_layers)
    # as in TransformerLens, layer n_layers with resid_pre is the stream after the last layer
    at = resolve_layer(layer, n_layers, last=n_layers if site in (None, "resid_pre") else n_layers - 1)
    if site == "resid_mid":
        return Stop(at, attention=True)
    return Stop(at + 1 if site == "resid_post" else at)


def _refuse_if_too_large(model: GPT, stop: Stop, by: str, n_pos: int, itemsize: int) -> None:
    config = model.config
    per_layer = {"component": 4, "head": config.n_heads + 4, "neuron": (config.d_mlp or 0) + 4}[by]
    size = (stop.layers + 1) * per_layer * n_pos * config.d_model * itemsize
    if size > MEMORY_LIMIT:
        raise ValueError(
            f"{stop.layers * per_layer:,} components at {n_pos} positions of width {config.d_model} need about "
            f"{size / 2**30:.0f} GiB; give position= for one position, or a coarser by= than {by!r}."
        )
