"""A run is a folder; this module reads it, and asks it to pause or stop.

runs/<id>/
  config.json       the resolved configuration, every default written out, with its schema_version
  provenance.json   commit, package versions, hardware, corpus and tokenizer hashes, command line
  tokenizer.json
  metrics.jsonl     a line per logged step      dynamics.jsonl   a line per checkpoint
  samples.jsonl     step, prompt, text          events.jsonl     start, resume, checkpoint, pause, stop, ...
  status.json       state, step, max_steps, pid, heartbeat, error (replaced atomically)
  best.json         step and val_loss of the best checkpoint so far
  control/          stop, pause: empty files the trainer looks for at every step
  checkpoints/step_000500/   model.safetensors, optimizer.safetensors, state.json
  log.txt           what a detached trainer printed

Nothing here imports torch: an app or a command line may list a thousand runs without it.
"""

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs.files import append_line, has_kind, read_json, read_lines, typed, write_json
from lab.runs.process import RunLock, process_record
from lab.runs.status import STATES, RunStatus, read_status

if TYPE_CHECKING:
    from lab.tokenizers import Tokenizer

CONTROLS = ("stop", "pause")
MODELS = "models"

_NUMBERS = (
    "tokens", "seconds", "wall_seconds", "train_loss", "val_loss", "val_bpb", "val_task_loss", "val_accuracy", "lr",
    "muon_lr", "grad_norm", "clipped",
)  # fmt: skip
_STEP_FOLDER = re.compile(r"step_([0-9]{6,})")


class RunExistsError(FileExistsError):
    """The folder already holds a run; nothing is ever overwritten."""


class RunNotFoundError(FileNotFoundError):
    """No run there."""

    @classmethod
    def at(cls, place: str | os.PathLike[str], detail: str = " (no config.json in it)") -> "RunNotFoundError":
        """The error for a place that holds no run, with what to do about it."""
        return cls(f"there is no run at {os.fspath(place)}{detail}; `residlab runs` lists the runs")


class Run:
    """One run folder. Reading never fails on a file that is missing or being written."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.path.resolve() == other.path.resolve()

    def __hash__(self) -> int:
        return hash(self.path.resolve())

    @property
    def id(self) -> str:
        """The folder's path below the runs root, with forward slashes; its bare name elsewhere."""
        path, root = self.path.resolve(), runs_root().resolve()
        return path.relative_to(root).as_posix() if path.is_relative_to(root) and path != root else path.name

    def exists(self) -> bool:
        return os.path.isfile(self.path / "config.json")

    def _require(self) -> None:
        if not self.exists():
            raise RunNotFoundError.at(self.path)

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Any]:
        """config.json; `lab.training.RunConfig.from_dict` makes a typed configuration of it.

        Raises ValueError naming the file where it, or its part for model, data or training, is no object.
        """
        self._require()
        path = self.path / "config.json"
        config = read_json(path)
        for part in {"model", "data", "training"} & config.keys():
            typed(config, path, part, dict, needed=True)
        return config

    @property
    def provenance(self) -> dict[str, Any]:
        """provenance.json, or {} until the trainer has written it."""
        path = self.path / "provenance.json"
        return read_json(path) if os.path.isfile(path) else {}

    def tokenizer(self) -> "Tokenizer":
        """The run's own tokenizer. Raises FileNotFoundError until the trainer has written it."""
        from lab.tokenizers import load_tokenizer
        from model.pretrained import tokenizer as pretrained

        path = self.path / "tokenizer.json"
        data = read_json(path)
        return pretrained.load(data) if data.get("kind") in pretrained.KINDS else load_tokenizer(path)

    # --- how it goes ----------------------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """The state now, with the liveness of its process checked.

        A damaged or unreadable status.json is a status too: `failed`, with a sentence. Raises RunNotFoundError.
        """
        self._require()
        return read_status(self.path)

    def metrics(self) -> list[dict[str, Any]]:
        """metrics.jsonl: step, tokens, seconds, wall_seconds, train_loss, val_loss, val_bpb, lr, grad_norm, clipped."""
        return self._records("metrics", dict.fromkeys(_NUMBERS, float))

    def dynamics(self) -> list[dict[str, Any]]:
        """dynamics.jsonl: per-layer norms and per-head scores at each checkpoint."""
        return self._records("dynamics", {})

    def samples(self) -> list[dict[str, Any]]:
        """samples.jsonl: step, prompt, text, and error where nothing could be written."""
        return self._records("samples", dict.fromkeys(("prompt", "text", "error"), str))

    def events(self) -> list[dict[str, Any]]:
        """events.jsonl: event, time, and what belongs to it."""
        return [event for event in read_lines(self.path / "events.jsonl") if has_kind(event.get("event"), str)]

    def _records(self, name: str, kinds: dict[str, type]) -> list[dict[str, Any]]:
        """The lines of a file that have a step and hold what they should: a damaged one counts as half-written."""
        return [
            record
            for record in read_lines(self.path / f"{name}.jsonl")
            if has_kind(record.get("step"), int)
            and record["step"] >= 0
            and all(record.get(field) is None or has_kind(record[field], kind) for field, kind in kinds.items())
        ]

    def log(self, lines: int = 200) -> str:
        """The last lines of what a detached trainer printed ("" where nothing was)."""
        path = self.path / "log.txt"
        if not os.path.isfile(path):
            return ""
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def best(self) -> dict[str, Any] | None:
        """{"step", "val_loss"} of the checkpoint with the lowest validation loss, None before the first."""
        path = self.path / "best.json"
        if not os.path.isfile(path):
            return None
        best = read_json(path)
        typed(best, path, "step", int, needed=True)
        typed(best, path, "val_loss", float)
        return best

    def checkpoints(self) -> list[int]:
        """The steps of the whole checkpoints on disk, ascending."""
        folder = self.path / "checkpoints"
        if not folder.is_dir():
            return []
        found = ((entry, folder_step(entry.name)) for entry in folder.iterdir())
        return sorted(s for entry, s in found if s is not None and os.path.isfile(entry / "model.safetensors"))

    def checkpoint_path(self, step: int | str | None = None) -> Path:
        """The folder of a checkpoint: a step, "best", or "latest" / None. RunNotFoundError names what there is."""
        self._require()
        steps = self.checkpoints()
        wanted: int | None
        if step in (None, "latest", "last"):
            wanted = steps[-1] if steps else None
        elif step == "best":
            best = self.best()
            wanted = best["step"] if best else None
        else:
            try:
                wanted = int(step)
            except ValueError:
                raise RunNotFoundError(f'"{step}" is no checkpoint; write a step, "best" or "latest"') from None
        if wanted is None or wanted not in steps:
            have = ", ".join(map(str, steps)) or "none yet"
            raise RunNotFoundError(f"{self.path} has no checkpoint {step if step is not None else ''} (it has: {have})")
        return self.path / "checkpoints" / step_folder(wanted)

    # --- asking for something -------------------------------------------------------------------------------

    def request_pause(self) -> None:
        """Ask the trainer to save and wait.

        It waits until `request_continue`, or until it is asked to stop.
        """
        self._request("pause")

    def request_stop(self) -> None:
        """Ask the trainer to save and end."""
        self._request("stop")

    def request_continue(self) -> None:
        """Let a paused trainer go on."""
        (self.path / "control" / "pause").unlink(missing_ok=True)

    def _request(self, name: str) -> None:
        self._require()
        control = self.path / "control"
        control.mkdir(exist_ok=True)
        (control / name).touch()

    def requested(self, name: str) -> bool:
        """Whether `stop` or `pause` is asked for."""
        return os.path.exists(os.path.join(self.path, "control", name))

    def clear_requests(self) -> None:
        """Forget what was asked of an earlier process; whoever starts or resumes a run does this first."""
        for name in CONTROLS:
            (self.path / "control" / name).unlink(missing_ok=True)

    # --- writing: for the trainer and for whoever starts one ------------------------------------------------

    def create(self, config: dict[str, Any]) -> "Run":
        """Make the folder and write config.json and a `queued` status. Raises RunExistsError where a run is
        already.

        An existing folder without a run in it is used; its other files stay.
        """
        if self.exists():
            raise RunExistsError(f"{self.path} already holds a run; resume it, delete it, or choose another name")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(self.path / "config.json", config, exclusive=True)
        except FileExistsError:
            what = "already holds a run" if self.exists() else "is a file, not a folder"
            raise RunExistsError(f"{self.path} {what}; choose another name") from None
        (self.path / "control").mkdir(exist_ok=True)
        (self.path / "checkpoints").mkdir(exist_ok=True)
        self.write_status("queued", 0, config.get("training", {}).get("steps", 0), process=None)
        return self

    def write_status(
        self,
        state: str,
        step: int,
        max_steps: int,
        *,
        error: str | None = None,
        durable: bool = True,
        process: dict[str, object] | str | None = "this",
    ) -> None:
        """Replace status.json. `process` None: nobody is training it yet."""
        if state not in STATES:
            raise ValueError(f'"{state}" is no state of a run; states are {", ".join(STATES)}')
        owner = process_record() if process == "this" else process or {"pid": None}
        record = {
            "state": state,
            "step": step,
            "max_steps": max_steps,
            "error": error,
            "heartbeat": time.time(),
        }
        write_json(self.path / "status.json", record | dict(owner), durable=durable)  # type: ignore[arg-type]

    def append(self, file: str, record: dict[str, Any]) -> None:
        """Add a line to metrics, dynamics, samples or events (".jsonl" is added here)."""
        append_line(self.path / f"{file}.jsonl", record)

    def event(self, kind: str, **details: Any) -> None:
        """Note something that happened: {"event", "time" in seconds since 1970, ...details}."""
        self.append("events", {"event": kind, "time": time.time(), **details})

    def lock(self) -> RunLock:
        """Hold the folder for one trainer: `with run.lock():`. Raises RunBusyError where another has it."""
        return RunLock(self.path)


def step_folder(step: int) -> str:
    """Folder name of a checkpoint, e.g. step_000500."""
    return f"step_{step:06d}"


def folder_step(name: str) -> int | None:
    """The step whose checkpoint has this folder name; None for every other name, one with more or fewer zeros too."""
    match = _STEP_FOLDER.fullmatch(name)
    step = int(match[1]) if match else None
    return step if step is not None and step_folder(step) == name else None


def runs_root() -> Path:
    """Where runs live: $RESIDLAB_RUNS, or ./runs."""
    return Path(os.environ.get("RESIDLAB_RUNS") or "runs")


def models_folder() -> Path:
    """Where folders with models that were trained elsewhere may lie, below the runs; none of them is a run."""
    return runs_root() / MODELS
