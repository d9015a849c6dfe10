"""Windows, batches, splits and the validation loss."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.corpora import open_corpus, text_corpus
from lab.training import TrainingConfig, build_run_config, prepare_data, train
from lab.training.data import Batches, DataError, evaluation_windows, require_window
from lab.training.evaluation import evaluate, evaluating, token_losses
from model import GPT, GPTConfig

TINY = dict(n_ctx=8, d_model=16, n_layers=2, n_heads=2)
TEXT = "the quick brown fox jumps over the lazy dog. " * 12


def config(corpus: str = "x", tokenizer: str = "auto", **model: object):  # type: ignore[no-untyped-def]
    return build_run_config(corpus, "nano", "nanogpt", tokenizer=tokenizer, model_overrides={**TINY, **model})


# --- windows: n tokens, context T ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_too_few_tokens_for_one_window_are_refused_with_both_numbers(n: int) -> None:
    with pytest.raises(DataError, match=f"train split of x has {n} tokens, but one window of the context 8 needs 9"):
        require_window(np.zeros(n, np.uint16), 8, "train", "x")
    with pytest.raises(DataError):
        Batches(np.zeros(n, np.uint16), 8, 4, 0)


def test_exactly_one_window_trains() -> None:
    batches = Batches(np.arange(9, dtype=np.uint16), 8, 5, data_seed=0)
    for step in range(20):
        assert batches.starts(step).tolist() == [0] * 5
        assert (batches(step) == np.arange(9)).all()


def test_the_last_window_is_drawn_too() -> None:
    batches = Batches(np.arange(10, dtype=np.uint16), 8, 1, data_seed=0)
    assert {int(batches.starts(step)[0]) for step in range(100)} == {0, 1}
    last = next(batches(step)[0] for step in range(100) if batches.starts(step)[0] == 1)
    assert last.tolist() == list(range(1, 10)), "full length, and the targets are the inputs shifted by one"


def test_a_batch_is_a_function_of_data_seed_and_step() -> None:
    ids = np.random.default_rng(0).integers(0, 50, 1000).astype(np.uint16)
    a, b = Batches(ids, 8, 4, data_seed=7), Batches(ids, 8, 4, data_seed=7)
    late = b(500)
    assert (a(0) == b(0)).all() and (a(500) == late).all()
    assert not (a(0) == a(1)).all() and not (a(0) == Batches(ids, 8, 4, data_seed=8)(0)).all()
    torch.manual_seed(1)
    assert (a(3) == b(3)).all(), "torch's and numpy's global streams play no part"


def test_large_token_ids_do_not_wrap() -> None:
    ids = np.full(20, 70_000, dtype=np.uint32)
    assert Batches(ids, 8, 2, 0)(0).max() == 70_000


@pytest.mark.parametrize("n", [2, 8, 9, 10, 16, 17, 18, 100])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_evaluation_predicts_every_token_but_the_first_once(n: int, batch_size: int) -> None:
    windows = list(evaluation_windows(np.arange(n, dtype=np.uint16), 8, batch_size))
    targets = np.concatenate([w[:, 1:].ravel() for w in windows])
    inputs = np.concatenate([w[:, :-1].ravel() for w in windows])
    assert targets.tolist() == list(range(1, n)) and inputs.tolist() == list(range(n - 1))
    assert all(w.shape[0] <= batch_size and w.shape[1] <= 9 for w in windows)


# --- corpora -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("characters", "split", "numbers"),
    [(20, "train", ("18 tokens", "needs 65")), (300, "validation", ("30 tokens", "needs 65"))],
)
def test_a_short_split_is_refused_before_anything_is_made(
    tmp_path: Path, characters: int, split: str, numbers: tuple[str, str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT[:characters])
    with pytest.raises(DataError) as error:
        train(build_run_config(str(text), "nano", "fast", steps=5), run=tmp_path / "run")
    assert all(words in str(error.value) for words in (split, *numbers)), str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_split_of_exactly_one_window_is_enough(tmp_path: Path) -> None:
    corpus = text_corpus("abcdefghi" * 10)  # 81 + 9 characters
    data = prepare_data(config(), corpus=corpus)
    assert (len(data.train), len(data.validation)) == (81, 9)
    run = train(config().replace(training=TrainingConfig(steps=1, warmup_steps=0)), run=tmp_path / "run", corpus=corpus)
    assert run.status().state == "done" and run.metrics()[-1]["val_loss"] > 0


def test_bits_per_byte_count_the_bytes_that_are_scored() -> None:
    corpus = text_corpus("你好，世界 hello " * 40)
    by_kind = {}
    for kind in ("char", "byte"):
        data = prepare_data(config(tokenizer=kind), corpus=corpus)
        first = len(data.tokenizer.pieces([int(data.validation[0])])[0].encode() if kind == "char" else b"x")
        assert data.validation_bytes == len(str(corpus.validation).encode()) - first
        model = GPT(config().model.replace(d_vocab=data.tokenizer.vocab_size))
        by_kind[kind] = evaluate(model, data)
        assert by_kind[kind].tokens == len(data.validation) - 1
        expected = by_kind[kind].loss * by_kind[kind].tokens / math.log(2) / data.validation_bytes
        assert by_kind[kind].bpb == pytest.approx(expected, rel=1e-12)
    assert by_kind["byte"].bpb == pytest.approx(8, abs=0.3), "an untrained byte model knows nothing: 8 bits a byte"


def test_merges_are_learned_from_the_training_split_alone() -> None:
    corpus = text_corpus("aaaaaaaa " * 200 + "zqzqzqzq " * 22)
    data = prepare_data(config(tokenizer="bpe:260"), corpus=corpus)
    pieces = data.tokenizer.pieces(range(data.tokenizer.vocab_size))
    assert not any(b"zq" in (p if isinstance(p, bytes) else p.encode()) for p in pieces)
    assert data.tokenizer.decode(data.validation.tolist()) == corpus.validation


def test_a_task_brings_its_own_tokenizer() -> None:
    corpus = open_corpus("induction", size=4000)
    data = prepare_data(config("induction"), corpus=corpus)
    assert data.tokenizer is corpus.tokenizer and data.validation_bytes is None
    assert data.train.max() < data.tokenizer.vocab_size
    with pytest.raises(ValueError, match="auto"):
        prepare_data(config("induction", tokenizer="char"), corpus=corpus)


def test_a_bad_corpus_name_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'stories'"):
        train("storis", run=tmp_path / "run", steps=3)
    assert not (tmp_path / "run").exists()


# --- the validation loss -------------------------------------------------------------------------------------


def test_the_loss_is_that_of_each_window_and_does_not_depend_on_grouping(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GPT(GPTConfig(d_vocab=20, seed=1, **TINY)).eval()
    ids = np.random.default_rng(0).integers(0, 20, 45).astype(np.uint16)
    total = 0.0
    for start in range(0, 44, 8):
        window = torch.from_numpy(ids[start : start + 9].astype(np.int64))[None]
        logprobs = model(window[:, :-1]).log_softmax(-1)
        total -= logprobs.gather(-1, window[:, 1:, None]).sum().item()
    losses, _ = token_losses(model, ids)
    assert len(losses) == 44 and losses.sum() == pytest.approx(total, rel=1e-6)
    monkeypatch.setattr("lab.training.evaluation.EVALUATION_TOKENS", 8)
    np.testing.assert_allclose(token_losses(model, ids)[0], losses, rtol=1e-5)


def test_evaluation_leaves_no_trace() -> None:
    model = GPT(GPTConfig(d_vocab=20, resid_dropout=0.5, **TINY)).train()
    model.blocks[0].eval()  # somebody froze a block's dropout
    modes = [module.training for module in model.modules()]
    ids = np.random.default_rng(0).integers(0, 20, 45).astype(np.uint16)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = token_losses(model, ids)[0], token_losses(model, ids)[0]
    assert (first == second).all(), "dropout is off"
    assert torch.equal(torch.get_rng_state(), before)
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(RuntimeError, match="stop"), evaluating(model):
        raise RuntimeError("stop")
    assert [module.training for module in model.modules()] == modes and torch.is_grad_enabled()
    assert all(p.grad is None for p in model.parameters())


def test_a_task_is_scored_on_the_tokens_that_can_be_known() -> None:
    corpus = open_corpus("induction", size=4000)
    data = prepare_data(config("induction"), corpus=corpus)
    model = GPT(config().model.replace(d_vocab=data.tokenizer.vocab_size))
    mask = corpus.loss_mask("validation")
    assert mask is not None
    scores = evaluate(model, data)
    losses, right = token_losses(model, data.validation, hits=True)
    assert scores.loss == pytest.approx(losses.mean()) and scores.bpb is None
    assert scores.task_loss == pytest.approx(losses[mask[1:]].mean())
    assert scores.accuracy == pytest.approx(right[mask[1:]].mean())
    with torch.no_grad():
        model.embed.weight.zero_()  # tied: every token is equally likely, and the first of them wins the tie
    blank = evaluate(model, data)
    assert blank.task_loss == pytest.approx(math.log(data.tokenizer.vocab_size), rel=1e-5)
    assert blank.accuracy == pytest.approx((data.validation[1:][mask[1:]] == 0).mean())
