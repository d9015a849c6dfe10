"""A run is a folder; this module reads it, asks it to pause or stop, and lists the runs under a root.

runs/<id>/
  config.json       the resolved configuration, every default written out, with its schema_version
  provenance.json   commit, package versions, hardware, corpus and tokenizer hashes, command line
  tokenizer.json
  metrics.jsonl     a line per logged step      dynamics.jsonl   a line per checkpoint
  samples.jsonl     step, prompt, text          events.jsonl     start, resume, checkpoint, pause, stop,
  diverged, ... status.json       state, step, max_steps, pid, heartbeat, error (replaced atomically)
  best.json         step and val_loss of the best checkpoint so far
  control/          stop, pause: empty files the trainer looks for at every step
  checkpoints/step_000500/   model.safetensors, optimizer.safetensors, state.json
  log.txt           what a detached trainer printed

Nothing here imports torch: an app or a command line may list a thousand runs without it.
"""

import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs.files import append_line, read_json, read_lines, write_json
from lab.runs.process import RunLock, process_identity, process_record

if TYPE_CHECKING:
    from lab.tokenizers import Tokenizer

STATES = ("queued", "running", "paused", "stopped", "done", "diverged", "failed")
ACTIVE_STATES = ("queued", "running", "paused")
CONTROLS = ("stop", "pause")
MODELS = "models"

ENDED_SILENTLY = "the process ended without saying so"
START_GRACE = 60.0  # seconds a queued run may take until its process has written its own number down
REMOTE_GRACE = 120.0  # seconds without a heartbeat after which a run of another machine is taken for dead

_STEP_FOLDER = re.compile(r"step_(\d{6,})")
_ID_PART = re.compile(r"\w[\w.\-]{0,99}")


class RunExistsError(FileExistsError):
    """The folder already holds a run; nothing is ever overwritten."""


class RunNotFoundError(FileNotFoundError):
    """No run there."""


@dataclass(frozen=True)
class RunStatus:
    """What a run is doing. `state` is one of STATES; times are in seconds.

    A run whose file says it is active, but whose process is gone, reads as `stopped` with ENDED_SILENTLY as
    its error.
    """

    state: str
    step: int
    max_steps: int
    pid: int | None
    heartbeat: float | None  # seconds since 1970 of the trainer's last sign of life
    error: str | None
    alive: bool
    seconds_since_update: float | None

    @property
    def active(self) -> bool:
        """Queued, running or paused, with a living process."""
        return self.alive and self.state in ACTIVE_STATES

    @property
    def resumable(self) -> bool:
        """Whether training can go on from here: paused, or ended before its last step without diverging."""
        return self.state in ("paused", "stopped", "failed")


def _alive(status: dict[str, Any]) -> bool:
    heartbeat = status.get("heartbeat") or 0.0
    pid = status.get("pid")
    if pid is None:
        return status.get("state") == "queued" and time.time() - heartbeat < START_GRACE
    if status.get("host") not in (None, socket.gethostname()):
        return time.time() - heartbeat < REMOTE_GRACE
    identity = process_identity(int(pid))
    return identity is not None and status.get("process") in (None, identity)


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
        return (self.path / "config.json").is_file()

    def _require(self) -> None:
        if not self.exists():
            raise RunNotFoundError(f"there is no run at {self.path} (no config.json in it)")

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Any]:
        """config.json; `lab.training.RunConfig.from_dict` makes a typed configuration of it."""
        self._require()
        return read_json(self.path / "config.json")

    @property
    def provenance(self) -> dict[str, Any]:
        """provenance.json, or {} until the trainer has written it."""
        path = self.path / "provenance.json"
        return read_json(path) if path.is_file() else {}

    def tokenizer(self) -> "Tokenizer":
        """The run's own tokenizer. Raises FileNotFoundError until the trainer has written it."""
        from lab.tokenizers import load_tokenizer
        from model.pretrained import tokenizer as pretrained

        path = self.path / "tokenizer.json"
        data = read_json(path)
        return pretrained.load(data) if data.get("kind") in pretrained.KINDS else load_tokenizer(path)

    # --- how it goes ----------------------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """The state now, with the liveness of its process checked."""
        self._require()
        path = self.path / "status.json"
        try:
            raw = read_json(path) if path.is_file() else {}
        except ValueError as damage:  # one damaged file must not hide a whole folder of runs
            raw = {"state": "failed", "error": str(damage), "max_steps": 1}
        heartbeat = raw.get("heartbeat")
        state, error = raw.get("state", "stopped"), raw.get("error")
        alive = state in ACTIVE_STATES and _alive(raw)
        if state in ACTIVE_STATES and not alive:
            state, error = "stopped", ENDED_SILENTLY
        return RunStatus(
            state=state,
            step=int(raw.get("step") or 0),
            max_steps=int(raw.get("max_steps") or self.config.get("training", {}).get("steps", 0)),
            pid=raw.get("pid"),
            heartbeat=heartbeat,
            error=error,
            alive=alive,
            seconds_since_update=None if heartbeat is None else max(0.0, time.time() - heartbeat),
        )

    def metrics(self) -> list[dict[str, Any]]:
        """metrics.jsonl: step, tokens, seconds, wall_seconds, train_loss, val_loss, val_bpb, lr, grad_norm, clipped."""
        return read_lines(self.path / "metrics.jsonl")

    def dynamics(self) -> list[dict[str, Any]]:
        """dynamics.jsonl: per-layer norms and per-head scores at each checkpoint."""
        return read_lines(self.path / "dynamics.jsonl")

    def samples(self) -> list[dict[str, Any]]:
        return read_lines(self.path / "samples.jsonl")

    def events(self) -> list[dict[str, Any]]:
        return read_lines(self.path / "events.jsonl")

    def log(self, lines: int = 200) -> str:
        """The last lines of what a detached trainer printed ("" where nothing was)."""
        path = self.path / "log.txt"
        if not path.is_file():
            return ""
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def best(self) -> dict[str, Any] | None:
        """{"step", "val_loss"} of the checkpoint with the lowest validation loss, None before the first."""
        path = self.path / "best.json"
        return read_json(path) if path.is_file() else None

    def checkpoints(self) -> list[int]:
        """The steps of the whole checkpoints on disk, ascending."""
        folder = self.path / "checkpoints"
        if not folder.is_dir():
            return []
        matches = ((entry, _STEP_FOLDER.fullmatch(entry.name)) for entry in folder.iterdir())
        return sorted(int(m.group(1)) for entry, m in matches if m and (entry / "model.safetensors").is_file())

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


def runs_root() -> Path:
    """Where runs live: $RESIDLAB_RUNS, or ./runs."""
    return Path(os.environ.get("RESIDLAB_RUNS") or "runs")


def models_folder() -> Path:
    """Where folders with models that were trained elsewhere may lie, below the runs; none of them is a run."""
    return runs_root() / MODELS


def run_path(run_id: str, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the run called `run_id` below `root`.

    Raises ValueError for a name that could leave it.
    """
    parts = run_id.split("/")
    if not run_id or not all(_ID_PART.fullmatch(part) for part in parts):
        raise ValueError(
            f'"{run_id}" cannot be the name of a run: use letters, digits, dots, hyphens and underscores, '
            "beginning with a letter or digit"
        )
    base = Path(root) if root is not None else runs_root()
    path = base.joinpath(*parts)
    if not path.resolve().is_relative_to(base.resolve()):
        raise ValueError(f'"{run_id}" leads out of {base} (through a link)')
    return path


def fresh_run_path(stem: str, root: str | os.PathLike[str] | None = None) -> Path:
    """A path below `root` that no run uses: `stem`, else `stem`-2, `stem`-3, ..."""
    number = 1
    while (path := run_path(stem if number == 1 else f"{stem}-{number}", root)).exists():
        number += 1
    return path


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return
    for entry in entries:
        if (entry / "config.json").is_file():
            yield entry
        elif depth > 1 and not entry.is_symlink():
            yield from _run_folders(entry, depth - 1)


def list_runs(root: str | os.PathLike[str] | None = None, *, depth: int = 3) -> list[Run]:
    """Every run below `root` (also study/arm/run), the one that changed last first.

    [] where there is no root.
    """
    base = Path(root) if root is not None else runs_root()
    kept_apart = base / MODELS
    runs = [Run(path) for path in _run_folders(base, depth) if kept_apart not in path.parents]

    def changed(run: Run) -> float:
        status = run.path / "status.json"
        try:
            return (status if status.exists() else run.path).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    return sorted(runs, key=changed, reverse=True)


def find_run(name: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Run:
    """The run at a path, or of that id below the root. Raises RunNotFoundError with the nearest ids."""
    import difflib

    run = Run(name)
    if run.exists():
        return run
    base = Path(root) if root is not None else runs_root()
    below = Run(base / str(name))
    if not Path(name).is_absolute() and below.exists():
        return below
    near = difflib.get_close_matches(Path(name).name, [r.id for r in list_runs(base)], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise RunNotFoundError(f"there is no run at {name}{hint}")
