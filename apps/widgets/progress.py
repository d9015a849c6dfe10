"""A bar for work that takes a while inside a page's own run; any click elsewhere ends the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st


@contextmanager
def progress_bar(words: Callable[[int, int], str], start: str = "…") -> Iterator[Callable[[int, int], None]]:
    """A bar while the block runs. It yields what `lab.analysis` calls with (done, all); `words` says them.

    start: what it says before the first call; without a word there is no bar until then.
    """
    bar: Any = st.progress(0.0, text=start) if start else st.empty()

    def told(done: int, count: int) -> None:
        bar.progress(min(1.0, done / max(1, count)), text=words(done, count))

    try:
        yield told
    finally:
        bar.empty()
