"""Hugging Face's GPT-2 and Llama families, and nanoGPT's checkpoints, in and out, every tensor accounted for.

describe.py    what a name or folder holds, read from its config alone: shape, parameters, memory
sources.py     a name or folder -> the files of one model, from the disk or the hub
files.py       what a file is before it is opened, and JSON
tensors.py     those files -> named tensors, read one at a time; their names' prefixes
accounting.py  each named tensor has one place in the model, each place one tensor
configs.py     config.json <-> GPTConfig           families.py, rope.py  the parts of that
layouts.py     tensor names <-> parameters         adapters.py  LoRA, merged into the tensors
gguf.py        GGUF files                          gguf_keys.py their keys
loading.py     from_pretrained                     exporting.py save_pretrained
tokenizer.py   the folder's tokenizer              tokenizer_export.py  ours, for transformers
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.pretrained.describe import Description, describe_pretrained
    from model.pretrained.exporting import save_pretrained
    from model.pretrained.files import PretrainedError
    from model.pretrained.loading import from_pretrained

_HOME = {
    "Description": "describe",
    "PretrainedError": "files",
    "describe_pretrained": "describe",
    "from_pretrained": "loading",
    "save_pretrained": "exporting",
}

__all__ = ["Description", "PretrainedError", "describe_pretrained", "from_pretrained", "save_pretrained"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'model.pretrained' has no attribute {name!r}")
    return getattr(import_module(f"model.pretrained.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
