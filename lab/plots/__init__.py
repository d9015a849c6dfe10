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
    from lab.plots.compare import norm_lines, triple_maps, triple_strip
    from lab.plots.confusion import confusion_map
    from lab.plots.curves import decimate, loss_curves, residual_norms
    from lab.plots.export import CONFIG, to_offline_html
    from lab.plots.film import film_curves, film_grid, layer_curves
    from lab.plots.interventions import intervention_map
    from lab.plots.lens import lens_grid
    from lab.plots.measures import dynamics_curves, effect_bars, probe_curve, source_bars
    from lab.plots.patching import composition_map, copying_map, patching_grid, path_patching_map
    from lab.plots.studies import Band, Difference, interval_plot, measure_figure, rate_curves, study_curves

_HOME = {
    "CONFIG": "export",
    "Band": "studies",
    "Difference": "studies",
    "attention_head": "attention",
    "attention_mosaic": "attention",
    "composition_map": "patching",
    "confusion_map": "confusion",
    "contribution_bars": "bars",
    "copying_map": "patching",
    "decimate": "curves",
    "dynamics_curves": "measures",
    "effect_bars": "measures",
    "film_curves": "film",
    "film_grid": "film",
    "head_score_map": "attention",
    "heatmap": "cells",
    "interval_plot": "studies",
    "intervention_map": "interventions",
    "layer_curves": "film",
    "lens_grid": "lens",
    "loss_curves": "curves",
    "measure_figure": "studies",
    "next_token_bars": "bars",
    "norm_lines": "compare",
    "patching_grid": "patching",
    "path_patching_map": "patching",
    "probe_curve": "measures",
    "rate_curves": "studies",
    "residual_norms": "curves",
    "source_bars": "measures",
    "study_curves": "studies",
    "to_offline_html": "export",
    "triple_maps": "compare",
    "triple_strip": "compare",
}

__all__ = [
    "CONFIG",
    "Band",
    "Difference",
    "attention_head",
    "attention_mosaic",
    "composition_map",
    "confusion_map",
    "contribution_bars",
    "copying_map",
    "decimate",
    "dynamics_curves",
    "effect_bars",
    "film_curves",
    "film_grid",
    "head_score_map",
    "heatmap",
    "interval_plot",
    "intervention_map",
    "layer_curves",
    "lens_grid",
    "loss_curves",
    "measure_figure",
    "next_token_bars",
    "norm_lines",
    "patching_grid",
    "path_patching_map",
    "probe_curve",
    "rate_curves",
    "residual_norms",
    "source_bars",
    "study_curves",
    "to_offline_html",
    "triple_maps",
    "triple_strip",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lab.plots' has no attribute {name!r}")
    return getattr(import_module(f"lab.plots.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
