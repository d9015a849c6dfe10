"""GPTConfig refuses what cannot be built, names the fields, and survives a round trip."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.config import ACTIVATIONS, NORM_PLACEMENTS, PRESETS, ConfigError, GPTConfig, RotaryScaling


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"d_model": 130, "n_heads": 4}, "n_heads", ("130", "4", "1, 2, 5, 10")),
        ({"d_model": 128, "n_heads": 0}, "n_heads", ("0",)),
        ({"d_model": 128, "n_heads": -4}, "n_heads", ("-4",)),
        ({"d_model": 0, "n_heads": 4}, "d_model", ("0",)),
        ({"d_model": 100, "n_heads": 3}, "n_heads", ("100", "3", "1, 2, 4, 5")),
        ({"d_model": 12, "n_heads": 4, "positional_embedding_type": "rotary"}, "n_heads", ("12", "4", "d_head 3")),
        ({"d_model": 520, "n_heads": 8, "positional_embedding_type": "rotary"}, "n_heads", ("520", "8", "65")),
        ({"d_model": 64, "n_heads": 4, "d_head": 7, "positional_embedding_type": "rotary"}, "d_head", ("7",)),
        ({"n_heads": 12, "n_key_value_heads": 5}, "n_key_value_heads", ("12", "5")),
        ({"act_fn": "gleu"}, "act_fn", ("'gleu'", "did you mean 'gelu'?")),
        ({"norm_placement": "Pre"}, "norm_placement", ("'Pre'", "'pre'")),
        ({"resid_dropout": 1.0}, "resid_dropout", ("1.0",)),
        ({"attn_dropout": float("nan")}, "attn_dropout", ("nan",)),
        ({"eps": 0.0}, "eps", ("0.0",)),
        ({"n_layers": 2.0}, "n_layers", ("2.0",)),
        ({"n_layers": True}, "n_layers", ("True",)),
        ({"n_layers": 10**15}, "n_layers", ("at most 10,000",)),
        ({"logit_soft_cap": -1.0}, "logit_soft_cap", ("-1.0",)),
        ({"rotary_scaling": RotaryScaling("linear", 2.0)}, "rotary_scaling", ("'rotary'", "'standard'")),
        (
            {"positional_embedding_type": "rotary", "rotary_scaling": RotaryScaling("yarn", 2.0)},
            "rotary_scaling",
            ("original_n_ctx",),
        ),
        ({"n_layer": 4}, "n_layer", ("did you mean 'n_layers'?",)),
    ],
)
def test_refused_with_the_field_the_values_and_the_fix(values: dict, field: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        GPTConfig.from_dict(values)
    assert caught.value.fields == (field,)
    for word in words:
        assert word in str(caught.value)
    assert [name for name, _ in GPTConfig.problems(values)] == [field]


@pytest.mark.parametrize("kind", ["standard", "alibi", "sinusoidal", "none"])
def test_odd_head_width_is_refused_for_rotary_only(kind: str) -> None:
    assert GPTConfig(d_model=12, n_heads=4, positional_embedding_type=kind).d_head == 3


def test_a_form_learns_every_problem_at_once() -> None:
    problems = dict(GPTConfig.problems({"d_model": -1, "n_ctx": 0, "act_fn": "tanh"}))
    assert problems.keys() == {"d_model", "n_ctx", "act_fn"}
    assert GPTConfig.problems({}) == []


def test_widths_follow() -> None:
    plain = GPTConfig(d_model=192, n_heads=3)
    assert (plain.d_head, plain.d_mlp, plain.n_key_value_heads) == (64, 768, 3)
    assert plain.replace(gated_mlp=True).d_mlp == 512  # exactly 8/3 d: as many parameters as ungated
    assert plain.replace(d_model=96).d_mlp == 384
    assert plain.replace(d_model=96).d_head == 32
    assert plain.replace(d_mlp=100).replace(d_model=96).d_mlp == 100  # what was chosen stays
    assert [GPTConfig(d_model=d, n_heads=4, gated_mlp=True).d_mlp for d in (128, 256, 512)] == [341, 683, 1365]


@given(
    st.sampled_from(sorted(PRESETS)),
    st.sampled_from(ACTIVATIONS),
    st.sampled_from(NORM_PLACEMENTS),
    st.booleans(),
    st.floats(0, 0.9),
)
def test_json_round_trip(preset: str, act_fn: str, placement: str, gated: bool, dropout: float) -> None:
    config = GPTConfig.preset(preset, act_fn=act_fn, norm_placement=placement, gated_mlp=gated, resid_dropout=dropout)
    assert GPTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_rotary_scaling_round_trip() -> None:
    config = GPTConfig(positional_embedding_type="rotary", rotary_scaling=RotaryScaling("yarn", 4.0, 1024))
    assert GPTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_config_needs_no_torch() -> None:
    code = "import sys; from model import GPTConfig; GPTConfig.preset('nano'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_preset_is_loud() -> None:
    with pytest.raises(ConfigError, match="did you mean 'nano'"):
        GPTConfig.preset("nanno")


ROTARY = dict(d_vocab=11, n_ctx=8, d_model=16, n_layers=1, n_heads=4, positional_embedding_type="rotary")
YARN = dict(kind="yarn", factor=2.0, original_n_ctx=4)
LLAMA3 = dict(kind="llama3", factor=2.0, original_n_ctx=4)
FACTORS = dict(kind="factors", factor=1.0, factors=(1.0, 2.0))
STRANGE = (-1, 0, float("nan"), float("inf"), -float("inf"), 1e308, 10**400, "x", [], {}, True, (1, 2), b"x")


@pytest.mark.parametrize(
    "scaling", [dict(kind="linear", factor=2.0), dict(kind="ntk", factor=2.0), YARN, LLAMA3, FACTORS]
)
@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(RotaryScaling)])
def test_each_field_of_a_rotary_scaling_is_checked(scaling: dict, field: str) -> None:
    for value in (*STRANGE, None):
        try:
            config = GPTConfig.from_dict({**ROTARY, "rotary_scaling": {**scaling, field: value}})
        except ConfigError as error:
            assert error.fields == ("rotary_scaling",)
            assert field in str(error) or "factors" in str(error)
            continue
        require_sound(config)


@pytest.mark.parametrize("positions", ["rotary", "standard", "alibi", "sinusoidal"])
@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(GPTConfig)])
def test_each_field_takes_what_runs_and_refuses_the_rest_by_its_name(field: str, positions: str) -> None:
    for value in (*STRANGE, 2**63, 2**64, 1e-300, -1e300, 3.5e38, 10**5000):
        values = {**ROTARY, "positional_embedding_type": positions, field: value}
        try:
            config = GPTConfig.from_dict(values)
        except ConfigError as error:
            assert any(field in name or field in str(error) for name in error.fields), error
            assert len(str(error)) < 1000
            continue
        require_sound(config)


def require_sound(config: GPTConfig) -> None:
    """It comes back from JSON as it is, and a model of it computes numbers and has gradients."""
    import torch

    from model import GPT

    assert GPTConfig.from_dict(json.loads(json.dumps(config.to_dict(), allow_nan=False))) == config
    assert GPTConfig.from_dict(config.to_dict()) == config and hash(config) == hash(
        GPTConfig.from_dict(config.to_dict())
    )
    if config.n_layers > 1 or max(config.d_vocab, config.d_model, config.n_ctx) > 1000:
        return
    model = GPT(config)
    x = torch.tensor([[1, 0, 2, 1][: config.n_ctx]]) % config.d_vocab
    logits = model(x)
    assert torch.isfinite(logits).all(), config
    if config.n_ctx > 1:
        model(x, return_type="loss").backward()


def test_values_that_run_stay_allowed() -> None:
    for changes in (
        dict(rotary_base=1e9),
        dict(rotary_base=1.0),
        dict(eps=1e-12),
        dict(attention_window=2**63 - 1),
        dict(n_ctx=2**62),
        dict(logit_soft_cap=30),
        dict(init_std=1e-6),
        dict(rotary_scaling=YARN),
        dict(rotary_scaling={**YARN, "attention_factor": 1.3, "beta_fast": 2, "beta_slow": 2}),
        dict(rotary_scaling={**FACTORS, "factors": [1, 2.0]}),
    ):
        assert GPTConfig.from_dict({**ROTARY, **changes})
