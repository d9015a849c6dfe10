"""GPT: embed, blocks, final norm, unembed, with every activation open to view.

The forward pass of the whole model is `GPT._forward`; a block's is in `block.py`, attention's in `attention.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import Sight, make_bias
from model.block import BLOCK, Block
from model.checks import whole
from model.config import GPTConfig
from model.hooks import InstrumentedModule, Point
from model.initialization import initialize
from model.lens import LensMethods
from model.norms import NoNorm, make_norm
from model.positions import LearnedPositions, Rotary, SinusoidalPositions
from model.text import TextMethods
from model.token_ids import as_ids

RETURN_TYPES = ("logits", "loss", "both", None)
IGNORED = -100


class Embed(nn.Module):
    """Token embedding; ``weight`` (TransformerLens: ``W_E``) [d_vocab, d_model]."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.d_vocab, config.d_model))

    @property
    def W_E(self) -> Tensor:
        return self.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight)


class Unembed(nn.Module):
    """Logits from the residual stream; ``weight`` [d_vocab, d_model], ``W_U`` its transpose.

    Tied, it holds no parameter: it reads the embedding's at each use, so that there is one ``Parameter`` under two
    names whatever is done to it: ``.to``, deepcopy, meta-device loading, ``load_state_dict(assign=True)``.
    """

    def __init__(self, config: GPTConfig, embed: Embed):
        super().__init__()
        if config.tie_word_embeddings:
            self.__dict__["_tied_to"] = embed  # past nn.Module's registration: the embedding owns the weight
        else:
            self.own_weight = nn.Parameter(torch.empty(config.d_vocab, config.d_model))
            self._parameters["weight"] = self._parameters.pop("own_weight")

    def __getattr__(self, name: str) -> Any:
        if name == "weight" and "_tied_to" in self.__dict__:
            return self.__dict__["_tied_to"].weight
        return super().__getattr__(name)

    @property
    def W_U(self) -> Tensor:
        return self.weight.T

    @property
    def b_U(self) -> Tensor:
        return self.weight.new_zeros(self.weight.shape[0])

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class GPT(TextMethods, LensMethods, InstrumentedModule):
    """A decoder-only transformer of any variant that ``GPTConfig`` names.

    Initial weights depend on ``config.seed`` alone and leave torch's global random state as it was.
    ``model.tokenizer`` is None, or an object with ``encode`` and ``decode``; with one, text is accepted wherever
    tokens are.
    """

    @torch.random.fork_rng(devices=[])  # torch's own layers draw weights that `initialize` replaces
    def __init__(self, config: GPTConfig, initialized: bool = True):
        super().__init__()
        self.config = config
        self.tokenizer: Any = None
        self.embed = Embed(config)
        self.hook_embed = Point()
        self.pos_embed: LearnedPositions | SinusoidalPositions | None = None
        if config.positional_embedding_type == "standard":
            self.pos_embed = LearnedPositions(config)
        elif config.positional_embedding_type == "sinusoidal":
            self.pos_embed = SinusoidalPositions(config)
        if self.pos_embed is not None:
            self.hook_pos_embed = Point()
        self.rotary = Rotary(config) if config.positional_embedding_type == "rotary" else None
        self.blocks = nn.ModuleList(BLOCK[config.norm_placement](config) for _ in range(config.n_layers))  # type: ignore[misc]
        # A Post-Norm block ends in a norm of its own; a further one would only repeat it.
        self.ln_final = NoNorm() if config.norm_placement == "post" else make_norm(config)  # type: ignore[misc]
        self.unembed = Unembed(config, self.embed)
        self.setup()
        if initialized and not self.embed.weight.is_meta:
            initialize(self)

    # --- forward -----------------------------------------------------------------------------------------------

    def forward(
        self,
        input: Any,
        return_type: str | None = "logits",
        *,
        targets: Tensor | None = None,
        loss_per_token: bool = False,
        attention_mask: Tensor | None = None,
        past_kv_cache: Any = None,
        start_at_layer: int | None = None,
        stop_at_layer: int | None = None,
    ) -> Any:
        """Logits [batch, pos, d_vocab], the mean next-token cross-entropy in nats, or both.

        input: token ids [batch, pos] or [pos], text or a list of texts (left-padded where lengths differ), or, with
        ``start_at_layer``, the residual stream [batch, pos, d_model] before that layer.
        targets: [batch, pos], what each position should predict (-100: not counted). Without them each position
        predicts the next one, pos - 1 targets in all. Padded positions never count.
        loss_per_token: the loss unreduced, [batch, pos] with targets, [batch, pos - 1] without.
        attention_mask: [batch, past + pos] of 0 for (left) padding, 1 for tokens.
        past_kv_cache: a ``KVCache``; input continues it.
        stop_at_layer: return the residual stream before that layer (negative: from the end) instead of logits.
        return_type: "logits", "loss", "both" or None (run for the hooks alone).
        """
        if self.watch.on and torch.compiler.is_compiling():
            # Compiled code would skip hooks attached after compilation, in silence. Watched means eager.
            return self._forward_uncompiled(
                input,
                return_type,
                targets=targets,
                loss_per_token=loss_per_token,
                attention_mask=attention_mask,
                past_kv_cache=past_kv_cache,
                start_at_layer=start_at_layer,
                stop_at_layer=stop_at_layer,
            )
        if self.watch.on:
            self.refresh_watch()
        if return_type not in RETURN_TYPES:
            raise ValueError(f"return_type is {return_type!r}; it must be one of {RETURN_TYPES}.")
        if start_at_layer is None:
            tokens, attention_mask = self.as_tokens(input, attention_mask)
        else:
            tokens = input
        x = self._forward(tokens, attention_mask, past_kv_cache, start_at_layer, stop_at_layer)
        if stop_at_layer is not None or return_type is None:
            return x if stop_at_layer is not None else None
        if return_type == "logits":
            return x
        if targets is None and start_at_layer is not None:
            raise ValueError("A loss from a residual stream needs targets: the tokens are not known.")
        loss = self.loss(x, tokens, targets, attention_mask, loss_per_token)
        return loss if return_type == "loss" else (x, loss)

    @torch._disable_dynamo
    def _forward_uncompiled(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def _forward(
        self, x: Tensor, attention_mask: Tensor | None, cache: Any, start: int | None, stop: int | None
    ) -> Tensor:
        first = self._layer(start, "start_at_layer") if start is not None else 0
        last = self._layer(stop, "stop_at_layer") if stop is not None else self.config.n_layers
        n_past = 0 if cache is None else cache.length
        n_new = x.shape[1]
        if n_past + n_new > self.config.n_ctx:
            raise ValueError(
                f"{n_past + n_new} positions are more than the model's context, n_ctx {self.config.n_ctx}; "
                "give the last n_ctx tokens, or let generate() slide the window."
            )
        position_ids = self._position_ids(n_past, n_new, attention_mask, x.device)
        if start is None:
            x = self._embed(x, position_ids)
        bias, is_causal = make_bias(self.config, n_new, n_past, attention_mask, x.device, x.dtype)
        rotary = None if self.rotary is None else self.rotary(position_ids, x.dtype, n_past + n_new)
        sight = Sight(bias, is_causal, rotary)
        for layer in range(first, last):
            x = self.blocks[layer](x, sight, None if cache is None else cache.layers[layer])
        if stop is not None:
            return x
        logits = self.unembed(self.ln_final(x))
        cap = self.config.logit_soft_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def _embed(self, tokens: Tensor, position_ids: Tensor) -> Tensor:
        x = self.hook_embed(self.embed(tokens))
        if self.pos_embed is not None:
            positions = self.pos_embed(position_ids).to(x.dtype).expand_as(x)
            if self.hook_pos_embed.listening:
                positions = self.hook_pos_embed(positions.clone())  # rows of their own, free to edit
            x = x + positions
        dropout = self.config.embed_dropout
        return F.dropout(x, dropout, self.training) if dropout else x

    def _position_ids(self, n_past: int, n_new: int, attention_mask: Tensor | None, device: Any) -> Tensor:
        """[pos], or [batch, pos] when padding shifts the rows against each other."""
        if attention_mask is None:
            return torch.arange(n_past, n_past + n_new, device=device)
        return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -n_new:]

    def _layer(self, layer: int, name: str) -> int:
        n_layers = self.config.n_layers
        layer = whole(layer, name)
        resolved = layer + n_layers if layer < 0 else layer
        if not 0 <= resolved <= n_layers:
            raise ValueError(f"{name} is {layer}; the model has {n_layers} layers.")
        return resolved

    def loss(
        self,
        logits: Tensor,
        tokens: Tensor,
        targets: Tensor | None = None,
        attention_mask: Tensor | None = None,
        per_token: bool = False,
    ) -> Tensor:
        """Cross-entropy in nats, in fp32 at least: mean, or per token. See ``forward`` for the arguments."""
        tokens = as_ids(tokens, "tokens")
        if targets is None:
            if tokens.shape[1] < 2:
                raise ValueError(f"A next-token loss needs 2 tokens; this input has {tokens.shape[1]}.")
            targets, logits = tokens[:, 1:], logits[:, :-1]
            if attention_mask is not None:
                seen = attention_mask[:, -tokens.shape[1] :].bool()
                targets = targets.masked_fill(~(seen[:, 1:] & seen[:, :-1]), IGNORED)
        else:
            targets = as_ids(targets, "targets").to(logits.device)
        if targets.shape != logits.shape[:2]:
            raise ValueError(f"targets are {list(targets.shape)}; logits are for {list(logits.shape[:2])}.")
        logits = logits if logits.dtype == torch.float64 else logits.float()
        reduction = "none" if per_token else "mean"
        try:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction=reduction)
        except IndexError as error:
            raise ValueError(
                f"targets hold an id outside the vocabulary, 0 to {logits.shape[-1] - 1} ({IGNORED}: not counted)."
            ) from error
        return loss.unflatten(0, targets.shape) if per_token else loss

    # --- generation --------------------------------------------------------------------------------------------

    def generate(self, input: Any = "", max_new_tokens: int = 50, **options: Any) -> Any:
        """Sample a continuation; every option is described at ``model.generation.generate``."""
        from model.generation import generate

        return generate(self, input, max_new_tokens, **options)

    def stream(self, input: Any = "", max_new_tokens: int = 50, **options: Any) -> Iterator[Any]:
        """As ``generate``, a step at a time: ``model.generation.stream``."""
        from model.generation import stream

        return stream(self, input, max_new_tokens, **options)

    # --- weights -----------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, name: Any, dtype: Any = None, fold_norms: bool = False, center: bool = False) -> GPT:
        """A model from a folder or the hub, its numbers those of its source: ``model.pretrained.from_pretrained``."""
        from model.pretrained import from_pretrained

        return from_pretrained(name, dtype, fold_norms, center)

    def save_pretrained(self, folder: Any) -> Any:
        """A folder that transformers loads and computes the same with: ``model.pretrained.save_pretrained``."""
        from model.pretrained import save_pretrained

        return save_pretrained(self, folder)

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.weight.dtype

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """As torch's. A tied model takes a second copy of the tied weight only if it agrees with the first."""
        state = dict(state_dict)
        tied = self.config.tie_word_embeddings
        if tied and "unembed.weight" in state:
            embed, unembed = state.get("embed.weight"), state.pop("unembed.weight")
            if embed is None or embed.shape != unembed.shape or not torch.equal(embed, unembed.to(embed.device)):
                raise ValueError(
                    "This model ties embed.weight and unembed.weight, but the weights given for them disagree: "
                    "they come from an untied model. Set tie_word_embeddings=False to load both."
                )
        if strict and not tied and "embed.weight" in state and "unembed.weight" not in state:
            raise ValueError(
                "This model has an unembed.weight of its own, but the weights given have none: they come from a "
                "tied model. Set tie_word_embeddings=True to load them."
            )
        return super().load_state_dict(state, strict=strict, assign=assign)


__all__ = ["GPT", "Block", "Embed", "Unembed"]
