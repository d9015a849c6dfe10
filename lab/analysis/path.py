"""The residual path: what was written into the stream, and the frozen norms it then passed through.

A norm is affine once its statistics are frozen at the values of this very run: x -> (x - mean x) / s * w + b
(RMS norms subtract no mean), with s the scale that the model itself used. So every point of the stream is a
sum: each component pushed through the linear part of all norms after it, and each norm's bias as a component
of its own. This holds for every placement:

    pre       x + attn(ln1 x): additions only, then the final norm
    sandwich  x + ln1_post(attn(ln1 x)): a sublayer's own parts pass through that sublayer's output norm
    post      ln1(x + attn x): all that came before passes through every later norm

The same list of steps is read in both directions. ``push`` carries vectors forward to the end (a
decomposition); ``pull`` carries a direction back from the end (contributions to a logit) and never forms the
vectors, so thousands of neurons cost one matrix-vector product a layer. Freezing the scale is the usual
convention of direct logit attribution (Elhage et al. 2021, "A Mathematical Framework for Transformer
Circuits"; Wang et al. 2022, arXiv 2211.00593): it says how much each part contributes at the scale reached,
not what removing the part would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from model.gpt import GPT

SPLITS = ("component", "head", "neuron")
SPLIT_OF = {"attn": "head", "mlp": "neuron"}
KINDS = ("embed", "pos_embed", "attn", "mlp", "head", "neuron", "bias")


@dataclass(frozen=True)
class Terms:
    """Names of one or more components that are written together; -1 where an index does not apply."""

    labels: Sequence[str]
    kind: str
    layer: int = -1
    heads: bool = False
    neurons: bool = False

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class TermTable:
    """The names of all components as columns: label, kind, layer, head, neuron (numpy, -1 for "none")."""

    labels: tuple[str, ...]
    kind: np.ndarray
    layer: np.ndarray
    head: np.ndarray
    neuron: np.ndarray

    @staticmethod
    def of(groups: Sequence[Terms]) -> TermTable:
        def column(value: Any) -> np.ndarray:
            return np.concatenate([np.asarray(value(group)) for group in groups])

        def index(group: Terms, wanted: bool) -> np.ndarray:
            return np.arange(len(group)) if wanted else np.full(len(group), -1)

        return TermTable(
            labels=tuple(label for group in groups for label in group.labels),
            kind=column(lambda g: np.full(len(g), g.kind, dtype=object)),
            layer=column(lambda g: np.full(len(g), g.layer)),
            head=column(lambda g: index(g, g.heads)),
            neuron=column(lambda g: index(g, g.neurons)),
        )


class Source(Protocol):
    """Where components come from: their vectors, or only their projections on a direction."""

    def vectors(self) -> Tensor:
        """[term, pos, d_model]"""

    def project(self, direction: Tensor) -> Tensor:
        """[term, pos] for a direction [pos, d_model]"""


@dataclass(frozen=True)
class Given:
    """Components whose vectors are known."""

    x: Tensor  # [term, pos, d_model]

    def vectors(self) -> Tensor:
        return self.x

    def project(self, direction: Tensor) -> Tensor:
        return (self.x * direction).sum(-1)


@dataclass(frozen=True)
class Bias:
    """The same vector at every position."""

    b: Tensor  # [d_model]
    n_pos: int

    def vectors(self) -> Tensor:
        return self.b.expand(1, self.n_pos, -1)

    def project(self, direction: Tensor) -> Tensor:
        return (direction @ self.b)[None]


@dataclass(frozen=True)
class Heads:
    """Each head's result z W_O, without b_O."""

    z: Tensor  # [pos, head, d_head]
    w_o: Tensor  # [head, d_head, d_model]

    def vectors(self) -> Tensor:
        return torch.einsum("phe,hed->hpd", self.z, self.w_o)

    def project(self, direction: Tensor) -> Tensor:
        return torch.einsum("phe,hed,pd->hp", self.z, self.w_o, direction)


@dataclass(frozen=True)
class Neurons:
    """Each neuron's activation times its output weights, without b_out."""

    post: Tensor  # [pos, d_mlp]
    w_out: Tensor  # [d_mlp, d_model]

    def vectors(self) -> Tensor:
        return torch.einsum("pn,nd->npd", self.post, self.w_out)

    def project(self, direction: Tensor) -> Tensor:
        return (self.post * (direction @ self.w_out.T)).T


@dataclass(frozen=True)
class FrozenNorm:
    """The linear part of a norm at the statistics of one run."""

    scale: Tensor  # [pos, 1]
    w: Tensor  # [d_model]
    centres: bool  # LayerNorm subtracts the mean, RMSNorm does not

    def push(self, x: Tensor) -> Tensor:
        """Components [..., pos, d_model] as they leave the norm."""
        if self.centres:
            x = x - x.mean(-1, keepdim=True)
        return x / self.scale * self.w

    def pull(self, direction: Tensor) -> Tensor:
        """The direction [pos, d_model] before the norm that reads what ``direction`` reads after it."""
        back = direction * self.w / self.scale
        return back - back.mean(-1, keepdim=True) if self.centres else back


@dataclass(frozen=True)
class Write:
    """Components added to the stream, each first ``through`` its sublayer's own norm (Sandwich-Norm)."""

    terms: Terms
    source: Source
    through: FrozenNorm | None = None


@dataclass
class ResidualPath:
    """The writes and the stream's norms, in the order in which the forward pass reached them."""

    steps: list[Write | FrozenNorm] = field(default_factory=list)

    def terms(self) -> list[Terms]:
        return [step.terms for step in self.steps if isinstance(step, Write)]

    def push(self) -> Tensor:
        """Every component as it stands at the end of the path: [term, pos, d_model]."""
        parts: list[Tensor] = []
        for step in self.steps:
            if isinstance(step, FrozenNorm):
                parts = [step.push(torch.cat(parts))]
            else:
                vectors = step.source.vectors()
                parts.append(step.through.push(vectors) if step.through else vectors)
        return torch.cat(parts)

    def pull(self, direction: Tensor) -> Tensor:
        """What each component adds along ``direction`` [pos, d_model] at the end of the path: [term, pos]."""
        values: list[Tensor] = []
        for step in reversed(self.steps):
            if isinstance(step, FrozenNorm):
                direction = step.pull(direction)
            else:
                read = step.through.pull(direction) if step.through else direction
                values.append(step.source.project(read))
        return torch.cat(values[::-1])


@dataclass(frozen=True)
class Stop:
    """A point of the stream: after ``layers`` whole layers, then perhaps one attention, or the final norm."""

    layers: int
    attention: bool = False
    final_norm: bool = False

    def hook_name(self, n_layers: int) -> str:
        """The hook point of this point; for the final norm, that before its learned scale and shift."""
        if self.final_norm:
            return "ln_final.hook_normalized"
        if self.attention:
            return f"blocks.{self.layers}.hook_resid_mid"
        if self.layers == n_layers:
            return f"blocks.{n_layers - 1}.hook_resid_post"
        return f"blocks.{self.layers}.hook_resid_pre"


class PathReader:
    """Knows which activations a path needs (``names``) and builds it from a cache of them (``read``)."""

    def __init__(self, model: GPT, stop: Stop, split: str, within: int | None = None):
        self.blocks: Any = model.blocks
        self.ln_final: Any = model.ln_final
        self.config = model.config
        self.stop = stop
        self.split = split
        self.within = within

    def _splits(self, layer: int, what: str) -> bool:
        return self.split == what and self.within in (None, layer)

    def _sublayers(self) -> list[tuple[int, str]]:
        pairs = [(layer, kind) for layer in range(self.stop.layers) for kind in ("attn", "mlp")]
        return [*pairs, (self.stop.layers, "attn")] if self.stop.attention else pairs

    def _results_are_watched(self, layer: int) -> bool:
        """Whether a hook of the user's may edit the heads' results: then they are read, not made from z."""
        return self.blocks[layer].attn.hook_result.listening

    def _has_final_norm(self) -> bool:
        return self.stop.final_norm and self.config.norm_placement != "post"

    def names(self) -> list[str]:
        names = ["hook_embed"]
        if self.config.positional_embedding_type in ("standard", "sinusoidal"):
            names.append("hook_pos_embed")
        for layer, kind in self._sublayers():
            block = f"blocks.{layer}"
            if self._splits(layer, SPLIT_OF[kind]):
                heads = "hook_result" if self._results_are_watched(layer) else "hook_z"
                names.append(f"{block}.attn.{heads}" if kind == "attn" else f"{block}.mlp.hook_post")
            else:
                names.append(f"{block}.hook_{kind}_out")
            if norm := self._norm_name(kind):
                names.append(f"{block}.{norm}.hook_scale")
        if self._has_final_norm():
            names.append("ln_final.hook_scale")
        return names

    def _norm_name(self, kind: str) -> str | None:
        """The norm that a sublayer's output meets: its own (sandwich), the stream's (post), or none (pre)."""
        number = 1 if kind == "attn" else 2
        return {"sandwich": f"ln{number}_post", "post": f"ln{number}"}.get(self.config.norm_placement)

    def read(self, cache: Any, positions: slice, dtype: torch.dtype) -> ResidualPath:
        """The path at these positions, everything in ``dtype``. The cache is of a batch of one."""

        def kept(name: str) -> Tensor:
            return cache[name][0, positions].to(dtype)

        def frozen(norm: Any, name: str) -> FrozenNorm:
            centres = self.config.normalization_type == "LN"
            return FrozenNorm(kept(f"{name}.hook_scale"), norm.w.detach().to(dtype), centres)

        path = ResidualPath()
        steps = path.steps

        def add_bias(label: str, b: Tensor, layer: int = -1, through: FrozenNorm | None = None) -> None:
            terms = Terms((label,), "bias", layer)
            steps.append(Write(terms, Bias(b.detach().to(dtype), n_pos), through))

        embed = kept("hook_embed")
        n_pos = embed.shape[0]
        steps.append(Write(Terms(("embed",), "embed"), Given(embed[None])))
        if "hook_pos_embed" in cache.cache_dict:
            steps.append(Write(Terms(("pos_embed",), "pos_embed"), Given(kept("hook_pos_embed")[None])))

        sandwich = self.config.norm_placement == "sandwich"
        for layer, kind in self._sublayers():
            block, prefix = self.blocks[layer], f"blocks.{layer}"
            norm_name = self._norm_name(kind)
            norm: Any = getattr(block, norm_name) if norm_name else None
            through = frozen(norm, f"{prefix}.{norm_name}") if sandwich else None

            if self._splits(layer, SPLIT_OF[kind]):
                sublayer: Any = getattr(block, kind)
                terms, source = self._heads(kept, layer, cache) if kind == "attn" else self._neurons(kept, layer)
                steps.append(Write(terms, source, through))
                bias = sublayer.w_o.bias if kind == "attn" else sublayer.w_out.bias
                if bias is not None:
                    add_bias(f"L{layer} {kind} bias", bias, layer, through)
            else:
                out = kept(f"{prefix}.hook_{kind}_out")
                if sandwich and norm.b is not None:
                    out = out - norm.b.detach().to(dtype)  # it is a component of its own, below
                steps.append(Write(Terms((f"L{layer} {kind}",), kind, layer), Given(out[None])))

            if norm is not None and not sandwich:
                steps.append(frozen(norm, f"{prefix}.{norm_name}"))
            if norm is not None and norm.b is not None:
                add_bias(f"L{layer} {norm_name} bias", norm.b, layer)

        if self._has_final_norm():
            steps.append(frozen(self.ln_final, "ln_final"))
            if self.ln_final.b is not None:
                add_bias("ln_final bias", self.ln_final.b)
        return path

    def _heads(self, kept: Callable[[str], Tensor], layer: int, cache: Any) -> tuple[Terms, Source]:
        labels = [f"L{layer}H{head}" for head in range(self.config.n_heads)]
        terms = Terms(labels, "head", layer, heads=True)
        result = f"blocks.{layer}.attn.hook_result"
        if result in cache.cache_dict:
            return terms, Given(kept(result).transpose(0, 1))
        z = kept(f"blocks.{layer}.attn.hook_z")
        return terms, Heads(z, self.blocks[layer].attn.W_O.detach().to(z.dtype))

    def _neurons(self, kept: Callable[[str], Tensor], layer: int) -> tuple[Terms, Source]:
        post = kept(f"blocks.{layer}.mlp.hook_post")
        terms = Terms([f"L{layer}N{neuron}" for neuron in range(post.shape[-1])], "neuron", layer, neurons=True)
        return terms, Neurons(post, self.blocks[layer].mlp.W_out.detach().to(post.dtype))


def wide_dtype(model: GPT) -> torch.dtype:
    """The precision sums are taken in: fp64, so that what is left over is the model's own rounding.

    Apple's GPU has no fp64; there it is fp32.
    """
    return torch.float32 if model.device.type == "mps" else torch.float64


def final_output(model: GPT, normalized: Tensor) -> Tensor:
    """The final norm's output from its ``hook_normalized``. Post-Norm has no final norm: nothing to apply."""
    norm: Any = model.ln_final
    if model.config.norm_placement == "post":
        return normalized
    scaled = normalized * norm.w.detach().to(normalized.dtype)
    return scaled if norm.b is None else scaled + norm.b.detach().to(normalized.dtype)
