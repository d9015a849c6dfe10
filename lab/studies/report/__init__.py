"""A study's report: one HTML page that opens offline, Markdown and CSV, from the study's folder alone."""

from __future__ import annotations

import os
from pathlib import Path

from lab.runs import write_text
from lab.studies.folder import StudyFolder
from lab.studies.results import StudyResult, read_results


def write_report(folder: StudyFolder | str | os.PathLike[str]) -> StudyResult:
    """Write report.html, report.md, results.json and results.csv into a study's folder; returns the result.

    Raises StudyError where no study was begun, or its files tell of less than the report that is there, and OSError
    naming a file; nothing is written then.
    """
    from lab.studies.report.markdown import markdown
    from lab.studies.report.page import page

    folder = folder if isinstance(folder, StudyFolder) else StudyFolder(Path(folder))
    result = read_results(folder)
    texts = {"report.md": markdown(result), "report.html": page(result)}
    result.write(folder)
    for name, text in texts.items():
        write_text(folder.path / name, text)
    return result
