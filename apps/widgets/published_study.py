"""A study's tables that come with the project, read-only: what was measured, the report, whether it still stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from apps.i18n import t
from apps.widgets.columns import number
from apps.widgets.export_row import export_row
from apps.widgets.picture import on_paper, picture, template
from apps.widgets.plain import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

WITHDRAWN = "**Withdrawn"


def _rows(folder: Path) -> Any:
    import pandas as pd

    return pd.read_csv(folder / "results.csv")


def _table(rows: Any) -> Any:
    """A row per arm: learning rate, seeds, mean and spread of the confirmation losses."""
    confirm = rows[rows["phase"] == "confirm"]
    grouped = confirm.groupby("arm", sort=False)
    return grouped.agg(
        lr=("lr", "first"), n=("loss", "count"), mean=("loss", "mean"), sd=("loss", "std"),
        lowest=("loss", "min"), highest=("loss", "max"),
    ).reset_index()  # fmt: skip


def published_study(folder: Path) -> None:
    """Draw what a folder of results holds."""
    from lab.plots.studies import rate_curves

    report = (folder / "report.md").read_text(encoding="utf-8")
    rows = _rows(folder)
    st.caption(plain(t("studies.published", folder=folder.name, runs=len(rows))))
    if WITHDRAWN in report:
        st.warning(t("studies.withdrawn"))
    table = _table(rows)
    st.dataframe(
        table, hide_index=True, width="stretch", key="published_arms",
        column_config={
            "arm": t("studies.arm"), "lr": number(t("studies.lr")), "n": t("studies.seeds"),
            "mean": number(t("studies.mean_loss")), "sd": number(t("studies.sd")),
            "lowest": number(t("studies.lowest")), "highest": number(t("studies.highest")),
        },
    )  # fmt: skip
    tuning = rows[(rows["phase"] == "tune") & rows["loss"].notna()]
    by_lr = {
        str(arm): {float(lr): float(loss) for lr, loss in of.groupby("lr")["loss"].mean().items()}
        for arm, of in tuning.groupby("arm", sort=False)
    }
    chosen = {str(arm): float(lr) for arm, lr in zip(table["arm"], table["lr"], strict=True)}

    def rates() -> go.Figure:
        return rate_curves(by_lr, chosen, {}, template=template())

    picture(rates, "published_rates")
    export_row(
        folder.name,
        html=on_paper(rates, folder.name),
        frame=lambda: rows,
        json=lambda: rows.to_json(orient="records", force_ascii=False),
    )
    with st.expander(t("studies.whole_report")):
        st.markdown(report)
