"""The executors get every job done, whoever is killed, and say in a sentence when they cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.runs import process_identity
from lab.studies import ExecutorError, Progress, StudyFolder, make_executor
from lab.studies.claims import owner
from lab.studies.executors import local
from tests.lab.studying import SECONDS, Starting, starts, table, tiny_study, wait_for, worker

SCRIPT = """
import sys
from lab.studies import StudyFolder, make_executor
folder = StudyFolder(sys.argv[1])
with make_executor(sys.argv[2], workers=2) as executor:
    executor.run(folder, folder.jobs())
"""


def study_of(folder: StudyFolder, executor: str = "local") -> list[str]:
    """The words of a process that has a study's jobs done, as `residlab study run` does."""
    return ["-c", SCRIPT, str(folder.path), executor]


def workers_of(folder: StudyFolder) -> set[int]:
    """The processes that hold a job now."""
    found = [owner(folder, job.id) for job in folder.jobs()]
    return {int(record["pid"]) for record in found if record is not None}


@pytest.mark.slow
def test_local_survives_the_death_of_its_workers_and_its_own(tmp_path: Path, starting: Starting) -> None:
    plain, folder = tiny_study(tmp_path / "plain", 4, steps=300), tiny_study(tmp_path / "study", 4, steps=300)
    done = starting(*worker(plain))
    study = starting(*study_of(folder))
    first = wait_for(lambda: workers_of(folder))
    os.kill(min(first), signal.SIGKILL)  # a worker: another takes the job over
    wait_for(lambda: folder.outcomes() and (workers_of(folder) - first or len(folder.outcomes()) == 4))
    study.kill()  # the study: its workers let their runs save and leave
    study.communicate()
    left = workers_of(folder) | first
    wait_for(lambda: not any(process_identity(pid) for pid in left))
    finished = {path.name: path.stat().st_mtime_ns for path in (folder.path / "done").iterdir()}

    seen: list[Progress] = []
    with make_executor("local", workers=1) as executor:  # the same command again
        executor.run(folder, folder.jobs(), lambda _, progress: seen.append(progress))
    assert done.communicate(timeout=SECONDS)[1] == "" and table(folder) == table(plain)
    assert len(table(plain)) == 4 and starts(folder) == [1] * 4, "each run was begun once"
    assert all((folder.path / "done" / name).stat().st_mtime_ns == at for name, at in finished.items())
    assert seen[0].total == 4 and seen[0].done == len(finished) and seen[-1].done == 4


def test_ctrl_c_lets_the_runs_save(tmp_path: Path, starting: Starting) -> None:
    folder = tiny_study(tmp_path / "study", 1, steps=1_000_000)
    run = folder.run(folder.jobs()[0])
    study = starting(*study_of(folder))
    wait_for(lambda: run.exists() and len(run.metrics()) > 3)
    study.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in study.communicate(timeout=SECONDS)[1]
    assert run.status().state == "stopped" and run.checkpoints()[-1] == run.status().step > 0
    assert not workers_of(folder) and not folder.outcomes()


def test_workers_that_cannot_read_the_corpus_end_it_with_a_sentence(tmp_path: Path) -> None:
    folder = tiny_study(tmp_path / "study", 1, corpus=tmp_path / "elsewhere.txt")
    with (
        pytest.raises(ExecutorError, match=r"cannot be read on this machine: .*Finished runs are kept"),
        make_executor("local", workers=1) as executor,
    ):
        executor.run(folder, folder.jobs())
    assert not folder.outcomes()


def test_workers_that_die_again_and_again_end_it_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_study(tmp_path / "study", 1)
    started: list[int] = []

    def broken(self: local.LocalExecutor, folder: StudyFolder) -> subprocess.Popen[bytes]:
        started.append(1)
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit('no such module')"], stderr=self._log)

    monkeypatch.setattr(local, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(local.LocalExecutor, "_start", broken)
    with pytest.raises(ExecutorError, match="no such module"), make_executor("local", workers=1) as executor:
        executor.run(folder, folder.jobs())
    assert len(started) == 4, "as often as a run may kill its worker, and once more"


def test_nothing_to_do_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with make_executor("local") as executor:
        executor.run(tiny_study(tmp_path / "study", 0), [])


def test_what_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match='no executor "slurm"; known are local and ray'):
        make_executor("slurm")
    with pytest.raises(ValueError, match="workers is 0"):
        make_executor("local", workers=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExecutorError, match=r"pip install 'residlab\[ray\]'"):
        make_executor("ray")
