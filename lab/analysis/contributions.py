"""Direct contributions to a logit, or to a difference of two: signed numbers that add up to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.analysis.path import SPLITS, PathReader, Stop, TermTable, final_output, wide_dtype
from lab.analysis.prompts import (
    Prompt,
    as_array,
    prompt_ids,
    resolve_choice,
    resolve_layer,
    resolve_position,
    resolve_token,
    token_name,
    token_texts,
    watch,
)
from lab.analysis.results import Result, frame

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

BY = ("layer", *SPLITS)


@dataclass(frozen=True, eq=False)
class LogitContributions(Result):
    """How much each component adds to a logit (or to a logit difference), in logits.

    labels, values   one a component; ``values`` [component] is fp64
    kind             [component] embed | pos_embed | layer | attn | mlp | head | neuron | bias
    layer, head, neuron   [component] whole numbers, -1 where they do not apply
    total            the sum of values
    logit            what the values explain: the logit of ``token`` (less that of ``versus``) before a soft
                     cap
    model_logit      the same number as the model returns it, after its soft cap (equal to logit without one)
    error            |total - logit|
    position         the position whose next token is predicted; token, versus: ids (versus -1 without one)
    token_text, versus_text   how they are displayed
    tokens, token_texts       the prompt: ids [pos] and how they are displayed
    by               layer | component | head | neuron
    """

    labels: tuple[str, ...]
    values: np.ndarray
    kind: np.ndarray
    layer: np.ndarray
    head: np.ndarray
    neuron: np.ndarray
    total: float
    logit: float
    model_logit: float
    error: float
    position: int
    token: int
    token_text: str
    versus: int
    versus_text: str
    tokens: np.ndarray
    token_texts: tuple[str, ...]
    by: str

    def order(self) -> np.ndarray:
        """Indices of the components, the largest magnitude first (equal ones in the order of the network)."""
        return np.argsort(-np.abs(self.values), kind="stable")

    @property
    def cumulative(self) -> np.ndarray:
        """[component] the sum of this part and all before it in the order of the network: the logit as it grows."""
        return np.cumsum(self.values)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each component."""
        return frame(
            {
                "component": np.array(self.labels, dtype=object),
                "kind": self.kind,
                "layer": self.layer,
                "head": self.head,
                "neuron": self.neuron,
                "value": self.values,
            }
        )


def logit_contributions(
    model: GPT,
    tokens: Prompt,
    *,
    position: int = -1,
    token: int | str | None = None,
    versus: int | str | None = None,
    by: str = "component",
    layer: int | None = None,
) -> LogitContributions:
    """What each part of the network adds to the logit of ``token`` at ``position``; they sum to it.

    token: id or text of one token; without it, the model's own first choice there. versus: explain the
    difference logit(token) - logit(versus) instead.
    by: "layer" (embeddings and whole layers), "component" (each attention, each MLP), "head" (each head and
    output bias), "neuron" (each neuron and output bias). layer: split only that layer into heads or neurons
    and leave the others whole: the drill-down from layer to head to neuron, whose sums stay the same.

    The final norm, and every norm in the way, is frozen at this run's statistics; norm biases are entries of
    their own (see ``lab.analysis.path``). With a logit soft cap the contributions explain the logit before
    it. Exact to 1e-10 in fp64, 1e-4 in fp32, for Pre-, Post- and Sandwich-Norm.
    """
    resolve_choice(by, BY, "by")
    config = model.config
    within = None if layer is None else resolve_layer(layer, config.n_layers)
    ids = prompt_ids(model, tokens)
    at = resolve_position(position, ids.shape[1])
    against = None if versus is None else resolve_token(model, versus, "versus")
    wanted = None if token is None else resolve_token(model, token)

    reader = PathReader(model, Stop(config.n_layers, final_norm=True), "component" if by == "layer" else by, within)
    final = reader.stop.hook_name(config.n_layers)
    logits, cache = watch(model, ids, [*reader.names(), final])
    here = logits[0, at]
    if wanted is None:
        wanted = int(here.argmax())

    dtype = wide_dtype(model)
    w_u = model.W_U.detach()
    direction = w_u[:, wanted].to(dtype)
    model_logit = here[wanted].to(dtype)
    if against is not None:
        direction = direction - w_u[:, against].to(dtype)
        model_logit = model_logit - here[against].to(dtype)

    path = reader.read(cache, slice(at, at + 1), dtype)
    values = as_array(path.pull(direction[None])[:, 0])
    names = TermTable.of(path.terms())
    if by == "layer":
        names, values = _by_layer(names, values)

    if config.logit_soft_cap is None:
        logit = float(model_logit)
    else:  # tanh cannot be undone to full precision once it saturates: read the logit before it
        stream = final_output(model, cache[final][0, at].to(dtype))
        logit = float(stream @ direction)
    total = float(values.sum())
    return LogitContributions(
        labels=names.labels,
        values=values,
        kind=names.kind,
        layer=names.layer,
        head=names.head,
        neuron=names.neuron,
        total=total,
        logit=logit,
        model_logit=float(model_logit),
        error=abs(total - logit),
        position=at,
        token=wanted,
        token_text=token_name(model, wanted),
        versus=-1 if against is None else against,
        versus_text="" if against is None else token_name(model, against),
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
        by=by,
    )


def _by_layer(names: TermTable, values: np.ndarray) -> tuple[TermTable, np.ndarray]:
    """Everything of one layer, its norms' biases too, as one row; what belongs to no layer stays as it is."""
    labels: list[str] = []
    kinds: list[str] = []
    layers: list[int] = []
    sums: list[float] = []
    row_of: dict[int, int] = {}
    for label, kind, layer, value in zip(names.labels, names.kind, names.layer.tolist(), values.tolist(), strict=True):
        if layer >= 0 and layer in row_of:
            sums[row_of[layer]] += value
            continue
        if layer >= 0:
            row_of[layer] = len(labels)
            label, kind = f"L{layer}", "layer"
        labels.append(label)
        kinds.append(kind)
        layers.append(layer)
        sums.append(value)
    none = np.full(len(labels), -1)
    table = TermTable(tuple(labels), np.array(kinds, dtype=object), np.array(layers), none, none.copy())
    return table, np.array(sums)
