"""Weights processed so that they are read more easily: norms' gains folded into what reads them, means taken out.

Both give a new model that computes the same (fold: the same logits; center: logits less their mean over the
vocabulary, the same probabilities) and note what was done in its config. A second time changes nothing, and gives the
model itself, unless it was trained in between: then it is done anew.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from model.config import GPTConfig

if TYPE_CHECKING:
    from model.gpt import GPT
    from model.norms import Norm


@torch.no_grad()
def fold_norms(model: GPT) -> GPT:
    """A copy whose norms before attention, MLP and unembedding have gain 1: the gain is in the weights that read them.

    A norm's bias goes into the readers' biases. Where they have none (the unembedding never does), it stays in the
    norm, divided by the gain; a dimension whose gain is 0 stays as it was. Norms of queries and keys, and those after
    a sublayer, feed no linear map and stay. A tied unembedding becomes one of its own, for it alone is changed.
    Raises ValueError for Post-Norm, whose norms also feed the stream.
    """
    config = model.config
    if config.norm_placement == "post":
        raise ValueError("norm_placement 'post': its norms feed the residual stream itself and cannot be folded away.")
    if config.norms_folded and all(_is_folded(norm, readers) for norm, readers in _norms(model)):
        return model
    folded = _copy(model, config.replace(norms_folded=True, tie_word_embeddings=False))
    for norm, readers in _norms(folded):
        _fold(norm, readers)
    return folded


@torch.no_grad()
def center(model: GPT) -> GPT:
    """A copy that writes vectors of mean 0 into the residual stream, with an unembedding of mean 0 over the vocabulary.

    LayerNorm takes the stream's mean out before anything reads it, so what writes into the stream may leave it out.
    Raises ValueError where that does not hold: RMSNorm reads the mean, and Post-Norm and Sandwich-Norm write through
    norms. A model with a logit_soft_cap keeps its unembedding: the cap would bend the shift.
    """
    config = model.config
    if config.normalization_type != "LN":
        raise ValueError("normalization_type 'RMS': RMSNorm reads the mean of the stream, which centring takes out.")
    if config.norm_placement != "pre":
        raise ValueError(f"norm_placement {config.norm_placement!r}: what is written passes through a norm's gain.")
    if config.positional_embedding_type == "sinusoidal":
        raise ValueError("positional_embedding_type 'sinusoidal': its vectors are computed and cannot be centred.")
    if config.weights_centered and all(_is_centred(tensor, dim) for tensor, dim in _writers(model)):
        return model
    centred = _copy(model, config.replace(weights_centered=True, tie_word_embeddings=False))
    for tensor, dim in _writers(centred):
        _less_mean(tensor, dim)
    return centred


def _norms(model: GPT) -> list[tuple[Norm, list[Any]]]:
    """Each norm that only linear maps read, with these maps."""
    found: list[tuple[Any, list[Any]]] = []
    for block in _blocks(model):
        mlp = block.mlp
        found.append((block.ln1, [block.attn.w_qkv]))
        found.append((block.ln2, [mlp.w_in, mlp.w_gate] if model.config.gated_mlp else [mlp.w_in]))
    return [*found, (model.ln_final, [model.unembed])]


def _writers(model: GPT) -> list[tuple[Tensor, int]]:
    """The weights that write into the stream, and the unembedding, each with the dimension that has to have mean 0."""
    found: list[tuple[Tensor, int]] = [(model.embed.weight, -1)]
    if model.config.positional_embedding_type == "standard":
        found.append((model.W_pos, -1))
    for block in _blocks(model):
        for linear in (block.attn.w_o, block.mlp.w_out):
            found.append((linear.weight, 0))  # [d_model, in]
            if linear.bias is not None:
                found.append((linear.bias, 0))
    if model.config.logit_soft_cap is None:
        found.append((model.unembed.weight, 0))
    return found


def _blocks(model: GPT) -> list[Any]:
    return list(model.blocks)


def _copy(model: GPT, config: GPTConfig) -> GPT:
    """The same weights in a new model of this config, with an unembedding of its own."""
    from model.gpt import GPT

    with torch.device("meta"):
        new = GPT(config, initialized=False)
    new.to(model.dtype).to_empty(device=model.device)
    state = model.state_dict()
    new.load_state_dict({**state, "unembed.weight": model.unembed.weight})
    new.tokenizer = copy.copy(model.tokenizer)
    return new.train(model.training)


def _fold(norm: Norm, readers: list[nn.Module]) -> None:
    """In fp64, rounded once."""
    gain = norm.w.double()
    whole = gain != 0
    factor = torch.where(whole, gain, torch.ones_like(gain))
    for reader in readers:
        weight: Tensor = reader.weight  # type: ignore[assignment]  # [out, d_model]
        if norm.b is not None and (bias := getattr(reader, "bias", None)) is not None:
            bias.copy_(bias.double() + weight.double() @ norm.b.double())
        weight.copy_(weight.double() * factor)
    if norm.b is not None:
        kept = torch.where(whole, norm.b.double() / factor, norm.b.double())
        norm.b.copy_(torch.zeros_like(kept) if _take_biases(readers) else kept)
    norm.w.copy_(torch.where(whole, torch.ones_like(gain), gain))


def _is_folded(norm: Norm, readers: list[Any]) -> bool:
    done = bool(((norm.w == 1) | (norm.w == 0)).all())
    return done and (norm.b is None or not _take_biases(readers) or not norm.b.any())


def _take_biases(readers: list[Any]) -> bool:
    return all(getattr(reader, "bias", None) is not None for reader in readers)


def _is_centred(tensor: Tensor, dim: int) -> bool:
    """Whether the mean is 0 but for the rounding of the tensor's own precision."""
    wide = tensor.double()
    return bool((wide.mean(dim).abs() <= torch.finfo(tensor.dtype).eps * wide.abs().amax(dim)).all())


def _less_mean(tensor: Tensor, dim: int) -> None:
    tensor.copy_(tensor.double() - tensor.double().mean(dim, keepdim=True))
