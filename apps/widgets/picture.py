"""Show a figure of `lab.plots` on a page, in the page's colours, and make it again for paper: light, without tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import streamlit as st

from apps.i18n import language, speaking
from apps.i18n.sentences import translate_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

Draw = Callable[[], "go.Figure"]
"""Makes a figure anew, in the colours of `template()`. It asks no widget: an export calls it on a thread of its own."""

_TEMPLATE: ContextVar[str | None] = ContextVar("template", default=None)


def template() -> str:
    """The `lab.plots` template that reads on the page's background; for an export always the light one."""
    return _TEMPLATE.get() or ("dark" if st.context.theme.type == "dark" else "light")


@contextmanager
def _on_paper() -> Iterator[None]:
    token = _TEMPLATE.set("light")
    try:
        yield
    finally:
        _TEMPLATE.reset(token)


def picture(draw: Draw, key: str, *, on_pick: Callable[[list[int]], None] | None = None) -> None:
    """Draw a figure, in the reader's language.

    With `on_pick`, a click on a marker hands its `customdata` over before the page runs again.

    Clicks only set what a widget beside the picture sets as well: a picture is never the only way.
    """
    from lab.plots import CONFIG

    figure = translate_figure(draw())
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


def on_paper(draws: Draw | Sequence[Draw] | Mapping[str, Draw], title: str, note: str = "") -> Callable[[], str]:
    """What makes the page that an export hands over: light whatever the page is, in the reader's language."""
    spoken = language()
    named = (
        draws.items() if isinstance(draws, Mapping) else enumerate(draws if isinstance(draws, Sequence) else [draws])
    )
    kept = list(named)

    def make() -> str:
        from lab.plots import to_offline_html

        with speaking(spoken), _on_paper():
            figures = {name: translate_figure(draw()) for name, draw in kept}
        shown = figures if isinstance(draws, Mapping) else list(figures.values())
        return to_offline_html(shown, title, note=note)

    return make
