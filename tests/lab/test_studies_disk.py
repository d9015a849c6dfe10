"""A study on a disk that is full: one sentence, what is finished is kept, and with room again it goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cli import BAD_INPUT, DONE, main
from lab.studies import StudyFolder
from tests.lab.studying import starts, table
from tests.lab.test_cli_study import study_file

DISK = 16 * 2**20  # bytes; a report alone takes some five million of them

# A worker to whose disk nothing is written any more once two runs are finished.
FULL = """
import errno, sys
from lab.studies import StudyFolder
from lab.studies.worker import main
finish = StudyFolder.finish
def full(folder, outcome):
    if len(folder.outcomes()) >= 2:
        raise OSError(errno.ENOSPC, "No space left on device, while writing", "done/third.json")
    finish(folder, outcome)
StudyFolder.finish = full
sys.exit(main(sys.argv[1:]))
"""


def words_for(path: Path, root: Path) -> list[str]:
    return ["study", "run", str(path), "--tier", "smoke", "--workers", "1", "--root", str(root)]


def test_a_full_disk_stops_a_study_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, real = words_for(study_file(tmp_path), tmp_path / "studies"), subprocess.Popen

    def start(command: list[str], **options: Any) -> Any:
        if "lab.studies.worker" in command:
            command = [command[0], "-c", FULL, *command[3:]]
        return real(command, **options)

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", start)
        assert main(words) == BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1] == (
        "residlab study: The workers cannot go on: the disk is full (no space is left to write done/third.json); make "
        f"room on it. Finished runs are kept. Go on: residlab {' '.join(words)}"
    )
    folder = StudyFolder(tmp_path / "studies" / "tiny-smoke")
    finished = {path: path.stat().st_mtime_ns for path in (folder.path / "done").iterdir()}
    assert len(finished) == 2 and not folder.complete
    assert main(words) == DONE
    assert folder.complete and starts(folder) == [1] * 6
    assert all(path.stat().st_mtime_ns == at for path, at in finished.items())


def test_a_full_disk_under_the_study_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import errno

    def full(self: StudyFolder, kind: str, **details: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device, while writing", str(self.path / "events.jsonl"))

    monkeypatch.setattr(StudyFolder, "event", full)
    words = words_for(study_file(tmp_path), tmp_path / "studies")
    assert main(words) == BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1] == (
        "residlab study: Stopped: the disk is full (no space is left to write "
        f"{tmp_path / 'studies' / 'tiny-smoke' / 'events.jsonl'}); make room on it. Finished runs are kept. "
        f"Go on: residlab {' '.join(words)}"
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB. Needs the right to mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"needs a small disk, and this machine mounts none: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=False)


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, plain = words_for(study_file(tmp_path), small_disk / "studies"), tmp_path / "plain"
    assert main(words_for(tmp_path / "tiny.py", plain)) == DONE
    files = [file for file in plain.rglob("*") if file.is_file() and not file.name.startswith(("report", "results"))]
    needed = sum(-(-file.stat().st_size // 4096) * 4096 for file in files)
    filler, folder = small_disk / "filler", StudyFolder(small_disk / "studies" / "tiny-smoke")
    filler.write_bytes(bytes(DISK - needed * 6 // 10))  # room for the plan and some of the six runs
    assert main(words) == BAD_INPUT
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("residlab study: The workers cannot go on: the disk is full (")
    assert said.endswith(f"; make room on it. Finished runs are kept. Go on: residlab {' '.join(words)}")
    finished = table(folder)
    assert 0 < len(finished) < 6 and not folder.complete
    filler.unlink()
    assert main(words) == DONE
    assert folder.complete and starts(folder) == [1] * 6
    assert {name: table(folder)[name] for name in finished} == finished
    assert table(folder) == table(StudyFolder(plain / "tiny-smoke"))
