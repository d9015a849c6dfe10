"""The film of a run: what it wrote down is what its checkpoints say, and when a value formed is read off right."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from lab.analysis import (
    Dynamics,
    checkpoint_dynamics,
    fit_probes,
    formation,
    function_labels,
    measured_film,
    probed_film,
    recorded_film,
)
from lab.models import open_model
from lab.plots import confusion_map, film_curves, film_grid, layer_curves
from lab.runs import Run


def film(values: list[list[float]], steps: tuple[int, ...]) -> Dynamics:
    array = np.array(values, dtype=float).reshape(len(steps), 1, -1)
    labels = tuple(f"L0H{head}" for head in range(array.shape[2]))
    return Dynamics(np.array(steps), array, labels, "induction", "made up")


def test_what_training_wrote_down_is_what_its_checkpoints_say(trained):
    run = Run(trained.run("a"))
    written, taken = recorded_film(run), measured_film(run, steps=run.checkpoints()[:2])
    assert {"induction", "entropy", "residual_rms", "grad_norm"} <= written.keys()
    assert written["residual_rms"].values.shape == (len(run.checkpoints()), 2)
    assert taken["induction"].labels == written["induction"].labels
    for name, series in taken.items():
        rows = [written[name].steps.tolist().index(step) for step in series.steps.tolist()]
        assert written[name].values[rows] == pytest.approx(series.values, abs=1e-6, nan_ok=True)
        assert np.array_equal(series.values, checkpoint_dynamics(run, name, steps=series.steps).values, equal_nan=True)


def test_lines_that_are_damaged_or_of_another_shape_are_left_out(tmp_path):
    run = Run(tmp_path / "r")
    run.create({"training": {"steps": 4}})
    assert recorded_film(run) == {}
    lines = [
        {"step": 0, "induction": [[0.1, None]], "grad_norm": [1.0]},
        {"step": 1, "induction": [[0.2]]},
        {"step": 2, "induction": "no", "grad_norm": [2.0]},
        {"induction": [[0.3, 0.3]]},
        {"step": 4, "induction": [[0.4, 0.5]], "grad_norm": [[1.0]]},
    ]
    (run.path / "dynamics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = recorded_film(run)
    assert found["induction"].steps.tolist() == [0, 4] and math.isnan(found["induction"].values[0, 0, 1])
    assert found["grad_norm"].steps.tolist() == [0, 2] and "entropy" not in found


def test_when_a_value_formed(tmp_path):
    found = formation(film([[0.1, 0.9], [0.2, 0.9], [0.8, math.nan], [0.7, 0.3]], (0, 1, 2, 4)), 0.5)
    assert found.reached.tolist() == [2, 0]
    assert found.change[0] == pytest.approx(0.6) and found.between[0].tolist() == [1, 2]
    assert (found.largest[0], found.largest_at[0], found.final[0]) == (0.8, 2, 0.7)
    assert found.change[1] == pytest.approx(0.0)  # the moves to and from what is no number do not count
    assert formation(film([[0.1, 0.2]], (3,)), 0.5).reached.tolist() == [-1, -1]
    assert math.isnan(formation(film([[0.1, 0.2]], (3,)), 0.5).change[0])
    with pytest.raises(ValueError, match="has no checkpoints"):
        formation(Dynamics(np.zeros(0, int), np.zeros((0, 1, 1)), ("L0H0",), "induction", "r"), 0.5)
    json.loads(found.to_json())
    assert len(found.to_frame()) == 2


@pytest.mark.parametrize("template", ["light", "dark"])
def test_the_figures_draw_the_films_numbers(template):
    series = film([[0.1, 0.2], [0.6, math.nan]], (0, 8))
    metrics = [{"step": 0, "val_loss": 2.0}, {"step": 4, "train_loss": None}, {"step": 8, "train_loss": 1.5}]
    fig = film_curves(series, metrics, chosen=(0, 1), step=8, threshold=0.3, between=(0, 8), template=template)
    lines = [trace for trace in fig.data if trace.legendgroup == "layer 0"]
    assert list(lines[0].y) == [0.1, 0.6]
    assert lines[1].line.width > lines[0].line.width
    assert lines[1].customdata.tolist() == [[0, 1, 0], [0, 1, 8]]
    assert {trace.name for trace in fig.data} == {"layer 0", "training loss", "validation loss"}
    assert "L0H1 goes from 0.200 to not a number" in fig.layout.meta["alt"]
    grid = film_grid(series, chosen=(0, 1), threshold=0.3, template=template)
    assert grid.data[0].z.tolist()[0] == pytest.approx([0.1, 0.6]) and grid.data[0].zmax == 1.0
    assert [re.sub(r"<[^>]*>", "", cell) for cell in grid.data[0].text[0]] == ["", "0.60"]
    layers = Dynamics(np.array([0, 8]), np.array([[1.0, 2.0], [3.0, 4.0]]), ("L0", "L1"), "grad_norm", "r")
    panels = layer_curves({"grad_norm": layers, "residual_rms": layers}, step=0, template=template)
    assert len(panels.data) == 4 and panels.layout.yaxis2.type == "log"
    with pytest.raises(ValueError, match="no measure"):
        layer_curves({})


def test_probes_at_every_checkpoint_are_the_probes_of_each(trained):
    run = Run(trained.run("a"))
    size = open_model(run.path).config.d_vocab
    rng = np.random.default_rng(0)
    documents = [rng.integers(size, size=30).tolist() for _ in range(12)]
    labels = function_labels(documents, lambda ids, at: "even" if ids[at] % 2 == 0 else "odd")
    steps = [run.checkpoints()[0], run.checkpoints()[-1]]
    told = []
    film = probed_film(run, labels, examples=300, steps=steps, progress=lambda done, n: told.append((done, n)))
    assert film.labels == ("embed", "L0", "L1") and told == [(1, 2), (2, 2)]
    for index, step in enumerate(steps):
        alone = fit_probes(open_model(run.checkpoint_path(step)), labels, examples=300, bootstrap=0)
        assert np.array_equal(film.values[index], alone.accuracy)
    figure = confusion_map(alone, 0)
    assert figure.data[0].z.sum(1) == pytest.approx(np.ones(2)) and "Worst: " in figure.layout.meta["alt"]


def test_a_class_without_test_tokens_is_a_blank_row():
    counts = np.array([[[3, 1], [0, 0]]])
    made_up = SimpleNamespace(confusion=counts, rows=("L0",), classes=("<b>a", "b"), accuracy=np.array([0.75]))
    figure = confusion_map(made_up, 0, template="dark")
    assert figure.data[0].z.tolist()[0] == [0.75, 0.25] and np.isnan(figure.data[0].z[1]).all()
    assert figure.layout.yaxis.ticktext[0] == "&lt;b&gt;a (4)"


def flat_film(shape: tuple[int, ...], n_steps: int = 3) -> Dynamics:
    values = np.arange(n_steps * math.prod(shape), dtype=float).reshape(n_steps, *shape)
    return Dynamics(np.arange(n_steps), values, tuple(map(str, np.ndindex(*shape))), "made", "up")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("draw", ["film_curves", "film_grid", "layer_curves"])
def test_a_figure_says_which_films_it_draws(draw: str, shape: tuple[int, ...]):
    film = flat_film(shape)
    figures = {
        "film_curves": lambda: film_curves(film, []),
        "film_grid": lambda: film_grid(film),
        "layer_curves": lambda: layer_curves({"made": film}),
    }
    if len(shape) == (1 if draw == "layer_curves" else 2):
        assert figures[draw]().data
    else:
        with pytest.raises(ValueError, match=r"has values of shape .*; this figure draws \[checkpoint, layer"):
            figures[draw]()


@pytest.mark.parametrize("shape", [(0,), (2,), (2, 3)])
def test_a_film_without_checkpoints_is_a_table_without_rows_and_no_figure(shape: tuple[int, ...]):
    film = flat_film(shape, 0)
    assert len(film.to_frame()) == 0
    assert film.flat.shape == (0, math.prod(shape))
    assert film.reached(0.5) == {}
    assert json.loads(film.to_json())["steps"] == []
    for draw in (lambda: film_curves(film, []), lambda: film_grid(film), lambda: layer_curves({"made": film})):
        with pytest.raises(ValueError, match="has no checkpoints"):
            draw()
    with pytest.raises(ValueError, match="has no checkpoints"):
        formation(film, 0.5)


def test_a_film_cancelled_before_its_first_checkpoint_can_be_looked_at(trained):
    for measure in ("induction", lambda model: 1.0):
        film = checkpoint_dynamics(Run(trained.run("a")), measure, cancel=lambda: True)
        assert film.cancelled and len(film.to_frame()) == 0 and film.reached(0.1) == {}


@pytest.mark.parametrize("steps", [lambda run: run.checkpoints()[0], lambda run: np.array(run.checkpoints()[:2])])
def test_steps_may_be_numpys(trained, steps):
    run = Run(trained.run("a"))
    wanted = np.atleast_1d(steps(run)).tolist()
    assert checkpoint_dynamics(run, steps=steps(run)).steps.tolist() == wanted
    with pytest.raises(ValueError, match="no checkpoint at step 99"):
        checkpoint_dynamics(run, steps=np.int64(99))


@pytest.mark.parametrize("chosen", [(0, 3), (2, 0), (-1, 0), (np.int64(5), 5)])
def test_a_head_that_the_film_lacks_is_refused(chosen):
    for draw in (
        lambda: film_curves(flat_film((2, 3)), [], chosen=chosen),
        lambda: film_grid(flat_film((2, 3)), chosen=chosen),
    ):
        with pytest.raises(ValueError, match="the film has layers 0 to 1, heads to 2"):
            draw()
