"""The fault suite, small: `make faults` runs all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.__main__ import KINDS

PATIENCE = 900.0  # seconds that a kind may take on a busy machine


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost(kind: str, root: Path) -> None:
    """In a process of its own, which forks before it has threads."""
    words = [sys.executable, "-m", "tests.faults", "--only", kind, "--scale", "0.06"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith(kind))
    tried, lost = (int(word) for word in row.split()[1:3])
    assert tried >= 1 and lost == 0


def test_a_lost_trial_is_told_with_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.faults import __main__ as suite
    from tests.faults.trials import Tally, again

    def lossy(kind: str, n: int, seed: int, folder: Path, case: int | None) -> Tally:
        tally = Tally(kind)
        for number in range(n):
            tally.add(f"case {number}", "all of it" if number == 1 else None, again(kind, seed, number))
        return tally

    monkeypatch.setattr(suite, "run_kind", lossy)
    monkeypatch.setattr(suite, "warm_up", lambda: None)
    assert suite.main(["--only", "disk", "--seed", "7", "--scale", "0.25"]) == 1
    said = capsys.readouterr().out
    assert "disk                3      1" in said
    assert "disk: case 1: all of it   [python -m tests.faults --only disk --seed 7 --case 1]" in said
    assert suite.main(["--only", "disk", "--scale", "0.01"]) == 0


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda: 0, None),
        (lambda: 2, None),
        (lambda: 1, "exit code 1"),
        (lambda: 1 // 0, "traceback: ZeroDivisionError"),
        (lambda: __import__("os").abort(), "ended by signal 6"),
        (lambda: __import__("time").sleep(60), "hangs"),
    ],
)
def test_an_ending_is_judged(call: object, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.faults import trials

    ending = trials.Process(call, tmp_path / "log").wait(1.0 if fault == "hangs" else 60.0)  # type: ignore[arg-type]
    assert ending.fault == fault if fault is None else str(ending.fault).startswith(fault)
    assert not trials._living


def test_looking_at_the_checkout_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training killed while git writes its index would leave a lock that stops every later commit."""
    from lab.training import provenance

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    code, index = tmp_path / "code.py", tmp_path / ".git" / "index"
    code.write_text("x")
    git("init", "-q")
    git("add", "code.py")
    git("commit", "-q", "-m", "x")
    os.utime(code, (1, 1))  # git would note the new time in its index
    before = index.read_bytes()
    monkeypatch.setattr(provenance, "__file__", str(code))
    found = provenance._git()
    assert found is not None and found["dirty"] is False and len(str(found["commit"])) == 40
    assert index.read_bytes() == before
    git("status", "--porcelain")
    assert index.read_bytes() != before, "plain git does write it"
