"""Is that process still the one that wrote its number down? And: one trainer at a time in a folder."""

import errno
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import IO

from lab.runs.files import require_regular, to_json


class RunBusyError(OSError):
    """Another process is training in this run folder."""


def process_identity(pid: int) -> str | None:
    """A string that no other process on this machine ever shares with the living process `pid`; None when it
    is dead.

    A process number alone is not enough: numbers are reused. Linux: boot id and start tick (neither moves
    when the clock is set). Elsewhere psutil's creation time. A zombie (dead, not yet collected by its
    parent) counts as dead.
    """
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # the command name, field 2, is in parentheses and may hold spaces: count from its closing one
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        if fields[0] in ("Z", "X"):
            return None
        boot = Path("/proc/sys/kernel/random/boot_id")
        return f"{boot.read_text().strip() if boot.exists() else 'boot'}:{fields[19]}"
    import psutil  # not Linux

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"created:{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def process_record() -> dict[str, object]:
    """What this process writes into status.json so that others can tell later whether it lives."""
    return {"pid": os.getpid(), "process": process_identity(os.getpid()), "host": socket.gethostname()}


class RunLock:
    """Holds a run folder for one trainer; the operating system lets go of it when the process ends, however
    it ends.

    with RunLock(folder): ...     raises RunBusyError naming the holder when another process has it.
    """

    def __init__(self, folder: Path):
        self.path = folder / "lock"
        self._file: IO[str] | None = None

    def acquire(self) -> "RunLock":
        if self.path.exists():
            require_regular(self.path)
        file = self.path.open("a+", encoding="utf-8")
        try:
            _lock_file(file)
        except OSError as error:
            with file:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise OSError(error.errno, f"{error.strerror}, while locking", str(self.path)) from error
                file.seek(0)
                holder = file.read().strip()
            raise RunBusyError(
                f"{self.path.parent} is being trained by another process ({holder or 'unknown'}); "
                "stop that one first, or choose another run folder"
            ) from error
        file.seek(0)
        file.truncate()
        file.write(to_json(process_record()))
        file.flush()
        self._file = file
        return self

    def release(self) -> None:
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.close()  # lets the lock go; the empty file stays, so that all lock the same one
            self._file = None

    def __enter__(self) -> "RunLock":
        return self if self._file is not None else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _lock_file(file: IO[str]) -> None:
    """Take an exclusive lock on an open file without waiting; OSError when somebody has it."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
