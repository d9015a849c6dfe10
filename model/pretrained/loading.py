"""GPT.from_pretrained: a model with exactly the numbers of its source, or an error; never half of one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from model.config import GPTConfig
from model.pretrained.accounting import Placed, account
from model.pretrained.adapters import merged
from model.pretrained.configs import Read, read_config
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import GPT2
from model.pretrained.sources import Source, locate
from model.pretrained.tensors import Stored, stored_tensors

if TYPE_CHECKING:
    from model.gpt import GPT

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "float64": torch.float64,
    "fp64": torch.float64,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}

Progress = Callable[[int, int], None]
"""Called with (done, all)."""


def from_pretrained(
    name: str | os.PathLike[str],
    dtype: torch.dtype | str | None = None,
    fold_norms: bool = False,
    center: bool = False,
    on_progress: Progress | None = None,
    on_download: Progress | None = None,
) -> GPT:
    """The GPT whose weights are at ``name``, in evaluation mode, on the CPU, with its tokenizer where it has one.

    name: a folder with config.json and safetensors (one file or several) or pytorch_model.bin; a nanoGPT ckpt.pt
    or its folder; a .gguf file; or a model's name on the hub ("gpt2", "HuggingFaceTB/SmolLM2-135M"), downloaded
    once. A folder never causes a look at the network. A LoRA adapter in the folder (adapter_config.json), or one alone
    whose base model is a folder here, is merged as peft merges it.
    dtype: what the weights are kept in; None: float32, which holds half precision exactly (float64 stays float64).
    fold_norms, center: process the weights as ``model.folding`` says; raw by default.
    on_progress, on_download: called with (tensors read, all of them) and, while the hub's files come, with (bytes
    fetched, bytes known of), instead of a progress bar on the terminal.
    Raises PretrainedError (a ValueError) in one sentence.
    """
    wanted = _dtype(dtype)
    source = locate(name, on_download=on_download)
    read, stored, tokenizer = _open(source)
    placed = account(
        stored, read.layout, read.stored, str(source.weights[0] if len(source.weights) == 1 else source.folder)
    )
    if source.adapter is not None:
        placed = merged(placed, source.adapter, read.layout, read.stored.tie_word_embeddings)
    if wanted is None:
        wide = any(p.tensor.dtype == torch.float64 for p in placed)
        wanted = torch.float64 if wide else torch.float32
    model = _fill(read.config, placed, wanted, on_progress)
    model.tokenizer = tokenizer()
    if fold_norms or center:
        from model import folding

        if fold_norms:
            model = folding.fold_norms(model)
        if center:
            model = folding.center(model)
    return model.eval()


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise PretrainedError(f"dtype is {dtype!r}; known are {', '.join(DTYPES)}.")
        return DTYPES[dtype]
    if dtype is not None and dtype not in DTYPES.values():
        raise PretrainedError(f"dtype is {dtype}; weights are kept in {', '.join(sorted(map(str, DTYPES.values())))}.")
    return dtype


Opened = tuple[Read, Mapping[str, Stored], Callable[[], Any]]


def _open(source: Source) -> Opened:
    """(config and layout, tensors, how to get the tokenizer)."""
    from model.pretrained.tokenizer import find_tokenizer

    if source.kind == "gguf":
        from model.pretrained.gguf import read_gguf

        return read_gguf(source)
    if source.kind == "nanogpt":
        from model.pretrained.nanogpt import read_nanogpt

        config, stored = read_nanogpt(source)
        return Read(config, config, GPT2), stored, lambda: find_tokenizer(source.folder, {})
    if source.config is None:
        raise PretrainedError(f"{source.folder} has no config.json.")
    values = source.config
    read = read_config(values, str(source.folder / "config.json"))
    return read, stored_tensors(source), lambda: find_tokenizer(source.folder, values)


@torch.no_grad()
def _fill(config: GPTConfig, placed: list[Placed], dtype: torch.dtype, on_progress: Progress | None) -> GPT:
    """A model of that dtype with every tensor in its place; no more than one tensor is held twice."""
    from model.gpt import GPT

    with torch.device("meta"):
        model = GPT(config, initialized=False)
    model.to(dtype).to_empty(device="cpu")
    parameters = dict(model.named_parameters())
    unfilled = set(parameters)
    for number, item in enumerate(placed, 1):
        slot = item.slot
        if slot.parameter not in parameters:  # a bias that the saved model did not have
            if bool(item.tensor.read().any()):
                raise PretrainedError(f"{item.name} is not 0, but the model that was saved had no such bias.")
            continue
        target: torch.Tensor = parameters[slot.parameter]
        unfilled.discard(slot.parameter)
        tensor = item.tensor.read()
        if slot.rows is not None:
            target = target[slice(*slot.rows)]
        target.copy_(tensor.T if slot.transposed else tensor)
        if on_progress is not None:
            on_progress(number, len(placed))
    if unfilled:  # a config whose tensors the layout does not list: a mistake here, not in the files
        raise PretrainedError(f"No tensor is known for {min(unfilled)}: {json.dumps(config.to_dict())}")
    return model
