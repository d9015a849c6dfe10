"""From a name or a folder to the files of one model. A local folder never causes a look at the network."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from model.pretrained.files import PretrainedError, read_json, read_object, require_regular

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
BIN = "pytorch_model.bin"
BIN_INDEX = "pytorch_model.bin.index.json"
ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")

TELL_SECONDS = 0.25

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")
_SHARD = re.compile(r".*-(\d{5})-of-(\d{5})\.(safetensors|bin)")
_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_SMALL_FILES = ["*.json", "*.txt", "tokenizer.model", "*.tiktoken"]

Kind = Literal["safetensors", "bin", "gguf", "nanogpt"]


@dataclass(frozen=True)
class Source:
    """The files of one model.

    name: as it was asked for. config: config.json (None where the weights' own file holds it: GGUF, nanoGPT).
    index: tensor name -> file name, for weights in several files that say so.
    adapter: the folder of an adapter (LoRA) that belongs on these weights.
    """

    name: str
    folder: Path
    kind: Kind
    weights: tuple[Path, ...]
    config: dict[str, Any] | None
    index: dict[str, str] | None = None
    adapter: Path | None = None


def is_hub_name(name: str) -> bool:
    """Whether a name could be a model on the hub, and is no path to something here."""
    if not _HUB_NAME.fullmatch(name) or Path(name).exists():
        return False
    owner, slash, _ = name.partition("/")
    return not (slash and Path(owner).is_dir())


def locate(
    name: str | os.PathLike[str], *, weights: bool = True, on_download: Callable[[int, int], None] | None = None
) -> Source:
    """Find a model's files; download them when ``name`` is on the hub. ``weights=False``: its config is enough.

    on_download: called with (bytes fetched, bytes known of) during a download.
    Raises PretrainedError: nothing there, no weights, no config, damaged JSON, no network.
    """
    text = os.fspath(name)
    path = Path(text).expanduser()
    if os.path.lexists(path) and not path.is_dir():
        return _of_file(text, path)
    if not path.is_dir():
        if not is_hub_name(text):
            raise PretrainedError(f"There is no folder {text}, and it is no name of a model on the hub.")
        path = download(text, weights=weights, on_download=on_download)
    return _of_folder(text, path, weights)


def _of_file(name: str, path: Path) -> Source:
    require_regular(path)
    if path.suffix == ".gguf":
        return Source(name, path.parent, "gguf", (path,), None)
    if path.suffix in (".pt", ".pth", ".ckpt"):
        return Source(name, path.parent, "nanogpt", (path,), None)
    raise PretrainedError(f"{path} is a file; give the folder it is in, a nanoGPT checkpoint (.pt) or a .gguf file.")


def _of_folder(name: str, folder: Path, weights: bool) -> Source:
    config_path = folder / "config.json"
    if not _there(config_path):
        if _there(folder / ADAPTER):
            return _of_adapter(name, folder, weights)
        gguf = _gguf(folder)
        if gguf is not None:
            return Source(name, folder, "gguf", (gguf,), None)
        if _there(folder / "ckpt.pt"):
            return Source(name, folder, "nanogpt", (folder / "ckpt.pt",), None)
        raise PretrainedError(f"{folder} holds no model: there is no config.json in it.")
    config = read_object(config_path)
    kind, files, index = _weight_files(folder)
    if weights and not files:
        gguf = _gguf(folder)
        if gguf is not None:
            return Source(name, folder, "gguf", (gguf,), None)
        if _there(folder / ADAPTER):
            return _of_adapter(name, folder, weights)
        raise PretrainedError(f"{folder} holds a config but no weights ({WEIGHTS} or {BIN}).")
    return Source(name, folder, kind, files, config, index, folder if _there(folder / ADAPTER) else None)


def _of_adapter(name: str, folder: Path, weights: bool) -> Source:
    """An adapter alone, on the base model that it names, where that is a folder on this machine."""
    base = read_object(folder / ADAPTER).get("base_model_name_or_path")
    mend = f"Save the base model's config.json and weights into {folder}, or merge it with peft (merge_and_unload)"
    if not isinstance(base, str) or not base:
        raise PretrainedError(f"{folder} holds an adapter alone ({ADAPTER}), and names no base model. {mend}.")
    path = Path(base).expanduser()
    if not (path / "config.json").is_file():
        raise PretrainedError(
            f"{folder} holds an adapter alone ({ADAPTER}); its base model {base!r} is no model's folder here. {mend}."
        )
    source = _of_folder(name, path, weights)
    if source.adapter is not None or source.kind == "gguf":
        what = "is a GGUF file" if source.kind == "gguf" else "has an adapter of its own"
        raise PretrainedError(f"{folder} holds an adapter on {path}, which {what}. {mend}.")
    return replace(source, adapter=folder)


def _there(path: Path) -> bool:
    """Whether something has this name; it must then be a regular file that may be read."""
    if not os.path.lexists(path):
        return False
    require_regular(path)
    return True


def _gguf(folder: Path) -> Path | None:
    """The GGUF file of a folder: the only one, or the first part of one that was split."""
    found = sorted(folder.glob("*.gguf"))
    first = [p for p in found if (m := _SPLIT.fullmatch(p.name)) is None or int(m[2]) == 1] or found[:1]
    if len(first) > 1:
        listed = ", ".join(p.name for p in first)
        raise PretrainedError(f"{folder} holds several GGUF files ({listed}); name one of them.")
    return first[0] if first else None


def _weight_files(folder: Path) -> tuple[Kind, tuple[Path, ...], dict[str, str] | None]:
    """safetensors before .bin, one file before several."""
    choices: tuple[tuple[Kind, str, str], ...] = (("safetensors", WEIGHTS, INDEX), ("bin", BIN, BIN_INDEX))
    for kind, single, index in choices:
        if _there(folder / single):
            return kind, (folder / single,), None
        if _there(folder / index):
            return kind, *_indexed(folder, folder / index)
        found = [p for p in sorted(folder.glob(f"*{Path(single).suffix}")) if p.name not in ADAPTER_WEIGHTS]
        shards = [p for p in found if _SHARD.fullmatch(p.name)]
        if shards:
            _require_whole(folder, shards)
            return kind, tuple(shards), None
        others = [p for p in found if p.stem != "training_args"]
        if len(others) == 1 and kind == "safetensors":
            return kind, (others[0],), None
    return "safetensors", (), None


def _indexed(folder: Path, path: Path) -> tuple[tuple[Path, ...], dict[str, str]]:
    content = read_json(path)
    index = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(index, dict) or not index or not all(isinstance(v, str) for v in index.values()):
        raise PretrainedError(f"{path} has no weight_map that says which tensor is in which file.")
    names = sorted(set(index.values()))
    for name in names:
        if Path(name).name != name:
            raise PretrainedError(f"{path} points out of its folder, to {name!r}.")
        if not _there(folder / name):
            raise PretrainedError(f"{folder} lacks {name}, which {path.name} lists.")
    return tuple(folder / name for name in names), index


def _require_whole(folder: Path, shards: list[Path]) -> None:
    matches = [m for m in (_SHARD.fullmatch(p.name) for p in shards) if m]
    total = int(matches[0][2])
    present = {int(m[1]) for m in matches}
    absent = [n for n in range(1, total + 1) if n not in present]
    if {int(m[2]) for m in matches} != {total}:
        raise PretrainedError(f"{folder} holds parts of several models ({shards[0].name}, {shards[-1].name}).")
    if absent:
        raise PretrainedError(
            f"{folder} holds {len(present)} of the {total} files of its weights; part {absent[0]} is missing."
        )


# --- the hub ---------------------------------------------------------------------------------------------------


def download(name: str, *, weights: bool = True, on_download: Callable[[int, int], None] | None = None) -> Path:
    """The folder of the hub's model in the local cache, downloaded where it is not there yet.

    With huggingface_hub's progress bars; or `on_download` hears (bytes fetched, bytes known of) in the calling thread.
    Obeys HF_HUB_OFFLINE, HF_HOME and the other settings of huggingface_hub.
    """
    import huggingface_hub
    from huggingface_hub import errors

    def fetch(patterns: list[str]) -> Path:
        wanted: dict[str, Any] = {"allow_patterns": patterns, "ignore_patterns": ["*/*"]}
        if on_download is None:
            return Path(huggingface_hub.snapshot_download(name, **wanted))
        return Path(_told(on_download, lambda bar: huggingface_hub.snapshot_download(name, tqdm_class=bar, **wanted)))

    try:
        folder = fetch(_SMALL_FILES + (["*.safetensors"] if weights else []))
        if weights and not _has_weights(folder):
            folder = fetch([*_SMALL_FILES, "pytorch_model*.bin"])
    except errors.GatedRepoError:
        raise PretrainedError(
            f"{name} is gated: accept its licence on the hub's page, and log in with `hf auth login`."
        ) from None
    except errors.RepositoryNotFoundError:
        raise PretrainedError(f"There is no model {name!r} on the hub that you may read, and no folder here.") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise PretrainedError(_offline(name, error)) from None
    except errors.HfHubHTTPError as error:  # an OSError too
        raise PretrainedError(f"The hub refused {name!r}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise PretrainedError(_offline(name, error)) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpcore", "requests", "urllib3"):
            raise
        raise PretrainedError(_offline(name, error)) from None
    if weights and not _has_weights(folder):
        raise PretrainedError(f"{_offline(name, None)} The cache holds its config, but no weights.")
    return folder


def _has_weights(folder: Path) -> bool:
    return bool(_weight_files(folder)[1]) or (folder / ADAPTER).exists()


def _told(on_download: Callable[[int, int], None], fetch: Callable[[type], str]) -> str:
    """What ``fetch`` returns, given a class of progress bars whose bytes are told here while it runs.

    The hub moves its bars from threads of its own, where an app may not draw: they count, this thread tells.
    """
    from huggingface_hub.utils import tqdm

    bars: list[Any] = []

    class Counted(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(kwargs | {"disable": False, "file": io.StringIO()}))
            bars.append(self)

    def tell() -> None:
        # Bytes from the network; files whole (unit "it") and bytes written are counted by bars of their own.
        found = max(((bar.n, bar.total or 0) for bar in list(bars) if bar.unit == "B"), default=None)
        if found is not None and found[0]:
            on_download(int(found[0]), int(max(found)))

    pool = ThreadPoolExecutor(1, thread_name_prefix="download")
    try:
        future = pool.submit(fetch, Counted)
        while not wait([future], timeout=TELL_SECONDS).done:
            tell()
        folder = future.result()
        tell()
        return folder
    finally:
        pool.shutdown(wait=False)


def _offline(name: str, error: Exception | None) -> str:
    from huggingface_hub import constants

    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub cannot be reached"
    if isinstance(error, OSError) and error.errno is not None and "hub" in why and error.strerror:
        why = f"{why} ({error.strerror})" if not constants.HF_HUB_OFFLINE else why
    return (
        f"{name!r} is no folder here and not in the download cache, and {why}: "
        "give a local folder, or go online once to download it."
    )
