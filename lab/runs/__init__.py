"""Runs on disk: read, list, start, pause, resume, stop and delete them. Nothing here imports torch."""

from lab.runs.files import (
    append_line,
    keep_lines,
    read_json,
    read_lines,
    strict,
    to_json,
    write_json,
    write_text,
)
from lab.runs.folder import Run, RunExistsError, RunNotFoundError, models_folder, runs_root, step_folder
from lab.runs.launch import delete_run, require_resumable, resume_training, start_training
from lab.runs.listing import find_run, fresh_run_path, list_runs, list_statuses, run_path
from lab.runs.process import RunBusyError, RunLock, process_identity
from lab.runs.rename import rename_run
from lab.runs.status import ACTIVE_STATES, ENDED_SILENTLY, STATES, RunStatus

__all__ = [
    "ACTIVE_STATES",
    "ENDED_SILENTLY",
    "STATES",
    "Run",
    "RunBusyError",
    "RunExistsError",
    "RunLock",
    "RunNotFoundError",
    "RunStatus",
    "append_line",
    "delete_run",
    "find_run",
    "fresh_run_path",
    "keep_lines",
    "list_runs",
    "list_statuses",
    "models_folder",
    "process_identity",
    "read_json",
    "read_lines",
    "rename_run",
    "require_resumable",
    "resume_training",
    "run_path",
    "runs_root",
    "start_training",
    "step_folder",
    "strict",
    "to_json",
    "write_json",
    "write_text",
]
