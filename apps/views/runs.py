"""Runs: what there is, what is being trained, what waits its turn; pause, stop, rename and delete."""

from __future__ import annotations

import json
import os
from html import escape
from typing import Any

import streamlit as st

from apps import run_table
from apps.i18n import t
from apps.run_table import Row
from apps.widgets import notices
from apps.widgets.checkpoint_slider import LATEST
from apps.widgets.columns import number
from apps.widgets.export_row import export_row
from apps.widgets.guarded import guarded
from apps.widgets.model_picker import offer_tiny, show_run, state_line
from apps.widgets.page import opening, picked
from apps.widgets.plain import plain
from apps.widgets.run_state import duration, run_buttons, trouble
from lab.runs import Run, delete_run, queue, rename_run, runs_root
from model.accounting import format_bytes

REFRESH = 2.0  # seconds between looks at the folder while something is being trained or waits
IDLE_REFRESH = 5.0  # seconds between looks while nothing does: a run may be started, or deleted, elsewhere
LOW_DISK = 1 << 30  # bytes
TROUBLES_SHOWN = 4
_OPENED, _CONFIRMED = "runs_opened", "runs_confirmed"


def _open() -> None:
    click = st.session_state.get("runs_open")
    if click is not None:
        st.session_state["run"], st.session_state["step"] = str(click["label"]), LATEST
        st.session_state[_OPENED] = True


def _ago(seconds: float | None) -> str:
    """How long ago, as short as it can be said."""
    if seconds is None:
        return "–"
    for key, size, below in (("seconds", 1, 120), ("minutes", 60, 7200), ("hours", 3600, 172_800)):
        if seconds < below:
            return t(f"runs.ago_{key}", n=int(seconds // size))
    return t("runs.ago_days", n=int(seconds // 86_400))


def _state(row: Row) -> str:
    if row.place is None:
        return state_line(row.status)
    if row.run.requested("pause") and row.status.state != "paused":
        return t("runs.held", place=row.place)
    return t("runs.waits", place=row.place)


def _frame(found: list[Row]) -> Any:
    import pandas as pd

    return pd.DataFrame(
        {
            "run": [row.id for row in found],
            "state": [_state(row) for row in found],
            "progress": [row.status.step / max(1, row.status.max_steps) for row in found],
            "val_loss": [row.val_loss for row in found],
            "best_loss": [row.best_loss for row in found],
            "parameters": pd.array([row.parameters for row in found], dtype="Int64"),
            "corpus": [row.corpus for row in found],
            "size": [format_bytes(row.bytes) for row in found],
            "updated": [_ago(row.status.seconds_since_update) for row in found],
            "left": ["–" if row.left is None else duration(row.left) for row in found],
        }
    ).astype({"val_loss": float, "best_loss": float})


def _table(found: list[Row]) -> None:
    st.dataframe(
        _frame(found), hide_index=True, width="stretch", height=min(600, 35 * (len(found) + 1) + 3), key="runs_table",
        placeholder="–",
        column_config={
            "run": st.column_config.ButtonColumn(
                t("picker.run"), type="tertiary", alignment="left", on_click=_open, key="runs_open", pinned=True,
                help=t("runs.open_help"),
            ),
            "state": t("runs.state"),
            "progress": st.column_config.ProgressColumn(
                t("runs.progress"), format="percent", min_value=0.0, max_value=1.0, width="small"
            ),
            "val_loss": number(t("monitor.val_loss")),
            "best_loss": number(t("runs.best_loss")),
            "parameters": st.column_config.NumberColumn(t("train.parameters"), format="localized"),
            "corpus": t("runs.corpus"),
            "size": t("runs.size"),
            "updated": t("runs.updated"),
            "left": t("runs.left"),
        },
    )  # fmt: skip


def _totals(found: list[Row]) -> None:
    taken, waiting = queue.taken_places(), sum(row.place is not None for row in found)
    free = run_table.free_bytes()
    columns = st.columns(4)
    columns[0].metric(t("runs.training"), t("runs.of", n=taken, places=queue.places()), help=t("runs.training_help"))
    columns[1].metric(t("runs.waiting"), f"{waiting:,}")
    runs, studies = sum(row.bytes for row in found), run_table.studies_bytes()
    parts = t("runs.on_disk_help", runs=format_bytes(runs), studies=format_bytes(studies))
    columns[2].metric(t("runs.on_disk"), format_bytes(runs + studies), help=parts)
    columns[3].metric(t("runs.free"), format_bytes(free))
    if free < LOW_DISK:
        st.warning(plain(t("runs.low_disk", free=format_bytes(free), folder=str(runs_root().resolve()))))


def _dismiss(row: Row) -> None:
    try:
        run_table.dismiss(row)
    except OSError as error:
        notices.add("error", t("monitor.cannot", reason=str(error)), about="dismiss")


def _troubles(found: list[Row]) -> None:
    """Runs that went wrong, each until it is dismissed, also after a reload."""
    wrong = run_table.troubles(found)
    for row in wrong[:TROUBLES_SHOWN]:
        said, seen = st.columns([8, 1], vertical_alignment="center")  # a row of its own would break after a long one
        said.error(plain(f"{row.id}: {trouble(row.status)}"))
        seen.button(
            t("notice.dismiss"), key=f"seen_{row.id}", on_click=_dismiss, args=(row,), type="tertiary",
        )  # fmt: skip
    if len(wrong) > TROUBLES_SHOWN:
        st.caption(t("runs.more_troubles", n=len(wrong) - TROUBLES_SHOWN))


def _set_places() -> None:
    try:
        queue.set_places(min(int(st.session_state["runs_places"]), os.cpu_count() or 1))
    except (OSError, TypeError, ValueError) as error:
        notices.add("error", t("monitor.cannot", reason=str(error)), about="places")


def _first(run: Run) -> None:
    try:
        queue.move_first(run)
    except (OSError, ValueError) as error:
        notices.add("error", t("monitor.cannot", reason=str(error)), about=f"act-{run.id}")
    else:
        notices.withdraw(f"act-{run.id}")


def _rename(run: Run) -> None:
    name = str(st.session_state.get("runs_name") or "").strip()
    try:
        show_run(rename_run(run, name))
    except (OSError, ValueError, RuntimeError) as error:
        notices.add("error", t("monitor.cannot", reason=str(error)), about="rename")
    else:
        notices.withdraw("rename")
        st.session_state["runs_name"] = ""


def _actions(row: Row) -> None:
    """What can be done with the picked run."""
    run, status = row.run, row.status
    waits = row.place is not None
    st.markdown(f"**{plain(run.id)}** — {plain(_state(row))}")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        run_buttons(run, status, waits, "runs_")
        st.button(
            t("runs.first"), key="runs_first", icon=":material/vertical_align_top:", on_click=_first, args=(run,),
            disabled=not waits or row.place == 1, help=t("runs.first_help"),
        )  # fmt: skip
        with st.popover(t("runs.rename"), icon=":material/edit:", disabled=status.active or waits or "/" in run.id):
            st.text_input(t("runs.new_name"), key="runs_name", max_chars=100, placeholder=run.id)
            st.button(t("runs.rename_do"), key="runs_rename", on_click=_rename, args=(run,))


def _delete(runs: list[Run]) -> None:
    if not st.session_state.get("runs_sure"):
        return
    for run in runs:
        name = run.id
        try:
            delete_run(run)
            if st.session_state.get("run") == name:
                st.session_state.pop("run")  # another is shown, and that needs no notice
        except (OSError, ValueError, RuntimeError) as error:
            notices.add("error", t("monitor.cannot", reason=str(error)), about=f"delete-{name}")
    st.session_state["runs_doomed"], st.session_state["runs_sure"] = [], False


def _deleting(found: list[Row]) -> None:
    """Delete runs, of which none is in training: chosen, their size said, and confirmed."""
    free = {row.id: row for row in found if not row.status.active and row.place is None}
    kept = st.session_state.get("runs_doomed", [])
    st.session_state["runs_doomed"] = [name for name in kept if name in free]
    with st.expander(t("runs.delete"), icon=":material/delete:"):
        chosen = st.multiselect(t("runs.doomed"), list(free), key="runs_doomed", help=t("runs.doomed_help"))
        doomed = [free[name] for name in chosen if name in free]
        size = format_bytes(sum(row.bytes for row in doomed))
        if st.session_state.get(_CONFIRMED) != chosen:
            st.session_state[_CONFIRMED], st.session_state["runs_sure"] = chosen, False  # asked anew for other runs
        st.checkbox(t("runs.sure", n=len(doomed), size=size), key="runs_sure", disabled=not doomed)
        st.button(
            t("runs.delete_do", n=len(doomed)), key="runs_delete", type="primary", on_click=_delete,
            args=([row.run for row in doomed],), disabled=not doomed or not st.session_state.get("runs_sure"),
        )  # fmt: skip


def _html(found: list[Row]) -> str:
    title = escape(t("runs.title"))
    return f"<!doctype html><meta charset='utf-8'><title>{title}</title><h1>{title}</h1>{_frame(found).to_html()}"


def _json(found: list[Row]) -> str:
    return json.dumps(
        [
            {
                "run": row.id, "state": row.status.state, "place": row.place, "step": row.status.step,
                "max_steps": row.status.max_steps, "error": row.status.error, "corpus": row.corpus,
                "parameters": row.parameters, "val_loss": row.val_loss, "best_loss": row.best_loss, "bytes": row.bytes,
            }
            for row in found
        ],
        ensure_ascii=False, allow_nan=False, indent=1,
    )  # fmt: skip


def _python() -> str:
    """The table's main columns as a few lines."""
    return "\n".join(
        (
            "from lab.runs import list_runs",
            "",
            f"for run in list_runs({runs_root().as_posix()!r}):",
            "    status = run.status()",
            "    losses = [row['val_loss'] for row in run.metrics() if row['val_loss'] is not None]",
            "    print(run.id, status.state, status.step, status.max_steps, losses[-1] if losses else None)",
        )
    )


def render() -> None:
    """The page."""
    opening("runs")
    found = run_table.rows()
    busy = any(row.status.active or row.place is not None for row in found)
    signs = [row.sign for row in found]

    def live() -> None:
        with guarded("runs"):
            draw()

    def draw() -> None:
        now = run_table.rows()
        if st.session_state.pop(_OPENED, False) or [row.sign for row in now] != signs:
            st.rerun()  # what stands outside the live part must follow
        if not now:
            st.info(t("picker.nothing_yet"))
            return
        _troubles(now)
        _totals(now)
        _table(now)

    st.fragment(run_every=REFRESH if busy else IDLE_REFRESH)(live)()
    if not found:
        offer_tiny("tiny_runs")
        return
    model = picked()
    row = next((row for row in found if model is not None and row.run == model.run), None)
    if row is not None:
        _actions(row)
    cores = os.cpu_count() or 1
    st.session_state["runs_places"] = min(queue.places(), cores)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.number_input(
            t("runs.at_once"), min_value=1, max_value=cores, key="runs_places", on_change=_set_places, width=220,
            disabled=cores == 1, help=t("runs.at_once_help"),
        )  # fmt: skip
        st.caption(t("runs.closing"))
    _deleting(found)
    export_row(
        "runs", html=lambda: _html(found), frame=lambda: _frame(found), json=lambda: _json(found), python=_python()
    )


if __name__ == "__main__":
    render()
