"""Figures of the analysis bench: what is drawn is what the result holds, and nothing in a label executes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from lab import plots
from lab.analysis import (
    Ablate,
    Dynamics,
    LogitDifference,
    activation_patching,
    attribution_patching,
    fit_probes,
    function_labels,
    head_weights,
    intervention_effect,
    path_patching,
    planted_induction,
    source_contributions,
)

CLEAN, CORRUPT = [1, 7, 2, 5, 6, 4, 8, 7], [1, 6, 2, 5, 7, 4, 8, 7]
METRIC = LogitDifference(2, 4)


@pytest.fixture(scope="module")
def model():
    return planted_induction()


def figures(model) -> dict[str, object]:
    rng = np.random.default_rng(0)
    labels = function_labels(rng.integers(12, size=(60, 24)).tolist(), lambda ids, position: str(ids[position] % 2))
    heads = activation_patching(model, CLEAN, CORRUPT, METRIC, site="head")
    return {
        "layer x position": plots.patching_grid(activation_patching(model, CLEAN, CORRUPT, METRIC)),
        "heads": plots.patching_grid(heads, "effect"),
        "estimate": plots.patching_grid(
            attribution_patching(model, CLEAN, CORRUPT, METRIC, site="head", exact=heads), template="dark"
        ),
        "paths": plots.path_patching_map(path_patching(model, CLEAN, CORRUPT, METRIC, receiver=(1, 0, "k"))),
        "copying": plots.copying_map(head_weights(model)),
        "composition": plots.composition_map(head_weights(model)),
        "probes": plots.probe_curve(fit_probes(model, labels)),
        "effect": plots.effect_bars(intervention_effect(model, CLEAN, Ablate("head", 1, head=0))),
        "sources": plots.source_bars(source_contributions(model, CLEAN, 1, 0)),
        "dynamics": plots.dynamics_curves(a_film()),
    }


def a_film(name: str = "induction") -> Dynamics:
    steps = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000])
    values = np.linspace(0, 1, len(steps))[:, None, None] * np.array([[1.0, 0.2], [0.1, 0.4]])
    return Dynamics(steps, values, ("L0H0", "L0H1", "L1H0", "L1H1"), name, "runs/<b>a</b>")


def test_every_figure_says_what_is_seen(model):
    for name, figure in figures(model).items():
        assert len(figure.layout.meta["alt"]) > 40, name
        assert figure.layout.title.text, name
    page = plots.to_offline_html(figures(model))
    assert "<b>a</b>" not in page


def test_a_grid_draws_its_own_numbers(model):
    grid = activation_patching(model, CLEAN, CORRUPT, METRIC)
    figure = plots.patching_grid(grid)
    assert np.allclose(np.array(figure.data[0].z), grid.recovered, atol=1e-6)
    assert figure.data[0].zmin == -1
    assert "7 / 6" in figure.layout.xaxis.ticktext
    for quantity in ("effect", "values"):
        drawn = np.array(plots.patching_grid(grid, quantity).data[0].z)
        assert np.allclose(drawn, getattr(grid, quantity), atol=1e-5)
    with pytest.raises(ValueError, match="quantity is 'delta'"):
        plots.patching_grid(grid, "delta")


def test_heads_by_position_are_rows(model):
    grid = activation_patching(model, CLEAN, CORRUPT, METRIC, site="head", each_position=True)
    figure = plots.patching_grid(grid, "effect")
    assert list(figure.layout.yaxis.ticktext) == ["L0H0", "L0H1", "L1H0", "L1H1"]
    one = plots.patching_grid(grid, "effect", head=1)
    assert np.allclose(np.array(one.data[0].z), grid.effect[:, 1], atol=1e-5)
    with pytest.raises(ValueError, match="Head 2 does not exist"):
        plots.patching_grid(grid, head=2)


def test_what_a_cancelled_run_did_not_reach_is_marked(model):
    grid = activation_patching(model, CLEAN, CORRUPT, METRIC, cancel=lambda: True)
    figure = plots.patching_grid(grid)
    assert "not a number" in [trace.name for trace in figure.data]
    whole = activation_patching(model, CLEAN, CORRUPT, METRIC, each_position=False)
    assert np.array(plots.patching_grid(whole).data[0].z).shape == (2, 1)


def test_an_estimate_states_its_correlation(model):
    exact = activation_patching(model, CLEAN, CORRUPT, METRIC, site="head")
    estimate = attribution_patching(model, CLEAN, CORRUPT, METRIC, site="head", exact=exact)
    assert f"{estimate.correlation:.2f}".replace("-", "−") in plots.patching_grid(estimate).layout.title.text


def test_probe_and_dynamics_lines_are_the_results_own(model):
    labels = function_labels(
        np.random.default_rng(0).integers(12, size=(60, 24)).tolist(), lambda ids, position: str(ids[position] % 2)
    )
    probes = fit_probes(model, labels)
    figure = plots.probe_curve(probes)
    assert list(figure.data[0].y) == probes.accuracy.tolist()
    assert list(figure.data[1].y) == probes.control.tolist()
    assert list(figure.layout.xaxis.ticktext) == ["embed", "L0", "L1"]

    film = a_film()
    curves = plots.dynamics_curves(film, top=2)
    assert [trace.name for trace in curves.data] == ["L0H0", "L1H1"]
    assert list(curves.data[0].y) == film.values[:, 0, 0].tolist()
    assert list(curves.data[0].x) == np.log10(film.steps + 1).tolist()
    assert "2 largest of 4" in curves.layout.title.text
    broken = dataclasses.replace(film, values=np.full_like(film.values, np.nan))
    assert len(plots.dynamics_curves(broken).data) == 4


def test_wrong_kinds_are_refused(model):
    with pytest.raises(ValueError, match="kind is 'o'"):
        plots.composition_map(head_weights(model), "o")
