"""A disk that is full: one sentence and exit code 2; with room again the run goes on and ends equal to the bit.

As root the disk is a small tmpfs. Otherwise the size of each file is limited, which fails at the write just so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.faults.tiny_runs import contents, corpus, difference, go_on_words, reference
from tests.faults.trials import Process, Tally, again, cases, chance, command

STEPS = 30
_mounted: list[Path] = []


def run(n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """n sizes of a disk, from one that holds nothing to one that holds nearly all of the run."""
    tally = Tally("disk")
    whole_path = reference(folder, STEPS)
    whole = contents(whole_path)
    needed = sum(-(-file.stat().st_size // 4096) * 4096 for file in whole_path.rglob("*") if file.is_file())
    largest = max(file.stat().st_size for file in whole_path.rglob("*") if file.is_file())
    for number in cases(n, case):
        dice = chance(seed, "disk", number)
        place = folder / f"disk{number}"
        place.mkdir()
        if mount(place, size := int(needed * dice.uniform(0.02, 0.95)) // 4096 * 4096 + 8192):
            what, fault = f"a disk of {size} bytes", _small_disk(place, whole, folder, number)
        else:
            tally.notes[:] = ["no right to mount a disk: the size of files is limited instead"]
            size = int(largest * dice.uniform(0.0, 0.9))
            what, fault = f"files of {size} bytes at most", _small_files(place, size, whole, folder, number)
        unmount_all()
        tally.add(f"case {number}, {what}", fault, again("disk", seed, number))
    return tally


def mount(place: Path, size: int) -> bool:
    """Mount a disk of `size` bytes; False where that is not allowed."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        return False
    _mounted.append(place)
    return True


def unmount_all() -> None:
    """Let go of every disk that was mounted here."""
    while _mounted:
        subprocess.run(["umount", "-l", str(_mounted.pop())], capture_output=True, check=False)


def _refused(process: Process) -> str | None:
    ending = process.wait()
    if ending.fault:
        return ending.fault
    if ending.code != 2:
        return f"exit code {ending.code} on a full disk"
    lines = ending.said.strip().splitlines()
    return None if len(lines) == 1 else f"{len(lines)} lines instead of one sentence: {lines[:3]}"


def _small_disk(place: Path, whole: dict[str, Any], folder: Path, number: int) -> str | None:
    path, text, log = place / "run", corpus(folder), folder / f"disk{number}.log"
    for _ in range(2):  # the second time it is full from the start
        fault = _refused(command(go_on_words(path, text, STEPS), log))
        if fault:
            return fault
    subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True, capture_output=True)
    return _with_room(path, text, log, whole)


def _small_files(place: Path, size: int, whole: dict[str, Any], folder: Path, number: int) -> str | None:
    path, text, log = place / "run", corpus(folder), folder / f"disk{number}.log"

    def limited() -> int:
        import resource
        import signal

        from lab.cli import main

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        words = go_on_words(path, text, STEPS)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return main(words)

    fault = _refused(Process(limited, log))
    return fault or _with_room(path, text, log, whole)


def _with_room(path: Path, text: Path, log: Path, whole: dict[str, Any]) -> str | None:
    ending = command(go_on_words(path, text, STEPS), log).wait()
    return ending.fault or difference(path, whole)
