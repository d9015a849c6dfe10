"""Several runs, as many at once as there is room for; the others wait on disk and start by themselves.

runs/.queue/
  <time>.json       a run that waits: {"run": its path below the root}; the names' order is the order of starting
  settings.json     {"at_once": how many threads of training may run at once}
  dispatcher.json   the process that starts them: pid and identity, as in a run's status
  lock              held by that process

The dispatcher, `python -m lab.runs.queue ROOT`, is a small process of its own: no browser tab, no app and no terminal
has to stay open for the next run to start. It ends when nobody waits, and whoever adds a run, or looks at the queue,
starts it again. After a crash of the machine the waiting runs are still in the folder and go on with that.

A run takes as many places as it has threads, and one that is paused takes none. A waiting run is `queued`; a paused one
that waits to go on stays `paused`. Stop takes a waiting run out of the queue, Pause holds it there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from lab.runs.checkpoints import require_checkpoint
from lab.runs.files import has_kind, read_json, typed, write_json
from lab.runs.folder import Run, runs_root
from lab.runs.launch import require_resumable, resume_training, spawn_trainer
from lab.runs.listing import list_statuses, run_path
from lab.runs.process import RunBusyError, RunLock, process_identity, process_record

POLL_SECONDS = 1.0
CONTINUE_GRACE = 5.0  # seconds a paused run may take until it says that it goes on
FOLDER = ".queue"
_DISPATCHER, _SETTINGS = "dispatcher.json", "settings.json"


def _folder(root: str | os.PathLike[str] | None) -> Path:
    return (Path(root) if root is not None else runs_root()) / FOLDER


def _files(root: str | os.PathLike[str] | None) -> list[Path]:
    return sorted(path for path in _folder(root).glob("*.json") if path.stem.isdigit())


def _entries(root: str | os.PathLike[str] | None) -> list[tuple[Path, Run]]:
    """The waiting runs with their files, in order, without files that are damaged or name no run of this root."""
    base = Path(root) if root is not None else runs_root()
    found = []
    for path in _files(root):
        with contextlib.suppress(OSError, ValueError):
            run = Run(run_path(str(read_json(path).get("run")), base))
            if run.exists():
                found.append((path, run))
    return found


def waiting_runs(root: str | os.PathLike[str] | None = None) -> list[Run]:
    """The runs that wait, the next one first."""
    return [run for _, run in _entries(root)]


def places(root: str | os.PathLike[str] | None = None) -> int:
    """How many threads of training may run at once: what was set, else the number of cores."""
    cores = os.cpu_count() or 1
    try:
        value: Any = read_json(_folder(root) / _SETTINGS).get("at_once")
    except (OSError, ValueError):
        return cores
    return value if has_kind(value, int) and value >= 1 else cores


def set_places(count: int, root: str | os.PathLike[str] | None = None) -> None:
    """Set how many threads of training may run at once. ValueError for fewer than one."""
    if count < 1:
        raise ValueError(f"at_once is {count}; at least one run must be able to train")
    _folder(root).mkdir(parents=True, exist_ok=True)
    write_json(_folder(root) / _SETTINGS, {"at_once": count})


def threads_of(run: Run) -> int:
    """The places a run takes."""
    try:
        value = run.config.get("training", {}).get("threads", 1)
    except (OSError, ValueError):
        return 1
    return max(1, value) if has_kind(value, int) else 1


def taken_places(root: str | os.PathLike[str] | None = None) -> int:
    """Threads of the runs that are being trained now; paused and waiting runs take none."""
    waiting = set(waiting_runs(root))
    return sum(
        threads_of(run)
        for run, status in list_statuses(root)
        if status.active and status.state != "paused" and run not in waiting
    )


def _trains(run: Run) -> bool:
    try:
        status = run.status()
    except (OSError, ValueError):  # deleted, or damaged, since it was listed
        return False
    return status.active and status.state != "paused"


def has_room(threads: int, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether a run of so many threads may start now: nobody waits, and the places suffice or are all free."""
    if waiting_runs(root):
        return False
    taken = taken_places(root)
    return taken == 0 or taken + threads <= places(root)


def enqueue(run: Run, root: str | os.PathLike[str] | None = None) -> None:
    """Let a run wait its turn: a new one, one that ended before its last step, or a paused one.

    A run that waits already keeps its turn. ValueError for one that is being trained, is done or has diverged, or lies
    outside the root.
    """
    base = Path(root) if root is not None else runs_root()
    if run in waiting_runs(root):
        return
    path = run.path.resolve()
    if not path.is_relative_to(base.resolve()):
        raise ValueError(f"{run.path} is not inside {base}; only runs in there wait for each other")
    status = run.status()
    if _trains(run) and status.pid is not None:
        raise ValueError(f"{run.path} is being trained already")
    if not status.active:
        require_resumable(run)
        require_checkpoint(run, thorough=True)
        run.clear_requests()
    if status.state != "paused" or not status.active:
        run.write_status("queued", status.step, status.max_steps, process=None)
    _folder(root).mkdir(parents=True, exist_ok=True)
    name = path.relative_to(base.resolve()).as_posix()
    write_json(_folder(root) / f"{time.time_ns():020d}.json", {"run": name}, exclusive=True)
    ensure_dispatcher(root)


def move_first(run: Run, root: str | os.PathLike[str] | None = None) -> None:
    """Make a waiting run the next one to start. ValueError where it does not wait."""
    entries = _entries(root)
    mine = next((path for path, waiting in entries if waiting == run), None)
    if mine is None:
        raise ValueError(f"{run.id} does not wait")
    first = entries[0][0]
    if first != mine:
        mine.rename(first.with_name(f"{int(first.stem) - 1:020d}.json"))


def dispatcher_alive(root: str | os.PathLike[str] | None = None) -> bool:
    """Whether the process that starts waiting runs is there."""
    try:
        record = read_json(_folder(root) / _DISPATCHER)
        identity = process_identity(typed(record, _folder(root) / _DISPATCHER, "pid", int, needed=True))
    except (OSError, ValueError):
        return False
    return identity is not None and record.get("process") == identity


def ensure_dispatcher(root: str | os.PathLike[str] | None = None) -> bool:
    """Start the dispatcher where runs wait and there is none; returns whether this call started one."""
    if not waiting_runs(root) or dispatcher_alive(root):
        return False
    base = Path(root) if root is not None else runs_root()
    project = str(Path(__file__).resolve().parents[2])
    paths = [project, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    with (_folder(root) / "log.txt").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "lab.runs.queue", str(base.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
            start_new_session=True,
        )
    _children[:] = [old for old in _children if old.poll() is None]
    _children.append(child)
    return True


_children: list[subprocess.Popen[bytes]] = []  # collected when the next one starts: else they would stay zombies


@dataclass
class Dispatcher:
    """Starts the waiting runs of a root one after another, as places become free.

    `turn` does what is due now and says whether anybody still waits.
    """

    root: Path
    _let_go: dict[Run, float] = field(default_factory=dict)

    def turn(self) -> bool:
        """Claim, hold, drop and start waiting runs."""
        files = _files(self.root)  # listed first: what is added after it is no leftover
        entries = _entries(self.root)
        for path in set(files) - {path for path, _ in entries}:
            path.unlink(missing_ok=True)  # of a run that was deleted
        for path, run in entries:
            if not self._stays(run):
                path.unlink(missing_ok=True)
        for path, run in _entries(self.root):
            if run.requested("pause") and run.status().state != "paused":
                continue  # held: the ones behind it may pass
            if not self._fits(threads_of(run)):
                break  # in order: a small one does not overtake a large one for ever
            self._start(run)
            path.unlink(missing_ok=True)
        return bool(_entries(self.root))

    def _stays(self, run: Run) -> bool:
        """Whether a run in the queue has something to wait for; a run nobody has is claimed for this process."""
        status = run.status()
        if run.requested("stop"):
            if status.state != "paused" or not status.active:
                run.write_status("stopped", status.step, status.max_steps, process=None)
                run.clear_requests()
            return False
        if status.state == "paused" and status.active:
            return True
        if status.active:
            if status.pid is None:
                run.write_status("queued", status.step, status.max_steps)
                return True
            return status.pid == os.getpid()
        if status.state == "stopped":  # claimed by a dispatcher that is no more
            run.write_status("queued", status.step, status.max_steps)
            return True
        return False  # it ended meanwhile, some other way

    def _fits(self, threads: int) -> bool:
        now = time.monotonic()
        self._let_go = {
            run: since for run, since in self._let_go.items() if now - since < CONTINUE_GRACE and not _trains(run)
        }
        taken = taken_places(self.root) + sum(threads_of(run) for run in self._let_go)
        return taken == 0 or taken + threads <= places(self.root)

    def _start(self, run: Run) -> None:
        status = run.status()
        if status.state == "paused":
            resume_training(run)
            self._let_go[run] = time.monotonic()
            return
        run.write_status("queued", status.step, status.max_steps, process=None)
        with contextlib.suppress(OSError):  # the run's own status says what went wrong
            spawn_trainer(run)


def _turned(dispatcher: Dispatcher) -> bool:
    """A turn; what the disk refuses now (it is full, a folder went) is said, and tried again at the next."""
    try:
        return dispatcher.turn()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {error}\n")
        return True


def main(words: list[str]) -> int:
    """Start waiting runs until nobody waits. A second dispatcher of the same root leaves at once."""
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m lab.runs.queue RUNS\n")
        return 2
    root = Path(words[0])

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    while waiting_runs(root):  # looked at again after letting go: a run may have been added in between
        _folder(root).mkdir(exist_ok=True)
        try:
            with RunLock(_folder(root)):
                write_json(_folder(root) / _DISPATCHER, process_record())
                try:
                    dispatcher = Dispatcher(root)
                    while _turned(dispatcher):
                        time.sleep(POLL_SECONDS)
                finally:
                    (_folder(root) / _DISPATCHER).unlink(missing_ok=True)
        except RunBusyError:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
