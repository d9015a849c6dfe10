"""model.save_pretrained: a folder that transformers itself loads, and computes the same with."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from model.pretrained.configs import RECORD, read_config, write_config
from model.pretrained.files import PretrainedError
from model.pretrained.layouts import HEAD
from model.pretrained.sources import BIN, INDEX, WEIGHTS

if TYPE_CHECKING:
    from model.gpt import GPT

_BIAS = re.compile(r".*\.(bias|b)")


@torch.no_grad()
def save_pretrained(model: GPT, folder: str | os.PathLike[str]) -> Path:
    """Write config.json, model.safetensors and the tokenizer's files to ``folder``, which is made if need be.

    The class is the one that computes the same: GPT2LMHeadModel, or of Llama's kind LlamaForCausalLM, Qwen2, Qwen3,
    Mistral, Arcee (no gate), Starcoder2 and StableLM (LayerNorm). A bias that the class has and the model has not is
    written as zeros. Raises PretrainedError naming the fields that no class has.
    """
    values = write_config(model.config)
    written = read_config(values, "the config to be written")
    theirs, layout = written.stored, written.layout
    state = model.state_dict()
    tensors: dict[str, Tensor] = {}
    used = set()
    for name, slot in layout.slots(theirs).items():
        source = state.get(slot.parameter)
        if source is None:
            if not _BIAS.fullmatch(slot.parameter):
                raise PretrainedError(f"{slot.parameter} is in {values['model_type']}, but not in this model.")
            tensor = torch.zeros(slot.shape, dtype=model.dtype)
        else:
            used.add(slot.parameter)
            tensor = source if slot.rows is None else source[slice(*slot.rows)]
            tensor = tensor.T if slot.transposed else tensor
        tensors[layout.full_name(name)] = tensor.detach().cpu().contiguous()
    unused = sorted(set(state) - used)
    if unused:
        raise PretrainedError(f"{values['model_type']} has no place for {unused[0]} ({len(unused)} such tensors).")
    if model.config.tie_word_embeddings:
        tensors.pop(HEAD, None)
    target = Path(folder).expanduser()
    if target.is_file():
        raise PretrainedError(f"{target} is a file; give a folder to write to.")
    target.mkdir(parents=True, exist_ok=True)
    _require_no_other_weights(target)
    tokenizer = model.tokenizer
    values |= {
        "dtype": str(model.dtype).removeprefix("torch."),
        "bos_token_id": getattr(tokenizer, "bos_id", None),
        "eos_token_id": getattr(tokenizer, "eos_id", None),
        "pad_token_id": None,
        RECORD: model.config.to_dict(),
    }
    _write(target, tensors, values, tokenizer)
    return target


def _require_no_other_weights(folder: Path) -> None:
    """Weights of another model beside ours would be read instead, or with them."""
    for name in (INDEX, BIN, f"{BIN}.index.json"):
        if (folder / name).exists():
            raise PretrainedError(f"{folder} holds weights of another model ({name}); choose an empty folder.")


def _write(folder: Path, tensors: dict[str, Tensor], values: dict[str, Any], tokenizer: Any) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from model.pretrained.tokenizer_export import save_tokenizer

    aside = folder / f"{WEIGHTS}.part"
    try:
        save_file(tensors, aside, metadata={"format": "pt"})
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
        (folder / "config.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        os.replace(aside, folder / WEIGHTS)
    except SafetensorError as error:  # safetensors reports a full disk this way
        raise OSError(f"could not write {aside}: {error}") from error
    finally:
        aside.unlink(missing_ok=True)
