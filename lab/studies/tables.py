"""The tables that lie in a study's folder: never made again from less than they were made of."""

from __future__ import annotations

import csv
from pathlib import Path

from lab.studies.definition import StudyError
from lab.studies.folder import StudyFolder

UNFINISHED = "This study is not finished; what follows is what there is."  # in the report of such a one


def require_source(folder: StudyFolder) -> None:
    """Raise StudyError where a study's tables are all that is left of its runs: they could not be made again."""
    gone = [name for name in ("jobs", "done") if not (folder.path / name).is_dir()]
    if gone and (had := _rows_of(folder.path / "results.csv")):
        raise StudyError(
            f"{folder.path} holds only the report of a study: {' and '.join(gone)} are not there, of which its "
            f"results.csv with {had} runs was made. Read report.md there; choose another folder to make the runs again "
            "(--root)."
        )


def require_no_less(folder: StudyFolder, runs: int, complete: bool) -> None:
    """Raise StudyError where the report in a folder tells of more than these runs, or of a finished study."""
    had, finished = _rows_of(folder.path / "results.csv"), _is_complete(folder)
    if runs < had or (finished and not complete):
        raise StudyError(
            f"{folder.path / 'results.csv'} tells of {had} runs{' of a finished study' * finished}, this folder now "
            f"holds {runs}: nothing was written. Bring jobs, done and events.jsonl back, or delete results.csv, "
            "results.json and report.md if that is meant."
        )


def _rows_of(table: Path) -> int:
    """How many runs a results.csv tells of; 0 where there is none."""
    if not table.is_file():
        return 0
    with table.open(encoding="utf-8", errors="replace", newline="") as file:
        return max(0, sum(1 for row in csv.reader(line.replace("\0", "") for line in file) if row) - 1)


def _is_complete(folder: StudyFolder) -> bool:
    """Whether the report that lies in a folder is that of a finished study."""
    report = folder.path / "report.md"
    return report.is_file() and UNFINISHED not in report.read_text(encoding="utf-8", errors="replace")
