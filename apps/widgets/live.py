"""The sidebar's news of a run in training: how far it is, and the page drawn anew when there is more to look at."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from apps.i18n import t
from apps.widgets.plain import plain
from lab.runs import Run, RunNotFoundError, RunStatus

REFRESH = 2.0  # seconds between looks at the run's folder
FOLLOWING = ("generate", "lens", "attention", "contributions", "interventions", "probes", "compare", "dynamics")


def follow(run: Run, drawn: RunStatus, steps: Sequence[int], newest: bool) -> None:
    """Show the state of a run in training; where it changes, draw the page anew.

    steps: the checkpoints the page knows. newest: whether it shows the newest one, so that a newer one is to be shown:
    a reader who picked another checkpoint is left alone until the run ends.
    """

    @st.fragment(run_every=REFRESH)
    def news() -> None:
        try:
            now = run.status()
            more = newest and st.session_state.get("page") in FOLLOWING and run.checkpoints() != list(steps)
        except (RunNotFoundError, OSError):
            st.rerun()  # it was deleted or moved: the picker says what there is
        if more or now.state != drawn.state:
            st.rerun()
        st.progress(min(1.0, now.step / max(1, now.max_steps)))
        st.caption(plain(t(f"state.{now.state}", step=f"{now.step:,}", max_steps=f"{now.max_steps:,}")))

    news()
