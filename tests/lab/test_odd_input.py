"""Odd values from the command line and damaged files: one sentence, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli import main
from lab.corpora import text_corpus
from lab.runs import Run
from lab.training import build_run_config
from model import GPTConfig
from model.config import ConfigError

TINY = "--model.d-model 16 --model.n-layers 1 --model.n-heads 2 --model.n-ctx 8 --steps 2".split()


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--seed", str(10**23)], "from 0 to 2^63 - 1"),
        (["--training.data-seed", str(2**64)], "from 0 to 2^63 - 1"),
        (["--model.rotary-scaling.kind", "yarn"], "factor is missing"),
        (["--model.rotary-scaling.factor", "2"], "kind is missing"),
        (["--model.d-mlp", str(10**14)], "of memory for weights, gradients and the optimizer alone; this machine has"),
        (["--run", ""], "--run is the current folder"),
        (["--corpus", ""], "corpus"),
    ],
)
def test_one_sentence_and_no_run_left(extra: list[str], words: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("the cat sat on the mat. " * 40, encoding="utf-8")
    given = ["train", "--corpus", "a.txt", "--preset", "nano", *TINY, "--run", "r", "--quiet", *extra]
    assert main(given) == 2
    told = capsys.readouterr().err.strip()
    assert words in told and "Traceback" not in told
    assert not Path("config.json").exists()


def test_half_a_rotary_scaling_names_the_other_half() -> None:
    with pytest.raises(ConfigError, match="kind is missing"):
        GPTConfig(positional_embedding_type="rotary", rotary_scaling={"factor": 2})  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", ["word", "auto"])
def test_a_word_cut_in_two_between_the_splits_is_known_on_both_sides(spec: str) -> None:
    corpus = text_corpus("floccinaucinihilipilification antidisestablishmentarianism " * 31)
    assert corpus.train[-1].strip() and corpus.validation[0].strip()  # type: ignore[union-attr]
    tokenizer = corpus.make_tokenizer(spec)
    for split in ("train", "validation"):
        assert tokenizer.decode(corpus.encode(tokenizer, split).tolist()) == corpus.split(split)


@pytest.mark.parametrize("content", ["[]", '{"a', ""])
def test_one_damaged_run_does_not_hide_the_others(content: str, tmp_path: Path, capsys) -> None:
    config = build_run_config("stories", "nano", "fast", steps=2)
    for name in ("good", "bad"):
        Run(tmp_path / name).create(config.to_dict())
    (tmp_path / "bad" / "status.json").write_text(content, encoding="utf-8")
    assert main(["runs", "--root", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "good" in told and "bad" in told
    assert Run(tmp_path / "bad").status().state == "failed"
