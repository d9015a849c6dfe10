"""Attention: where each head looks; all heads at once, one head large, and its weights over the text."""

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
from apps.widgets.selectors import head_choice, layer_choice, one_of, settle_token, token_choice
from apps.widgets.token_strip import Card, Strip, token_strip

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import AttentionPatterns, HeadScores

WEIGHTINGS = ("pattern", "value_weighted")
BADGES = ("induction", "previous_token", "duplicate_token", "first_token", "entropy")
MOST_LISTED = 12
MOST_RANKED = 5


def _pick_head(pair: list[int]) -> None:
    st.session_state["layer"], st.session_state["head"] = pair


def _badges(scores: HeadScores, layer: int, head: int) -> None:
    for column, name in zip(st.columns(len(BADGES)), BADGES, strict=True):
        value = float(getattr(scores, name)[layer, head])
        chance = scores.chance[name]
        shown = "–" if value != value else f"{value:.2f}"
        column.metric(
            t(f"attention.score_{name}"), shown, help=t(f"attention.score_{name}_help", chance=f"{chance:.2f}")
        )


@st.fragment
def _find(scores: HeadScores) -> None:
    """All heads in a table that sorts by any score; made when it is opened."""
    with st.expander(t("attention.find"), icon=":material/manage_search:", key="find_head", on_change="rerun") as box:
        if not box.open:
            return
        st.caption(t("attention.find_help"))
        frame = scores.to_frame()
        top = {name: float(max(1.0, frame[name].max())) if len(frame) else 1.0 for name in BADGES}
        st.dataframe(
            frame.sort_values("induction", ascending=False), hide_index=True, width="stretch", height=260,
            key="head_table",
            column_config={
                "layer": t("select.layer"),
                "head": t("select.head"),
                **{name: share(t(f"attention.score_{name}"), most=top[name], digits=2) for name in BADGES},
            },
        )  # fmt: skip


def _text(page: Inspected, patterns: AttentionPatterns, weighting: str, layer: int, head: int, query: int) -> None:
    weights = getattr(patterns, weighting)[layer, head]  # [query, key]
    names = [f"{index}: {text}" for index, text in enumerate(page.prompt.displays)]
    rows, cards = [], []
    for q, row in enumerate(weights):
        first = int(patterns.masked[q].argmin())  # keys first..q are seen
        seen = row[first : q + 1]
        rows.append([None] * first + seen.astype(float).round(3).tolist())
        largest = (-seen[::-1]).argsort(kind="stable")[:MOST_RANKED]
        ranked = tuple((names[q - back], f"{row[q - back]:.3f}", round(float(row[q - back]), 3)) for back in largest)
        cards.append(Card(((t("attention.from"), names[q]),), ranked))
    st.caption(t("attention.text_help"))
    token_strip(
        Strip(page.prompt.displays, (), cards, rows, joined=page.prompt.joined),
        key="attention_text",
        selects="token",
        chosen=query,
    )


def _cells(page: Inspected, patterns: AttentionPatterns, layer: int, head: int, query: int) -> None:
    """The chosen token's row as numbers."""
    import pandas as pd

    seen = [key for key in range(query + 1) if not patterns.masked[query, key]]
    frame = pd.DataFrame(
        {
            "key": [f"{key}: {page.prompt.displays[key]}" for key in seen],
            "pattern": patterns.pattern[layer, head, query, seen],
            "value_weighted": patterns.value_weighted[layer, head, query, seen],
        }
    ).sort_values("pattern", ascending=False)
    st.markdown(f"**{plain(t('attention.row', query=query, token=page.prompt.displays[query]))}**")
    st.dataframe(
        frame, hide_index=True, width="stretch", height=35 * min(MOST_LISTED, len(frame) + 1) + 3, key="attention_row",
        column_config={
            "key": t("attention.key"),
            "pattern": share(t("attention.weighting_pattern")),
            "value_weighted": share(t("attention.weighting_value_weighted")),
        },
    )  # fmt: skip


def render() -> None:
    """The page."""
    page = inspected("attention")
    if page is None:
        return
    with st.spinner(t("inspection.running")):
        patterns = inspection.attention(page.checkpoint, page.ids)
        scores = inspection.scores(page.checkpoint)
    from lab.plots import attention_head, attention_mosaic

    query = settle_token(page.prompt)
    weighting = one_of(
        "weighting", WEIGHTINGS, t("attention.weighting"), lambda value: t(f"attention.weighting_{value}")
    )

    def mosaic() -> go.Figure:
        return attention_mosaic(patterns, weighting=weighting, scores=scores, template=template())

    picture(mosaic, "attention_mosaic", on_pick=_pick_head)
    st.caption(t("attention.mosaic_help"))
    _find(scores)
    first, second, third = st.columns(3)
    with first:
        layer = layer_choice(page.config.n_layers)
    with second:
        head = head_choice(page.config.n_heads)
    with third:
        token_choice(page.prompt, t("attention.query"))
    _badges(scores, layer, head)

    def large() -> go.Figure:
        return attention_head(patterns, layer, head, weighting=weighting, template=template())

    left, right = st.columns([6, 5])
    with left:
        picture(large, "attention_head")
    with right:
        _text(page, patterns, weighting, layer, head, query)
        _cells(page, patterns, layer, head, query)
    export_row(
        f"attention-{page.picked.name}-L{layer}H{head}",
        html=on_paper([mosaic, large], t("attention.title"), page.picked.name),
        frame=lambda: patterns.to_frame().query(f"layer == {layer} and head == {head}"),
        json=patterns.to_json,
        python=snippets.view(page, "attention_patterns") + f"\nprint(result.{weighting}[{layer}, {head}])",
    )


if __name__ == "__main__":
    render()
