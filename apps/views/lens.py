"""Lens: what the model expects at each token, and from which layer on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from apps import inspection, snippets
from apps.i18n import t
from apps.widgets.columns import share
from apps.widgets.export_row import export_row
from apps.widgets.inspected import Inspected, inspected
from apps.widgets.picture import on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.selectors import one_of, settle_token, token_choice
from apps.widgets.token_strip import Card, Strip, offline_html, token_strip

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import LogitLens, TokenPredictions

TOP_K = 8
MOST_SURPRISED = 6.0  # nats at which the colour of surprise is full
STATISTICS = ("probability", "rank", "entropy", "kl")
COLOURS = ("probability", "surprisal", "none")


def _cards(found: TokenPredictions) -> list[Card]:
    cards = []
    for index in range(len(found.tokens)):
        lines: list[tuple[str, str]] = [(t("lens.position"), str(index)), ("id", str(int(found.tokens[index])))]
        if index > 0:
            lines.append((t("lens.probability"), f"{found.probability[index]:.4f}"))
            lines.append((t("lens.surprisal"), f"{found.surprisal[index]:.2f}"))
            lines.append((t("lens.rank"), str(int(found.rank[index]))))
        lines.append((t("lens.expected_next"), ""))
        ranked = tuple(
            (str(text), f"{probability:.3f}", float(probability))
            for text, probability in zip(found.top_texts[index], found.top_probabilities[index], strict=True)
        )
        cards.append(Card(tuple(lines), ranked))
    return cards


def _strip(page: Inspected, found: TokenPredictions, colour: str) -> Strip:
    weights: list[float | None] = [None] * len(found.tokens)
    if colour == "probability":
        weights = [None, *(float(p) for p in found.probability[1:])]
    elif colour == "surprisal":
        weights = [None, *(min(1.0, float(s) / MOST_SURPRISED) for s in found.surprisal[1:])]
    return Strip(
        page.prompt.displays,
        weights,
        _cards(found),
        hue="orange" if colour == "surprisal" else "blue",
        joined=page.prompt.joined,
    )


def _cell(lens: LogitLens, row: int, position: int) -> None:
    import pandas as pd

    st.markdown(f"**{plain(t('lens.cell', row=lens.rows[row], position=position, token=lens.token_texts[position]))}**")
    frame = pd.DataFrame({"token": lens.top_texts[row, position], "probability": lens.top_probabilities[row, position]})
    st.dataframe(
        frame, hide_index=True, width="stretch", key="lens_cell",
        column_config={
            "token": t("lens.would_say"),
            "probability": share(t("lens.probability")),
        },
    )  # fmt: skip
    final = lens.final_texts[position]
    st.caption(
        plain(
            t(
                "lens.cell_line", final=final, probability=f"{lens.probability[row, position]:.4f}",
                rank=int(lens.rank[row, position]), entropy=f"{lens.entropy[row, position]:.2f}",
                kl=f"{lens.kl[row, position]:.2f}",
            )
        )
    )  # fmt: skip


def render() -> None:
    """The page."""
    page = inspected("lens")
    if page is None:
        return
    found = inspection.predictions(page.checkpoint, page.ids, TOP_K)
    chosen = settle_token(page.prompt)
    if not inspection.finite(found, "entropy"):
        st.error(t("inspection.not_finite"))
    colour = one_of("colour", COLOURS, t("lens.colour"), lambda value: t(f"lens.colour_{value}"))
    strip = _strip(page, found, colour)
    token_strip(strip, key="lens_strip", selects="token", chosen=chosen)
    if len(page.prompt) > 1:
        st.caption(t("lens.loss", loss=f"{found.loss:.4f}", n=len(page.prompt) - 1))
    else:
        st.caption(t("lens.no_loss"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        statistic = one_of("statistic", STATISTICS, t("lens.statistic"), lambda value: t(f"lens.statistic_{value}"))
        mid = st.toggle(t("lens.mid"), key="lens_mid", persist_state="session")
    lens = inspection.lens(page.checkpoint, page.ids, TOP_K, bool(mid))

    from lab.plots import lens_grid

    def grid() -> go.Figure:
        return lens_grid(lens, statistic, template=template())

    picture(grid, "lens_grid")
    left, right = st.columns([1, 2])
    with left:
        position = token_choice(page.prompt)
        rows = range(len(lens.rows))
        row = st.selectbox(
            t("lens.row"), rows, index=len(rows) - 1, key=f"lens_row_{len(rows)}", format_func=lambda i: lens.rows[i]
        )
        st.caption(t("lens.check", error=f"{lens.final_error:.1e}"))
    with right:
        _cell(lens, int(row), position)
    export_row(
        f"lens-{page.picked.name}",
        html=on_paper(grid, t("lens.title"), page.picked.name),
        frame=lens.to_frame,
        json=lens.to_json,
        python=snippets.view(page, "logit_lens", TOP_K, include_mid=bool(mid)),
        what=t("export.grid"),
    )
    export_row(
        f"tokens-{page.picked.name}",
        html=lambda: offline_html(strip, t("lens.title")),
        frame=found.to_frame,
        json=found.to_json,
        python=snippets.view(page, "token_predictions", TOP_K),
        what=t("export.tokens"),
    )


if __name__ == "__main__":
    render()
