"""GGUF files, through transformers and the gguf package: quantised weights come out in float32, as they act."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from model.pretrained.sources import PretrainedError, Source
from model.pretrained.tensors import Stored, from_state_dict


def read_gguf(source: Source) -> tuple[Mapping[str, Any], dict[str, Stored], Callable[[], Any]]:
    """(config.json's values, tensors, how to get the tokenizer) of a .gguf file."""
    path = source.weights[0]
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise PretrainedError(f"{path} is no GGUF file.")
    if importlib.util.find_spec("gguf") is None:
        raise PretrainedError(f"{path}: GGUF files are read with the gguf package; pip install 'residlab[gguf]'.")
    import torch
    import transformers

    try:
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, dtype=torch.float32, local_files_only=True
        )
    except (ValueError, OSError, KeyError, IndexError, RuntimeError, AttributeError) as error:
        raise PretrainedError(
            f"{path} cannot be read: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from None
    values = {**theirs.config.to_dict(), "quantization_config": None}
    state = dict(theirs.state_dict())
    if values.get("tie_word_embeddings"):
        state.pop("lm_head.weight", None)  # the embedding, under its other name
    return values, from_state_dict(state, path), lambda: _tokenizer(source, values)


def _tokenizer(source: Source, values: Mapping[str, Any]) -> Any:
    import transformers

    from model.pretrained.tokenizer import PretrainedTokenizer

    path = source.weights[0]
    theirs = transformers.AutoTokenizer.from_pretrained(
        str(path.parent), gguf_file=path.name, local_files_only=True, trust_remote_code=False
    )
    engine = getattr(theirs, "backend_tokenizer", None)
    if engine is None:
        raise PretrainedError(f"{path} holds a tokenizer that the tokenizers package does not know.")
    return PretrainedTokenizer(engine, theirs.bos_token_id, theirs.eos_token_id)
