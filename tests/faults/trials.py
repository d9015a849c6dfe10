"""What every kind of fault shares: a process of its own for each trial, the count of what was lost, and the tidying up.

A trial runs in a fork of a process that has imported torch already: a new interpreter would take longer than all of
the training. Each has a process group of its own, so that all of it can be killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 90.0  # seconds after which a process counts as one that hangs
MEMORY = 24 * 2**30  # bytes of addresses that a trial may use
GOOD_CODES = (0, 2, 3, 130)

_living: set[int] = set()


@dataclass
class Tally:
    """Trials of a kind of fault and what was lost in them. lost: a line for each, with how to repeat it."""

    kind: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, case: str, fault: str | None, repeat: str = "") -> None:
        """A trial: `fault` says in a few words what was lost, None that nothing was."""
        self.tried += 1
        if fault is not None:
            self.lost.append(f"{case}: {fault}{f'   [{repeat}]' if repeat else ''}")


@dataclass(frozen=True)
class Ending:
    """How a process ended. code: its exit code; None where a signal ended it. said: stdout and stderr."""

    code: int | None
    signal: int | None
    hung: bool
    said: str

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL and not self.hung

    @property
    def fault(self) -> str | None:
        """What is wrong with it for a command, whatever it was given; None: nothing."""
        last = (self.said.strip().splitlines() or [""])[-1][:200]
        if self.hung:
            return f"hangs ({PATIENCE:g} s)"
        if "Traceback (most recent call last)" in self.said:
            return f"traceback: {last}"
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        if self.code not in GOOD_CODES:
            return f"exit code {self.code}: {last}"
        return None


class Process:
    """A fork that does `call()`, exits with what that returns, and writes what it says into a file."""

    def __init__(self, call: Callable[[], int | None], log: Path):
        self.log, self._began = log, time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _child(call, log)
        with contextlib.suppress(OSError):  # both sides set it, so that neither is too early
            os.setpgid(self.pid, self.pid)
        _living.add(self.pid)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to all of it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def wait(self, patience: float = PATIENCE) -> Ending:
        """Wait for its end; killed after `patience` seconds."""
        hung = False
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - self._began > patience and not hung:
                hung = True
                self.kill()
            time.sleep(0.005)
        self.kill()  # whatever it started
        _living.discard(self.pid)
        said = self.log.read_text(encoding="utf-8", errors="replace") if self.log.is_file() else ""
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        return Ending(code, os.WTERMSIG(status) if os.WIFSIGNALED(status) else None, hung, said)


def _child(call: Callable[[], int | None], log: Path) -> None:
    """The life of a trial. Never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        _living.clear()
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(target, stream)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        with contextlib.suppress(ImportError, ValueError):
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = call() or 0
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def kill_all() -> None:
    """End every process that was begun here."""
    for pid in list(_living):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        _living.discard(pid)


def command(words: Sequence[str | os.PathLike[str]], log: Path) -> Process:
    """`residlab WORDS` as a process."""

    def call() -> int:
        from lab.cli import main

        return main([os.fspath(word) for word in words])

    return Process(call, log)


def said_by(words: Sequence[str | os.PathLike[str]], log: Path, patience: float = PATIENCE) -> Ending:
    """How `residlab WORDS` ended."""
    return command(words, log).wait(patience)


def chance(seed: int, kind: str, case: int) -> random.Random:
    """The random numbers of a trial: the same whichever trials are made beside it."""
    return random.Random(f"{seed}/{kind}/{case}")


def again(kind: str, seed: int, case: int) -> str:
    """The words that repeat a trial."""
    return f"python -m tests.faults --only {kind} --seed {seed} --case {case}"


def cases(n: int, only: int | None) -> range:
    """The numbers of the trials to be made: all, or a single one."""
    return range(n) if only is None else range(only, only + 1)
