"""Start a new run from weights that are there: a run's, a checkpoint's, a pretrained model's. torch from here on."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch

from lab.models import open_model
from model.config import GPTConfig

if TYPE_CHECKING:
    from model import GPT

# What a new run may set otherwise: how weights are drawn, which these are not, and what training alone does.
FREE = ("init", "init_std", "scaled_residual_init", "zero_projection_init", "seed", "embed_dropout", "attn_dropout",
        "resid_dropout")  # fmt: skip


def open_source(reference: str) -> GPT:
    """The model whose weights a run starts from. Raises ValueError where it has no tokenizer to read a text with."""
    source = open_model(reference)
    if source.tokenizer is None:
        raise ValueError(f"{reference} has no tokenizer, so no text can be read for its weights; name a model with one")
    return source


def model_of(reference: str) -> dict[str, Any]:
    """The config of a source as overrides of a preset; the vocabulary follows its tokenizer."""
    values = open_source(reference).config.to_dict()
    return {name: value for name, value in values.items() if name not in ("d_vocab", *FREE)}


def require_same_model(source: GPTConfig, wanted: GPTConfig, reference: str) -> None:
    """Raise ValueError naming each field in which a run's model is another one than that of its first weights."""
    theirs, ours = source.to_dict(), wanted.to_dict()
    other = [name for name in ours if name not in FREE and ours[name] != theirs.get(name)]
    if other:
        said = ", ".join(f"{name} {ours[name]!r} against {theirs.get(name)!r}" for name in other[:6])
        raise ValueError(
            f"the weights of {reference} are those of another model: {said}. Leave these fields as they are"
        )


def start_from(model: GPT, reference: str) -> str:
    """Copy the weights of a source into a model of the same config; returns their sha256 (by name, as float32)."""
    source = open_source(reference)
    require_same_model(source.config, model.config, reference)
    given = dict(source.named_parameters())
    digest = hashlib.sha256()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(given[name])
            digest.update(name.encode())
            digest.update(given[name].detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
