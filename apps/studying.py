"""Studies from the browser: a process of its own runs one, the app reads its folder. No torch here.

A study is started as `residlab study run` would, outlives the app, and is stopped as Ctrl-C would: what is being
trained saves, and starting it again goes on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from lab.runs import process_identity, read_json, write_json
from lab.studies import (
    Job,
    Outcome,
    Plan,
    Study,
    StudyFolder,
    StudyResult,
    find_study,
    make_plan,
    read_results,
    studies_root,
    study_names,
)

LOGS = ".started"  # beside the studies: what the app started, and what that said
FRESH = 120.0  # seconds without news after which a page stops looking
PROJECT = Path(__file__).resolve().parent.parent
_starting = threading.Lock()


@dataclass(frozen=True)
class RunLine:
    """A run of a study as the table shows it. state: waiting, running, done, diverged or failed."""

    job: Job
    state: str
    step: int | None
    val_loss: float | None


def names() -> list[str]:
    """The project's own studies; a study of another file is run from the command line."""
    return study_names()


@st.cache_data(show_spinner=False)
def study(name: str, written: int) -> Study:
    """A study of ours; `written` is its script's time, so that an edited one is read anew."""
    del written
    return find_study(name)


def script_time(name: str) -> int:
    """When the script of a study of ours was last written."""
    from lab.studies.catalogue import studies_folder

    return (studies_folder() / f"{name}.py").stat().st_mtime_ns


@st.cache_resource(max_entries=16, show_spinner=False)
def plan(name: str, tier: str, written: int) -> Plan:
    """What a study would cost. Raises ValueError where its arms are not what they declare."""
    del written
    return make_plan(find_study(name), tier)


def folder_of(name: str, tier: str) -> StudyFolder:
    """Where a study at a tier lives, begun or not."""
    return StudyFolder(studies_root() / f"{name}-{tier}")


def published(name: str) -> dict[str, Path]:
    """Tier -> folder of the tables of a study that come with the project: a report and a row for every run."""
    from lab.studies.catalogue import studies_folder

    found = sorted((studies_folder() / "results").glob(f"{name}-*/report.md"))
    return {report.parent.name.removeprefix(f"{name}-"): report.parent for report in found}


def standing(name: str) -> str:
    """What there is of a study: running, mine (begun or done on this machine), published, or none."""
    folders = [folder_of(name, tier.name) for tier in study(name, script_time(name)).tiers]
    if any(started(folder) is not None for folder in folders):
        return "running"
    if any(folder.registered for folder in folders):
        return "mine"
    return "published" if published(name) else "none"


def _record(folder: StudyFolder) -> Path:
    return folder.path.parent / LOGS / f"{folder.path.name}.json"


def started(folder: StudyFolder) -> int | None:
    """The process that runs a study for the app; None where none does."""
    try:
        record = read_json(_record(folder))
        pid = int(record["pid"])
    except (OSError, ValueError, KeyError):
        return None
    identity = process_identity(pid)
    return pid if identity is not None and identity == record.get("process") else None


def start(name: str, tier: str) -> None:
    """Run a study, or go on with it, in a process of its own; pressed twice it is started once.

    Raises ValueError for a name or tier that there is not, OSError naming a path that cannot be written.
    """
    if name not in names():
        raise ValueError(f"There is no study {name!r}; there are {', '.join(names())}.")
    find_study(name).tier(tier)
    folder = folder_of(name, tier)
    with _starting:
        if started(folder) is not None:
            return
        record = _record(folder)
        record.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        paths = [str(PROJECT), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        command = [sys.executable, "-m", "lab.cli", "study", "run", name, "--tier", tier, "--root",
                   str(folder.path.parent.resolve())]  # fmt: skip
        with record.with_suffix(".log").open("wb") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment,
                start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=child.wait, daemon=True).start()  # no zombie while the app lives
        write_json(record, {"pid": child.pid, "process": process_identity(child.pid)})


def stop(folder: StudyFolder) -> None:
    """Ask the process to stop, as Ctrl-C does: runs save, and starting it again goes on."""
    pid = started(folder)
    if pid is not None:
        os.kill(pid, signal.SIGINT)


def last_words(folder: StudyFolder) -> str:
    """What the process that the app started said last: the reason, where it ended early. "" where it said nothing."""
    try:
        text = _record(folder).with_suffix(".log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-4:])


def lines(folder: StudyFolder) -> list[RunLine]:
    """Every run put up so far: those in training first, then the others in the order of the study."""
    outcomes, found = folder.outcomes(), []
    for job in folder.jobs():
        outcome = outcomes.get(job.id)
        found.append(_waiting(folder, job) if outcome is None else _finished(job, outcome))
    return sorted(found, key=lambda line: line.state != "running")


def _finished(job: Job, outcome: Outcome) -> RunLine:
    return RunLine(job, outcome.state, outcome.step, outcome.final_val_loss)


def _waiting(folder: StudyFolder, job: Job) -> RunLine:
    run = folder.run(job)
    if not run.exists():
        return RunLine(job, "waiting", None, None)
    status = run.status()
    return RunLine(job, "running" if status.active else "waiting", status.step, None)


def seconds_since_update(folder: StudyFolder) -> float | None:
    """Seconds since a run of the study ended or was put up; None before the first."""
    times = []
    for name in ("done", "jobs"):
        try:
            times.append((folder.path / name).stat().st_mtime)
        except OSError:
            continue
    return time.time() - max(times) if times else None


def is_fresh(folder: StudyFolder) -> bool:
    """Whether something happened lately: a study may be run from a terminal, or by workers of other machines."""
    since = seconds_since_update(folder)
    return since is not None and since < FRESH


def result(folder: StudyFolder) -> StudyResult:
    """The result so far, read anew when one of its files was written. Raises StudyError, OSError."""
    files = [folder.path / "registration.json", folder.path / "events.jsonl"]
    files += [path for name in ("jobs", "done") for path in sorted((folder.path / name).glob("*.json"))]
    return _result(str(folder.path), tuple((path.name, path.stat().st_mtime_ns) for path in files if path.exists()))


@st.cache_resource(max_entries=8, show_spinner=False)
def _result(path: str, written: tuple[tuple[str, int], ...]) -> StudyResult:
    del written  # part of the key
    return read_results(path)
