"""What a run is doing, read from its status.json; whatever stands in that file, the answer is a status."""

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab.runs.files import read_json, reason, typed, written
from lab.runs.process import process_identity

STATES = ("queued", "running", "paused", "stopped", "done", "diverged", "failed")
ACTIVE_STATES = ("queued", "running", "paused")

ENDED_SILENTLY = "the process ended without saying so"
START_GRACE = 60.0  # seconds a queued run may take until its process has written its own number down
REMOTE_GRACE = 120.0  # seconds without a heartbeat after which a process that cannot be looked up is taken for dead


@dataclass(frozen=True)
class RunStatus:
    """What a run is doing. `state` is one of STATES; times are in seconds.

    A run whose file says it is active, but whose process is gone, reads as `stopped` with ENDED_SILENTLY as
    its error. A run whose status.json is damaged or cannot be read is `failed` with a sentence as its error.
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


def read_status(folder: Path) -> RunStatus:
    """The status of the run in a folder, with the liveness of its process checked. Never raises for a damaged file."""
    path = folder / "status.json"
    try:
        return _status(_record(path), folder)
    except (OSError, ValueError) as damage:  # one damaged file must not hide a whole folder of runs
        return RunStatus(
            state="failed",
            step=0,
            max_steps=1,
            pid=None,
            heartbeat=None,
            error=reason(damage),
            alive=False,
            seconds_since_update=None,
        )


_FIELDS: dict[str, type] = {
    "state": str,
    "step": int,
    "max_steps": int,
    "pid": int,
    "heartbeat": float,
    "error": str,
    "process": str,
    "host": str,
}


def _record(path: Path) -> Mapping[str, Any]:
    """The fields of status.json, each of its kind; {} where there is no file. Raises ValueError or OSError."""
    stamp = written(path)
    return {} if stamp is None else _read(path, stamp)


@lru_cache(maxsize=4096)
def _read(path: Path, stamp: tuple[int, ...]) -> Mapping[str, Any]:
    """`_record` of a file that is there, remembered until it changes."""
    del stamp  # part of the key
    raw = read_json(path)
    found = {name: typed(raw, path, name, kind) for name, kind in _FIELDS.items()}
    if found["state"] not in (None, *STATES):
        raise ValueError(f"{path} is damaged: state is {found['state'][:60]!r}; states are {', '.join(STATES)}")
    for name in ("step", "max_steps", "pid", "heartbeat"):
        if (found[name] or 0) < 0:
            raise ValueError(f"{path} is damaged: {name} is {found[name]}; it must not be negative")
    return MappingProxyType(found)


def _status(record: Mapping[str, Any], folder: Path) -> RunStatus:
    state, error = record.get("state") or "stopped", record.get("error")
    heartbeat, max_steps = record.get("heartbeat"), record.get("max_steps")
    alive = state in ACTIVE_STATES and _alive(record)
    if state in ACTIVE_STATES and not alive:
        state, error = "stopped", ENDED_SILENTLY
    if not max_steps:
        path = folder / "config.json"
        training = typed(read_json(path), path, "training", dict)
        max_steps = typed(training, path, "steps", int) or 0
    return RunStatus(
        state=state,
        step=record.get("step") or 0,
        max_steps=max_steps,
        pid=record.get("pid"),
        heartbeat=heartbeat,
        error=error,
        alive=alive,
        seconds_since_update=None if heartbeat is None else max(0.0, time.time() - heartbeat),
    )


def _alive(record: Mapping[str, Any]) -> bool:
    age = abs(time.time() - (record.get("heartbeat") or 0.0))  # negative where the clock was set back
    pid = record.get("pid")
    if pid is None:
        return record.get("state") == "queued" and age < START_GRACE
    if record.get("host") not in (None, socket.gethostname()):
        return age < REMOTE_GRACE
    identity = process_identity(pid)
    if record.get("process") is None:  # the number alone may be another process's by now: a sign of life is needed too
        return identity is not None and age < REMOTE_GRACE
    return bool(record["process"] == identity)
