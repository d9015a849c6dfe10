"""residlab sample and inspect: what they print, write and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from lab.cli import DIVERGED, DONE, main
from lab.commands.inspect import token_choice

if TYPE_CHECKING:
    from tests.lab.conftest import TrainedFolder

Refused = Callable[..., str]
Printed = Callable[..., str]


def test_sample_is_a_function_of_its_seed(trained: TrainedFolder, printed: Printed) -> None:
    words = "--prompt the --tokens 30 --temperature 0.8 --top-k 20 --top-p 0.95 --repetition-penalty 1.1".split()
    first = printed("sample", str(trained.run("a")), *words, "--seed", "0")
    assert first == printed("sample", str(trained.run("a")), *words, "--seed", "0")
    assert first != printed("sample", str(trained.run("a")), *words, "--seed", "1")
    assert first.startswith("the")
    assert len(first) == len("the") + 30 + len("\n")


def test_sample_json_holds_the_text_and_each_token(trained: TrainedFolder, printed: Printed) -> None:
    words = "--prompt the --tokens 8 --seed 0".split()
    result = json.loads(printed("sample", str(trained.run("a")), *words, "--json"))
    assert result["prompt"] == "the"
    assert "the" + result["text"] + "\n" == printed("sample", str(trained.run("a")), *words)
    assert len(result["tokens"]) == 8
    for token in result["tokens"]:
        alternatives = [row["probability"] for row in token["alternatives"]]
        assert 0 < token["probability"] <= alternatives[0] + 1e-9
        assert alternatives == sorted(alternatives, reverse=True)


def test_temperature_0_takes_the_likeliest(trained: TrainedFolder, printed: Printed) -> None:
    result = json.loads(
        printed("sample", str(trained.run("a")), *"--prompt the --tokens 8 --temperature 0 --json".split())
    )
    assert all(token["id"] == token["alternatives"][0]["id"] for token in result["tokens"])


def test_a_checkpoint_can_be_sampled(trained: TrainedFolder, refused: Refused) -> None:
    assert main(["sample", f"{trained.run('a')}@0", "--prompt", "the", "--tokens", "3"]) == DONE
    said = refused("sample", f"{trained.run('a')}@5000", "--prompt", "the")
    assert "5000" in said
    assert "6" in said  # the checkpoints there are


def test_unknown_characters_are_named_and_can_be_skipped(
    trained: TrainedFolder, printed: Printed, refused: Refused
) -> None:
    run = str(trained.run("a"))
    said = refused("sample", run, "--prompt", "the 日 cat")
    assert "日" in said
    assert "--unknown skip" in said
    assert printed("sample", run, "--prompt", "the 日cat", "--tokens", "1", "--unknown", "skip").startswith("the cat")
    said = refused("sample", run, "--prompt", "日", "--unknown", "skip")
    assert "Nothing of the prompt" in said


def test_an_empty_prompt_needs_a_mark_of_the_beginning(trained: TrainedFolder, refused: Refused) -> None:
    assert "--prompt" in refused("sample", str(trained.run("a")))


def test_a_diverged_run_still_writes_from_its_last_good_checkpoint(trained: TrainedFolder) -> None:
    words = ["--recipe", "nanogpt", "--steps", "60", "--training.lr", "1e9", "--training.warmup-steps", "0"]
    assert trained.train("wilder", *words, "--quiet") == DIVERGED
    assert main(["sample", str(trained.run("wilder")), "--prompt", "the", "--tokens", "3"]) == DONE


# inspect


@pytest.fixture(scope="module")
def inspected(trained: TrainedFolder) -> dict[str, Any]:
    path = trained.path / "inspected.json"
    assert main(["inspect", str(trained.run("a")), "--prompt", "the cat", "--json", str(path)]) == DONE
    return json.loads(path.read_text(encoding="utf-8"))


def test_inspect_json_has_the_keys_that_programs_read(inspected: dict[str, Any]) -> None:
    assert list(inspected) == ["tokens", "next_token", "logit_lens", "contributions", "attention"]
    assert [token["text"] for token in inspected["tokens"]] == ["t", "h", "e", " ", "c", "a", "t"]
    assert [token["display"] for token in inspected["tokens"]] == ["t", "h", "e", "␣", "c", "a", "t"]


def test_inspect_numbers_agree_with_one_another(inspected: dict[str, Any]) -> None:
    lens, parts = inspected["logit_lens"], inspected["contributions"]
    first = inspected["next_token"][0]
    assert lens["top_probabilities"][-1][-1][0] == pytest.approx(first["probability"], abs=1e-5)
    assert parts["token"] == first["id"]
    assert sum(parts["values"]) == pytest.approx(parts["logit"], abs=1e-4)
    for layer in inspected["attention"]["pattern"]:
        for head in layer:
            assert [sum(row) for row in head] == pytest.approx([1.0] * 7, abs=1e-5)


def test_inspect_numbers_are_the_model_s_own(trained: TrainedFolder, inspected: dict[str, Any]) -> None:
    from lab.models import open_model

    model = open_model(trained.run("a"))
    probabilities = model("the cat")[0, -1].softmax(-1)
    first = inspected["next_token"][0]
    assert probabilities[first["id"]].item() == pytest.approx(first["probability"], abs=1e-5)
    assert first["id"] == probabilities.argmax().item()


def test_inspect_prints_tables(trained: TrainedFolder, printed: Printed) -> None:
    words = ["--prompt", "the cat", "--token", "s", "--versus", "a", "--by", "head"]
    said = printed("inspect", str(trained.run("a")), *words)
    for title in ("Prompt: 7 tokens", "Next token", "Logit lens", "Attention"):
        assert title in said
    assert "Contributions to the logit of s less that of a" in said


def test_inspect_writes_a_page_that_needs_nothing(trained: TrainedFolder) -> None:
    path = trained.path / "page.html"
    assert main(["inspect", str(trained.run("a")), "--prompt", "the cat", "--html", str(path)]) == DONE
    page = path.read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert "<script src=" not in page
    assert "the cat" in page


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--token", "cat"], "3 tokens"),
        (["--token", "#999"], "999"),
        (["--position", "40"], "40"),
        (["--top-k", "0"], "--top-k is 0"),
        (["--prompt", "x" * 8], "does not know"),
        (["--prompt", "the cat sat on the mat"], "16"),
    ],
)
def test_inspect_refuses_what_it_cannot_explain(
    trained: TrainedFolder, refused: Refused, words: list[str], hint: str
) -> None:
    prompt = [] if "--prompt" in words else ["--prompt", "the cat"]
    assert hint in refused("inspect", str(trained.run("a")), *prompt, *words)


def test_a_prompt_of_one_token_is_explained_too(trained: TrainedFolder, printed: Printed) -> None:
    assert "Prompt: 1 tokens" in printed("inspect", str(trained.run("a")), "--prompt", "t")


def test_token_choice_reads_ids_and_text(trained: TrainedFolder) -> None:
    from lab.models import open_model

    model = open_model(trained.run("a"))
    assert token_choice(model, None) is None
    assert token_choice(model, "c") == "c"
    assert token_choice(model, "#12") == 12
