"""A study whose files were lost, damaged or changed after the fact: one sentence, and no more is lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cli import BAD_INPUT, DONE, main
from lab.runs import Run, read_json, write_json
from lab.studies import Job, Outcome, StudyFolder, find_study, make_plan, read_results
from lab.studies.claims import claim, died
from lab.studies.execute import ATTEMPTS, execute
from lab.studies.plan import aa_seed
from lab.studies.report import write_report
from lab.studies.run import stamped
from lab.studies.worker import HOPELESS, work
from lab.studies.worker import main as worker_main
from tests.lab.studying import change_owner, starts, table, tiny_study
from tests.lab.test_cli_study import study_file
from tests.lab.test_studies_jobs import dead_process
from tests.lab.test_studies_report import STUDY, outcome

Refused = Callable[..., str]
TABLES = ("results.csv", "results.json", "report.md", "report.html")
PUBLISHED = ("head_tying-small", "mlp_activation-small", "norm_placement-small")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """A finished study with its report."""
    folder = StudyFolder(tmp_path_factory.mktemp("whole") / "tiny-small")
    folder.register(stamped(make_plan(STUDY, "small")))
    for seed in range(2):
        outcome(folder, "pre", "confirm", 1e-2, seed, 2.5)
        outcome(folder, "post", "confirm", 1e-3, seed, 2.7)
        outcome(folder, "pre", "aa", 1e-2, aa_seed(seed), 2.5)
    folder.event("tuned", lrs=[1e-3, 1e-2], chosen={})
    folder.event("complete")
    write_report(folder)
    return folder


@pytest.fixture
def folder(whole: StudyFolder, tmp_path: Path) -> StudyFolder:
    """A copy of it."""
    shutil.copytree(whole.path, tmp_path / "tiny-small")
    return StudyFolder(tmp_path / "tiny-small")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES if (folder / name).is_file()}


# --- a report never replaces more by less -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_report_is_not_made_again_from_nothing(
    name: str, root: Path, tmp_path: Path, refused: Refused
) -> None:
    shutil.copytree(root / "studies" / "results" / name, tmp_path / name)
    before = bytes_of(tmp_path / name)
    said = refused("study", "report", str(tmp_path / name))
    assert f"{tmp_path / name} holds only the report of a study: jobs and done are not there" in said
    assert bytes_of(tmp_path / name) == before and sorted(os.listdir(tmp_path / name)) == [
        "registration.json", "report.md", "results.csv",
    ]  # fmt: skip
    assert main(["study", "list", "--root", str(tmp_path)]) == DONE


def _remove(*names: str) -> Callable[[StudyFolder], None]:
    def change(folder: StudyFolder) -> None:
        for name in names:
            path = folder.path / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def _empty(*names: str) -> Callable[[StudyFolder], None]:
    def change(folder: StudyFolder) -> None:
        for name in names:
            shutil.rmtree(folder.path / name)
            (folder.path / name).mkdir()

    return change


def _one_less(name: str) -> Callable[[StudyFolder], None]:
    return lambda folder: sorted((folder.path / name).glob("*.json"))[0].unlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_remove("done"), "done are not there"),
        (_remove("jobs"), "jobs are not there"),
        (_remove("done", "results.json"), "done"),
        (_empty("done"), "now holds 0"),
        (_empty("jobs"), "now holds 0"),
        (_empty("jobs", "done"), "now holds 0"),
        (_one_less("done"), "now holds 5"),
        (_one_less("jobs"), "now holds 5"),
        (_remove("events.jsonl"), "6 runs of a finished study"),
    ],
)
def test_a_report_of_less_does_not_replace_one_of_more(
    change: Callable[[StudyFolder], None], reason: str, folder: StudyFolder, refused: Refused
) -> None:
    change(folder)
    before = bytes_of(folder.path)
    said = refused("study", "report", str(folder.path))
    assert reason in said and str(folder.path) in said
    assert bytes_of(folder.path) == before


def test_a_report_of_as_much_is_written(folder: StudyFolder) -> None:
    before = bytes_of(folder.path)
    for name in ("report.html", "results.json"):
        (folder.path / name).unlink()
    assert main(["study", "report", str(folder.path)]) == DONE
    after = bytes_of(folder.path)
    assert set(after) == set(TABLES) and after["results.csv"] == before["results.csv"]


def test_a_study_is_not_run_where_only_its_report_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, root = study_file(tmp_path), tmp_path / "studies"
    words = ["study", "run", str(script), "--tier", "smoke", "--workers", "1", "--root", str(root)]
    folder = StudyFolder(root / "tiny-smoke")
    folder.register(stamped(make_plan(find_study(str(script)), "smoke")))
    for name in ("jobs", "done", "claims", "runs"):
        (folder.path / name).rmdir()
    (folder.path / "results.csv").write_text("arm,seed\npre,0\n")
    assert main(words) == BAD_INPUT
    assert "holds only the report of a study" in capsys.readouterr().err
    assert (folder.path / "results.csv").read_text() == "arm,seed\npre,0\n"


# --- what was registered, and what came of it, is not changed afterwards ----------------------------------------------


def _set(*place: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        *way, last = place
        inner: Any = values
        for step in way:
            inner = inner[step]
        inner[last] = to

    return change


REWRITTEN = {
    "predicted": _set("study", "claims", 0, "predicted", to="lower"),
    "hypothesis": _set("study", "hypothesis", to="No."),
    "margin": _set("study", "margin", to=0.5),
    "seeds": _set("seeds", to=2),
    "rules": _set("rules", to="None."),
    "config": _set("configs", "pre", "training", "lr", to=0.5),
    "parameters": _set("parameters", "pre", to=1),
    "budget": _set("budget", 0, "parameters", to=1),
    "time": _set("registered", "time", to="2001-01-01"),
    "sha256": _set("sha256", to="0" * 64),
    "seal": _set("seal", to="0" * 64),
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_a_registration_changed_after_the_fact_is_refused(what: str, folder: StudyFolder, refused: Refused) -> None:
    path = folder.path / "registration.json"
    values = read_json(path)
    REWRITTEN[what](values)
    write_json(path, values)
    before = bytes_of(folder.path)
    said = refused("study", "report", str(folder.path))
    assert f"{path}: the registration was changed after the fact" in said
    assert values["sha256"][:12] in said or values["seal"][:12] in said
    with pytest.raises(ValueError, match="changed after the fact"):
        read_results(folder)
    assert worker_main([str(folder.path)]) == 0, "nothing is open, so nothing is read of the plan"
    assert "changed after the fact" in refused("worker", "--root", str(folder.path), "--once")
    assert bytes_of(folder.path) == before


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_registrations_are_what_was_registered(name: str, root: Path) -> None:
    registration = StudyFolder(root / "studies" / "results" / name).registration
    assert "seal" not in registration and len(registration["sha256"]) == 64


def first_file(folder: StudyFolder, name: str) -> Path:
    return sorted((folder.path / name).glob("*.json"))[0]


@pytest.mark.parametrize(
    "change",
    [
        _set("final_val_loss", to=1.0),
        _set("state", to="diverged"),
        _set("curve", 0, 3, to=9.0),
        _set("measures", "residual_growth", to=-1.0),
        _set("sha256", to="0" * 64),
        lambda values: values.pop("sha256"),
        lambda values: values.pop("measures"),
    ],
)
def test_an_outcome_changed_after_the_fact_is_refused(
    change: Callable[[dict[str, Any]], Any], folder: StudyFolder, refused: Refused
) -> None:
    path = first_file(folder, "done")
    values = read_json(path)
    change(values)
    write_json(path, values)
    said = refused("study", "report", str(folder.path))
    assert str(path) in said and "was changed after it was written" in said


def test_an_outcome_of_another_job_is_refused(folder: StudyFolder, refused: Refused) -> None:
    one, other = sorted((folder.path / "done").glob("*.json"))[:2]
    shutil.copy(one, other)
    assert f"{other} is the outcome of another job, {one.stem}" in refused("study", "report", str(folder.path))


@pytest.mark.parametrize("change", [_set("lr", to=0.5), _set("seed", to=99), _set("run", to="../x"),
                                    _set("config", to={}), _set("id", to="a" * 12)])  # fmt: skip
def test_a_job_changed_after_the_fact_is_refused(
    change: Callable[[dict[str, Any]], None], folder: StudyFolder, refused: Refused
) -> None:
    path = first_file(folder, "jobs")
    values = read_json(path)
    change(values)
    write_json(path, values)
    assert f"{path} was changed after it was written" in refused("study", "report", str(folder.path))


# --- damaged files ----------------------------------------------------------------------------------------------------

CONTENTS = {
    "empty": "", "half": '{"a": ', "list": "[]", "null": "null", "number": "7", "text": '"a"', "object": "{}",
    "deep": "[" * 200_000, "deep object": '{"a":' * 500 + "1" + "}" * 500, "binary": "\x00\xff", "NaN": '{"lr": NaN}',
    "digits": '{"lr": ' + "9" * 5000 + "}",
    "wrong types": '{"id": 3, "arm": [], "job": {}, "state": 1, "curve": "x", "sha256": [], "study": 7, "seeds": "x"}',
}  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", ["registration.json", "jobs", "done"])
def test_a_damaged_file_is_named(name: str, content: str, folder: StudyFolder, refused: Refused) -> None:
    path = folder.path / name if name.endswith(".json") else first_file(folder, name)
    path.write_text(CONTENTS[content], encoding="latin-1")
    before = bytes_of(folder.path)
    assert str(path) in refused("study", "report", str(folder.path))
    assert main(["study", "list", "--root", str(folder.path.parent)]) == DONE
    assert bytes_of(folder.path) == before


def _wrong(values: Any) -> list[tuple[str, Any]]:
    """A file's values, each field in turn of another type or gone."""
    found = []
    for name in values:
        others = [wrong for wrong in ([], {}, "x", None, -1.5, [[]]) if type(wrong) is not type(values[name])]
        found += [(f"{name}={wrong!r}", {**values, name: wrong}) for wrong in others]
        found.append((f"without {name}", {k: v for k, v in values.items() if k != name}))
    return found


@pytest.mark.parametrize("name", ["registration.json", "jobs", "done"])
def test_every_field_of_a_wrong_type(name: str, folder: StudyFolder) -> None:
    """Outcomes of an older version, which have no digest, too."""
    if name == "done":
        registration = folder.path / "registration.json"
        write_json(registration, {k: v for k, v in read_json(registration).items() if k != "seal"})
    path = folder.path / name if name.endswith(".json") else first_file(folder, name)
    values = read_json(path)
    if name == "done":
        values.pop("sha256")
    if name == "registration.json":
        values.pop("seal")
    for what, wrong in _wrong(values):
        write_json(path, wrong)
        try:
            result = read_results(folder)
        except ValueError as refusal:  # everything else is a fault
            assert str(path) in str(refusal), what
        else:
            from lab.studies.report.markdown import markdown

            assert markdown(result), what


@pytest.mark.parametrize("name", ["registration.json", "jobs", "done", "events.jsonl", "results.csv"])
def test_a_pipe_in_place_of_a_file_does_not_hang(name: str, folder: StudyFolder) -> None:
    path = folder.path / name if "." in name else first_file(folder, name)
    path.unlink()
    os.mkfifo(path)
    before = {k: v for k, v in bytes_of(folder.path).items() if k != name}
    assert main(["study", "report", str(folder.path)]) in (DONE, BAD_INPUT)
    assert name == "results.csv" or {k: v for k, v in bytes_of(folder.path).items() if k != name} == before


@pytest.mark.parametrize("line", ['{"event": 7}', "{}", "[]", '{"event": "tuned"}', '{"event": "tuned", "lrs": ["x"]}'])
def test_odd_events(line: str, folder: StudyFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder.path / "events.jsonl").open("a") as file:
        file.write(line + "\n")
    code = main(["study", "report", str(folder.path)])
    assert (code == BAD_INPUT) == ("tuned" in line)
    assert code == DONE or "events.jsonl is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"token": 7}', '{"token": "../../x", "pid": "x", "host": [], "process": 1}',
                '{"token": "ab", "start": "x"}', "[" * 200_000]
)  # fmt: skip
def test_a_damaged_claim_is_taken_over_when_it_is_old(content: str, tmp_path: Path) -> None:
    folder = tiny_study(tmp_path / "study", 1)
    (job,) = folder.jobs()
    place = folder.path / "claims" / job.id
    place.mkdir()
    (place / "owner.json").write_text(content)
    seen = (place / "owner.json").stat().st_mtime
    assert claim(folder, job.id) is None, "its owner may be alive and writes it anew"
    assert claim(folder, job.id, now=seen + 61) is not None
    assert died(folder, job.id) == 1 and sorted(os.listdir(folder.path / "claims"))[0].startswith(f".{job.id}-")


def test_a_file_in_place_of_a_claim_ends_the_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiny_study(tmp_path / "study", 1)
    place = folder.path / "claims" / folder.jobs()[0].id
    place.write_text("x")
    assert worker_main([str(folder.path)]) == HOPELESS
    assert capsys.readouterr().err == f"{place} should be a folder, which tells who makes that run. Delete it.\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("STUDY = (", "line 1 cannot be run: SyntaxError"),
        ("import os\nos.nowhere()", "line 2 cannot be run: AttributeError"),
        ("\nraise RuntimeError('no')", "line 2 cannot be run: RuntimeError: no"),
        ("import sys\nsys.exit(0)", "line 2 cannot be run: SystemExit: 0"),
        ("import nowhere", "line 1 cannot be run: ModuleNotFoundError"),
        ("def f():\n    f()\nf()", "cannot be run: RecursionError"),
        ("1 / 0", "line 1 cannot be run: ZeroDivisionError"),
        ("x = '\x00'", "cannot be run"),
        ("from lab.studies import Study\nSTUDY = Study()", "line 2 cannot be run: TypeError"),
        ("STUDY = 3", "sets no STUDY"),
        ("", "sets no STUDY"),
    ],
)
@pytest.mark.parametrize("what", ["plan", "run", "report"])
def test_a_study_file_that_cannot_be_run(text: str, reason: str, what: str, tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    said = refused("study", what, str(path), "--root", str(tmp_path / "studies"))
    assert str(path) in said and reason in said


# --- runs whose metrics are lost --------------------------------------------------------------------------------------


def _metrics(change: Callable[[list[str]], list[str]]) -> Callable[[Run], None]:
    def apply(run: Run) -> None:
        path = run.path / "metrics.jsonl"
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))

    return apply


def _field(name: str, value: Any) -> Callable[[list[str]], list[str]]:
    return lambda lines: [json.dumps({**json.loads(lines[0]), name: value}) + "\n", *lines[1:]]


LOST = {
    "emptied": (_metrics(lambda lines: []), "no line of step 0"),
    "deleted": (lambda run: (run.path / "metrics.jsonl").unlink(), "no line of step 0"),
    "no first line": (_metrics(lambda lines: lines[1:]), "no line of step 0"),
    "begins late": (_metrics(lambda lines: lines[3:]), "no line of step 0"),
    "no last line": (_metrics(lambda lines: lines[:-1]), "no line of step 6"),
    "a gap": (_metrics(lambda lines: lines[:2] + lines[3:]), "no line of step 2"),
    "half a line": (_metrics(lambda lines: [*lines[:3], lines[3][:20] + "\n", *lines[4:]]), "no line of step 3"),
    "twice": (_metrics(lambda lines: [*lines, *lines]), "not in the order of the steps"),
    "another order": (_metrics(lambda lines: lines[::-1]), "not in the order of the steps"),
    "text": (_metrics(_field("val_loss", "x")), "no line of step"),
    "no step": (_metrics(_field("step", None)), "no line of step"),
    "half a step": (_metrics(_field("step", 0.5)), "no line of step"),
    "tokens": (_metrics(_field("tokens", [])), "no line of step"),
}


@pytest.mark.parametrize("what", LOST)
def test_a_run_whose_metrics_are_lost_has_failed_and_is_made_again(what: str, tmp_path: Path) -> None:
    plain, folder = tiny_study(tmp_path / "plain", 1), tiny_study(tmp_path / "study", 2)
    first, second = folder.jobs()
    change, reason = LOST[what]
    execute(folder, first)
    (folder.path / "done" / f"{first.id}.json").unlink()
    change(folder.run(first))
    assert work(lambda: [folder], wait=lambda: False) == 2, "the other run is made all the same"
    found = folder.outcomes()
    assert found[second.id].state == "done" and found[first.id].state == "failed"
    error = str(found[first.id].error)
    assert reason in error and str(folder.run(first).path / "metrics.jsonl") in error
    assert f"Delete {folder.run(first).path} and start the study again" in error
    shutil.rmtree(folder.run(first).path)
    assert folder.reopen() == [first.id]
    assert work(lambda: [folder], wait=lambda: False) == 1
    execute(plain, first)
    assert table(folder)[first.id] == table(plain)[first.id]


def test_a_run_resumed_after_its_first_metrics_were_lost_has_failed(tmp_path: Path) -> None:
    from lab.studies.execute import Interrupted

    folder = tiny_study(tmp_path / "study", 1)
    (job,) = folder.jobs()

    def ask(row: Any) -> None:
        if row["step"] == 4:
            folder.run(job).request_stop()

    with pytest.raises(Interrupted):
        execute(folder, job, ask)
    _metrics(lambda lines: lines[2:])(folder.run(job))
    assert execute(folder, job)
    found = folder.outcomes()[job.id]
    assert found.state == "failed" and "no line of step 0" in str(found.error) and found.initial_loss is None


# --- deaths that are progress -----------------------------------------------------------------------------------------


def lose(folder: StudyFolder, job: Job, start: int) -> None:
    """A worker that took the job at this checkpoint, and died."""
    held = claim(folder, job.id, start=start)
    assert held is not None
    change_owner(folder, job, **dead_process())


def test_a_run_that_gets_on_between_deaths_goes_on(tmp_path: Path) -> None:
    plain, folder = tiny_study(tmp_path / "plain", 1), tiny_study(tmp_path / "study", 1)
    (job,) = folder.jobs()
    for start in range(3 * ATTEMPTS):
        lose(folder, job, start // 2 - ATTEMPTS * 4)  # two deaths at each checkpoint, all before the one it is at now
    assert execute(folder, job) and execute(plain, job)
    assert table(folder) == table(plain) and starts(folder) == [1]


def test_a_run_that_kills_its_workers_has_failed_until_the_study_is_started_again(tmp_path: Path) -> None:
    folder = tiny_study(tmp_path / "study", 1)
    (job,) = folder.jobs()
    for _ in range(ATTEMPTS):
        lose(folder, job, 0)
    assert execute(folder, job)
    found = folder.outcomes()[job.id]
    assert found.state == "failed" and found.again and "3 workers died over this run at step 0" in str(found.error)
    folder.event("complete")
    assert folder.reopen() == [job.id] and not folder.complete
    assert folder.outcome(job.id) is None and died(folder, job.id) == 0
    assert execute(folder, job) and folder.outcomes()[job.id].state == "done"
    assert folder.reopen() == []


def test_a_tuning_run_is_not_made_again_once_the_rates_are_chosen(tmp_path: Path) -> None:
    folder = tiny_study(tmp_path / "study", 0)
    job = Job.make("a", "tune", 1e-3, 1000, {})
    folder.add([job])
    folder.finish(Outcome(job.id, "failed", 0, error="3 workers died", again=True))
    folder.event("tuned", lrs=[1e-3], chosen={"a": 1e-3})
    assert folder.reopen() == [] and folder.outcome(job.id) is not None
