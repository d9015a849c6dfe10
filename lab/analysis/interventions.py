"""Changing what a network computes while it computes it: ablate, scale, patch, steer, knock out.

An intervention says what to do, where (site, layers, heads or neurons) and when (positions). Any number act
together, in the order given, for the length of ``with apply(model, [...])``, on forward passes and on generation
alike. Positions are those of the text, whatever is read at once: a cached generation step knows where it stands,
and a padded row counts from its own first token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.analysis.passes import Pass, track_positions
from lab.analysis.prompts import Prompt, prompt_ids, resolve_choice, watch
from lab.analysis.sites import Index, Positions, Site, resolve_layers, resolve_site, resolve_units
from model.checks import as_whole, plain, whole, wholes

if TYPE_CHECKING:
    from model.gpt import GPT

Hook = tuple[str, Callable[..., Any]]
Change = Callable[[Tensor, Pass], Tensor]
METHODS = ("zero", "mean", "resample")


class Intervention:
    """Base of all interventions: something that becomes hooks on one model."""

    def hooks(self, model: GPT, passes: dict[int, Pass]) -> list[Hook]:
        """Hooks (point, function) that read the current pass of their layer from ``passes``."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it does in a few words, for titles and tables."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _AtSite(Intervention):
    """An intervention on some layers, units and positions of one site."""

    site: str
    layer: Index = None
    _: KW_ONLY
    head: Index = None
    neuron: Index = None
    position: Positions = None

    def _site(self) -> tuple[Site, Index]:
        site = resolve_site(self.site)
        for kind in ("head", "neuron"):
            if getattr(self, kind) is not None and site.units != kind:
                have = f"it has {site.units}s" if site.units else "it is a whole stream"
                raise ValueError(f"{type(self).__name__} names a {kind} at site {self.site!r}, but {have}.")
        return site, self.head if site.units == "head" else self.neuron

    def change(self, model: GPT, site: Site, layer: int) -> Change:
        """What replaces the activation [batch, pos, ...] of this layer where the intervention applies."""
        raise NotImplementedError

    def hooks(self, model: GPT, passes: dict[int, Pass]) -> list[Hook]:
        site, wanted = self._site()
        units = resolve_units(site, wanted, model.config)
        layers = resolve_layers(self.layer, model.config.n_layers)
        return [(site.point(layer), self._hook(model, site, layer, units, passes)) for layer in layers]

    def _hook(
        self, model: GPT, site: Site, layer: int, units: list[int], passes: dict[int, Pass]
    ) -> Callable[..., Any]:
        change = self.change(model, site, layer)
        every_unit = len(units) == site.n_units(model.config)

        def edit(activation: Tensor, hook: Any) -> Tensor:
            here = passes[layer]
            changed = change(activation, here).to(activation.dtype)
            mask = here.at(self.position)
            if mask is None and every_unit:
                return changed.expand_as(activation).clone() if changed.shape != activation.shape else changed
            # [batch or 1, pos or 1, 1 ...] and [unit, 1 ...], broadcast against the activation
            where = torch.ones(1, 1, dtype=torch.bool, device=activation.device) if mask is None else mask
            where = where.reshape(*where.shape, *(1,) * (activation.ndim - 2))
            if not every_unit:
                chosen = torch.zeros(activation.shape[2], dtype=torch.bool, device=activation.device)
                chosen[units] = True
                where = where & chosen.reshape(-1, *(1,) * (activation.ndim - 3))
            return torch.where(where, changed, activation)

        return edit

    def describe(self) -> str:
        parts = [self.site]
        for name in ("layer", "head", "neuron", "position"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name} {_said(value)}")
        return " ".join(parts)


@dataclass(frozen=True, eq=False)
class Ablate(_AtSite):
    """Take away what a site carries.

    method: "zero"; "mean", its mean over all positions of the ``reference``; "resample", its value at a random
    position of the reference, another one for each position of the text, drawn from ``seed`` alone (the same draw
    in every layer and head, and in generation as in a forward pass).
    reference: the prompts that mean and resample read: a text, a list of texts or of id lists, a tensor
    [row, pos]. Zero is far from anything a network has seen; mean and resample keep what is typical (Wang et al.
    2022, arXiv 2211.00593; Chan et al. 2022, "Causal Scrubbing").
    """

    _: KW_ONLY
    method: str = "zero"
    reference: Any = None
    seed: int = 0

    def change(self, model: GPT, site: Site, layer: int) -> Change:
        resolve_choice(self.method, METHODS, "method")
        if self.method == "zero":
            if self.reference is not None:
                raise ValueError("reference is for the methods mean and resample; zero reads none.")
            return lambda activation, _: torch.zeros_like(activation)
        if self.reference is None:
            raise ValueError(f"Ablate with method {self.method!r} needs reference=, the prompts to read it from.")
        pool = torch.cat(_activations(model, self.reference, site.point(layer)))  # [row x pos, ...]
        if self.method == "mean":
            mean = pool.mean(0)
            return lambda activation, _: mean.to(activation.dtype).expand_as(activation)
        generator = torch.Generator().manual_seed(whole(self.seed, "seed", 0))
        drawn = torch.randint(len(pool), (model.config.n_ctx,), generator=generator).to(pool.device)
        return lambda activation, here: pool[drawn[here.positions]].to(activation.dtype).expand_as(activation)

    def describe(self) -> str:
        return f"ablate ({self.method}) {super().describe()}"


@dataclass(frozen=True, eq=False)
class Scale(_AtSite):
    """Multiply what a site carries by ``factor``: 0 removes it, 1 leaves it as it is to the last bit."""

    _: KW_ONLY
    factor: float = 1.0

    def change(self, model: GPT, site: Site, layer: int) -> Change:
        factor = plain(self.factor)
        return lambda activation, _: activation * factor

    def describe(self) -> str:
        return f"scale by {plain(self.factor):g} {super().describe()}"


@dataclass(frozen=True, eq=False)
class Patch(_AtSite):
    """Put another run's activation in: that of the prompt ``source`` at the same position, or a ``value``.

    With ``source``, only positions that the source has are changed, so tokens generated beyond it are untouched.
    value: anything that broadcasts to the activation's shape after batch and pos ([d_model]; [head, d_head] or
    [d_head]; [d_mlp] or a number), the same at every position.
    """

    _: KW_ONLY
    source: Prompt | None = None
    value: Any = None

    def change(self, model: GPT, site: Site, layer: int) -> Change:
        if (self.source is None) == (self.value is None):
            raise ValueError("Patch needs source= (a prompt to read the activation from) or value=, one of the two.")
        if self.source is not None:
            (given,) = _activations(model, prompt_ids(model, self.source), site.point(layer))  # [pos, ...]

            def from_source(activation: Tensor, here: Pass) -> Tensor:
                positions = here.positions
                known = (positions < len(given)).reshape(*positions.shape, *(1,) * (activation.ndim - 2))
                taken = given[positions.clamp(max=len(given) - 1)].to(activation.dtype)
                return torch.where(known, taken, activation)

            return from_source
        value = torch.as_tensor(self.value)

        def constant(activation: Tensor, _: Pass) -> Tensor:
            try:
                return value.to(activation).expand_as(activation)
            except RuntimeError as error:
                raise ValueError(
                    f"Patch: a value of shape {list(value.shape)} does not fit {self.site}, whose activation is "
                    f"{list(activation.shape[2:])} at each position."
                ) from error

        return constant

    def describe(self) -> str:
        return f"patch {super().describe()}"


@dataclass(frozen=True, eq=False)
class Steer(Intervention):
    """Add ``strength`` times a direction [d_model] to the stream at a site.

    The direction is taken as it is: give a unit vector to have ``strength`` in the stream's own units
    (``Probes.direction`` is one; Turner et al. 2023, arXiv 2308.10248).
    """

    direction: Any
    layer: Index = None
    _: KW_ONLY
    strength: float = 1.0
    site: str = "resid_post"
    position: Positions = None

    def hooks(self, model: GPT, passes: dict[int, Pass]) -> list[Hook]:
        vector = torch.as_tensor(self.direction)
        site = resolve_site(self.site)
        if site.units is not None:
            raise ValueError(f"Steer acts on a stream, not on {self.site!r}; sites are resid_pre, resid_post, ...")
        if tuple(vector.shape) != (model.config.d_model,):
            raise ValueError(
                f"The direction to steer along has shape {list(vector.shape)}; the stream has width "
                f"{model.config.d_model}."
            )
        return _Shift(self.site, self.layer, position=self.position, vector=plain(self.strength) * vector).hooks(
            model, passes
        )

    def describe(self) -> str:
        at = "" if self.position is None else f" position {_said(self.position)}"
        return f"steer {plain(self.strength):+g} {self.site} layer {_said(self.layer)}{at}"


@dataclass(frozen=True, eq=False)
class _Shift(_AtSite):
    _: KW_ONLY
    vector: Any = None

    def change(self, model: GPT, site: Site, layer: int) -> Change:
        return lambda activation, _: activation + self.vector.to(activation)


@dataclass(frozen=True, eq=False)
class KnockOut(Intervention):
    """Forbid queries to look at keys: attention from position ``key`` to position ``query`` is cut.

    None means every position. The weights of the other keys are renormalised (Geva et al. 2023, arXiv 2304.14767);
    a query that is left with nothing to look at reads nothing at all.
    """

    key: Positions = None
    query: Positions = None
    _: KW_ONLY
    layer: Index = None
    head: Index = None

    def hooks(self, model: GPT, passes: dict[int, Pass]) -> list[Hook]:
        heads = resolve_units(resolve_site("head"), self.head, model.config)
        found: list[Hook] = []
        for layer in resolve_layers(self.layer, model.config.n_layers):
            at = f"blocks.{layer}.attn."
            cut = self._cut(layer, heads, passes)

            def forbid(scores: Tensor, hook: Any, cut: Any = cut) -> Tensor:
                masked = scores.masked_fill(cut(scores), -torch.inf)
                empty = torch.isneginf(masked).all(-1, keepdim=True)
                return torch.where(empty, scores, masked)  # an empty row is emptied below: softmax would make NaN

            def empty_rows(pattern: Tensor, hook: Any, cut: Any = cut) -> Tensor:
                return pattern.masked_fill(cut(pattern), 0.0)

            found += [(at + "hook_attn_scores", forbid), (at + "hook_pattern", empty_rows)]
        return found

    def _cut(self, layer: int, heads: list[int], passes: dict[int, Pass]) -> Callable[[Tensor], Tensor]:
        def cut(scores: Tensor) -> Tensor:
            """[batch or 1, head, query, key] True where attention is cut."""
            here = passes[layer]
            every = torch.ones(1, 1, dtype=torch.bool, device=scores.device)
            query, key = here.at(self.query), here.keys_at(self.key, scores.shape[-1])
            query = every if query is None else query
            key = every if key is None else key
            chosen = torch.zeros(scores.shape[1], dtype=torch.bool, device=scores.device)
            chosen[heads] = True
            return query[:, None, :, None] & key[:, None, None, :] & chosen[:, None, None]

        return cut

    def describe(self) -> str:
        where = f"layer {_said(self.layer)} head {_said(self.head)}"
        return f"knock out attention from {_said(self.key)} to {_said(self.query)}, {where}"


def _said(wanted: Positions) -> str:
    """An index, several or all in a few characters."""
    if wanted is None:
        return "all"
    if isinstance(wanted, slice):
        ends = ["" if end is None else str(end) for end in (wanted.start, wanted.stop, wanted.step)]
        return ":".join(ends[:2] if wanted.step is None else ends)
    return str(wanted) if isinstance(wanted, range) else ", ".join(map(str, wholes(wanted, "an index")))


def _activations(model: GPT, reference: Any, point: str) -> list[Tensor]:
    """[pos, ...] of one hook point for every reference prompt."""
    if isinstance(reference, (Tensor, np.ndarray)):
        several = reference.ndim == 2
    else:
        several = isinstance(reference, (list, tuple)) and len(reference) > 0 and as_whole(reference[0]) is None
    rows: list[Any] = list(reference) if several else [reference]
    found = []
    for row in rows:
        _, cache = watch(model, prompt_ids(model, row), [point], return_type=None)
        found.append(cache[point][0])
    return found


@contextmanager
def apply(model: GPT, interventions: Intervention | Sequence[Intervention]) -> Iterator[GPT]:
    """Let interventions act on every forward pass and generation until the block ends, also by an exception.

    Everything is checked, and what references and sources hold is read (without the interventions), on entry:
    ValueError for a site, layer, head, neuron or shape that the model does not have.
    Negative positions and slices count from the end of the prompt, each row's own, and mean the same tokens for as
    long as it is continued, with a cache or without. Generation beyond n_ctx slides its window, and positions are then
    those of the window.
    """
    chosen = [interventions] if isinstance(interventions, Intervention) else list(interventions)
    passes: dict[int, Pass] = {}
    hooks = [hook for intervention in chosen for hook in intervention.hooks(model, passes)]
    with ExitStack() as stack:
        stack.enter_context(track_positions(model, passes))
        stack.enter_context(model.hooks(fwd_hooks=hooks))
        yield model


def describe(interventions: Intervention | Sequence[Intervention]) -> tuple[str, ...]:
    """A few words on each intervention."""
    chosen = [interventions] if isinstance(interventions, Intervention) else list(interventions)
    return tuple(intervention.describe() for intervention in chosen)
