"""What a person reads: help for every option, one plain sentence for what cannot be, a word on what was done."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
from importlib import import_module

import pytest

from lab.cli import COMMANDS, main
from lab.commands.parsing import field_help, parse
from lab.corpora import open_corpus
from lab.models import open_model
from lab.training import resume
from lab.training.__main__ import main as train_folder
from lab.training.config import DataConfig, TrainingConfig
from model import GPTConfig
from model.config import ConfigError, RotaryScaling


@pytest.mark.parametrize("config", [GPTConfig, RotaryScaling, DataConfig, TrainingConfig])
def test_every_field_says_what_it_is(config: type) -> None:
    said = field_help(config)
    assert set(said) == {field.name for field in dataclasses.fields(config)}
    assert not [text for text in said.values() if "ignore[" in text or "noqa" in text or not text.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_holds_no_word_to_a_checker(name: str, capsys) -> None:
    options = getattr(import_module(COMMANDS[name].module), COMMANDS[name].options)
    with pytest.raises(SystemExit):
        parse(options, prog=name, words=["--help"])
    told = capsys.readouterr().out
    assert "ignore[" not in told and "noqa" not in told


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["train", "--steps", "abc"], "--steps: 'abc' is not a whole number."),
        (["train", "--model.d-model", "1.5"], "--model.d-model: '1.5' is no whole number."),
        (["train", "--training.lr", "x"], "--training.lr: 'x' is no number."),
        (["sample"], "Missing: the first word, a model."),
        (["sample", "x", "--seed", "-1"], "--seed is -1; it must be a whole number from 0"),
        (["heads", "x", "--seed", "-1"], "--seed is -1; it must be a whole number from 0"),
        (["inspect", "x", "--prompt", "a", "--json", "y", "--html", "y"], "named for two outputs"),
    ],
)
def test_refused_in_plain_words(words, wanted, refused) -> None:
    assert wanted in refused(*words)


def test_the_nearest_name_is_found_in_any_case() -> None:
    with pytest.raises(ConfigError, match="did you mean 'gelu'"):
        GPTConfig(act_fn="Gelu")


def test_unknown_characters_are_told_without_python(trained, refused) -> None:
    run = str(trained.run("a"))
    assert "--unknown skip" in refused("sample", run, "--prompt", "Ж")
    told = refused("patch", run, "--clean", "the Ж", "--corrupt", "the a", "--answer", "a", "--wrong", "o")
    assert "unknown=" not in told and "Ж" in told


def test_heads_of_one_token_and_of_a_prompt_without_repetition(trained, refused, printed) -> None:
    run = str(trained.run("a"))
    assert "at least 2 tokens" in refused("heads", run, "--prompt", "t")
    told = printed("heads", run, "--prompt", "the c")
    assert "nan" not in told and "to measure" in told


def test_a_prompt_beyond_the_context_is_one_sentence(trained, capsys) -> None:
    assert main(["sample", str(trained.run("a")), "--prompt", "the cat sat on the mat", "--tokens", "2"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("residlab: The prompt has 22 tokens; the model sees the last 16")
    assert ".py" not in told


def test_a_newer_schema_and_a_checkpoint_without_weights(trained, tmp_path, refused, capsys) -> None:
    run = tmp_path / "copy"
    shutil.copytree(trained.run("a"), run)
    (run / "checkpoints" / "step_000009").mkdir()
    assert main(["sample", str(run), "--prompt", "t", "--tokens", "2"]) == 0
    told = capsys.readouterr().err
    assert "step_000009 holds no weights" in told and "step_000006 is opened instead" in told
    (run / "checkpoints" / "step_000009").rmdir()
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    (run / "config.json").write_text(json.dumps(config | {"schema_version": 2}), encoding="utf-8")
    assert "schema_version 2; this program reads 1" in refused("sample", str(run), "--prompt", "t")


def test_fewer_merges_than_asked_for_are_mentioned(trained, capsys) -> None:
    assert trained.train("few", "--steps", "2", "--quiet", "--data.tokenizer", "bpe:5000") == 0
    size = open_model(trained.run("few")).tokenizer.vocab_size
    assert size < 5000
    assert f"bpe:5000 has {size} tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Le café où l'été dernier nous avons dîné. " * 9, "cp1252"), ("Жила-была коза с козлятами. " * 9, "cp1251")],
)
def test_the_likelier_of_two_encodings_is_offered(text, encoding, tmp_path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(ValueError, match=f"iconv -f {encoding.upper()} "):
        open_corpus(str(path))


def test_the_conversion_offered_for_a_file_can_be_typed_as_it_stands(tmp_path, monkeypatch) -> None:
    (tmp_path / "my texts").mkdir()
    (tmp_path / "my texts/latin.txt").write_bytes("Le café où l'été dernier nous avons dîné. ".encode("cp1252") * 9)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="iconv -f CP1252 ") as caught:
        open_corpus("my texts/latin.txt")
    command = str(caught.value).partition("reads right: ")[2]
    assert shlex.split(command) == [*"iconv -f CP1252 -t UTF-8".split(), "my texts/latin.txt", ">", "utf8.txt"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_for_an_empty_corpus_the_fix_is_named(text, tmp_path, refused) -> None:
    (tmp_path / "empty.txt").write_text(text)
    said = refused("train", "--corpus", str(tmp_path / "empty.txt"), "--run", str(tmp_path / "r"))
    assert "Give a file with text in it" in said


def test_of_what_is_no_run_the_command_that_lists_runs_is_named(tmp_path, capsys) -> None:
    with pytest.raises(FileNotFoundError, match=r"no config\.json in it.*`residlab runs`"):
        resume(tmp_path)
    assert train_folder([str(tmp_path)]) == 2
    assert "`residlab runs` lists the runs" in capsys.readouterr().err
