"""Which run, which checkpoint: the selection in the sidebar that every page follows.

A model that was trained elsewhere (GPT-2, a Llama) becomes a run when it is opened, so there is one kind of thing to
pick.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from apps import elsewhere, jobs, selection
from apps.i18n import t
from apps.widgets import notices
from apps.widgets.checkpoint_slider import LATEST, checkpoint_slider
from apps.widgets.live import follow
from apps.widgets.open_elsewhere import arrived, open_elsewhere
from apps.widgets.plain import plain
from lab.runs import Run, RunNotFoundError, RunStatus, list_statuses, run_path, runs_root


@dataclass(frozen=True)
class Picked:
    """The model the pages look at: a run and one of its checkpoints (None: it has none yet)."""

    run: Run
    status: RunStatus
    step: int | None

    @property
    def reference(self) -> str:
        """What `lab.open_model` takes."""
        return f"{self.run.path}@{self.step}"

    @property
    def name(self) -> str:
        """For file names and titles."""
        return f"{self.run.id}@{self.step}"

    @property
    def came_from(self) -> str | None:
        """Where a model that was not trained here came from ("weights of gpt2"); None for one trained here."""
        return elsewhere.came_from(self.run)


def ordered_runs() -> list[tuple[Run, RunStatus]]:
    """The runs a reader may pick, with their status: those being trained first, then the one that changed last."""
    return sorted(list_statuses(), key=lambda found: not found[1].active)


def _of_a_study(name: object) -> tuple[Run, RunStatus] | None:
    """The run inside a study that a link or a page asks for; studies hold too many to be listed with the others."""
    if not isinstance(name, str) or not name.startswith("studies/"):
        return None
    try:
        run = Run(run_path(name))  # inside the folder of runs, or ValueError
        return run, run.status()
    except (ValueError, RunNotFoundError):
        return None


def _pick_run() -> None:
    st.session_state["step"] = LATEST  # another run has other checkpoints


def show_run(run: Run) -> None:
    """Make `run` the one every page looks at; for callbacks, which run before the widgets are drawn."""
    st.session_state["run"] = run.id
    st.session_state["step"] = LATEST


def start_tiny() -> None:
    """Callback: train the first-visit model, or show it when it is being trained already."""
    try:
        show_run(jobs.start_tiny().run)
    except (OSError, ValueError) as error:
        notices.add("error", str(error), about="start")


def offer_tiny(key: str) -> None:
    """A button that trains a small model on the spot."""
    st.button(
        t("picker.train_tiny"), key=key, on_click=start_tiny, type="primary", icon=":material/bolt:",
        help=t("picker.train_tiny_help"),
    )  # fmt: skip


def state_line(status: RunStatus) -> str:
    """A run's state in the reader's words, with its step."""
    return t(f"state.{status.state}", step=f"{status.step:,}", max_steps=f"{status.max_steps:,}")


def model_picker() -> Picked | None:
    """Draw the picker in the sidebar; None when there is no run at all."""
    if run_id := arrived():
        st.session_state["run"], st.session_state["step"] = run_id, LATEST
    found = ordered_runs()
    asked = (st.query_params.get("run"), st.session_state.get("run"))
    found += [one for one in map(_of_a_study, asked) if one is not None]
    by_id = {run.id: (run, status) for run, status in found}
    if not by_id:
        st.caption(t("picker.none", folder=plain(str(runs_root()))))
        offer_tiny("tiny_sidebar")
        open_elsewhere()
        return None
    # Always in the address: a reload must show the same run, also after a newer one has started.
    chosen = selection.prepare("run", list(by_id), next(iter(by_id)), what=t("picker.run"), always=True)
    st.selectbox(
        t("picker.run"), list(by_id), key="run", on_change=_pick_run, persist_state="session", help=t("picker.run_help")
    )
    run, status = by_id[chosen]
    steps = run.checkpoints()
    step = checkpoint_slider(steps)
    source = elsewhere.came_from(run)
    if source is not None:
        st.caption(plain(t("picker.came_from", source=source)))
    elif status.active:
        follow(run, status, steps, step == LATEST)
    else:
        st.caption(plain(state_line(status)))
    open_elsewhere()
    if step == LATEST:
        return Picked(run, status, steps[-1] if steps else None)
    return Picked(run, status, int(step))
