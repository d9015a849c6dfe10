"""Studies by name or by file: those of the package `studies`, or a Python file that sets STUDY."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path

from lab.studies.definition import Study, StudyError
from model.config import nearest


def studies_folder() -> Path:
    """Where the project's own study scripts lie."""
    return Path(__file__).resolve().parents[2] / "studies"


def study_names() -> list[str]:
    """The names of the project's own studies."""
    return sorted(path.stem for path in studies_folder().glob("[a-z]*.py"))


def find_study(name: str) -> Study:
    """A study of ours by name, or the STUDY of a Python file. Raises StudyError with the nearest name."""
    path = Path(name) if name.endswith(".py") else studies_folder() / f"{name}.py"
    if not path.is_file():
        known = study_names()
        raise StudyError(f"There is no study {name!r}{nearest(name, known)}")
    spec = importlib.util.spec_from_file_location(f"study_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise StudyError(f"{path} cannot be read as a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except StudyError:
        raise
    except (Exception, SystemExit) as problem:  # whatever the file does wrong
        raise StudyError(
            f"{path}{_line(problem, path)} cannot be run: {type(problem).__name__}: {problem}"
        ) from problem
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise StudyError(f"{path} sets no STUDY = Study(...).")
    return study


def _line(problem: BaseException, path: Path) -> str:
    """ ", line 3" where an exception came from that line of a file."""
    if isinstance(problem, SyntaxError):
        return f", line {problem.lineno}" if problem.lineno else ""
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
