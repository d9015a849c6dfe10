"""Contributions: which parts of the network write the next token, in signed numbers that add up to its logit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from apps import inspection, selection, snippets
from apps.i18n import t
from apps.widgets.columns import number
from apps.widgets.export_row import export_row
from apps.widgets.inspected import Inspected, inspected
from apps.widgets.picture import on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.selectors import one_of
from apps.widgets.token_target import NONE, token_target

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import LogitContributions

BY = ("component", "layer", "head", "neuron")
MOST_BARS = 30


def _sum_line(result: LogitContributions) -> None:
    what = (
        t("contributions.logit_of", token=result.token_text)
        if result.versus < 0
        else t("contributions.difference_of", token=result.token_text, versus=result.versus_text)
    )
    line = t(
        "contributions.sum",
        what=what,
        total=f"{result.total:.4f}",
        logit=f"{result.logit:.4f}",
        error=f"{result.error:.1e}",
    )
    if abs(result.model_logit - result.logit) > 1e-9:
        line += " " + t("contributions.capped", logit=f"{result.model_logit:.4f}")
    st.caption(plain(line))


def _table(result: LogitContributions) -> None:
    """All components, the largest first, without the columns this split leaves empty."""
    frame = result.to_frame().dropna(axis="columns", how="all")
    frame = frame.loc[frame["value"].abs().sort_values(ascending=False).index]
    st.dataframe(
        frame, hide_index=True, width="stretch", height=min(330, 35 * (len(frame) + 1) + 3), key="contribution_table",
        placeholder="",
        column_config={
            "component": t("contributions.component"),
            "kind": None,
            "layer": t("select.layer"),
            "head": t("select.head"),
            "neuron": t("contributions.by_neuron"),
            "value": number(t("contributions.value")),
        },
    )  # fmt: skip


def _level(page: Inspected) -> tuple[str, int | None]:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        by = one_of("by", BY, t("contributions.by"), lambda value: t(f"contributions.by_{value}"))
    layer: int | None = None
    if by in ("head", "neuron"):
        with right:
            options = [NONE, *range(page.config.n_layers)]

            def say(place: int) -> str:
                return t("contributions.all_layers") if place == NONE else str(place)

            value = selection.prepare("drill", options, NONE, parse=int, what=t("select.layer"), say=say)
            st.selectbox(
                t("contributions.drill"), options, key="drill", persist_state="session", format_func=say
            )  # fmt: skip
            layer = None if value == NONE else value
    return by, layer


def render() -> None:
    """The page."""
    page = inspected("contributions")
    if page is None:
        return
    position, token, versus = token_target(page)
    by, layer = _level(page)
    try:
        with st.spinner(t("inspection.running")):
            result = inspection.contributions(page.checkpoint, page.ids, position, token, versus, by, layer)
    except (ValueError, MemoryError) as error:
        st.error(plain(str(error)))
        return
    from lab.plots import contribution_bars, residual_norms

    def bars() -> go.Figure:
        return contribution_bars(result, top=MOST_BARS, template=template())

    picture(bars, "contribution_bars")
    _sum_line(result)
    left, right = st.columns([2, 3])
    with left:
        _table(result)
    with right:
        norms = inspection.norms(page.checkpoint, page.ids)

        def growth() -> go.Figure:
            return residual_norms(norms, position=position, template=template())

        picture(growth, "residual_norms")
    export_row(
        f"contributions-{page.picked.name}-{by}",
        html=on_paper(bars, t("contributions.title"), page.picked.name),
        frame=result.to_frame,
        json=result.to_json,
        python=snippets.view(
            page, "logit_contributions", position=position, token=token, versus=versus, by=by, layer=layer
        ),
        what=t("export.bars"),
    )
    export_row(
        f"norms-{page.picked.name}",
        html=on_paper(growth, t("contributions.title"), page.picked.name),
        frame=norms.to_frame,
        json=norms.to_json,
        python=snippets.view(page, "residual_norms"),
        what=t("export.growth"),
    )


if __name__ == "__main__":
    render()
