"""Who works on which job: one worker a job, on one machine or on many that share a folder.

A claim is a folder, signed first and then renamed to the job's name, which one of several succeeds at. Its owner
rewrites a time in it every few seconds; a claim whose owner is dead (same machine) or silent (another one) is taken
over. Taking over renames the old claim to a name made of its owner's token: that, too, one of several succeeds at, and
never with somebody else's claim.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.runs import process_identity, read_json, write_json
from lab.studies.folder import StudyFolder

BEAT_SECONDS = 3.0
STALE_SECONDS = 60.0  # of silence, after which a worker of another machine is taken for dead


class Claim:
    """A job held by this process: `with claim:` beats until the end and lets go of the job, done or not."""

    def __init__(self, path: Path, token: str):
        self.path, self.token = path, token
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"claim-{path.name}", daemon=True)

    def write(self) -> None:
        record = {
            "token": self.token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process": process_identity(os.getpid()),
            "heartbeat": time.time(),
        }
        write_json(self.path / "owner.json", record, durable=False)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError):  # a full disk stops the run itself, with its own sentence
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
        """Let go of the job."""
        with contextlib.suppress(OSError):
            (self.path / "owner.json").unlink(missing_ok=True)
            self.path.rmdir()


def claim(folder: StudyFolder, job: str, *, now: float | None = None) -> Claim | None:
    """Take a job; None when somebody works on it. now: seconds since 1970, for tests."""
    path = folder.path / "claims" / job
    token = secrets.token_hex(8)
    signed = path.with_name(f".new-{token}")
    signed.mkdir()
    Claim(signed, token).write()
    for attempt in range(2):
        try:
            signed.rename(path)  # onto a claim that is there, and signed, this fails
            return Claim(path, token)
        except OSError:
            old = _owner(path)
            if attempt or old is None or not _stale(old, time.time() if now is None else now):
                break
            try:
                path.rename(path.with_name(f".{job}-{old['token']}"))
            except OSError:  # somebody was quicker
                break
    (signed / "owner.json").unlink()
    signed.rmdir()
    return None


def died(folder: StudyFolder, job: str) -> int:
    """How many workers were lost over a job: claims that had to be taken over."""
    return sum(1 for _ in (folder.path / "claims").glob(f".{job}-*"))


def owner(folder: StudyFolder, job: str) -> dict[str, Any] | None:
    """Who holds a job now ({"host", "pid", "heartbeat", ...}); None: nobody alive."""
    found = _owner(folder.path / "claims" / job)
    return None if found is None or _stale(found, time.time()) else found


def _owner(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path / "owner.json")
    except (FileNotFoundError, ValueError):  # let go of a moment ago
        return None


def _stale(found: dict[str, Any], now: float) -> bool:
    if found.get("host") == socket.gethostname() and found.get("process") is not None:
        return process_identity(int(found["pid"])) != found["process"]
    return now - float(found["heartbeat"]) > STALE_SECONDS
