"""A measure at every checkpoint of a run: the one the model at that step has."""

from __future__ import annotations

import numpy as np
import pytest

from lab.analysis import checkpoint_dynamics, head_scores
from lab.models import open_model
from lab.runs import Run


def test_head_scores_at_every_checkpoint(trained):
    run = Run(trained.run("a"))
    told = []
    film = checkpoint_dynamics(run, "previous_token", progress=lambda done, all_: told.append((done, all_)))
    assert film.steps.tolist() == run.checkpoints()
    assert film.values.shape == (len(film.steps), 2, 2)
    assert film.labels == ("L0H0", "L0H1", "L1H0", "L1H1")
    assert told[-1] == (len(film.steps),) * 2
    for index, step in enumerate(film.steps.tolist()):
        wanted = head_scores(open_model(f"{trained.run('a')}@{step}")).previous_token
        assert np.array_equal(film.values[index], wanted)
    assert not np.array_equal(film.values[0], film.values[-1])
    table = film.to_frame()
    assert len(table) == film.values.size
    assert table["value"].tolist() == film.flat.ravel().tolist()


def test_the_first_step_that_reaches_a_threshold(trained):
    film = checkpoint_dynamics(str(trained.run("a")), "entropy")
    series = film.flat[:, 0]
    threshold = float(np.sort(series)[-1])
    assert film.reached(threshold)["L0H0"] == film.steps[series.argmax()]
    assert film.reached(1e9) == {}


def test_a_function_of_a_model_is_a_measure(trained):
    def size(model):
        return model.embed.weight.abs().mean().item()

    film = checkpoint_dynamics(trained.run("a"), size, steps=[0, 6])
    assert film.measure == "size"
    assert film.labels == ("size",)
    assert film.values.shape == (2, 1)
    wanted = open_model(f"{trained.run('a')}@6").embed.weight.abs().mean()
    assert film.values[1, 0] == pytest.approx(float(wanted.detach()))


def test_a_probe_is_a_measure(trained, tmp_path):
    path = tmp_path / "cats.conllu"
    words = ["the\tDET", "cat\tNOUN", "sat\tVERB", "on\tADP", "the\tDET", "mat\tNOUN"]
    rows = [f"{i}\t{word.split()[0]}\t_\t{word.split()[1]}" + "\t_" * 6 for i, word in enumerate(words, 1)]
    path.write_text("\n\n".join("\n".join(rows) for _ in range(12)) + "\n\n", encoding="utf-8")
    film = checkpoint_dynamics(trained.run("a"), f"probe:conllu:{path}", steps=[6])
    assert film.labels == ("embed", "L0", "L1")
    assert film.values.shape == (1, 3)
    assert 0.5 < film.values[0, 1] <= 1


def test_cancelling_keeps_what_is_done(trained):
    answers = iter([False, False, True])
    film = checkpoint_dynamics(trained.run("a"), cancel=lambda: next(answers))
    assert film.cancelled
    assert len(film.steps) == len(film.values) == 2


def test_bad_input_is_explained(trained, tmp_path):
    run = trained.run("a")
    with pytest.raises(ValueError, match="measure is 'inductoin'; did you mean 'induction'"):
        checkpoint_dynamics(run, "inductoin")
    with pytest.raises(ValueError, match="Run a has no checkpoint at step 5; it has 0, 1"):
        checkpoint_dynamics(run, steps=[5])
    with pytest.raises(FileNotFoundError):
        checkpoint_dynamics(tmp_path / "none")
    shapes = iter([1, 2])
    with pytest.raises(ValueError, match=r"gave \[2\] values and before that \[1\]"):
        checkpoint_dynamics(run, lambda model: np.zeros(next(shapes)), steps=[0, 1])
