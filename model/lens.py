"""What TransformerLens' tools ask of a model beyond hooks: circuits, labels, flags, weights by name.

With these a GPT satisfies ``transformer_lens.model_protocol.TransformerLensModelWithWeights``: ActivationCache,
patching, detect_head, SVDInterpreter and tools.analysis take it as they take TransformerLens' own models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from model.config import GPTConfig
from model.weights import WeightViews

FLAGS = {
    "use_attn_result": ("attn.hook_result",),
    "use_split_qkv_input": ("hook_q_input", "hook_k_input", "hook_v_input"),
    "use_attn_in": ("hook_attn_in",),
    "use_hook_mlp_in": ("hook_mlp_in",),
}
"""TransformerLens' switches, and the hook points that each makes part of a cache of everything."""


_ALIASES = {
    "embed.hook_out": "hook_embed",
    "pos_embed.hook_out": "hook_pos_embed",
    "hook_in": "hook_resid_pre",
    "ln2.hook_in": "hook_resid_mid",
    "hook_out": "hook_resid_post",
    "attn.hook_out": "hook_attn_out",
    "mlp.hook_out": "hook_mlp_out",
    "attn.hook_q_input": "hook_q_input",
    "attn.hook_k_input": "hook_k_input",
    "attn.hook_v_input": "hook_v_input",
    "attn.hook_attn_in": "hook_attn_in",
    "attn.o.hook_in": "attn.hook_z",
    "mlp.out.hook_in": "mlp.hook_post",
}
"""The bridge's own names of what we have under TransformerLens' first ones; in a block without "blocks.L."."""


class LensConfig:
    """A GPTConfig as TransformerLens reads one: with the model's device and dtype, and its hook switches."""

    def __init__(self, model: LensMethods):
        self._model = model

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and unpickling ask for some before there is a model
            raise AttributeError(name)
        return getattr(self._model.config, name)

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def dtype(self) -> torch.dtype:
        return self._model.dtype

    @property
    def use_attn_result(self) -> bool:
        return self._model._flag("use_attn_result")

    @property
    def use_split_qkv_input(self) -> bool:
        return self._model._flag("use_split_qkv_input")

    @property
    def use_attn_in(self) -> bool:
        return self._model._flag("use_attn_in")

    @property
    def use_hook_mlp_in(self) -> bool:
        return self._model._flag("use_hook_mlp_in")

    def __eq__(self, other: object) -> bool:
        mine = self._model.config
        return mine == (other._model.config if isinstance(other, LensConfig) else other)

    def __hash__(self) -> int:
        return hash(self._model.config)

    def __repr__(self) -> str:
        return repr(self._model.config)


class SoftCap:
    """What happens to logits after the unembedding, where TransformerLens' lens looks for it."""

    def __init__(self, config: GPTConfig):
        self.cap = config.logit_soft_cap

    def apply_output_logits_transform(self, logits: Tensor) -> Tensor:
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


class LensMethods(WeightViews):
    """Mixed into GPT."""

    config: GPTConfig
    tokenizer: Any
    hook_dict: Any
    device: Any
    dtype: Any
    _modules: dict[str, Any]

    @property
    def blocks(self) -> Any:
        """The transformer blocks. (A property, for a protocol check sees no module that torch keeps for it.)"""
        return self._modules["blocks"]

    @property
    def ln_final(self) -> Any:
        """The norm before the unembedding; in Post-Norm the identity with a norm's hook points."""
        return self._modules["ln_final"]

    @property
    def cfg(self) -> LensConfig:
        """``config`` under TransformerLens' name, with ``device`` and ``dtype``."""
        return LensConfig(self)

    @property
    def adapter(self) -> SoftCap:
        return SoftCap(self.config)

    def hook_names(self, names: Any) -> list[str]:
        """As ``InstrumentedModule.hook_names``, the names of TransformerLens' bridge included."""
        if isinstance(names, str):
            names = (names,)
        if isinstance(names, Iterable):
            names = [self._resolved(name) for name in names]
        return super().hook_names(names)  # type: ignore[misc]

    def _resolved(self, name: Any) -> Any:
        if not isinstance(name, str) or name in self.hook_dict:
            return name
        block = re.match(r"blocks\.\d+\.", name)
        prefix = block[0] if block else ""
        alias = _ALIASES.get(name[len(prefix) :])
        return prefix + alias if alias is not None and prefix + alias in self.hook_dict else name

    # --- switches ----------------------------------------------------------------------------------------------

    def _flag(self, flag: str) -> bool:
        name = FLAGS[flag][0]
        return not self.hook_dict[f"blocks.0.{name}"].on_request

    def _set_flag(self, flag: str, on: bool) -> None:
        for layer in range(self.config.n_layers):
            for name in FLAGS[flag]:
                self.hook_dict[f"blocks.{layer}.{name}"].on_request = not on

    def set_use_attn_result(self, use_attn_result: bool) -> None:
        """Whether ``attn.hook_result`` is part of a cache of everything; hooked by name it is computed either way."""
        self._set_flag("use_attn_result", use_attn_result)

    def set_use_split_qkv_input(self, use_split_qkv_input: bool) -> None:
        """The same for ``hook_q_input``, ``hook_k_input`` and ``hook_v_input``."""
        self._set_flag("use_split_qkv_input", use_split_qkv_input)

    def set_use_attn_in(self, use_attn_in: bool) -> None:
        """The same for ``hook_attn_in``."""
        self._set_flag("use_attn_in", use_attn_in)

    def set_use_hook_mlp_in(self, use_hook_mlp_in: bool) -> None:
        """The same for ``hook_mlp_in``."""
        self._set_flag("use_hook_mlp_in", use_hook_mlp_in)

    # --- weights -----------------------------------------------------------------------------------------------

    def tl_named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Every weight under TransformerLens' name and shape, zeros for a bias that does not exist.

        Views of the parameters, but for keys and values that query heads share: those stand once for each query head.
        """
        yield "embed.W_E", self.embed.W_E
        if self.config.positional_embedding_type == "standard":
            yield "pos_embed.W_pos", self.pos_embed.W_pos
        for layer, block in enumerate(self.blocks):
            here: Any = block
            parts = {"attn": ["W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"], "mlp": ["W_in", "W_out"]}
            parts["mlp"] += ["W_gate", "b_in", "b_out"] if self.config.gated_mlp else ["b_in", "b_out"]
            for part, names in parts.items():
                for name in names:
                    weight = getattr(getattr(here, part), name)
                    if name in ("W_K", "W_V", "b_K", "b_V"):
                        weight = self._per_query_head(weight, 0)
                    yield f"blocks.{layer}.{part}.{name}", weight
            for norm in ("ln1", "ln2", "ln1_post", "ln2_post"):
                yield from self._norm(f"blocks.{layer}.{norm}", getattr(here, norm, None))
        yield from self._norm("ln_final", self.ln_final)
        yield "unembed.W_U", self.unembed.W_U
        yield "unembed.b_U", self.unembed.b_U

    @staticmethod
    def _norm(name: str, norm: Any) -> Iterator[tuple[str, Tensor]]:
        for part in ("w", "b"):
            value = getattr(norm, part, None)
            if value is not None:
                yield f"{name}.{part}", value

    def tl_parameters(self) -> dict[str, Tensor]:
        """``tl_named_parameters`` as a dict, which SVDInterpreter reads."""
        return dict(self.tl_named_parameters())

    def _over_layers(self, sublayer: str, name: str) -> Tensor:
        return torch.stack([getattr(getattr(block, sublayer), name) for block in self.blocks])

    @property
    def b_Q(self) -> Tensor:
        """[layer, head, d_head]"""
        return self._over_layers("attn", "b_Q")

    @property
    def b_K(self) -> Tensor:
        """[layer, key-value head, d_head]"""
        return self._over_layers("attn", "b_K")

    @property
    def b_V(self) -> Tensor:
        """[layer, key-value head, d_head]"""
        return self._over_layers("attn", "b_V")

    @property
    def b_in(self) -> Tensor:
        """[layer, d_mlp]"""
        return self._over_layers("mlp", "b_in")

    @property
    def W_gate(self) -> Tensor | None:
        """[layer, d_model, d_mlp]; None without a gate."""
        return self._over_layers("mlp", "W_gate") if self.config.gated_mlp else None

    @property
    def W_E_pos(self) -> Tensor:
        """[d_vocab + n_ctx, d_model]: all that the first block can read."""
        return torch.cat([self.W_E, self.W_pos], dim=0)

    # --- circuits ----------------------------------------------------------------------------------------------

    def _per_query_head(self, weights: Tensor, dim: int = 1) -> Tensor:
        """Keys' or values' weights, key-value heads along ``dim``, once for each query head that reads them."""
        shared = self.config.n_heads // self.config.n_key_value_heads
        return weights if shared == 1 else weights.repeat_interleave(shared, dim=dim)

    @property
    def QK(self) -> Any:
        """FactoredMatrix [layer, head, d_model, d_model]: W_Q W_K^T, what a query looks for in a key."""
        from transformer_lens import FactoredMatrix

        return FactoredMatrix(self.W_Q, self._per_query_head(self.W_K).transpose(-2, -1))

    @property
    def OV(self) -> Any:
        """FactoredMatrix [layer, head, d_model, d_model]: W_V W_O, what a head writes when it looks somewhere."""
        from transformer_lens import FactoredMatrix

        return FactoredMatrix(self._per_query_head(self.W_V), self.W_O)

    @property
    def all_head_labels(self) -> list[str]:
        """["L0H0", "L0H1", ...]"""
        return [f"L{layer}H{head}" for layer in range(self.config.n_layers) for head in range(self.config.n_heads)]

    def all_composition_scores(self, mode: str) -> Tensor:
        """How much of what head (l, h) writes is read by head (L, H) through its ``mode``: "Q", "K" or "V".

        [l, h, L, H], 0 unless l < L. Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
        """
        from transformer_lens.utilities import composition_scores

        if mode not in ("Q", "K", "V"):
            raise ValueError(f"mode is {mode!r}; it must be 'Q', 'K' or 'V'.")
        right = {"Q": lambda: self.QK, "K": lambda: self.QK.T, "V": lambda: self.OV}[mode]()
        scores = composition_scores(self.OV, right, broadcast_dims=True)
        layer = torch.arange(self.config.n_layers, device=self.device)
        return torch.where(layer[:, None, None, None] < layer[None, None, :, None], scores, torch.zeros_like(scores))
