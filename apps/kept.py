"""Answers that took a while, kept for all sessions of the server within a bound, and looked up without computing.

Streamlit's own caches compute what they do not have. A page that must ask before it spends half a minute needs to know
first whether the answer is there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import streamlit as st


class Kept:
    """The `most` answers asked for last, by key; safe to use from any session's thread."""

    def __init__(self, most: int):
        self._most = most
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any | None:
        """The answer, or None."""
        with self._lock:
            if key not in self._answers:
                return None
            self._answers.move_to_end(key)
            return self._answers[key]

    def put(self, key: Hashable, answer: Any) -> None:
        """Keep an answer; the one that was not asked for the longest goes."""
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


@st.cache_resource(show_spinner=False)
def kept(what: str, most: int = 16) -> Kept:
    """The answers called `what`."""
    del what  # the key
    return Kept(most)
