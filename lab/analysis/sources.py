"""A head's contribution to a logit, split by the position it was fetched from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab.analysis.path import FrozenNorm, PathReader, Stop, Write, wide_dtype
from lab.analysis.prompts import (
    Prompt,
    as_array,
    prompt_ids,
    resolve_layer,
    resolve_position,
    resolve_token,
    token_name,
    token_texts,
    watch,
)
from lab.analysis.results import Result, frame
from lab.analysis.sites import resolve_site, resolve_units
from model.checks import whole

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT


@dataclass(frozen=True, eq=False)
class SourceContributions(Result):
    """What each source position of one head adds to a logit (or logit difference); they sum to the head's.

    values       [key] logits, 0 beyond ``position``; pattern [key] the attention weights they come with
    total        their sum, which is the head's entry in ``logit_contributions(by="head")``
    layer, head, position, token, versus (-1: none), token_text, versus_text
    tokens, token_texts   the prompt: ids [pos] and how they are displayed
    """

    values: np.ndarray
    pattern: np.ndarray
    total: float
    layer: int
    head: int
    position: int
    token: int
    versus: int
    token_text: str
    versus_text: str
    tokens: np.ndarray
    token_texts: tuple[str, ...]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each source position."""
        texts = np.array(self.token_texts, dtype=object)
        return frame({"position": np.arange(len(texts)), "token": texts, "value": self.values, "pattern": self.pattern})


def source_contributions(
    model: GPT,
    tokens: Prompt,
    layer: int,
    head: int,
    *,
    position: int = -1,
    token: int | str | None = None,
    versus: int | str | None = None,
) -> SourceContributions:
    """Split a head's contribution at ``position`` by where its value came from: attention weight times value.

    token, versus: as in ``logit_contributions``. Norms are frozen as there; exact for every placement.
    """
    config = model.config
    at_layer = resolve_layer(layer, config.n_layers)
    (head,) = resolve_units(resolve_site("head"), whole(head, "head"), config)
    ids = prompt_ids(model, tokens)
    at = resolve_position(position, ids.shape[1])
    wanted = None if token is None else resolve_token(model, token)
    against = None if versus is None else resolve_token(model, versus, "versus")

    reader = PathReader(model, Stop(config.n_layers, final_norm=True), "head", at_layer)
    attention = f"blocks.{at_layer}.attn."
    model.refresh_watch()  # hooks that are gone do not count
    if model.hook_dict[attention + "hook_result"].listening or model.hook_dict[attention + "hook_z"].listening:
        raise ValueError("A hook edits this head's output, which then is no sum over its sources.")
    logits, cache = watch(model, ids, [*reader.names(), attention + "hook_pattern", attention + "hook_v"])
    if wanted is None:
        wanted = int(logits[0, at].argmax())
    dtype = wide_dtype(model)
    direction = model.W_U[:, wanted].detach().to(dtype)
    if against is not None:
        direction = direction - model.W_U[:, against].detach().to(dtype)

    read = _pulled_to(reader.read(cache, slice(at, at + 1), dtype).steps, at_layer, direction[None])[0]
    block: Any = model.blocks[at_layer]
    w_o = block.attn.W_O[head].detach().to(dtype)
    group = config.n_heads // int(config.n_key_value_heads or config.n_heads)
    v = cache[attention + "hook_v"][0, :, head // group].to(dtype)  # [key, d_head]
    pattern = cache[attention + "hook_pattern"][0, head, at].to(dtype)  # [key]
    values = pattern * (v @ (w_o @ read))
    return SourceContributions(
        values=as_array(values),
        pattern=as_array(pattern),
        total=float(values.sum()),
        layer=at_layer,
        head=head,
        position=at,
        token=wanted,
        versus=-1 if against is None else against,
        token_text=token_name(model, wanted),
        versus_text="" if against is None else token_name(model, against),
        tokens=as_array(ids[0]),
        token_texts=token_texts(model, ids[0].tolist()),
    )


def _pulled_to(steps: list[Write | FrozenNorm], layer: int, direction: torch.Tensor) -> torch.Tensor:
    """The direction [pos, d_model] that reads the heads' outputs of ``layer`` as ``direction`` reads the end."""
    for step in reversed(steps):
        if isinstance(step, FrozenNorm):
            direction = step.pull(direction)
        elif step.terms.kind == "head" and step.terms.layer == layer:
            return step.through.pull(direction) if step.through else direction
    raise LookupError(f"no heads of layer {layer} on this path")
