"""Open a model: a run's newest checkpoint or one of its steps, a folder, or a pretrained one (transformers, hub)."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs import Run, RunNotFoundError, find_run, read_json
from lab.runs.checkpoints import require_digest
from lab.runs.folder import folder_step

if TYPE_CHECKING:
    import torch

    from model import GPT

WEIGHTS = "model.safetensors"
COMPILED = "_orig_mod."
"""What torch.compile puts into the names of the weights of a module that it wraps."""
SCHEMA_VERSION = 1
"""Of the config.json files that are read and written here."""
HUB_MODELS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2")
"""Names of the hub without an owner; any other is written owner/name."""


class ModelFileError(ValueError):
    """The files are there but do not make the model they claim to be."""


def open_model(
    spec: str | os.PathLike[str], *, device: str = "cpu", dtype: torch.dtype | None = None, finite: bool = True
) -> GPT:
    """The GPT at `spec`, in evaluation mode, with its tokenizer.

    spec:   "runs/a" or a run id (newest checkpoint), "runs/a@500", "runs/a@best", a checkpoint folder, or a folder
            with config.json, model.safetensors and tokenizer.json; or what `GPT.from_pretrained` takes: a folder of
            transformers' GPT-2 or Llama kind, a nanoGPT ckpt.pt, a .gguf file, "gpt2", "owner/name" on the hub.
    dtype:  None: as a run keeps it; float32 for a pretrained model.
    finite: refuse weights that hold NaN or infinity, and weights other than those the checkpoint was written with;
            nothing sensible can be sampled from those.
    Raises FileNotFoundError naming what there is instead, ModelFileError or PretrainedError (ValueErrors) for files
    that do not fit.
    """
    if is_pretrained(spec):
        from model.pretrained import from_pretrained

        model = from_pretrained(spec, dtype)
        if finite:
            require_finite(model, Path(spec))
        return model.to(device=device)
    folder, config, tokenizer_path = _locate(spec)
    from model import GPT, GPTConfig

    model = GPT(GPTConfig.from_dict(config), initialized=False)
    metadata = load_weights(model, folder / WEIGHTS)
    if finite:
        require_finite(model, folder)
        require_written(folder / WEIGHTS)
    if tokenizer_path.exists():
        model.tokenizer = read_tokenizer(tokenizer_path)
        expected = metadata.get("tokenizer_sha256")
        if expected and model.tokenizer.sha256 != expected:
            raise ModelFileError(
                f"{folder} was trained with another tokenizer ({expected[:12]}...) than {tokenizer_path} holds "
                f"({model.tokenizer.sha256[:12]}...); its token ids would mean something else"
            )
        if model.tokenizer.vocab_size > model.config.d_vocab:
            raise ModelFileError(
                f"{tokenizer_path} has {model.tokenizer.vocab_size} tokens, the model in {folder} only "
                f"{model.config.d_vocab}"
            )
    model.to(device=device, dtype=dtype)
    return model.eval()


def is_pretrained(spec: str | os.PathLike[str]) -> bool:
    """Whether `spec` names a model that was not trained here: files of other makers, or a model on the hub."""
    from model.pretrained.sources import is_hub_name

    text = os.fspath(spec)
    path = Path(text).expanduser()
    if os.path.lexists(path) and not path.is_dir():
        return path.suffix in (".gguf", ".pt", ".pth", ".ckpt")
    if path.is_dir():
        config = path / "config.json"
        if config.is_file():
            return _is_of_transformers(config)
        alone = (path / "ckpt.pt", path / "adapter_config.json")
        return any(file.is_file() for file in alone) or any(path.glob("*.gguf"))
    if not is_hub_name(text) or "@" in text:
        return False
    try:
        find_run(text)
    except RunNotFoundError:
        return "/" in text or text in HUB_MODELS
    return False


def _is_of_transformers(path: Path) -> bool:
    try:
        config = read_json(path)
    except ValueError:
        return False
    return isinstance(config, dict) and ("model_type" in config or "architectures" in config)


def describe_model(spec: str | os.PathLike[str]) -> Any:
    """What opening a pretrained model takes: `model.pretrained.Description`, from its config alone.

    None for GGUF and nanoGPT's files, which keep their config with the weights. Raises PretrainedError as opening does.
    """
    from model.pretrained import describe_pretrained

    return describe_pretrained(spec)


def read_tokenizer(path: Path) -> Any:
    """The tokenizer that a run or a folder keeps, trained here or come along with a pretrained model."""
    from lab.tokenizers import load_tokenizer
    from model.pretrained.tokenizer import KINDS, load

    try:
        data = read_json(path)
    except ValueError:
        data = None
    return load(data) if isinstance(data, dict) and data.get("kind") in KINDS else load_tokenizer(path)


def save_as_run(model: GPT, path: str | os.PathLike[str], *, corpus: str = "elsewhere", step: int = 0) -> Run:
    """Keep a model that was trained elsewhere as a run, which every command and page here opens.

    corpus: what to note as its data; step: the step its weights are from. Raises RunExistsError where a run is.
    """
    folder = Path(path)
    run = Run(folder)
    training = {"steps": max(step, 1), "warmup_steps": 0}
    data = {"corpus": corpus}
    run.create({"schema_version": SCHEMA_VERSION, "model": model.config.to_dict(), "data": data, "training": training})
    metadata = {}
    if model.tokenizer is not None:
        model.tokenizer.save(folder / "tokenizer.json")
        metadata["tokenizer_sha256"] = model.tokenizer.sha256
    checkpoint = folder / "checkpoints" / f"step_{step:06d}"
    checkpoint.mkdir(parents=True)
    save_weights(model, checkpoint / WEIGHTS, metadata)
    run.event("imported", corpus=corpus)
    run.write_status("done", step, max(step, 1))
    return run


def _locate(spec: str | os.PathLike[str]) -> tuple[Path, dict[str, Any], Path]:
    """(folder with the weights, the model's config, where the tokenizer would be)."""
    text = os.fspath(spec)
    path = Path(text).expanduser()
    name, at, step = text.rpartition("@")
    if at and not path.exists():
        run = find_run(name)
        return run.checkpoint_path(step), _model_config(run.path), run.path / "tokenizer.json"
    if (path / WEIGHTS).is_file():
        home = path if (path / "config.json").is_file() else path.parent.parent  # a checkpoint: runs/x/checkpoints/step
        return path, _model_config(home), home / "tokenizer.json"
    if path.is_file():
        raise ModelFileError(f"{path} is a file; give the folder of a run, of a checkpoint or of a model")
    try:
        run = find_run(text)
    except RunNotFoundError:
        if path.is_dir():
            raise RunNotFoundError(f"{path} holds neither a run (config.json) nor weights ({WEIGHTS})") from None
        raise
    checkpoint = run.checkpoint_path()
    _mention_newer(checkpoint)
    return checkpoint, _model_config(run.path), run.path / "tokenizer.json"


def _mention_newer(checkpoint: Path) -> None:
    """Warn of newer checkpoints that hold no weights and were passed over."""
    empty = [
        folder.name
        for folder in sorted(checkpoint.parent.glob("step_*"))
        if folder.name > checkpoint.name and folder_step(folder.name) and not (folder / WEIGHTS).is_file()
    ]
    if empty:
        warnings.warn(
            f"{checkpoint.parent / empty[-1]} holds no weights ({WEIGHTS}): {checkpoint.name} is opened instead.",
            stacklevel=4,
        )


def _model_config(folder: Path) -> dict[str, Any]:
    """The model's part of config.json: of a run, or of a folder that holds a model alone."""
    path = folder / "config.json"
    if not path.is_file():
        raise RunNotFoundError(f"there is no config.json in {folder}, so the shape of the model is unknown")
    config = read_json(path)
    version = config.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ModelFileError(
            f"{path} has schema_version {version!r}; this program reads {SCHEMA_VERSION}: a newer Residual Lab wrote it"
        )
    return config["model"] if isinstance(config.get("model"), dict) else config


def save_weights(model: GPT, path: Path, metadata: Mapping[str, str]) -> None:
    """Write the weights as safetensors; a tied matrix once, noted in the metadata. Raises OSError naming `path`."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {
        name.replace(COMPILED, ""): tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    tied = {"tied": json.dumps({"unembed.weight": "embed.weight"})} if model.config.tie_word_embeddings else {}
    try:
        save_file(tensors, path, metadata={"format": "pt", **tied, **metadata})
    except SafetensorError as error:  # safetensors reports a full disk this way
        raise OSError(f"could not write {path}: {error}") from error
    _sort_metadata(path)


def _sort_metadata(path: Path) -> None:
    """Put a safetensors file's notes in order: they are written in no order, so equal weights would differ in bytes."""
    with path.open("rb+") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        notes = header.pop("__metadata__")
        sorted_ = {"__metadata__": dict(sorted(notes.items())), **header}
        text = json.dumps(sorted_, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) <= size:
            file.seek(8)
            file.write(text.ljust(size))


def load_weights(model: GPT, path: Path, *, cast: bool = True) -> dict[str, str]:
    """Fill `model` from a safetensors file, every tensor or none; returns the file's metadata.

    cast: let the model take the file's own precision, where that is one; else another than the model's is refused.
    Raises ModelFileError naming the first tensor that is missing, unknown, or of another shape or type;
    FileNotFoundError.
    """
    from safetensors import SafetensorError, safe_open

    from model.pretrained.files import require_regular

    if not path.exists():
        raise RunNotFoundError(f"there are no weights at {path}")
    require_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    own = model.state_dict()
    if model.config.tie_word_embeddings and "unembed.weight" in tensors:
        raise ModelFileError(
            f"{path} holds an unembedding of its own (unembed.weight), but the config ties it to the embedding; "
            "set tie_word_embeddings to false to load it"
        )
    if "unembed.weight" in own and "unembed.weight" not in tensors and "embed.weight" in tensors:
        raise ModelFileError(
            f"{path} holds tied embeddings (no unembed.weight), but the config unties them; "
            "set tie_word_embeddings to true to load it"
        )
    for what, names in (("lacks", own.keys() - tensors.keys()), ("has an unknown", tensors.keys() - own.keys())):
        if names:
            raise ModelFileError(f"{path} {what} tensor {min(names)!r} ({len(names)} in all)")
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ModelFileError(f"{path}: {name} is {tensor.dtype}, and no weights: the file was changed")
        if tensor.shape != own[name].shape:
            raise ModelFileError(
                f"{path}: {name} has shape {tuple(tensor.shape)}, but the config makes it {tuple(own[name].shape)}"
            )
    dtypes = {tensor.dtype: name for name, tensor in tensors.items()}
    wanted = next(iter(own.values())).dtype
    if len(dtypes) > 1 or not (dtypes.keys() == {wanted} or (cast and next(iter(dtypes)).is_floating_point)):
        dtype, name = next((dtype, name) for dtype, name in dtypes.items() if dtype != wanted)
        raise ModelFileError(f"{path}: {name} is {dtype}, where {wanted} was written; it is another file, or damaged")
    model.to(dtype=next(iter(dtypes)))
    model.load_state_dict(tensors)
    return metadata


def require_written(path: Path) -> None:
    """Raise ModelFileError for weights that are not those their checkpoint was written with."""
    try:
        require_digest(path)
    except ValueError as error:
        raise ModelFileError(str(error)) from error


def require_finite(model: GPT, source: Path) -> None:
    """Raise ModelFileError naming the first weight tensor that holds NaN or infinity."""
    import torch

    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise ModelFileError(
                f"the weights in {source} are not finite ({name} holds NaN or infinity): the training diverged. "
                "Open an earlier checkpoint"
            )


def newest_run() -> Run | None:
    """The run that changed last and has a checkpoint, or None."""
    from lab.runs import list_runs

    return next((run for run in list_runs() if run.checkpoints()), None)
