"""What there is to know about each run at a glance, read from its folder and remembered until its files change."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from lab.runs import (
    ENDED_SILENTLY,
    Run,
    RunStatus,
    list_runs,
    list_statuses,
    queue,
    read_json,
    runs_root,
    summary,
    write_json,
)
from lab.runs.files import written
from lab.runs.summary import Losses
from lab.studies.folder import studies_root

DISMISSED = Path(".explorer") / "dismissed.json"
KEPT = 2048  # runs whose facts are remembered


@dataclass(frozen=True)
class Row:
    """A run in the table.

    place: its place in the queue, from 1; None where it does not wait. parameters: None until the vocabulary is known.
    losses in nats per token, None where nothing was measured. bytes: on disk. left: seconds, None where unknown.
    """

    run: Run
    id: str
    status: RunStatus
    place: int | None
    corpus: str
    parameters: int | None
    val_loss: float | None
    best_loss: float | None
    bytes: int
    left: float | None

    @property
    def sign(self) -> tuple[str, str, int | None]:
        """What a page must be drawn anew for."""
        return self.id, self.status.state, self.place

    @property
    def to_be_told(self) -> bool:
        """Whether it ended in a way that its owner should hear of, and does not go on by itself."""
        return self.place is None and went_wrong(self.status) is not None


def went_wrong(status: RunStatus) -> str | None:
    """How a run ended that did not end well: "diverged", "failed", or "interrupted" (nobody told it to); else None."""
    if status.state == "stopped" and status.error == ENDED_SILENTLY:
        return "interrupted"
    return status.state if status.state in ("diverged", "failed") else None


def rows() -> list[Row]:
    """Every run, those in training first, then the waiting ones in their order, then the one that changed last."""
    places = {run: at + 1 for at, run in enumerate(queue.waiting_runs())}
    found = [_row(run, status, places.get(run) if places else None) for run, status in list_statuses()]
    return sorted(found, key=lambda row: (row.place is not None or not row.status.active, row.place or math.inf))


def _row(run: Run, status: RunStatus, place: int | None) -> Row:
    """A run's row; what cannot be read, because it is damaged or has gone meanwhile, is left open."""
    corpus, parameters, losses = "", None, Losses()
    steps: tuple[int, ...] = ()
    with contextlib.suppress(OSError, ValueError):
        losses = summary.losses(run)
    with contextlib.suppress(OSError, ValueError):
        corpus, parameters = _facts(str(run.path), written(run.path / "config.json"))
    with contextlib.suppress(OSError):
        steps = tuple(run.checkpoints())
    return Row(
        run=run,
        id=run.id,
        status=status,
        place=place,
        corpus=corpus,
        parameters=parameters,
        val_loss=losses.val,
        best_loss=losses.best,
        bytes=_bytes(str(run.path), steps, losses),
        left=time_left(status, losses.pace),
    )


@lru_cache(maxsize=KEPT)
def _facts(path: str, stamp: tuple[int, ...] | None) -> tuple[str, int | None]:
    """(corpus, parameters) of a run's config."""
    from model.accounting import count_parameters
    from model.config import GPTConfig

    del stamp  # part of the key
    config = Run(path).config
    corpus = str(config.get("data", {}).get("corpus", ""))
    if not (Path(path) / "tokenizer.json").is_file():
        return Path(corpus).name, None  # the vocabulary is still to be counted
    try:
        return Path(corpus).name, count_parameters(GPTConfig.from_dict(config["model"])).total
    except (KeyError, ValueError):
        return Path(corpus).name, None


def time_left(status: RunStatus, pace: float | None) -> float | None:
    """Seconds until the last step at this pace; None for a run that is not being trained, or of unknown pace."""
    if pace is None or not status.active or status.state != "running":
        return None
    return max(0.0, (status.max_steps - status.step) * pace)


@lru_cache(maxsize=KEPT)
def _bytes(path: str, steps: tuple[int, ...], losses: Losses) -> int:
    """What a run takes on disk."""
    del steps, losses  # part of the key
    return _bytes_below(path)


def studies_bytes() -> int:
    """What the studies take on disk, whose runs are not in the table; up to half a minute old."""
    return _studies_bytes(str(studies_root()))


@st.cache_data(max_entries=4, ttl=30, show_spinner=False)
def _studies_bytes(path: str) -> int:
    return _bytes_below(path)


def _bytes_below(path: str) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def free_bytes() -> int:
    """Free space on the disk of the runs folder."""
    folder = runs_root().resolve()
    while not os.path.exists(folder):
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _dismissed() -> dict[str, Any]:
    try:
        return read_json(runs_root() / DISMISSED)
    except (OSError, ValueError):
        return {}


def troubles(found: list[Row]) -> list[Row]:
    """Runs that went wrong and whose message nobody has dismissed: for a run that is tried again it comes again."""
    seen = _dismissed()
    return [row for row in found if row.to_be_told and (row.id not in seen or seen[row.id] != row.status.heartbeat)]


def dismiss(row: Row) -> None:
    """Let a run's message go, for good. Raises OSError naming what cannot be written."""
    there = {run.id for run in list_runs()}
    seen = {name: when for name, when in _dismissed().items() if name in there}
    path = runs_root() / DISMISSED
    path.parent.mkdir(exist_ok=True)
    write_json(path, {**seen, row.id: row.status.heartbeat})
