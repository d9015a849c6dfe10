"""The places of a network that can be changed, patched or probed, by the field's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.analysis.prompts import resolve_choice, resolve_layer
from model.checks import wholes

if TYPE_CHECKING:
    from model.config import GPTConfig


@dataclass(frozen=True)
class Site:
    """One hook point of every layer, and what its third axis counts.

    hook   the point's name inside a block
    units  None for a stream [batch, pos, d_model]; "head" [batch, pos, head, d_head]; "neuron" [batch, pos, d_mlp]
    """

    name: str
    hook: str
    units: str | None = None

    def point(self, layer: int) -> str:
        """The hook point's name in the model."""
        return f"blocks.{layer}.{self.hook}"

    def n_units(self, config: GPTConfig) -> int:
        """How many heads or neurons one layer has here; 1 for a stream."""
        if self.units is None:
            return 1
        if self.units == "neuron":
            return int(config.d_mlp or 0)
        return int(config.n_key_value_heads or config.n_heads) if self.name in ("k", "v") else config.n_heads


SITES: dict[str, Site] = {
    site.name: site
    for site in (
        Site("resid_pre", "hook_resid_pre"),
        Site("q", "attn.hook_q", "head"),
        Site("k", "attn.hook_k", "head"),
        Site("v", "attn.hook_v", "head"),
        Site("head", "attn.hook_z", "head"),
        Site("attn_out", "hook_attn_out"),
        Site("resid_mid", "hook_resid_mid"),
        Site("neuron", "mlp.hook_post", "neuron"),
        Site("mlp_out", "hook_mlp_out"),
        Site("resid_post", "hook_resid_post"),
    )
}
"""In the order in which a block reaches them. "head" is a head's output z, before W_O: all that a head writes."""

PATTERN = Site("pattern", "attn.hook_pattern", "head")
"""Where each head looks, [batch, head, query, key]: heads come first, so patching alone knows it. ``KnockOut`` is
the intervention on it."""

Index = int | Sequence[int] | None
"""One index, several, or None for all. Whole numbers of any library: numpy's, a tensor's."""

Positions = Index | slice
"""The same of positions in a prompt; negative ones count from its end, a slice is one of its tokens."""


def resolve_site(name: str, allowed: Sequence[str] | None = None) -> Site:
    """The site of this name; ValueError with the nearest name otherwise."""
    return SITES[resolve_choice(name, tuple(SITES) if allowed is None else tuple(allowed), "site")]


def resolve_layers(layers: Index, n_layers: int) -> list[int]:
    """Layers in ascending order, negative ones counted from the end; None is every layer."""
    if layers is None:
        return list(range(n_layers))
    chosen = wholes(layers, "layer")
    if not chosen:
        raise ValueError("No layer is given: give at least one, or None for all.")
    return sorted({resolve_layer(layer, n_layers) for layer in chosen})


def resolve_units(site: Site, units: Index, config: GPTConfig) -> list[int]:
    """Heads or neurons in ascending order; None is all. ValueError outside what a layer has."""
    count = site.n_units(config)
    if units is None:
        return list(range(count))
    if site.units is None:
        raise ValueError(f"Site {site.name!r} is a whole stream: it has no head or neuron to choose.")
    chosen = wholes(units, site.units)
    if not chosen:
        raise ValueError(f"No {site.units} is given: give at least one, or None for all.")
    for unit in chosen:
        if not 0 <= unit < count:
            raise ValueError(
                f"{site.units.capitalize()} {unit} does not exist at {site.name!r}: give 0 to {count - 1}."
            )
    return sorted(set(chosen))
