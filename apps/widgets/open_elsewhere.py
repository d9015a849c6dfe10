"""The field for a model that was trained elsewhere: what it takes is said first, then it is loaded with progress."""

from __future__ import annotations

import streamlit as st

from apps import elsewhere
from apps.i18n import t
from apps.i18n.sentences import said
from apps.widgets import notices
from apps.widgets.plain import plain
from apps.widgets.progress import progress_bar
from lab.runs.folder import models_folder
from model.accounting import format_bytes
from model.pretrained.files import PretrainedError

_ARRIVED = "elsewhere_arrived"  # the run to show next, set where its widget is drawn already


def arrived() -> str | None:
    """The id of a run that was brought in just now, once; ask before the picker is drawn."""
    run_id: str | None = st.session_state.pop(_ARRIVED, None)
    return run_id


def _use_offer() -> None:
    if chosen := st.session_state.get("elsewhere_offer"):
        st.session_state["elsewhere"] = chosen
    st.session_state["elsewhere_offer"] = None


def open_elsewhere() -> None:
    """Draw the field; call inside the sidebar, below the picker."""
    with st.expander(t("elsewhere.title"), key="elsewhere_open", on_change="rerun", icon=":material/download:") as box:
        if not box.open:
            return
        names = list(elsewhere.offered())
        if names:
            st.selectbox(
                t("elsewhere.offered"), names, index=None, key="elsewhere_offer", on_change=_use_offer,
                placeholder=t("prompt.choose"),
            )  # fmt: skip
        st.text_input(
            t("elsewhere.name"), key="elsewhere", max_chars=200, placeholder="gpt2", persist_state="session",
            help=plain(t("elsewhere.help", folder=str(models_folder()), variable=elsewhere.VARIABLE)),
        )  # fmt: skip
        name = str(st.session_state.get("elsewhere") or "").strip()
        if name:
            _ask(name)


def _ask(name: str) -> None:
    """What the model takes, and the button that loads it; a sentence where it cannot be had."""
    try:
        asked = elsewhere.asked_for(name)
        there = elsewhere.brought_in(asked)
        if there is None:
            with st.spinner(t("elsewhere.looking")):
                takes = elsewhere.needs(asked)
    except (PretrainedError, elsewhere.Refused, OSError, ValueError) as error:
        st.error(plain(said(str(error))))
        return
    if there is not None:
        st.caption(plain(t("elsewhere.there", name=asked.name, run=there.id)))
        if st.button(t("elsewhere.show"), key="elsewhere_show"):
            _show(there.id)
        return
    size = format_bytes(takes.bytes)
    what = t("elsewhere.takes_file", size=size)
    if takes.parameters is not None:
        what = t("elsewhere.takes", kind=takes.kind, parameters=f"{takes.parameters:,}", size=size)
    room = t("elsewhere.free", memory=format_bytes(takes.memory_free), disk=format_bytes(takes.disk_free))
    st.caption(plain(f"{what} {room}"))
    if asked.on_hub:
        st.caption(t("elsewhere.downloads"))
    if not takes.fits:
        st.warning(t("elsewhere.no_room"))
    if st.button(t("elsewhere.open"), key="elsewhere_go", type="primary", icon=":material/download:"):
        _load(asked)


def _load(asked: elsewhere.Asked) -> None:
    def words(done: int, count: int) -> str:
        if done < count:
            return t("elsewhere.loading", done=done, n=count)
        return t("elsewhere.writing", n=count)

    def bytes_of(done: int, count: int) -> str:
        return t("elsewhere.fetched", done=format_bytes(done), all=format_bytes(count))

    try:
        waiting = t("elsewhere.fetching") if asked.on_hub else t("elsewhere.reading")
        with st.spinner(waiting), progress_bar(bytes_of, "") as fetched, progress_bar(words, "") as told:
            run = elsewhere.bring_in(asked, told, fetched)
    except (PretrainedError, elsewhere.Refused, OSError, ValueError, RuntimeError) as error:
        st.error(plain(t("elsewhere.failed", name=asked.name, reason=said(str(error)))))
        return
    except MemoryError:
        st.error(plain(t("elsewhere.no_memory", name=asked.name)))
        return
    notices.withdraw("run")
    _show(run.id)


def _show(run_id: str) -> None:
    st.session_state[_ARRIVED] = run_id
    st.rerun()
