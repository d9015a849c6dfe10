"""Jobs of a study: one worker each, never twice, whatever is killed in between."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.runs import read_json
from lab.studies import Job, StudyFolder
from lab.studies import worker as worker_module
from lab.studies.claims import STALE_SECONDS, ClaimLost, claim, died, owner
from lab.studies.execute import ATTEMPTS, DataUnavailable, Interrupted, execute
from lab.studies.worker import HOPELESS, work
from tests.lab.studying import SECONDS, Starting, change_owner, starts, table, tiny_config, tiny_study, wait_for, worker


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return tiny_study(tmp_path / "study", 3)


def finish(folder: StudyFolder) -> int:
    return work(lambda: [folder], wait=lambda: False)


def dead_process() -> dict[str, object]:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return {"pid": ended.pid, "process": "boot:1"}


# --- claims -----------------------------------------------------------------------------------------------------------


def test_one_worker_a_job(folder: StudyFolder) -> None:
    job, other, _ = folder.jobs()
    held = claim(folder, job.id)
    assert held is not None and claim(folder, job.id) is None
    assert claim(folder, other.id) is not None, "the others are free"
    found = owner(folder, job.id)
    assert found is not None and found["token"] == held.token
    held.release()
    assert owner(folder, job.id) is None
    assert claim(folder, job.id) is not None
    assert not list((folder.path / "claims").glob(".new-*")), "nothing is left lying about"


def test_a_dead_worker_of_this_machine_is_known_at_once(folder: StudyFolder) -> None:
    job = folder.jobs()[0]
    assert claim(folder, job.id) is not None
    change_owner(folder, job, **dead_process())
    assert owner(folder, job.id) is None
    assert claim(folder, job.id) is not None and died(folder, job.id) == 1
    assert claim(folder, job.id) is None, "and its heir is alive"


def test_a_silent_worker_of_another_machine_is_taken_over_after_a_minute(folder: StudyFolder) -> None:
    job = folder.jobs()[0]
    held = claim(folder, job.id)
    assert held is not None
    change_owner(folder, job, host="elsewhere", process="another-boot:7")
    beat = (held.path / "owner.json").stat().st_mtime
    assert claim(folder, job.id) is None
    assert claim(folder, job.id, now=beat + STALE_SECONDS - 1) is None
    heir = claim(folder, job.id, now=beat + STALE_SECONDS + 1)
    assert heir is not None and died(folder, job.id) == 1
    # The old owner wakes up: it learns that the job is lost, and neither writes over the claim nor lets go of it.
    with pytest.raises(ClaimLost, match="taken over"):
        held.check()
    held.release()
    found = owner(folder, job.id)
    assert held.lost and found is not None and found["token"] == heir.token


def test_a_claim_left_empty_does_not_block(folder: StudyFolder) -> None:
    job = folder.jobs()[0]
    (folder.path / "claims" / job.id).mkdir()
    assert claim(folder, job.id) is not None


# --- executing --------------------------------------------------------------------------------------------------------


def test_jobs_are_done_once(folder: StudyFolder) -> None:
    assert finish(folder) == 3
    assert {outcome.state for outcome in folder.outcomes().values()} == {"done"}
    assert starts(folder) == [1, 1, 1]
    before = [path.stat().st_mtime_ns for path in sorted((folder.path / "done").iterdir())]
    assert finish(folder) == 0 and not any(execute(folder, job) for job in folder.jobs())
    assert [path.stat().st_mtime_ns for path in sorted((folder.path / "done").iterdir())] == before
    assert not [path for path in (folder.path / "claims").iterdir() if not path.name.startswith(".")]
    outcome = folder.outcomes()[folder.jobs()[0].id]
    assert [point[0] for point in outcome.curve] == [0, 2, 4, 6] and outcome.step == 6
    assert outcome.final_val_loss == outcome.curve[-1][3] and outcome.initial_loss == outcome.curve[0][3]


def test_a_diverged_run_is_an_outcome(tmp_path: Path) -> None:
    folder = tiny_study(tmp_path / "study", 1)
    wild = tiny_config(tmp_path / "cat.txt", lr=1e30)
    wild["training"]["grad_clip"] = None
    folder.add([Job.make("a", "tune", 1e30, 1, wild)])
    assert finish(folder) == 2, "the other goes on"
    states = {job.lr: folder.outcomes()[job.id] for job in folder.jobs()}
    assert states[1e-3].state == "done"
    assert states[1e30].state == "diverged" and states[1e30].final_val_loss is None
    assert "diverged at step" in str(states[1e30].error)


def test_a_run_that_cannot_be_made_has_failed(tmp_path: Path) -> None:
    folder = tiny_study(tmp_path / "study", 0)
    odd = tiny_config(tmp_path / "cat.txt")
    odd["model"]["n_heads"] = 3
    job = Job.make("a", "tune", 1e-3, 0, odd)
    folder.add([job])
    assert execute(folder, job)
    outcome = folder.outcomes()[job.id]
    assert outcome.state == "failed" and "n_heads" in str(outcome.error)


def test_a_job_that_killed_three_workers_has_failed(folder: StudyFolder) -> None:
    job = folder.jobs()[0]
    for lost in range(ATTEMPTS):
        assert claim(folder, job.id) is not None and died(folder, job.id) == lost
        change_owner(folder, job, **dead_process())
    assert execute(folder, job)
    outcome = folder.outcomes()[job.id]
    assert outcome.state == "failed" and "3 workers died over this run" in str(outcome.error)
    assert not folder.run(job).exists()


def test_a_run_that_another_process_trains_is_its(folder: StudyFolder) -> None:
    job = folder.jobs()[0]
    run = folder.run(job).create(dict(job.config))
    with run.lock():
        assert not execute(folder, job)
    assert folder.outcome(job.id) is None and run.status().state == "queued"
    assert execute(folder, job)


def test_asked_to_end_it_saves_and_the_next_goes_on(tmp_path: Path) -> None:
    plain, folder = tiny_study(tmp_path / "plain", 1, steps=20), tiny_study(tmp_path / "study", 1, steps=20)
    job = folder.jobs()[0]

    def ask(row: dict[str, object]) -> None:
        if row["step"] == 7:
            folder.run(job).request_stop()

    with pytest.raises(Interrupted):
        execute(folder, job, ask)  # type: ignore[arg-type]
    assert folder.outcome(job.id) is None and owner(folder, job.id) is None
    assert folder.run(job).status().step == 7
    assert finish(folder) == finish(plain) == 1
    assert table(folder) == table(plain)
    assert [e["event"] for e in folder.run(job).events() if e["event"] != "checkpoint"] == [
        "start", "stop", "resume", "done",
    ]  # fmt: skip


def test_a_worker_without_the_corpus_leaves_the_job_to_others(tmp_path: Path) -> None:
    corpus = tmp_path / "elsewhere.txt"
    folder = tiny_study(tmp_path / "study", 1, corpus=corpus)
    job = folder.jobs()[0]
    with pytest.raises(DataUnavailable, match=r"corpus of study cannot be read on this machine: .*elsewhere.txt"):
        execute(folder, job)
    assert folder.outcome(job.id) is None and owner(folder, job.id) is None and not folder.run(job).exists()


def test_a_worker_with_another_text_leaves_the_job_to_others(tmp_path: Path) -> None:
    from lab.studies.execute import prepared

    folder = tiny_study(tmp_path / "study", 2)
    first, second = folder.jobs()
    assert execute(folder, first)
    (tmp_path / "cat.txt").write_text("another text altogether. " * 90)
    prepared.cache_clear()
    with pytest.raises(DataUnavailable, match="corpus of study is another one on this machine"):
        execute(folder, second)
    assert folder.outcome(second.id) is None


def test_a_full_disk_ends_the_worker_and_keeps_what_is_done(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lab.training import trainer

    write, lines = trainer.Run.append, 0

    def full(run: object, file: str, record: dict[str, object]) -> None:
        nonlocal lines
        lines += file == "metrics"
        if lines > 10:
            raise OSError(errno.ENOSPC, "No space left on device, while writing", "metrics.jsonl")
        write(run, file, record)  # type: ignore[arg-type]

    monkeypatch.setattr(trainer.Run, "append", full)
    assert worker_module.main([str(folder.path)]) == HOPELESS
    assert "the disk is full" in capsys.readouterr().err
    assert [outcome.state for outcome in folder.outcomes().values()] == ["done"]
    monkeypatch.undo()
    assert finish(folder) == 2, "with space again the others are made"
    assert starts(folder) == [1, 1, 1]


# --- processes --------------------------------------------------------------------------------------------------------


def test_two_workers_share_twenty_runs(tmp_path: Path, starting: Starting) -> None:
    folder = tiny_study(tmp_path / "study", 20)
    workers = [starting(*worker(folder)) for _ in range(2)]
    for process in workers:
        _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
    assert len(folder.outcomes()) == 20
    assert starts(folder) == [1] * 20, "each run was begun once"
    trainers = [read_json(folder.run(job).path / "status.json")["pid"] for job in folder.jobs()]
    assert set(trainers) <= {process.pid for process in workers}
    assert not any(e["event"] == "resume" for job in folder.jobs() for e in folder.run(job).events())


def test_a_killed_worker_loses_nothing(tmp_path: Path, starting: Starting) -> None:
    plain, folder = tiny_study(tmp_path / "plain", 3), tiny_study(tmp_path / "study", 3)
    process = starting("-m", "tests.faults.injection", "step:5", *worker(folder)[1:])
    process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL and not folder.outcomes()
    assert finish(folder) == finish(plain) == 3
    assert table(folder) == table(plain)
    assert starts(folder) == [1, 1, 1]
    assert died(folder, folder.jobs()[0].id) == 1


def test_a_worker_asked_to_end_saves_first(tmp_path: Path, starting: Starting) -> None:
    folder = tiny_study(tmp_path / "study", 1, steps=1_000_000)
    run = folder.run(folder.jobs()[0])
    process = starting(*worker(folder))
    wait_for(lambda: run.exists() and len(run.metrics()) > 3)
    asked = time.monotonic()
    process.terminate()
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and not said
    assert time.monotonic() - asked < 60
    assert run.status().state == "stopped" and run.checkpoints()[-1] == run.status().step > 0
    assert not folder.outcomes() and owner(folder, folder.jobs()[0].id) is None
