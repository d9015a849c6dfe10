"""Figures as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from lab.plots.theme import theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

CONFIG = {"displaylogo": False, "showSendToCloud": False, "responsive": True}
"""What every figure of ours is shown with: no logo, nothing that sends a figure anywhere."""

# The page may run its own script and draw its own images; a request to anywhere is refused by the browser itself.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
STYLE = "body{{font-family:system-ui,sans-serif;margin:2rem;color:{ink};background:{page}}} figure{{margin:0 0 2rem}}"
PAGE = {"light": "#ffffff", "dark": "#14171c"}


def to_offline_html(
    figures: go.Figure | Sequence[go.Figure] | Mapping[str, go.Figure],
    title: str = "Residual Lab",
    *,
    note: str = "",
    template: str = "light",
) -> str:
    """A page with the figures (under headings, if they come by name), plotly.js within it (about 5 MB).

    ``title``, ``note`` and headings are plain text. ``template`` is the one the figures were made with.
    """
    import plotly.graph_objects as go

    if isinstance(figures, go.Figure):
        figures = [figures]
    named = figures.items() if isinstance(figures, Mapping) else [("", figure) for figure in figures]
    about = f"<p>{escape(note)}</p>" if note else ""
    parts = [f"<h2>{escape(heading)}</h2>" * bool(heading) + figure_html(figure) for heading, figure in named]
    style = STYLE.format(ink=theme(template).ink, page=PAGE[template])
    return offline_page(title, f"<h1>{escape(title)}</h1>\n{about}\n{''.join(parts)}", style)


def figure_html(figure: go.Figure) -> str:
    """A figure with its words for those who cannot see it, for the body of an `offline_page`."""
    alt = escape(str((figure.layout.meta or {}).get("alt", "")), quote=True)
    body = figure.to_html(full_html=False, include_plotlyjs=False, include_mathjax=False, config=CONFIG)
    return f'<figure role="img" aria-label="{alt}">{body}</figure>'


def offline_page(title: str, body: str, style: str) -> str:
    """A whole page around HTML of ours, with plotly.js in it once. ``title`` is plain text."""
    from plotly.offline import get_plotlyjs

    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{style}</style>
<script>{get_plotlyjs()}</script>
</head>
<body>
{body}
</body>
</html>
"""
