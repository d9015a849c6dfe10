"""What a page cannot read becomes a sentence where it would have stood, and the rest of the explorer goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from apps.i18n import t
from apps.i18n.sentences import said
from apps.widgets.plain import plain
from lab.runs.files import reason

BROKEN = "broken"
"""Key of the box around the sentence."""


@contextmanager
def guarded(part: str) -> Iterator[None]:
    """Draw a part of the page; a file that is damaged, unreadable or gone is told of instead of raised.

    part: tells the boxes of one page apart.
    """
    try:
        yield
    except (OSError, ValueError) as problem:
        with st.container(key=f"{BROKEN}_{part}"):
            st.error(plain(t("frame.broken", reason=said(reason(problem)))))
