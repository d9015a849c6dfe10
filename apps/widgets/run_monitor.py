"""A run while it trains and after: its state in words, its curves, its samples, and the buttons that steer it.

Everything is read from the run's folder. The fragment repeats only while the run is active, and asks for a full run of
the page when it no longer is; the buttons stand outside it, so that a slow refresh never delays Stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from apps import jobs
from apps.i18n import t
from apps.widgets import notices
from apps.widgets.model_picker import state_line
from apps.widgets.picture import picture, template
from apps.widgets.plain import plain
from lab.runs import ENDED_SILENTLY, Run, RunStatus, queue

REFRESH = 1.0  # seconds between looks at the folder of an active run
SILENT_AFTER = 30.0  # seconds without a sign of life after which the page says so
SAMPLES_SHOWN = 8
SAMPLES_HEIGHT = 380  # pixels, as tall as the curves beside them


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


def _buttons(run: Run, status: RunStatus) -> None:
    pausing = run.requested("pause")
    with st.container(horizontal=True):
        st.button(
            t("monitor.pause"), key="pause", icon=":material/pause:", on_click=_act, args=(run, "pause"),
            disabled=not status.active or status.state == "paused" or pausing,
        )  # fmt: skip
        st.button(
            t("monitor.resume"), key="resume", icon=":material/play_arrow:", on_click=_act, args=(run, "resume"),
            disabled=not (pausing and status.active) and not (status.resumable and status.step < status.max_steps),
        )  # fmt: skip
        st.button(
            t("monitor.stop"), key="stop", icon=":material/stop:", on_click=_act, args=(run, "stop"),
            disabled=not status.active or run.requested("stop"),
        )  # fmt: skip


def time_left(metrics: Sequence[dict[str, Any]], step: int, max_steps: int) -> float | None:
    """Seconds until the last step at the pace of the last lines of metrics; None while that is unknown."""
    timed = [(m["step"], m["wall_seconds"]) for m in metrics if m.get("wall_seconds") is not None and "step" in m][-20:]
    if len(timed) < 2 or timed[-1][0] <= timed[0][0] or timed[-1][1] <= timed[0][1]:
        return None
    pace = (timed[-1][1] - timed[0][1]) / (timed[-1][0] - timed[0][0])
    return float(max(0.0, (max_steps - step) * pace))


def duration(seconds: float) -> str:
    """`95` -> `1:35`, `3700` -> `1:01:40`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _latest(metrics: Sequence[dict[str, Any]], name: str) -> float | None:
    return next((m[name] for m in reversed(metrics) if m.get(name) is not None), None)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _say_state(run: Run, status: RunStatus) -> None:
    """States that need an explanation, in plain words; they stay as long as they are true."""
    if run in (waiting := queue.waiting_runs()):
        st.info(t("monitor.waits", place=waiting.index(run) + 1))
    elif status.state == "diverged":
        st.error(plain(t("monitor.diverged", step=f"{status.step:,}", reason=status.error or "")))
    elif status.state == "failed":
        st.error(plain(t("monitor.failed", reason=status.error or t("monitor.no_reason"))))
        if log := run.log(40):
            with st.expander(t("monitor.log")):
                st.code(log, language=None)
    elif status.state == "stopped" and status.error == ENDED_SILENTLY:
        st.warning(plain(t("monitor.interrupted", step=f"{status.step:,}")))
    elif status.state == "stopped":
        st.info(plain(t("monitor.stopped", step=f"{status.step:,}", max_steps=f"{status.max_steps:,}")))
    elif status.active and (status.seconds_since_update or 0.0) > SILENT_AFTER and status.state == "running":
        st.warning(t("monitor.silent", seconds=round(status.seconds_since_update or 0.0)))


def _progress(status: RunStatus, metrics: Sequence[dict[str, Any]]) -> None:
    parts = [plain(state_line(status))]
    if status.active:
        left = time_left(metrics, status.step, status.max_steps)
        if left is not None and status.state == "running":
            parts.append(t("monitor.left", time=duration(left)))
        if status.seconds_since_update is not None:
            parts.append(t("monitor.updated", seconds=round(status.seconds_since_update)))
    st.progress(min(1.0, status.step / max(1, status.max_steps)), text=" · ".join(parts))
    columns = st.columns(4)
    columns[0].metric(t("monitor.step"), f"{status.step:,}")
    columns[1].metric(t("monitor.train_loss"), _number(_latest(metrics, "train_loss")))
    columns[2].metric(t("monitor.val_loss"), _number(_latest(metrics, "val_loss")))
    seconds = _latest(metrics, "seconds")
    columns[3].metric(t("monitor.time"), "–" if seconds is None else duration(seconds))


def _curves(run: Run, metrics: Sequence[dict[str, Any]]) -> None:
    if not metrics:
        st.caption(t("monitor.no_metrics"))
        return
    from lab.plots import loss_curves

    picture(loss_curves({run.id: metrics}, template=template()), "loss_curves")


def _samples(run: Run) -> None:
    samples = run.samples()
    st.markdown(f"**{t('monitor.samples')}**")
    if not samples:
        st.caption(t("monitor.no_samples"))
        return
    with st.container(height=SAMPLES_HEIGHT, border=False):
        for sample in list(reversed(samples))[:SAMPLES_SHOWN]:
            st.caption(t("monitor.sample_at", step=f"{sample.get('step', 0):,}"))
            if sample.get("text") is None:
                st.warning(plain(str(sample.get("error") or t("monitor.no_reason"))))
                continue
            st.code(f"{sample.get('prompt') or ''}{sample['text']}", language=None, wrap_lines=True)


def run_monitor(run: Run) -> None:
    """Draw everything about one run."""
    status = run.status()
    _buttons(run, status)

    @st.fragment(run_every=REFRESH if status.active else None)
    def live() -> None:
        now = run.status()
        if status.active and (now.active, now.state) != (status.active, status.state):
            st.rerun()  # the buttons and the sidebar must follow, and a run that ended needs no timer
        metrics = run.metrics()
        _say_state(run, now)
        _progress(now, metrics)
        left, right = st.columns([3, 2])
        with left:
            _curves(run, metrics)
        with right:
            _samples(run)

    live()
