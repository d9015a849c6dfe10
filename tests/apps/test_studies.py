"""The Studies page reads a study's folder, starts and stops a process, and opens runs that lie inside a study only."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apps import studying
from lab.runs import Run, process_identity, read_json, write_json
from lab.studies import Job, Outcome, StudyFolder, find_study
from lab.studies.reading import plan_digest
from tests.apps.opening import checked, open_page, said

NAME, TIER = "head_tying", "smoke"


@pytest.fixture
def folder(runs: Path) -> StudyFolder:
    """A study of which four runs are done and one waits; the first is a run that can be looked at."""
    study = find_study(NAME)
    made = StudyFolder(runs / "studies" / f"{NAME}-{TIER}")
    plain = dataclasses.replace(study, tiers=(study.tier(TIER),)).to_dict()
    plan = {"study": plain, "tier": TIER, "seeds": 2, "rules": ""}
    made.register({"sha256": plan_digest(plan), **plan, "budget": []})
    for arm, bpb in (("char-tied", 2.0), ("char-untied", 2.1)):
        for seed in (0, 1):
            job = Job.make(arm, "confirm", 2e-3, seed, {})
            made.add([job])
            curve = ((0, 0, 0.0, 4.0), (20, 10, 0.1, 3.0), (40, 20, 0.2, 2.5))
            made.finish(Outcome(job.id, "done", 40, 4.0, 2.5, 2.5, 40, bpb + 0.01 * seed, curve=curve))
    made.add([Job.make("bpe-tied", "confirm", 2e-3, 0, {})])
    first = made.jobs()[0]
    shutil.copytree(runs / "tiny", made.path / first.run)
    return made


def test_a_study_not_begun_says_what_it_asks(runs: Path) -> None:
    at = open_page("studies", lang="en", study=NAME, tier=TIER)
    text = "\n".join(m.value for m in at.markdown)
    assert "Should the unembedding be the embedding's own matrix" in text.replace("\\", "")
    assert not at.button(key="studies_start").disabled and at.button(key="studies_stop").disabled
    assert set(at.selectbox(key="study").options) == set(studying.names())


@pytest.mark.parametrize("name", ["registration.json", "jobs", "done"])
def test_a_study_changed_after_the_fact_is_not_shown(name: str, folder: StudyFolder) -> None:
    at = open_page("studies", lang="en", study=NAME, tier=TIER)
    assert len(at.dataframe) == 1 and not at.error
    path = folder.path / name if name.endswith(".json") else sorted((folder.path / name).glob("*.json"))[0]
    change = (
        {"seeds": 99} if name == "registration.json" else {"seed": 99} if name == "jobs" else {"final_val_loss": 1.0}
    )
    write_json(path, read_json(path) | change)
    at = open_page("studies", lang="en", study=NAME, tier=TIER)
    (error,) = at.error
    assert "This study cannot be read" in error.value and "changed after" in error.value and not at.dataframe


@pytest.mark.parametrize(
    "lang, done, verdict",
    [
        ("en", "4 of 5 runs so far", "predicted no difference: exploratory: no claim."),
        ("zh", "已完成 5 次运行中的 4 次", "预测没有差别：探索性，不下结论。"),
    ],
)
def test_a_study_is_read_from_its_folder(lang: str, done: str, verdict: str, folder: StudyFolder) -> None:
    at = open_page("studies", lang=lang, study=NAME, tier=TIER)
    rows = at.dataframe[0].value.to_dict("records")
    assert [row["arm"] for row in rows].count("char-tied") == 2 and len(rows) == 5
    assert sum(row["loss"] == 2.5 for row in rows) == 4
    text = "\n".join(m.value for m in at.markdown).replace("\\", "")
    assert "-0.1000" in text and verdict in text  # two seeds: bits per byte, tied less untied
    assert done in at.get("progress")[0].proto.text
    assert at.selectbox(key="figure").options[0]


def test_a_run_inside_a_study_opens_in_other_pages(folder: StudyFolder, runs: Path) -> None:
    run = folder.run(folder.jobs()[0])
    assert run.id.startswith(f"studies/{NAME}-{TIER}/runs/")
    at = open_page("attention", lang="en", run=run.id)
    assert at.selectbox(key="run").value == run.id and not at.error
    outside = runs.parent / "outside"
    shutil.copytree(runs / "tiny", outside)
    (runs / "studies" / "link").symlink_to(outside)
    for name in ("studies/../../outside", "studies/link", "studies/none", "../outside"):
        at = open_page("attention", lang="en", run=name)
        assert at.selectbox(key="run").value in {"tiny", "running"} and "not available" in said(at, "warning")


def test_start_runs_the_command_once_and_stop_interrupts_it(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of the study a process that waits for its interruption."""
    asked, real = [], subprocess.Popen
    script = (
        "import time\ntry:\n  time.sleep(60)\nexcept KeyboardInterrupt:\n  print('Stopped; finished runs are kept.')"
    )

    def popen(command: list[str], **more: object) -> subprocess.Popen[bytes]:
        asked.append(command)
        return real([sys.executable, "-c", script], **more)  # type: ignore[call-overload]

    monkeypatch.setattr(studying.subprocess, "Popen", popen)
    at = open_page("studies", lang="en", study=NAME, tier=TIER)
    at.button(key="studies_start").click()
    checked(at.run())
    assert asked[0][1:] == ["-m", "lab.cli", "study", "run", NAME, "--tier", TIER, "--root", str(folder.path.parent)]
    pid = studying.started(folder)
    assert pid is not None and at.button(key="studies_start").disabled and not at.button(key="studies_stop").disabled
    studying.start(NAME, TIER)  # another tab
    assert len(asked) == 1 and studying.started(folder) == pid
    import time

    time.sleep(0.5)  # it has installed its handler
    at.button(key="studies_stop").click()
    checked(at.run())
    until = time.monotonic() + 20
    while studying.started(folder) is not None and time.monotonic() < until:
        time.sleep(0.05)
    assert studying.started(folder) is None and "finished runs are kept" in studying.last_words(folder)


def test_a_process_number_used_again_is_not_the_study(folder: StudyFolder) -> None:
    record = folder.path.parent / studying.LOGS / f"{folder.path.name}.json"
    record.parent.mkdir()
    write_json(record, {"pid": 1, "process": "another boot:7"})
    assert studying.started(folder) is None
    studying.stop(folder)  # and nobody is signalled
    assert process_identity(1) is not None and read_json(record)["pid"] == 1


@pytest.mark.parametrize("name, tier", [("../evil", "smoke"), (NAME, "enormous"), ("/etc/passwd.py", "smoke")])
def test_only_our_own_studies_are_started(name: str, tier: str, runs: Path) -> None:
    with pytest.raises(ValueError, match=r"no study|no tier"):
        studying.start(name, tier)
    assert Run(runs / "tiny").exists() and not (runs / "studies").exists()


@pytest.mark.parametrize(("lang", "withdrawn"), [("en", "withdrawn"), ("zh", "撤回")])
def test_a_published_table_is_shown_with_what_became_of_it(runs: Path, lang: str, withdrawn: str) -> None:
    import csv

    results = Path(studying.PROJECT) / "studies" / "results" / f"{NAME}-small"
    with (results / "results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "confirm"]
    at = open_page("studies", lang=lang)
    assert (at.selectbox(key="study").value, at.selectbox(key="tier").value) == (NAME, "small")
    assert withdrawn in at.warning[0].value
    table = at.dataframe[0].value.set_index("arm")
    assert set(table.index) == {row["arm"] for row in rows}
    for arm, line in table.iterrows():
        losses = [float(row["loss"]) for row in rows if row["arm"] == arm]
        assert line["n"] == len(losses) and line["mean"] == pytest.approx(sum(losses) / len(losses))
    assert at.get_by_key("published_rates") is not None
    assert not at.button(key="studies_start").disabled  # it can be made anew
