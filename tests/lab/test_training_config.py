"""Configurations and recipes: what is refused and how, and who wins over whom."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.training import RECIPES, DataConfig, RunConfig, TrainingConfig, build_run_config
from lab.training.schedule import lr_multiplier
from model.config import PRESETS, ConfigError, GPTConfig


def fields_of(error: pytest.ExceptionInfo[ConfigError]) -> tuple[str, ...]:
    return tuple(error.value.fields)


# --- refused, with a sentence a field ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"steps": 0}, "steps", "steps is 0; it must be a whole number of at least 1"),
        ({"steps": 2.5}, "steps", "2.5"),
        ({"steps": True}, "steps", "True"),
        ({"batch_size": -1}, "batch_size", "-1"),
        ({"threads": 0}, "threads", "at least 1"),
        ({"lr": float("nan")}, "lr", "finite number above 0"),
        ({"lr": 10**400}, "lr", "finite number above 0"),
        ({"grad_clip": 10**400}, "grad_clip", "finite number above 0"),
        ({"lr": 0}, "lr", "above 0"),
        ({"muon_lr": "fast"}, "muon_lr", "'fast'"),
        ({"betas": (0.9, 1.0)}, "betas", "below 1"),
        ({"betas": (0.9,)}, "betas", "two numbers"),
        ({"grad_clip": 0}, "grad_clip", "None or a finite number above 0"),
        ({"min_lr_fraction": 1.5}, "min_lr_fraction", "between 0 and 1"),
        ({"optimizer": "adam"}, "optimizer", "did you mean 'adamw'"),
        ({"schedule": "cosin"}, "schedule", "did you mean 'cosine'"),
        ({"precision": "fp16"}, "precision", "fp16"),
        ({"eval_every": 0}, "eval_every", "at least 1"),
        ({"sample_prompt": ""}, "sample_prompt", "None or a text"),
        ({"steps": 10, "warmup_steps": 11}, "warmup_steps", "warmup_steps 11 is more than steps 10"),
        ({"dropuot": 0.1}, "dropuot", "Unknown training field 'dropuot'"),
        ({"weight_decy": 0.1}, "weight_decy", "did you mean 'weight_decay'"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError, match=None) as error:
        TrainingConfig.from_dict(changes)
    assert fields_of(error) == (field,) and words in str(error.value)
    assert TrainingConfig.problems(changes) == error.value.problems


def test_every_mistake_is_told_at_once() -> None:
    problems = TrainingConfig.problems({"steps": 0, "lr": -1.0, "optimizer": "sgd"})
    assert sorted(field for field, _ in problems) == ["lr", "optimizer", "steps"]
    assert TrainingConfig.problems({}) == []


def test_configs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingConfig().steps = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "data", [{"corpus": ""}, {"corpus": "x", "corpus_size": 0}, {"corpus": "x", "corpus_seed": -1}, {}]
)
def test_data_that_cannot_be(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DataConfig.from_dict(data)


def test_a_run_config_goes_through_json_unchanged() -> None:
    config = build_run_config("stories", "small", "textbook", seed=3, training_overrides={"betas": (0.8, 0.9)})
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 99}, "schema_version 99"),
        ({"modle": {}}, "did you mean 'model'"),
        ({"model": None}, "needs an object under 'model'"),
        ({"training": {"stpes": 3}}, "did you mean 'steps'"),
        ({"model": {"n_layer": 3}}, "did you mean 'n_layers'"),
    ],
)
def test_a_foreign_run_config_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RunConfig.from_dict(build_run_config("stories").to_dict() | change)


# --- recipes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_fits_every_preset(preset: str, recipe: str) -> None:
    config = build_run_config("stories", preset, recipe)
    shape = ("n_ctx", "d_model", "n_layers", "n_heads")
    plain = GPTConfig.preset(preset)
    assert [getattr(config.model, name) for name in shape] == [getattr(plain, name) for name in shape]
    assert (config.preset, config.recipe) == (preset, recipe)


def test_explicit_wins_over_recipe_wins_over_preset() -> None:
    assert GPTConfig.preset("nano").positional_embedding_type == "standard"
    assert build_run_config("x").model.positional_embedding_type == "rotary"
    explicit = build_run_config(
        "x", model_overrides={"positional_embedding_type": "alibi"}, training_overrides={"lr": 7e-4, "steps": 90}
    )
    assert explicit.model.positional_embedding_type == "alibi" and explicit.model.act_fn == "relu2"
    assert (explicit.training.lr, explicit.training.steps) == (7e-4, 90)
    assert build_run_config("x", steps=80).training.steps == 80


def test_nanogpt_is_nanogpts_recipe() -> None:
    config = build_run_config("x", "nano", "nanogpt")
    t = config.training
    assert (t.steps, t.batch_size, t.optimizer, t.lr, t.warmup_steps, t.schedule) == (
        2000,
        12,
        "adamw",
        1e-3,
        100,
        "cosine",
    )
    assert (t.betas, t.weight_decay, t.grad_clip, t.min_lr_fraction) == ((0.9, 0.99), 0.1, 1.0, 0.1)
    assert config.model == GPTConfig.preset("nano")


def test_one_seed_sets_all_three_and_each_can_be_set_apart() -> None:
    config = build_run_config("x", seed=5)
    assert (config.model.seed, config.training.seed, config.training.data_seed) == (5, 5, 5)
    config = build_run_config("x", seed=5, model_overrides={"seed": 1}, training_overrides={"data_seed": 2})
    assert (config.model.seed, config.training.seed, config.training.data_seed) == (1, 5, 2)


def test_a_short_run_warms_up_shorter_unless_told_otherwise() -> None:
    assert build_run_config("x", recipe="nanogpt", steps=50).training.warmup_steps == 5
    assert build_run_config("x", recipe="nanogpt", steps=5000).training.warmup_steps == 100
    with pytest.raises(ConfigError, match="warmup_steps 60 is more than steps 50"):
        build_run_config("x", steps=50, training_overrides={"warmup_steps": 60})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"preset": "nanoo"}, "did you mean 'nano'"),
        ({"recipe": "fats"}, "did you mean 'fast'"),
        ({"model_overrides": {"d_vocab": 70}}, "follows the tokenizer"),
        ({"model_overrides": {"n_heads": 3}}, "not divisible"),
    ],
)
def test_a_run_that_cannot_be_built(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_run_config("stories", **arguments)


# --- the learning rate ---------------------------------------------------------------------------------------

SCHEDULES = ("constant", "cosine", "linear", "flat_linear")


@given(
    schedule=st.sampled_from(SCHEDULES),
    steps=st.integers(1, 300),
    part=st.floats(0, 1),
    least=st.floats(0, 1),
    flat=st.floats(0, 1),
)
def test_the_schedule_at_its_edges(schedule: str, steps: int, part: float, least: float, flat: float) -> None:
    config = TrainingConfig.from_dict(
        {
            "schedule": schedule,
            "steps": steps,
            "warmup_steps": round(part * steps),
            "min_lr_fraction": least,
            "flat_fraction": flat,
        }
    )
    values = [lr_multiplier(step, config) for step in range(steps + 5)]
    assert values[0] > 0 and all(0 <= value <= 1 for value in values)
    end = 1.0 if schedule == "constant" else least
    assert values[steps:] == [end] * 5, "exactly the least at the end, and after it"
    warm = config.warmup_steps
    assert values[:warm] == sorted(values[:warm])
    assert all(a >= b for a, b in zip(values[warm:], values[warm + 1 :], strict=False)), "never up after the warm-up"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 4, 10])
def test_warm_up_none_some_and_all_of_the_steps(schedule: str, warmup: int) -> None:
    config = TrainingConfig(steps=10, schedule=schedule, warmup_steps=warmup, min_lr_fraction=0.1)  # type: ignore[arg-type]
    values = [lr_multiplier(step, config) for step in range(10)]
    assert values[:warmup] == [(step + 1) / (warmup + 1) for step in range(warmup)]
    if warmup < 10:
        assert values[warmup] == 1.0


def test_flat_then_linear_is_flat_and_then_a_line() -> None:
    config = TrainingConfig(steps=8, schedule="flat_linear", warmup_steps=0, min_lr_fraction=0.0, flat_fraction=0.5)
    assert [lr_multiplier(step, config) for step in range(9)] == [1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0]


def test_cosine_is_half_way_down_half_way_through() -> None:
    config = TrainingConfig(steps=110, schedule="cosine", warmup_steps=10, min_lr_fraction=0.2)
    assert lr_multiplier(60, config) == pytest.approx(0.6)
    assert lr_multiplier(10_000, config) == 0.2
