"""The Generate page: same seed, same text; greedy is greedy; impossible settings and broken weights are a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.apps.opening import checked, open_page, said

PROMPT = "the cat "


def write(at: AppTest, **settings: object) -> list[int]:
    """Set the sampling controls, write, and return the tokens."""
    for name, value in settings.items():
        widget = at.get_by_key(f"generate.{name}")
        widget.set_value(value)
    checked(at.run())
    at.button(key="generate.go").click()
    checked(at.run())
    return [step.token for step in at.session_state["generated"].steps]


@pytest.fixture
def page(runs: Path) -> AppTest:
    return open_page("generate", run="tiny", prompt=PROMPT)


def expected(runs: Path, **settings: object) -> list[int]:
    from lab.models import open_model

    model = open_model(runs / "tiny")
    ids = model.tokenizer.encode(PROMPT)
    return [step.token for step in model.stream(ids, **settings)]


def test_the_page_writes_what_the_model_writes(page: AppTest, runs: Path) -> None:
    asked = dict(temperature=0.7, top_k=20, top_p=0.9, min_p=0.01, seed=5)
    tokens = write(page, length=30, penalty=1.1, **asked)
    assert tokens == expected(runs, max_new_tokens=30, repetition_penalty=1.1, **asked)
    assert len(tokens) == 30


def test_the_same_seed_writes_the_same_and_another_seed_does_not(page: AppTest) -> None:
    first = write(page, seed=1, length=40, temperature=1.0)
    assert write(page, seed=1) == first
    assert write(page, seed=2) != first


def test_greedy_and_temperature_zero_are_the_likeliest_tokens_twice(page: AppTest, runs: Path) -> None:
    greedy = expected(runs, max_new_tokens=20, temperature=0)
    assert write(page, greedy=True, length=20) == greedy
    page.get_by_key("generate.greedy").set_value(False)
    checked(page.run())
    assert write(page, temperature=0.0) == greedy
    assert write(page, seed=9) == greedy
    assert all(step.token == step.top[0][0] for step in page.session_state["generated"].steps)


def test_a_top_k_beyond_the_vocabulary_is_no_limit(page: AppTest) -> None:
    unlimited = write(page, seed=3, length=20)
    assert write(page, top_k=100_000) == unlimited


@pytest.mark.parametrize(
    "name, value",
    [("top_k", 0), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.5), ("temperature", -1.0), ("penalty", 0.0)],
)
def test_impossible_settings_are_refused_with_the_value(name: str, value: float, page: AppTest) -> None:
    page.get_by_key(f"generate.{name}").set_value(value)
    checked(page.run())
    assert str(value) in said(page, "error") and "must be" in said(page, "error")
    assert page.button(key="generate.go").disabled


def test_it_stops_at_the_stop_token(page: AppTest) -> None:
    tokens = write(page, greedy=True, length=50)
    text = page.session_state["generated"]
    assert len(tokens) == 50 and text.problem is None
    stop = next(step.text for step in text.steps if step.text not in "\n\t ")
    shorter = write(page, stop=stop)
    assert len(shorter) < 50 and shorter == tokens[: len(shorter)]
    write_two = page.text_input(key="generate.stop").set_value("ab")
    assert write_two is not None
    checked(page.run())
    assert "2 tokens" in said(page, "error") and page.button(key="generate.go").disabled


def test_a_prompt_beyond_the_context_slides(runs: Path) -> None:
    at = open_page("generate", run="tiny", prompt="lily gave the ball to tom. " * 4)
    assert len(write(at, length=60, greedy=True)) == 60


def test_the_export_holds_what_was_drawn(page: AppTest) -> None:
    tokens = write(page, length=10)
    from apps.views.generate import _as_json

    record = json.loads(_as_json(page.session_state["generated"]))
    assert [step["token"] for step in record["steps"]] == tokens
    assert record["prompt"] == PROMPT and record["settings"]["max_new_tokens"] == 10


def test_weights_that_are_not_numbers_are_refused_with_a_sentence(runs: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    for file in (runs / "tiny" / "checkpoints").glob("step_*/model.safetensors"):
        tensors = load_file(file)
        save_file({name: torch.full_like(tensor, float("nan")) for name, tensor in tensors.items()}, file)
    at = open_page("generate", run="tiny", prompt=PROMPT)
    problem = said(at, "error")
    assert "cannot be opened" in problem and ("NaN" in problem or "finite" in problem)
    for name in ("lens", "attention", "contributions"):
        assert "cannot be opened" in said(open_page(name, run="tiny"), "error")
