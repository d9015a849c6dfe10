"""A run's state in words, and what can be asked of it: the same sentences and buttons wherever a run is shown."""

from __future__ import annotations

import streamlit as st

from apps import jobs
from apps.i18n import t
from apps.i18n.sentences import said
from apps.run_table import went_wrong
from apps.widgets import notices
from lab.runs import Run, RunStatus


def duration(seconds: float) -> str:
    """`95` -> `1:35`, `3700` -> `1:01:40`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def trouble(status: RunStatus) -> str | None:
    """What went wrong and what to do about it; None for a run that nothing is wrong with."""
    kind = went_wrong(status)
    if kind is None:
        return None
    return t(
        f"monitor.{kind}",
        step=f"{status.step:,}",
        reason=said(status.error) if status.error else t("monitor.no_reason"),
    )


def _act(run: Run, what: str) -> None:
    try:
        if what == "pause":
            run.request_pause()
        elif what == "stop":
            jobs.stop(run)
        else:
            jobs.resume(run)
    except (OSError, ValueError, RuntimeError) as error:
        notices.add("error", t("monitor.cannot", reason=str(error)), about=f"act-{run.id}")
    else:
        notices.withdraw(f"act-{run.id}")


def run_buttons(run: Run, status: RunStatus, waits: bool, prefix: str = "") -> None:
    """Pause, Resume and Stop, each where it means something now; call inside a row. `prefix` begins their keys.

    waits: whether the run is in the queue, where Pause holds it and Stop takes it out.
    """
    live, pausing = status.active or waits, run.requested("pause")
    begun_and_left = status.resumable and not waits and status.step < status.max_steps
    possible = {
        "pause": live and status.state != "paused" and not pausing,
        "resume": (pausing and live) or begun_and_left,
        "stop": live and not run.requested("stop"),
    }
    icons = {"pause": ":material/pause:", "resume": ":material/play_arrow:", "stop": ":material/stop:"}
    for what, icon in icons.items():
        st.button(
            t(f"monitor.{what}"), key=f"{prefix}{what}", icon=icon, on_click=_act, args=(run, what),
            disabled=not possible[what],
        )  # fmt: skip
