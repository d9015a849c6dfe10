"""The explorer's words in two languages. `t("train.title")` is the string of the reader's language.

A string is looked up by key in `en.STRINGS` or `zh.STRINGS`; both tables hold the same keys and the same placeholders,
and a test says so. The language is `st.session_state["lang"]`: the address bar's `?lang=`, else the browser's, else
English.
"""

from __future__ import annotations

import streamlit as st

from apps.i18n import en, zh

LANGUAGES: dict[str, str] = {"en": "English", "zh": "中文"}
TABLES: dict[str, dict[str, str]] = {"en": en.STRINGS, "zh": zh.STRINGS}


def language() -> str:
    """The reader's language, `en` or `zh`."""
    chosen = st.session_state.get("lang", "en")
    return chosen if chosen in TABLES else "en"


def browser_language() -> str:
    """What the browser asks for, as far as we speak it."""
    locale = st.context.locale or ""
    return "zh" if locale.lower().startswith("zh") else "en"


def t(key: str, **values: object) -> str:
    """The string called `key` in the reader's language, with `{placeholders}` filled in."""
    text = TABLES[language()][key]
    return text.format(**values) if values else text
