"""Of a long validation split its beginning is scored; a short one whole, to the last digit as before."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lab.training import build_run_config, prepare_data
from lab.training.config import TrainingConfig
from lab.training.evaluation import evaluate, token_losses
from model import GPT

TEXT = "".join(f"{n} cats sat on {n * 7} mats, näher am Ofen.\n" for n in range(400))


@pytest.mark.parametrize("most", [None, 1, 17, 500, 10**9])
@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_the_first_tokens_are_scored(tmp_path: Path, most: int | None, tokenizer: str) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    shape = {"n_layers": 1, "d_model": 16, "n_heads": 2, "n_ctx": 16}
    config = build_run_config(str(tmp_path / "text.txt"), tokenizer=tokenizer, model_overrides=shape)
    data = prepare_data(config)
    model = GPT(config.model.replace(d_vocab=data.tokenizer.vocab_size)).double()
    losses, _ = token_losses(model, data.validation)
    wanted = losses if most is None else losses[:most]
    found = evaluate(model, data, most)
    assert found.tokens == len(wanted) and found.loss == pytest.approx(float(wanted.mean()), abs=1e-12)
    per_token = data.validation_bytes / (len(data.validation) - 1)
    assert found.bpb == pytest.approx(found.loss / math.log(2) / per_token, rel=1e-12)
    if most is None or most >= len(losses):
        assert found == evaluate(model, data)


def test_a_task_is_scored_on_what_can_be_known_of_the_first_tokens() -> None:
    shape = {"n_layers": 1, "d_model": 16, "n_heads": 2, "n_ctx": 16}
    config = build_run_config("induction", corpus_size=3000, model_overrides=shape)
    data = prepare_data(config)
    model = GPT(config.model.replace(d_vocab=data.tokenizer.vocab_size))
    mask = data.corpus.loss_mask("validation")[1:101]
    losses, right = token_losses(model, data.validation[:101], hits=True)
    found = evaluate(model, data, 100)
    assert found.task_loss == pytest.approx(float(losses[mask].mean()))
    assert found.accuracy == pytest.approx(float(right[mask].mean()))


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "all"])
def test_what_is_no_number_of_tokens_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="eval_tokens"):
        TrainingConfig(eval_tokens=bad)  # type: ignore[arg-type]
