"""Show a figure of `lab.plots` on a page: in the page's colours, with its alternative text, keyed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from apps.i18n.sentences import translate_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go


def template() -> str:
    """The `lab.plots` template that reads on the page's background."""
    return "dark" if st.context.theme.type == "dark" else "light"


def picture(figure: go.Figure, key: str, *, on_pick: Callable[[list[int]], None] | None = None) -> None:
    """Draw `figure`, which is put into the reader's language: make it anew for each run of a page, keep none.

    With `on_pick`, a click on a marker hands its `customdata` over before the page runs again.

    Clicks only set what a widget beside the picture sets as well: a picture is never the only way.
    """
    from lab.plots import CONFIG

    translate_figure(figure)
    alt = str((figure.layout.meta or {}).get("alt", ""))
    if on_pick is None:
        st.plotly_chart(figure, key=key, width="stretch", theme=None, config=CONFIG, alt=alt)
        return

    def picked() -> None:
        points = st.session_state[key].selection.points
        data = points[0].get("customdata") if points else None
        if data is not None:
            # An array that was sent as bytes comes back as {"0": first, "1": second}.
            on_pick([int(value) for value in (data.values() if isinstance(data, dict) else data)])

    st.plotly_chart(
        figure, key=key, width="stretch", theme=None, config=CONFIG, alt=alt, on_select=picked, selection_mode="points"
    )
