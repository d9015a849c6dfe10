"""The explorer's words in two languages. `t("train.title")` is the string of the reader's language.

Every file of `words` holds the words of one page or one shared part, each string as (English, Chinese) side by side,
so that none can lack its translation. The language is `st.session_state["lang"]`: the address bar's `?lang=`, else the
browser's, else English.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import streamlit as st

from apps.i18n import words

LANGUAGES: dict[str, str] = {"en": "English", "zh": "中文"}


def _tables() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {name: {} for name in LANGUAGES}
    for part in pkgutil.iter_modules(words.__path__):
        for key, translations in importlib.import_module(f"{words.__name__}.{part.name}").WORDS.items():
            if key in tables["en"]:
                raise ValueError(f"apps/i18n/words: {key!r} is there twice, the second time in {part.name}.py")
            for name, text in zip(LANGUAGES, translations, strict=True):
                tables[name][key] = text
    return tables


TABLES: dict[str, dict[str, str]] = _tables()


_SPOKEN: ContextVar[str | None] = ContextVar("spoken", default=None)


@contextmanager
def speaking(chosen: str) -> Iterator[None]:
    """Use this language for a while: for what is made on a thread of its own, which knows no session."""
    token = _SPOKEN.set(chosen)
    try:
        yield
    finally:
        _SPOKEN.reset(token)


def language() -> str:
    """The reader's language, `en` or `zh`."""
    chosen = _SPOKEN.get() or st.session_state.get("lang", "en")
    return chosen if chosen in TABLES else "en"


def browser_language() -> str:
    """What the browser asks for, as far as we speak it."""
    locale = st.context.locale or ""
    return "zh" if locale.lower().startswith("zh") else "en"


def t(key: str, **values: object) -> str:
    """The string called `key` in the reader's language, with `{placeholders}` filled in."""
    text = TABLES[language()][key]
    return text.format(**values) if values else text
