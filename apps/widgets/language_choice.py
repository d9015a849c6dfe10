"""The language of the page: the address bar's `?lang=`, else the browser's, else English; switched in the sidebar."""

from __future__ import annotations

import streamlit as st

from apps import selection
from apps.i18n import LANGUAGES, browser_language, t


def settle_language() -> None:
    """Decide the language before anything is drawn, for the page's title and its navigation are words too."""
    selection.prepare("lang", list(LANGUAGES), browser_language(), what="lang", always=True)


def language_choice() -> None:
    """Draw the switch."""
    st.segmented_control(
        t("language.label"), list(LANGUAGES), key="lang", required=True, persist_state="session",
        format_func=LANGUAGES.__getitem__, label_visibility="collapsed",
    )  # fmt: skip
