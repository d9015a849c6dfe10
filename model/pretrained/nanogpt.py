"""nanoGPT's checkpoints: ckpt.pt with model_args and a state dict of torch Linears, biases optional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from model.config import ConfigError, GPTConfig
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import HEAD
from model.pretrained.pickles import torch_file
from model.pretrained.sources import Source
from model.pretrained.tensors import Stored, from_state_dict, without_prefixes

_FIELDS = {
    "n_layer": "n_layers",
    "n_head": "n_heads",
    "n_embd": "d_model",
    "block_size": "n_ctx",
    "vocab_size": "d_vocab",
    "bias": "use_bias",
    "dropout": "embed_dropout",
}


def read_nanogpt(source: Source) -> tuple[GPTConfig, dict[str, Stored]]:
    """The config and the tensors of a ckpt.pt: LayerNorm, exact GELU, learned positions.

    The embeddings are tied, as nanoGPT has them, unless the file's two matrices differ.
    """
    path = source.weights[0]
    content = torch_file(path)
    if not isinstance(content, Mapping) or "model_args" not in content or "model" not in content:
        raise PretrainedError(f"{path} is no checkpoint of nanoGPT: it needs the keys 'model_args' and 'model'.")
    stored = from_state_dict(content["model"], path)
    config = nanogpt_config(content["model_args"], str(path))
    names = without_prefixes(stored, HEAD, str(path))
    if HEAD in names and "wte.weight" in names:
        head, embedding = (stored[names[name]].read() for name in (HEAD, "wte.weight"))
        config = config.replace(tie_word_embeddings=torch.equal(head, embedding))
    return config, stored


def nanogpt_config(args: Any, origin: str) -> GPTConfig:
    """GPTConfig of nanoGPT's model_args."""
    if not isinstance(args, Mapping):
        raise PretrainedError(f"{origin}: model_args is {type(args).__name__}, no table of sizes.")
    unknown = [name for name in args if name not in _FIELDS]
    if unknown:
        raise PretrainedError(f"{origin}: model_args has {unknown[0]!r}, which nanoGPT's GPT does not have.")
    values = {_FIELDS[name]: value for name, value in args.items()}
    lacking = [name for name in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size") if args.get(name) is None]
    if lacking:
        raise PretrainedError(f"{origin}: model_args lacks {lacking[0]!r}.")
    dropout = values.pop("embed_dropout", 0.0)
    dropouts = dict.fromkeys(("embed_dropout", "attn_dropout", "resid_dropout"), dropout)
    try:
        return GPTConfig(**{"use_bias": True, **values, **dropouts, "act_fn": "gelu"})
    except (ConfigError, TypeError) as error:
        raise PretrainedError(f"{origin}: model_args describe no model that can be built: {error}") from None
