"""Who works on which job: one worker a job, on one machine or on many that share a folder.

A claim is a folder, signed first and then renamed to the job's name, which one of several succeeds at. Its owner
rewrites it every few seconds; a claim whose owner is dead (same machine) or silent (another one) is taken over. Taking
over renames the old claim to a name made of its owner's token: that, too, one of several succeeds at, and never with
somebody else's claim. How long an owner has been silent is told by the file system's clock alone: two machines' clocks
may differ by minutes.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.runs import process_identity, read_json, write_json
from lab.studies.definition import StudyError
from lab.studies.folder import StudyFolder

BEAT_SECONDS = 3.0
_TOKEN = re.compile("[0-9a-f]{1,64}")
STALE_SECONDS = 60.0  # of silence, after which a worker of another machine is taken for dead


class ClaimLost(Exception):
    """This process was silent for so long that somebody else has taken its job over."""


class Claim:
    """A job held by this process: `with claim:` beats until the end and lets go of the job, done or not.

    start: the step of the run's newest checkpoint when the job was taken. lost: somebody else has taken the job over;
    nothing may be written for it any more.
    """

    def __init__(self, path: Path, token: str, start: int):
        self.path, self.token, self.start, self.lost = path, token, start, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"claim-{path.name}", daemon=True)

    def write(self) -> None:
        record = {
            "token": self.token,
            "start": self.start,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process": process_identity(os.getpid()),
        }
        write_json(self.path / "owner.json", record, durable=False)

    def check(self) -> None:
        """Raise ClaimLost if somebody else holds the job now."""
        found = _owner(self.path)
        self.lost = self.lost or (found is not None and found["token"] != self.token)
        if self.lost:
            raise ClaimLost(f"{self.path.name} was taken over by another worker while this one was silent")

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError):  # a full disk stops the run itself, with its own sentence
                try:
                    self.check()
                except ClaimLost:
                    return
                self.write()

    def __enter__(self) -> Claim:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self.release()

    def release(self) -> None:
        """Let go of the job, if it is still ours."""
        with contextlib.suppress(OSError, ClaimLost):
            self.check()
            (self.path / "owner.json").unlink(missing_ok=True)
            self.path.rmdir()


def claim(folder: StudyFolder, job: str, *, start: int = 0, now: float | None = None) -> Claim | None:
    """Take a job; None when somebody works on it. Raises StudyError where something else stands in its place.

    start: see `Claim`. now: the file system's time in seconds since 1970, for tests.
    """
    path = folder.path / "claims" / job
    if path.exists() and not path.is_dir():
        raise StudyError(f"{path} should be a folder, which tells who makes that run. Delete it.")
    token = secrets.token_hex(8)
    signed = path.with_name(f".new-{token}")
    signed.mkdir(parents=True)
    try:
        Claim(signed, token, start).write()
        for attempt in range(2):
            try:
                signed.rename(path)  # onto a claim that is there, and signed, this fails
                return Claim(path, token, start)
            except OSError:
                old = _owner(path)
                if attempt or not path.is_dir():
                    break
                if old is None:
                    with contextlib.suppress(OSError):
                        path.rmdir()  # left by somebody who was killed while letting go of it
                elif not _stale(old, (signed / "owner.json").stat().st_mtime if now is None else now):
                    break
                else:
                    try:
                        path.rename(path.with_name(f".{job}-{old['token']}"))
                    except OSError:  # somebody was quicker
                        break
    finally:
        if signed.is_dir():
            with contextlib.suppress(OSError):
                (signed / "owner.json").unlink(missing_ok=True)
                signed.rmdir()
    return None


def died(folder: StudyFolder, job: str, start: int = 0) -> int:
    """How many workers were lost over a job that had begun at checkpoint `start` or later: claims taken over.

    A run that got on from one worker to the next has killed none of them.
    """
    lost = [_owner(path) for path in (folder.path / "claims").glob(f".{job}-*")]
    return sum(1 for found in lost if found is not None and found["start"] >= start)


def owner(folder: StudyFolder, job: str) -> dict[str, Any] | None:
    """Who holds a job now ({"host", "pid", "seen", ...}); None: nobody alive."""
    found = _owner(folder.path / "claims" / job)
    return None if found is None or _stale(found, time.time()) else found


def _owner(path: Path) -> dict[str, Any] | None:
    """The owner of a claim, with the file system's time of its last beat under "seen"; None: let go of a moment ago.

    A damaged file is of an unknown owner: who is alive writes it anew in a few seconds.
    """
    file = path / "owner.json"
    try:
        seen = file.stat().st_mtime
        found = read_json(file)
    except FileNotFoundError:
        return None
    except (ValueError, IsADirectoryError):
        found = {}
    if not _TOKEN.fullmatch(str(found.get("token"))):
        found = {"token": f"{int(seen):x}"}
    start = found.get("start")
    return found | {"seen": seen, "start": start if isinstance(start, int) else 0}


def _stale(found: dict[str, Any], now: float) -> bool:
    pid, process = found.get("pid"), found.get("process")
    if found.get("host") == socket.gethostname() and isinstance(process, str) and isinstance(pid, int):
        return process_identity(pid) != process
    return now - float(found["seen"]) > STALE_SECONDS
