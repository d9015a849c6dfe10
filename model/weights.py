"""The whole model's weights under TransformerLens' names, and the sums its tools ask a model for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from model.checks import whole
from model.token_ids import as_ids


class WeightViews:
    """Mixed into GPT. A view of one tensor shares its memory; stacks over layers are copies."""

    config: Any
    embed: Any
    unembed: Any
    pos_embed: Any

    @property
    def blocks(self) -> Any:
        raise NotImplementedError

    @property
    def W_E(self) -> Tensor:
        """[d_vocab, d_model]"""
        return self.embed.W_E

    @property
    def W_U(self) -> Tensor:
        """[d_model, d_vocab]"""
        return self.unembed.W_U

    @property
    def b_U(self) -> Tensor:
        """[d_vocab], zeros: no model here has an unembedding bias."""
        return self.unembed.b_U

    @property
    def W_pos(self) -> Tensor:
        """[n_ctx, d_model], for learned positions."""
        weight = getattr(self.pos_embed, "W_pos", None)
        if weight is None:
            kind = self.config.positional_embedding_type
            raise AttributeError(f"W_pos: positional_embedding_type {kind!r} has no learned positions.")
        return weight

    def _stack(self, sublayer: str, name: str) -> Tensor:
        return torch.stack([getattr(getattr(block, sublayer), name) for block in self.blocks])

    @property
    def W_Q(self) -> Tensor:
        """[layer, head, d_model, d_head]"""
        return self._stack("attn", "W_Q")

    @property
    def W_K(self) -> Tensor:
        """[layer, key-value head, d_model, d_head]"""
        return self._stack("attn", "W_K")

    @property
    def W_V(self) -> Tensor:
        """[layer, key-value head, d_model, d_head]"""
        return self._stack("attn", "W_V")

    @property
    def W_O(self) -> Tensor:
        """[layer, head, d_head, d_model]"""
        return self._stack("attn", "W_O")

    @property
    def b_O(self) -> Tensor:
        """[layer, d_model]"""
        return self._stack("attn", "b_O")

    @property
    def W_in(self) -> Tensor:
        """[layer, d_model, d_mlp]"""
        return self._stack("mlp", "W_in")

    @property
    def W_out(self) -> Tensor:
        """[layer, d_mlp, d_model]"""
        return self._stack("mlp", "W_out")

    @property
    def b_out(self) -> Tensor:
        """[layer, d_model]"""
        return self._stack("mlp", "b_out")

    def tokens_to_residual_directions(self, tokens: Any) -> Tensor:
        """Columns of W_U: the direction whose dot product with the final stream is each token's logit.

        tokens: text that is one token, an id, or ids of any shape; returns [*shape, d_model].
        """
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)  # type: ignore[attr-defined]
        ids = as_ids(tokens, "tokens")
        wrong = ids[(ids < 0) | (ids >= self.config.d_vocab)]
        if len(wrong):
            raise ValueError(f"Token id {int(wrong[0])} is outside the vocabulary, 0 to {self.config.d_vocab - 1}.")
        return self.W_U.T[ids.to(self.W_U.device)]

    def accumulated_bias(self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True) -> Tensor:
        """The sum [d_model] of the output biases added to the stream before ``layer`` (Pre-Norm only)."""
        if self.config.norm_placement != "pre":
            raise ValueError(
                f"accumulated_bias: with norm_placement {self.config.norm_placement!r} biases pass through norms on "
                "their way into the stream; use lab.analysis.residual_decomposition."
            )
        total = self.embed.weight.new_zeros(self.config.d_model)
        blocks: list[Any] = list(self.blocks)
        layer = whole(layer, "layer", 0)
        if layer > len(blocks) - mlp_input:
            raise ValueError(f"layer is {layer}; the model has {len(blocks)} layers.")
        for block in blocks[:layer]:
            total = total + block.attn.b_O
            if include_mlp_biases:
                total = total + block.mlp.b_out
        if mlp_input:
            total = total + blocks[layer].attn.b_O
        return total
