"""residlab: the command line itself, options over recipe over preset, runs, explore, bench."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.cli import BAD_INPUT, COMMANDS, DONE, main
from lab.commands.explore import Explore, explore
from lab.commands.parsing import UsageError, field_help, given, parse
from lab.commands.patch import Patch
from lab.commands.sample import Sample
from lab.commands.train import Train, run_config
from lab.runs import Run
from lab.training.config import TrainingConfig

if TYPE_CHECKING:
    from tests.lab.conftest import TrainedFolder

ROOT = Path(__file__).resolve().parents[2]
Refused = Callable[..., str]


def test_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == DONE
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)


def test_without_a_command_the_overview_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == BAD_INPUT
    assert "usage: residlab COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("tarin", "did you mean 'train'?"),
        ("xyzzy", "known are train, pause"),
        ("train --corpsu a", "--corpsu, a; did you mean --corpus?"),
        ("train --model.n-layer 3", "did you mean --model.n-layers?"),
        ("train --training.learning-rate 3", "There is no option --training.learning-rate"),
        ("train --model.n-layers six", "--model.n-layers"),
        ("train --training.schedule cosin", "'cosin'"),
        ("train --preset nan", "Unknown preset 'nan'; did you mean 'nano'?"),
        ("train --recipe fsat", "Unknown recipe 'fsat'; did you mean 'fast'?"),
        ("train --model.d-model 130 --model.n-heads 4", "d_model 130 is not divisible by n_heads 4"),
        ("train --model.act-fn rely", "did you mean 'relu'?"),
        ("train --training.lr -1", "lr is -1.0"),
        ("train --training.lr nan", "lr is nan"),
        ("train --steps 0", "steps is 0"),
        ("train --model.attention-window 999999999999999999999999", "attention_window is 99"),
        (
            "train --model.positional-embedding-type rotary --model.rotary-scaling.kind ntk "
            "--model.rotary-scaling.factor 1e308",
            "factor is 1e+308",
        ),
        ("train --training.muon-lr 1e308", "muon_lr is 1e+308; it must be at most 1e+30"),
        ("train --training.lr 1e300", "lr is 1e+300; it must be at most 1e+30"),
        ("train --training.weight-decay 1e308", "weight_decay is 1e+308"),
        ("train --training.adam-eps 1e308", "adam_eps is 1e+308"),
        ("train --data.corpus-size 99999999999999999999", "corpus_size is 99999999999999999999; it must be at most"),
        ("train --data.tokenizer bpe:99999999999999999999", "'bpe:99999999999999999999' asks for more than 1,000,000"),
        ("train --data.tokenizer bpe:1000001", "asks for more than 1,000,000 entries"),
        ("train --data.tokenizer word:99999999999999999999", "asks for more than 1,000,000 entries"),
        ("train --training.threads 99999999999999999999", "threads is 99999999999999999999; it must be at most 4096"),
        ("train --training.batch-size 99999999999999999999", "batch_size is 99999999999999999999"),
        ("train --steps 99999999999999999999", "steps is 99999999999999999999; it must be at most"),
        ("train --seed 99999999999999999999", "seed is 99999999999999999999"),
        ("train --model.n-layers 99999999999999999999", "n_layers is 99999999999999999999"),
        ("sample runs/nowhere --tokens 99999999999999999999", "--tokens is 99999999999999999999"),
        ("sample runs/nowhere --seed 99999999999999999999", "--seed is 99999999999999999999"),
        ("heads runs/nowhere --seed 99999999999999999999", "--seed is 99999999999999999999"),
        (
            "probe runs/nowhere --labels stories:pos --examples 99999999999999999999",
            "--examples is 99999999999999999999",
        ),
        ("explore --port 99999999999999999999", "--port is 99999999999999999999"),
        ("bench hooks --rounds 99999999999999999999", "--rounds is 99999999999999999999"),
        ("train --steps 10 --training.warmup-steps 20", "warmup_steps 20 is more than steps 10"),
        ("train --corpus nowhere.txt --run runs/x", "nowhere.txt"),
        ("train --corpus storys --run runs/x", "Did you mean 'stories'?"),
        ("train --resume runs/nowhere", "there is no run at runs/nowhere; `residlab runs` lists the runs"),
        ("train --resume runs/nowhere --steps 3", "--steps cannot be given with it"),
        ("pause", "Missing"),
        ("stop runs/nowhere", "there is no run at runs/nowhere"),
        ("sample runs/nowhere", "runs/nowhere"),
        ("sample runs/nowhere --temperature -1", "temperature is -1.0"),
        ("sample runs/nowhere --temperature nan", "temperature is nan"),
        ("sample runs/nowhere --top-k 0", "top_k is 0"),
        ("sample runs/nowhere --top-p 1.5", "top_p is 1.5"),
        ("sample runs/nowhere --tokens 0", "--tokens is 0"),
        ("sample gpt2", "gpt2"),
        ("inspect runs/nowhere --prompt a", "runs/nowhere"),
        ("inspect runs/nowhere", "--prompt"),
        ("inspect runs/nowhere --prompt a --by neurons", "'neurons'"),
        ("inspect runs/nowhere --prompt a --json no/such/folder/x.json", "there is no folder"),
        ("runs --root nowhere", "There is no folder nowhere"),
        ("explore --port 99999", "--port is 99999"),
        ("bench trainings", "'trainings'"),
        ("bench hooks --threads 0", "--threads is 0"),
    ],
)
def test_bad_words_are_refused_with_a_hint(
    refused: Refused,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(*words.split())
    assert hint in said
    assert said.startswith(f"residlab {words.split()[0]}")
    assert not list(tmp_path.iterdir()), "a refused command left something behind"


@pytest.mark.parametrize("words", ["--steps -1", "--training.steps -1"])
def test_a_bad_number_of_steps_is_all_that_is_told(refused: Refused, words: str) -> None:
    said = refused("train", *words.split())
    assert said == "residlab train: steps is -1; it must be a whole number of at least 1."


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESIDLAB_DEBUG", "1")
    with pytest.raises(ValueError, match="Unknown preset"):
        main(["train", "--preset", "nan"])


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shell = f"{sys.executable} -m lab.cli train --help | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


# Options over recipe over preset


def test_only_what_is_typed_counts_before_preset_and_recipe() -> None:
    plain = run_config(parse(Train, prog="t", words=["--preset", "small", "--recipe", "textbook"]))
    words = "--preset small --recipe textbook --model.n-layers 6 --training.lr 3e-4 --data.tokenizer bpe:300".split()
    changed = run_config(parse(Train, prog="t", words=words))
    assert changed.model == plain.model.replace(n_layers=6)
    assert changed.training == plain.training.replace(lr=3e-4)
    assert changed.data.tokenizer == "bpe:300"


def test_a_value_equal_to_the_config_s_default_still_counts() -> None:
    # `small` is RMS by preset; typing LN, the config's own default, must not be taken for "not given".
    config = run_config(
        parse(Train, prog="t", words="--preset small --recipe nanogpt --model.normalization-type LN".split())
    )
    assert config.model.normalization_type == "LN"


@pytest.mark.parametrize(
    "words",
    ["--model.no-use-bias", "--model.use-bias False", "--model.use-bias false"],
)
def test_flags_may_be_spelled_either_way(words: str) -> None:
    assert given(parse(Train, prog="t", words=words.split()).model) == {"use_bias": False}


def test_nested_fields_reach_the_config() -> None:
    words = "--model.rotary-scaling.kind yarn --model.rotary-scaling.factor 4 --model.rotary-scaling.original-n-ctx 64"
    config = run_config(parse(Train, prog="t", words=words.split()))
    assert config.model.rotary_scaling is not None
    assert (config.model.rotary_scaling.kind, config.model.rotary_scaling.factor) == ("yarn", 4.0)


def test_none_and_pairs_can_be_typed() -> None:
    words = "--training.grad-clip None --training.betas 0.8 0.95 --model.attention-window None".split()
    config = run_config(parse(Train, prog="t", words=words))
    assert config.training.grad_clip is None
    assert config.training.betas == (0.8, 0.95)
    assert config.model.attention_window is None


def test_seed_sets_weights_dropout_and_data() -> None:
    config = run_config(parse(Train, prog="t", words=["--seed", "7"]))
    assert (config.model.seed, config.training.seed, config.training.data_seed) == (7, 7, 7)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_mistake_is_one_sentence_without_a_box(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    # tyro draws its box to suit the terminal's encoding
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    with pytest.raises(UsageError) as refusal:
        parse(Train, prog="residlab train", words=["--preste", "nano"])
    assert str(refusal.value) == (
        "There is no option --preste, nano; did you mean --preset? See residlab train --help."
    )


def test_help_of_fields_comes_from_their_source() -> None:
    helps = field_help(TrainingConfig)
    assert helps["lr"] == "AdamW's peak learning rate"
    assert "windows" in helps["batch_size"]


# runs


def test_runs_lists_states_and_losses(trained: TrainedFolder, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["runs", "--root", str(trained.path / "runs"), "--json"]) == DONE
    rows = {Path(row["run"]).name: row for row in json.loads(capsys.readouterr().out)}
    metrics = Run(trained.run("a")).metrics()
    assert rows["a"]["state"] == "done"
    assert rows["a"]["step"] == rows["a"]["max_steps"] == 6
    assert rows["a"]["val_loss"] == metrics[-1]["val_loss"]
    assert rows["a"]["best_val_loss"] == min(row["val_loss"] for row in metrics if row["val_loss"] is not None)
    assert main(["runs", "--root", str(trained.path / "runs")]) == DONE
    assert f"{metrics[-1]['val_loss']:.4f}" in capsys.readouterr().out


def test_no_runs_says_how_to_start_one(runs_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == DONE
    assert "residlab train" in capsys.readouterr().out
    assert main(["runs", "--json"]) == DONE
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("words", "group", "field", "value"),
    [
        ("--model.attention-bias true", "model", "attention_bias", True),
        ("--model.attention-bias False", "model", "attention_bias", False),
        ("--model.attention-bias qkv", "model", "attention_bias", "qkv"),
        ("--model.attention-bias=true", "model", "attention_bias", True),
        ("--model.attention-bias None", "model", "attention_bias", None),
        ("--model.mlp-bias true", "model", "mlp_bias", True),
        ("--model.mlp_bias FALSE", "model", "mlp_bias", False),
        ("--model.mlp-bias=None", "model", "mlp_bias", None),
        ("--model.use-bias false", "model", "use_bias", False),
        ("--model.use_bias=True", "model", "use_bias", True),
        ("--model.use-bias", "model", "use_bias", True),
        ("--model.no-use-bias", "model", "use_bias", False),
        ("--training.sample-prompt True", "training", "sample_prompt", "True"),
        ("--training.sample-prompt -x", "training", "sample_prompt", "-x"),
        ("--training.sample-prompt -1", "training", "sample_prompt", "-1"),
        ("--training.lr 1e-3", "training", "lr", 1e-3),
    ],
)
def test_every_documented_value_can_be_given(words: str, group: str, field: str, value: Any) -> None:
    assert given(getattr(parse(Train, prog="residlab train", words=words.split()), group)) == {field: value}


@pytest.mark.parametrize("value", ["-Hello", "-1", "--", "---", "- a", "-", "-x=3", "- "])
@pytest.mark.parametrize("join", ["{0}={1}", "{0} {1}"])
def test_a_text_may_begin_with_a_dash(value: str, join: str) -> None:
    words = ["--prompt", value] if " {" in join else [f"--prompt={value}"]
    assert parse(Sample, prog="residlab sample", words=["runs/a", *words, "--json"]).prompt == value
    patch = parse(Patch, prog="residlab patch", words=["a", *_patch(value, "=" not in join)])
    assert (patch.answer, patch.wrong, patch.clean) == (value,) * 3


def _patch(value: str, apart: bool) -> list[str]:
    options = ("--answer", "--wrong", "--clean", "--corrupt")
    return [word for option in options for word in ((option, value) if apart else (f"{option}={value}",))]


@pytest.mark.parametrize("word", ["--json", "--tokens", "--tokns"])
def test_a_text_that_could_be_an_option_is_told_how_it_is_given(word: str, refused: Refused) -> None:
    said = refused("sample", "runs/a", "--prompt", word)
    assert f"--prompt needs a value; if {word} is its value, write --prompt={word}" in said
    assert parse(Sample, prog="residlab sample", words=["runs/a", f"--prompt={word}"]).prompt == word


class Panic(BaseException):
    """As pyo3 raises where Rust panics."""


@pytest.mark.parametrize(
    "kind", [KeyError, TypeError, RecursionError, OverflowError, RuntimeError, AttributeError, Panic]
)
def test_what_nobody_foresaw_is_a_sentence_too(
    kind: type[BaseException], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(options: object) -> int:
        raise kind("of a kind")

    monkeypatch.setattr("lab.commands.runs.runs", fail)
    said = refused("runs")
    assert f"unexpected {kind.__name__}: " in said and "RESIDLAB_DEBUG=1" in said
    monkeypatch.setenv("RESIDLAB_DEBUG", "1")
    with pytest.raises(kind):
        main(["runs"])


@pytest.mark.parametrize("value", ["5", "yes", ""])
def test_a_flag_takes_true_and_false_alone(value: str, refused: Refused) -> None:
    assert f"--json is {value!r}; it must be true or false." in refused("sample", "runs/a", f"--json={value}")


# explore


def test_explore_refuses_a_port_in_use(refused: Refused) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"Port {port} is in use" in refused("explore", "--port", str(port))


def test_a_server_that_ends_at_once_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lab.commands.explore._flags", lambda port, browser: ["--no-such-flag"])
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = explore(Explore(runs=tmp_path))
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capfd.readouterr().err
    assert code != 0
    assert "No such option" in said  # Streamlit's own words
    assert f"server ended with code {code}. What it says: cd " in said
    assert "streamlit run" in said


# bench


def test_bench_prints_json_and_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from lab.bench import inference

    monkeypatch.setattr(inference, "hooks", lambda threads, rounds: {"tiny": {"time_ratio": 1.0, "rounds": rounds}})
    path = tmp_path / "bench.json"
    assert main(["bench", "hooks", "--rounds", "2", "--out", str(path)]) == DONE
    printed = capsys.readouterr().out
    result = json.loads(printed)
    assert result["hooks"] == {"tiny": {"time_ratio": 1.0, "rounds": 2}}
    assert result["machine"]["threads"] == 1
    assert path.read_text(encoding="utf-8") == printed
