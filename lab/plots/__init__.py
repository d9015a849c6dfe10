"""Plotly figures of result objects and metrics. Layout only: every number drawn is a number of the result.

Each figure has a transparent background, a ``template`` ("light" or "dark"), and a sentence in
``figure.layout.meta["alt"]`` that says what is seen. Names are resolved on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.plots.attention import attention_head, attention_mosaic, head_score_map
    from lab.plots.bars import contribution_bars, next_token_bars
    from lab.plots.cells import heatmap
    from lab.plots.curves import decimate, loss_curves, residual_norms
    from lab.plots.export import CONFIG, to_offline_html
    from lab.plots.lens import lens_grid

_HOME = {
    "CONFIG": "export",
    "attention_head": "attention",
    "attention_mosaic": "attention",
    "contribution_bars": "bars",
    "decimate": "curves",
    "head_score_map": "attention",
    "heatmap": "cells",
    "lens_grid": "lens",
    "loss_curves": "curves",
    "next_token_bars": "bars",
    "residual_norms": "curves",
    "to_offline_html": "export",
}

__all__ = [
    "CONFIG",
    "attention_head",
    "attention_mosaic",
    "contribution_bars",
    "decimate",
    "head_score_map",
    "heatmap",
    "lens_grid",
    "loss_curves",
    "next_token_bars",
    "residual_norms",
    "to_offline_html",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lab.plots' has no attribute {name!r}")
    return getattr(import_module(f"lab.plots.{_HOME[name]}"), name)
