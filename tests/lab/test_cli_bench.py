"""residlab heads, patch, probe, dynamics: tables, files with the library's numbers, refusals in one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lab.analysis import (
    LogitDifference,
    activation_patching,
    checkpoint_dynamics,
    conllu_labels,
    fit_probes,
    head_scores,
    head_weights,
)
from lab.models import open_model

CLEAN, CORRUPT = "the cat sat", "the dog sat"


def strict(path):
    def refuse(text):
        raise ValueError(text)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_heads(trained, printed, tmp_path):
    run = str(trained.run("a"))
    shown = printed("heads", run)
    assert "L1H1" in shown
    assert "copying" in shown
    path = tmp_path / "heads.json"
    printed("heads", run, "--json", str(path), "--html", str(tmp_path / "heads.html"))
    model = open_model(run)
    data = strict(path)
    assert data["scores"]["induction"] == head_scores(model).to_dict()["induction"]
    assert np.allclose(data["weights"]["copying"], head_weights(model).copying)
    assert "K-composition" in (tmp_path / "heads.html").read_text(encoding="utf-8")
    assert "on a prompt" in printed("heads", run, "--prompt", CLEAN)


@pytest.mark.parametrize("site", ["resid_pre", "head", "component", "pattern", "neuron"])
def test_patch(trained, printed, tmp_path, site):
    run = str(trained.run("a"))
    words = ["patch", run, "--clean", CLEAN, "--corrupt", CORRUPT, "--answer", "a", "--wrong", "o", "--site", site]
    assert "of the difference" in printed(*words)
    path = tmp_path / "patch.json"
    printed(*words, "--json", str(path), "--html", str(tmp_path / "patch.html"))
    wanted = activation_patching(open_model(run), CLEAN, CORRUPT, LogitDifference("a", "o"), site=site)
    assert np.allclose(strict(path)["values"], wanted.values)
    assert (tmp_path / "patch.html").stat().st_size > 10_000
    both = tmp_path / "both.json"
    printed(*words, "--method", "both", "--direction", "noise", "--json", str(both))
    found = strict(both)
    assert set(found) == {"exact", "attribution"}
    assert -1 <= found["attribution"]["correlation"] <= 1
    assert found["exact"]["direction"] == "noise"
    assert "estimated patches" in printed(*words, "--method", "attribution")


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path = tmp_path_factory.mktemp("treebank") / "cats.conllu"
    words = [("the", "DET"), ("cat", "NOUN"), ("ran", "VERB"), ("up", "ADP"), ("a", "DET"), ("tree", "NOUN")]
    rows = [f"{i}\t{form}\t_\t{label}" + "\t_" * 6 for i, (form, label) in enumerate(words, 1)]
    path.write_text("\n\n".join("\n".join(rows) for _ in range(12)) + "\n\n", encoding="utf-8")
    return path


def test_probe(trained, printed, tmp_path, treebank):
    run = str(trained.run("a"))
    words = ["probe", run, "--labels", f"conllu:{treebank}"]
    shown = printed(*words)
    assert "cats:upos at resid_post: 4 classes" in shown
    assert "embed" in shown
    path = tmp_path / "probe.json"
    printed(*words, "--json", str(path), "--html", str(tmp_path / "probe.html"))
    model = open_model(run)
    wanted = fit_probes(model, conllu_labels(treebank, model.tokenizer))
    assert strict(path)["accuracy"] == wanted.accuracy.tolist()
    assert strict(path)["selectivity"] == wanted.selectivity.tolist()
    assert (tmp_path / "probe.html").stat().st_size > 10_000


def test_dynamics(trained, printed, tmp_path):
    run = str(trained.run("a"))
    assert "previous_token through training of a" in printed("dynamics", run, "--measure", "previous_token")
    path = tmp_path / "film.json"
    printed("dynamics", run, "--json", str(path), "--html", str(tmp_path / "film.html"))
    wanted = checkpoint_dynamics(run)
    assert strict(path)["steps"] == wanted.steps.tolist()
    assert np.allclose(strict(path)["values"], wanted.values, equal_nan=True)
    assert (tmp_path / "film.html").stat().st_size > 10_000


def test_mistakes_are_one_sentence(trained, refused, tmp_path, treebank):
    run = str(trained.run("a"))
    patch = ["patch", run, "--answer", "a", "--wrong", "o", "--clean"]
    assert "clean has 7" in refused(*patch, "the cat", "--corrupt", "the tree")
    assert "there is nothing to patch" in refused(*patch, "the cat", "--corrupt", "the cat")
    assert "answer 'at' is 2 tokens" in refused(
        "patch", run, "--clean", CLEAN, "--corrupt", CORRUPT, "--answer", "at", "--wrong", "o"
    )
    assert "stories:pos" in refused("probe", run, "--labels", "pos")
    assert "There is no treebank file" in refused("probe", run, "--labels", "conllu:none.conllu")
    assert "training tokens for 64 features" in refused(
        "probe", run, "--labels", f"conllu:{treebank}", "--examples", "12", "--site", "neuron"
    )
    assert "did you mean 'induction'" in refused("dynamics", run, "--measure", "inductions")
    missing = tmp_path / "none" / "x.json"
    for command in (["heads", run], ["dynamics", run], ["probe", run, "--labels", "python:token"]):
        assert "there is no folder" in refused(*command, "--json", str(missing))
