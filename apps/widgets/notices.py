"""Messages that stay until the reader dismisses them, across pages and reruns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from apps.i18n import t
from apps.widgets.plain import plain

Kind = Literal["error", "warning", "info"]
_KEY = "notices"
_MOST = 6  # older ones give way: a page of notices hides the page


@dataclass(frozen=True)
class Notice:
    """One message: its kind, its text, and what it is about (a newer one about the same thing replaces it)."""

    kind: Kind
    text: str
    about: str


def add(kind: Kind, text: str, *, about: str | None = None) -> None:
    """Keep a message; the same text is kept once, and `about` lets a newer message replace an older one."""
    kept: list[Notice] = st.session_state.get(_KEY, [])
    notice = Notice(kind, text, about or text)
    kept = [old for old in kept if old.about != notice.about and old.text != text]
    st.session_state[_KEY] = [*kept, notice][-_MOST:]


def withdraw(about: str) -> None:
    """Take back the message about something that has been put right."""
    st.session_state[_KEY] = [old for old in st.session_state.get(_KEY, []) if old.about != about]


def _dismiss(index: int) -> None:
    kept = list(st.session_state.get(_KEY, []))
    if index < len(kept):
        del kept[index]
    st.session_state[_KEY] = kept


def show() -> None:
    """Draw every message that was kept, each with a button that dismisses it."""
    for index, notice in enumerate(st.session_state.get(_KEY, [])):
        box = {"error": st.error, "warning": st.warning, "info": st.info}[notice.kind]
        with st.container(key=f"notice_{index}"):
            said, seen = st.columns([8, 1], vertical_alignment="center")  # a horizontal row breaks after a long text
            with said:
                box(plain(notice.text))
            seen.button(
                t("notice.dismiss"), key=f"dismiss_{index}", on_click=_dismiss, args=(index,), type="tertiary",
            )  # fmt: skip
