"""A run while it trains and after: its state in words, its curves, its samples, and the buttons that steer it.

Everything is read from the run's folder. The fragment repeats only while the run is active, and asks for a full run of
the page when it no longer is; the buttons stand outside it, so that a slow refresh never delays Stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from apps.i18n import t
from apps.run_table import time_left
from apps.widgets.guarded import guarded
from apps.widgets.model_picker import state_line
from apps.widgets.picture import picture, template
from apps.widgets.plain import plain
from apps.widgets.run_state import duration, run_buttons, trouble
from lab.runs import Run, RunStatus, queue
from lab.runs.summary import latest, seconds_a_step

REFRESH = 1.0  # seconds between looks at the folder of an active run
SILENT_AFTER = 30.0  # seconds without a sign of life after which the page says so
SAMPLES_SHOWN = 8
SAMPLES_HEIGHT = 380  # pixels, as tall as the curves beside them


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _say_state(run: Run, status: RunStatus) -> None:
    """States that need an explanation, in plain words; they stay as long as they are true."""
    wrong = trouble(status)
    if run in (waiting := queue.waiting_runs()):
        st.info(t("monitor.waits", place=waiting.index(run) + 1))
    elif wrong is not None:
        (st.warning if status.state == "stopped" else st.error)(plain(wrong))
        if status.state == "failed" and (log := run.log(40)):
            with st.expander(t("monitor.log")):
                st.code(log, language=None)
    elif status.state == "stopped":
        st.info(plain(t("monitor.stopped", step=f"{status.step:,}", max_steps=f"{status.max_steps:,}")))
    elif status.active and (status.seconds_since_update or 0.0) > SILENT_AFTER and status.state == "running":
        st.warning(t("monitor.silent", seconds=round(status.seconds_since_update or 0.0)))


def _progress(status: RunStatus, metrics: Sequence[dict[str, Any]]) -> None:
    parts = [plain(state_line(status))]
    if status.active:
        left = time_left(status, seconds_a_step(metrics))
        if left is not None:
            parts.append(t("monitor.left", time=duration(left)))
        if status.seconds_since_update is not None:
            parts.append(t("monitor.updated", seconds=round(status.seconds_since_update)))
    st.progress(min(1.0, status.step / max(1, status.max_steps)), text=" · ".join(parts))
    columns = st.columns(4)
    columns[0].metric(t("monitor.step"), f"{status.step:,}")
    columns[1].metric(t("monitor.train_loss"), _number(latest(metrics, "train_loss")))
    columns[2].metric(t("monitor.val_loss"), _number(latest(metrics, "val_loss")))
    seconds = latest(metrics, "seconds")
    columns[3].metric(t("monitor.time"), "–" if seconds is None else duration(seconds))


def _curves(run: Run, metrics: Sequence[dict[str, Any]]) -> None:
    if not metrics:
        st.caption(t("monitor.no_metrics"))
        return
    from lab.plots import loss_curves

    picture(lambda: loss_curves({run.id: metrics}, template=template()), "loss_curves")


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
    with st.container(horizontal=True):
        run_buttons(run, status, waits=run in queue.waiting_runs())

    @st.fragment(run_every=REFRESH if status.active else None)
    def live() -> None:
        with guarded("monitor"):
            draw()

    def draw() -> None:
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
