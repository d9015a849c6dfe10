"""Two models side by side: the numbers are theirs, and what cannot be laid over each other is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.apps.opening import checked, open_page, said
from tests.apps.training import KINDS

PROMPT = "the cat sat on the"


def metrics(at: AppTest) -> list[float]:
    return [float(m.value) for m in at.metric]


def loss(run: Path, prompt: str = PROMPT) -> float:
    from lab.analysis import token_predictions
    from lab.models import open_model

    return token_predictions(open_model(str(run)), prompt).loss


@pytest.mark.parametrize("other", KINDS)
def test_both_losses_and_their_difference(runs: Path, other: str) -> None:
    at = open_page("compare", run="tiny", run_b=other, prompt=PROMPT)
    a, b = loss(runs / "tiny"), loss(runs / other)
    step = "6" if other == "tiny" else None
    if step is None:
        assert metrics(at) == pytest.approx([a, b, b - a], abs=2e-3)
        assert at.get_by_key("compare_loss_A") is not None
    else:  # against itself the page begins with the first checkpoint
        assert at.selectbox(key="step_b").value == 0
        assert metrics(at) == pytest.approx(
            [a, loss(Path(f"{runs / 'tiny'}@0")), loss(Path(f"{runs / 'tiny'}@0")) - a], abs=2e-3
        )


@pytest.mark.parametrize("show", ["attention", "scores", "norms", "curves"])
@pytest.mark.parametrize("other", ["postnorm", "single"])
def test_every_picture(runs: Path, show: str, other: str) -> None:
    at = open_page("compare", run="tiny", run_b=other, prompt=PROMPT, compare=show)
    assert not at.error
    assert at.get_by_key(f"compare_{show}_A") is not None
    if show == "scores" and other == "single":
        assert "different numbers of layers or heads" in said(at, "caption")
        assert at.get_by_key("compare_scores_B") is not None


def test_the_same_checkpoint_twice_is_said_and_differs_by_nothing(runs: Path) -> None:
    at = open_page("compare", run="tiny", run_b="tiny", step_b="latest", prompt=PROMPT)
    assert "same checkpoint" in said(at, "info")
    assert metrics(at)[2] == 0


def test_other_tokens_are_said_and_compared_by_character(runs: Path, tmp_path: Path) -> None:
    import math

    from lab.analysis import token_predictions
    from lab.models import open_model
    from lab.training import build_run_config, train
    from tests.apps.training import text

    corpus = tmp_path / "text.txt"
    corpus.write_text(text() * 4, encoding="utf-8")
    shape = {"n_layers": 1, "d_model": 16, "n_heads": 2, "n_ctx": 32}
    fast = {"batch_size": 4, "eval_every": 2, "checkpoint_every": 2, "checkpoint_early": False, "sample_every": 0,
            "dynamics": False, "precision": "fp32"}  # fmt: skip
    config = build_run_config(
        str(corpus), "nano", "textbook", steps=2, tokenizer="bpe:300", model_overrides=shape, training_overrides=fast
    )
    train(config, run=runs / "pieces")
    at = open_page("compare", run="tiny", run_b="pieces", prompt=PROMPT)
    assert "different tokens" in said(at, "info")
    model = open_model(runs / "pieces")
    found = token_predictions(model, PROMPT)
    written = len(model.tokenizer.decode(found.tokens[1:].tolist()))
    assert metrics(at)[1] == pytest.approx(found.surprisal[1:].sum() / math.log(2) / written, abs=2e-3)


def test_a_prompt_of_one_token_and_a_link_with_nonsense(runs: Path) -> None:
    at = open_page("compare", run="tiny", run_b="nobody", step_b="-3", prompt="t")
    assert "is not available here" in said(at, "warning")
    assert "A loss needs 2 tokens" in said(at, "info")
    at.selectbox(key="step_b").set_value(0)
    checked(at.run())


def test_without_a_choice_the_other_run_cuts_text_alike(runs: Path) -> None:
    for run in runs.iterdir():
        if run.name not in ("tiny", "postnorm"):  # as if trained with other tokenizers
            (run / "provenance.json").write_text('{"tokenizer": {"sha256": "another"}}', encoding="utf-8")
    assert open_page("compare", run="tiny", prompt=PROMPT).selectbox(key="run_b").value == "postnorm"
    (runs / "postnorm" / "provenance.json").write_text("{", encoding="utf-8")
    at = open_page("compare", run="tiny", prompt=PROMPT)
    assert at.selectbox(key="run_b").value == "tiny" and not at.error


def test_what_the_other_tokenizer_does_not_know_is_said_in_chinese(runs: Path) -> None:
    import json

    file = runs / "single" / "tokenizer.json"
    vocabulary = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(vocabulary).replace('"m"', '"Z"'), encoding="utf-8")
    at = open_page("compare", run="tiny", run_b="single", prompt="the mat", lang="zh")
    assert "single@12 读不了这个提示：词元化不认识其中 1 个字符：'m'" in said(at, "error").replace("\\", "")
