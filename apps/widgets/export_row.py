"""Take the view home: the picture as a page that opens offline and as PNG, the numbers as CSV and JSON, and the Python
that makes them. Built when clicked; what cannot be had here is shown, and says what it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from apps.i18n import t
from apps.widgets.export_png import photographed, renderer
from lab.runs.spreadsheet import csv_text

Maker = Callable[[], str]


def export_row(
    name: str,
    *,
    html: Maker | None = None,
    frame: Callable[[], Any] | None = None,
    json: Maker | None = None,
    python: str | None = None,
    what: str | None = None,
) -> None:
    """A row of download buttons for one view.

    Args:
        name: file name without ending, also the widgets' key; characters outside letters, digits, - and _ become _.
        html: makes the self-contained page, which PNG is a photograph of.
        frame: makes the data frame behind the picture.
        json: makes the JSON text.
        python: a few lines that give the same numbers, ready to be copied.
        what: says which of several pictures the row is for.
    """
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
    with st.container(horizontal=True, vertical_alignment="center", key=f"export_{safe}"):
        st.caption(what or t("export.view"), width="content")
        if html is not None:
            st.download_button(
                t("export.html"), data=html, file_name=f"{safe}.html", mime="text/html", key=f"{safe}_html",
                on_click="ignore", icon=":material/download:", help=t("export.html_help"),
            )  # fmt: skip
            _png(safe, html)
        if frame is not None:
            st.download_button(
                t("export.csv"), data=lambda: csv_text(frame()), file_name=f"{safe}.csv", mime="text/csv",
                key=f"{safe}_csv", on_click="ignore", icon=":material/table:",
            )  # fmt: skip
        if json is not None:
            st.download_button(
                t("export.json"), data=json, file_name=f"{safe}.json", mime="application/json", key=f"{safe}_json",
                on_click="ignore", icon=":material/data_object:",
            )  # fmt: skip
        if python is not None:
            with st.popover(t("export.python"), icon=":material/code:"):
                st.code(python, language="python")


def _png(name: str, html: Maker) -> None:
    ready = renderer() is not None
    st.download_button(
        t("export.png"), data=(lambda: photographed(html())) if ready else b"", file_name=f"{name}.png",
        mime="image/png", key=f"{name}_png", on_click="ignore", icon=":material/image:", disabled=not ready,
        help=t("export.png_help") if ready else t("export.png_missing"),
    )  # fmt: skip
