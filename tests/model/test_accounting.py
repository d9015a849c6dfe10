"""The sums agree with each other, with the numbers everybody knows, and with the tensors of the model."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from model.accounting import (
    count_parameters,
    flops,
    flops_per_token,
    memory,
    parameter_ledger,
    shape_flow,
    symbols,
)
from model.config import GPTConfig
from model.formula import Formula, format_bytes, format_count, format_flops


@st.composite
def configs(draw: st.DrawFn) -> GPTConfig:
    """Any small valid config, odd widths and grouped heads included."""
    n_groups = draw(st.integers(1, 3))
    n_heads = n_groups * draw(st.integers(1, 3))
    d_head = draw(st.integers(1, 4))
    positions = draw(st.sampled_from(["standard", "sinusoidal", "rotary", "alibi", "none"]))
    values: dict[str, Any] = dict(
        d_vocab=draw(st.integers(2, 20)),
        n_ctx=draw(st.integers(1, 12)),
        d_model=draw(st.sampled_from([n_heads * d_head, draw(st.integers(1, 20))])),
        n_layers=draw(st.integers(1, 3)),
        n_heads=n_heads,
        n_key_value_heads=n_groups,
        d_head=2 * d_head if positions == "rotary" else d_head,
        d_mlp=draw(st.one_of(st.none(), st.integers(1, 40))),
        gated_mlp=draw(st.booleans()),
        act_fn=draw(st.sampled_from(["gelu", "gelu_new", "relu", "relu2", "silu", "identity"])),
        normalization_type=draw(st.sampled_from(["LN", "RMS"])),
        norm_placement=draw(st.sampled_from(["pre", "post", "sandwich"])),
        positional_embedding_type=positions,
        tie_word_embeddings=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        use_bias=draw(st.booleans()),
        attention_bias=draw(st.sampled_from([None, True, False, "qkv"])),
        mlp_bias=draw(st.sampled_from([None, True, False])),
    )
    assume(not GPTConfig.problems(values))
    return GPTConfig(**values)


# ---- the numbers everybody knows


def test_gpt2_small() -> None:
    count = count_parameters(GPTConfig())
    assert count.total == 124_439_808
    assert count.token_embedding == 50257 * 768 == 38_597_376
    assert count.position_embedding == 1024 * 768 == 786_432
    assert count.head == 0


def test_untying_gpt2_adds_the_head_and_sinusoidal_positions_save_theirs() -> None:
    tied = count_parameters(GPTConfig())
    untied = count_parameters(GPTConfig(tie_word_embeddings=False))
    assert untied.total - tied.total == untied.head == 38_597_376
    computed = count_parameters(GPTConfig(positional_embedding_type="sinusoidal"))
    assert tied.total - computed.total == 786_432


def test_nano() -> None:
    nano = GPTConfig.preset("nano")
    count = count_parameters(nano)
    assert (count.total, count.non_position) == (804_096, 795_904)
    assert count_parameters(nano.replace(positional_embedding_type="rotary")).total == 795_904
    untied = count_parameters(nano.replace(tie_word_embeddings=False))
    assert untied.total - count.total == 8_320
    assert untied.non_embedding == count.non_embedding == 795_904 - 8_320  # the head is subtracted once, or not there


def test_tinygpt_is_about_3_2_million() -> None:
    assert round(count_parameters(GPTConfig.preset("tinygpt")).total / 1e6, 1) == 3.2


def test_a_block_is_12_d_squared() -> None:
    nano = parameter_ledger(GPTConfig.preset("nano"))
    assert nano.block_matrices == "12 d^2"
    assert nano.block == "12 d^2 + 2 d"  # and two gains
    assert parameter_ledger(GPTConfig()).block == "12 d^2 + 13 d"
    block = sum(row.count for row in nano if row.name.startswith("blocks.0.") and len(row.shape) == 2)
    assert block == 12 * 128**2


def test_other_shapes_have_other_blocks() -> None:
    nano = GPTConfig.preset("nano")
    assert parameter_ledger(nano.replace(n_key_value_heads=1)).block_matrices == "2 G d h + 10 d^2"
    assert parameter_ledger(nano.replace(d_mlp=100)).block_matrices == "4 d^2 + 2 d m"
    assert parameter_ledger(nano.replace(gated_mlp=True, d_mlp=256)).block_matrices == "10 d^2"
    # 8/3 d: a gated MLP has the parameters of a plain one, to within rounding
    gated, plain = count_parameters(nano.replace(gated_mlp=True)), count_parameters(nano)
    assert abs(gated.mlp - plain.mlp) < 0.01 * plain.mlp


@pytest.mark.parametrize(
    ("changes", "n_ctx", "megaflop"),
    [
        (dict(d_model=128, n_layers=4, n_heads=4), 64, 5.16),
        (dict(d_model=384, n_layers=6, n_heads=6), 256, 70.9),
        (dict(d_model=192, n_layers=6, n_heads=6), 128, 17.8),
    ],
)
def test_flops_of_known_runs(changes: dict[str, int], n_ctx: int, megaflop: float) -> None:
    config = GPTConfig(d_vocab=65, n_ctx=n_ctx, use_bias=False, **changes)
    assert flops_per_token(config) / 1e6 == pytest.approx(megaflop, rel=2e-3)


def test_flops_count_the_head_tied_or_not_and_never_the_look_up() -> None:
    nano = GPTConfig.preset("nano")
    assert flops_per_token(nano) == flops_per_token(nano.replace(tie_word_embeddings=False))
    assert flops_per_token(nano) == 6 * (4 * 12 * 128**2 + 65 * 128) + 12 * 4 * 128 * 64
    head = [row for row in flops(nano, batch=2, pos=8) if row.name == "x W_U"]
    assert [row.flops for row in head] == [2 * 2 * 8 * 128 * 65]


def test_one_step_of_the_nano_run_costs_3_96_gigaflop() -> None:
    assert flops(GPTConfig.preset("nano"), batch=12, pos=64).training / 1e9 == pytest.approx(3.96, abs=0.005)


# ---- what passes through, by hand


def test_shape_flow_of_the_textbook_example() -> None:
    config = GPTConfig.preset("tinygpt")
    flow = shape_flow(config, batch=4, pos=128)
    assert [(row.step, row.shape) for row in flow] == [
        ("tokens", (4, 128)),
        ("embed", (4, 128, 256)),
        ("pos_embed", (4, 128, 256)),
        ("resid_pre", (4, 128, 256)),
        ("ln1", (4, 128, 256)),
        ("qkv", (4, 128, 768)),
        ("q", (4, 128, 4, 64)),
        ("k", (4, 128, 4, 64)),
        ("v", (4, 128, 4, 64)),
        ("scores", (4, 4, 128, 128)),
        ("pattern", (4, 4, 128, 128)),
        ("z", (4, 128, 4, 64)),
        ("concat", (4, 128, 256)),
        ("attn_out", (4, 128, 256)),
        ("resid_mid", (4, 128, 256)),
        ("ln2", (4, 128, 256)),
        ("mlp pre", (4, 128, 1024)),
        ("mlp post", (4, 128, 1024)),
        ("mlp_out", (4, 128, 256)),
        ("resid_post", (4, 128, 256)),
        ("... blocks", (4, 128, 256)),
        ("ln_final", (4, 128, 256)),
        ("logits", (4, 128, 65)),
        ("loss", (4, 128)),
    ]
    symbolic = {row.step: row.symbolic for row in flow}
    assert symbolic["qkv"] == "[B, N, 3 d]"
    assert symbolic["pattern"] == "[B, H, N, N]"
    assert symbolic["mlp pre"] == "[B, N, 4 d]"


@pytest.mark.parametrize(("batch", "pos", "named"), [(1, 0, "pos is 0"), (1, 65, "n_ctx 64"), (0, 8, "batch is 0")])
def test_an_impossible_window_is_refused(batch: int, pos: int, named: str) -> None:
    config = GPTConfig.preset("nano")
    for account in (shape_flow, flops, memory):
        with pytest.raises(ValueError, match=named):
            account(config, batch, pos)


# ---- for every config


@settings(deadline=None, max_examples=150)
@given(configs())
def test_formulas_evaluate_to_their_counts(config: GPTConfig) -> None:
    values = symbols(config)
    rows = list(parameter_ledger(config))
    for row in rows:
        assert _evaluate(row.formula, values) == row.count == math.prod(row.shape)
    count = count_parameters(config)
    parts = (count.embedding, count.attention, count.mlp, count.norms, count.head)
    assert count.total == sum(row.count for row in rows) == sum(parts)
    ledger = parameter_ledger(config)
    in_block = [row for row in rows if row.name.startswith("blocks.0.")]
    assert _evaluate(ledger.block, values) == sum(row.count for row in in_block)
    assert _evaluate(ledger.block_matrices, values) == sum(r.count for r in in_block if len(r.shape) == 2)


@settings(deadline=None, max_examples=100)
@given(configs(), st.integers(1, 3))
def test_the_6n_rule_is_the_sum_of_the_products(config: GPTConfig, batch: int) -> None:
    counted = flops(config, batch, config.n_ctx)
    assert counted.training == flops_per_token(config) * batch * config.n_ctx
    values = symbols(config, batch)
    for row in counted:
        assert _evaluate(row.formula, values) * row.times == row.flops


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(configs())
def test_the_ledger_is_the_models_own(config: GPTConfig) -> None:
    from model import GPT

    model = GPT(config)
    named = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    assert [(row.name, row.shape) for row in parameter_ledger(model)] == named
    assert count_parameters(model).total == sum(parameter.numel() for parameter in model.parameters())


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(configs(), st.integers(1, 3), st.data())
def test_the_shape_flow_is_what_the_hooks_see(config: GPTConfig, batch: int, data: st.DataObject) -> None:
    import torch

    from model import GPT

    pos = data.draw(st.integers(1, config.n_ctx))
    logits, cache = GPT(config).run_with_cache(torch.zeros(batch, pos, dtype=torch.long))
    flow = shape_flow(config, batch, pos)
    watched = {row.hook: row.shape for row in flow if row.hook}
    assert watched == {name: tuple(cache[name].shape) for name in watched}
    assert {row.step: row.shape for row in flow}["logits"] == tuple(logits.shape)
    # no hook point of the first block goes unmentioned, but a norm's own statistics
    in_block = {name for name in cache if name.startswith("blocks.0.") and not name.endswith("hook_scale")}
    if config.norm_placement == "post":  # its norms make resid_mid and resid_post: no rows of their own
        in_block = {name for name in in_block if not name.endswith("hook_normalized")}
    assert {name for name in in_block if "_norm." not in name} == {n for n in watched if n.startswith("blocks.0.")}


def _evaluate(formula: str, values: dict[str, int]) -> int:
    """Read a printed formula back, as a reader of the table would."""
    total = 0
    for term in formula.split(" + "):
        product = 1
        for factor in term.split(" "):
            symbol, _, power = factor.partition("^")
            product *= (int(symbol) if symbol.isdigit() else values[symbol]) ** int(power or 1)
        total += product
    return total


# ---- memory


def test_memory_of_weights_moments_and_cache() -> None:
    gpt2 = memory(GPTConfig(), batch=2, pos=1024)
    assert gpt2.weights == gpt2.gradients == 4 * 124_439_808
    assert gpt2.optimizer == 2 * gpt2.weights
    assert gpt2.kv_cache == 2 * 12 * 2 * 1024 * 768 * 4
    matrices = 12 * 12 * 768**2
    assert memory(GPTConfig(), optimizer="muon").optimizer == gpt2.optimizer - 4 * matrices
    assert memory(GPTConfig(), optimizer="none").optimizer == 0
    assert memory(GPTConfig(), 2, 1024, "bf16").kv_cache == gpt2.kv_cache // 2
    assert memory(GPTConfig(), 2, 1024, "bf16").weights == gpt2.weights  # mixed precision keeps fp32 weights
    grouped = memory(GPTConfig(n_key_value_heads=3), batch=2, pos=1024)
    assert grouped.kv_cache == gpt2.kv_cache // 4


def test_unknown_precision_or_optimizer_is_refused() -> None:
    with pytest.raises(ValueError, match="precision is 'int4'; known are fp64, fp32, bf16"):
        memory(GPTConfig(), precision="int4")
    with pytest.raises(ValueError, match="optimizer is 'adam'"):
        memory(GPTConfig(), optimizer="adam")


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("positions", ["standard", "rotary"])
@pytest.mark.parametrize("gated", [False, True])
def test_activations_are_what_autograd_keeps(placement: str, positions: str, gated: bool) -> None:
    """The estimate is within a fifth of the bytes autograd really saves for the backward pass."""
    import torch

    from model import GPT

    config = GPTConfig(
        d_vocab=65,
        n_ctx=64,
        d_model=64,
        n_layers=3,
        n_heads=4,
        norm_placement=placement,
        positional_embedding_type=positions,
        gated_mlp=gated,
    )
    model = GPT(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(torch.zeros(8, 64, dtype=torch.long), return_type="loss")
    loss.backward()
    assert memory(config, 8, 64).activations == pytest.approx(sum(kept.values()), rel=0.2)


# ---- printing


def test_the_sums_print_as_tables() -> None:
    ledger = str(parameter_ledger(GPTConfig()))
    assert "blocks.0.attn.w_qkv.weight" in ledger
    assert "3 d^2" in ledger and "total 124,439,808" in ledger and "38,597,376" in ledger
    sinusoidal = str(parameter_ledger(GPTConfig(positional_embedding_type="sinusoidal")))
    assert "learned ones would add T d = 786,432" in sinusoidal
    flow = str(shape_flow(GPTConfig.preset("tinygpt"), 4, 128))
    assert "[4, 4, 128, 128]" in flow and "d_model" in flow
    assert "MFLOP" in str(flops(GPTConfig.preset("nano"), 12))
    assert "474.7 MiB" in str(memory(GPTConfig()))
    assert len(parameter_ledger(GPTConfig()).to_frame()) == 148
    assert shape_flow(GPTConfig(), 1, 8).to_frame()["step"].iloc[0] == "tokens"


@pytest.mark.parametrize(
    ("value", "count", "size"),
    [(0, "0", "0 B"), (999, "999", "999 B"), (1023, "1.0K", "1,023 B"), (804_096, "804.1K", "785.2 KiB")],
)
def test_numbers_for_people(value: int, count: str, size: str) -> None:
    assert format_count(value) == count
    assert format_bytes(value) == size


def test_numbers_never_round_to_a_thousand_of_a_unit() -> None:
    assert format_count(999_960) == "1.0M"
    assert format_count(124_439_808) == "124.4M"
    assert format_flops(5_161_728) == "5.16 MFLOP"
    assert format_count(5e15) == "5,000.0T"


@settings(max_examples=100)
@given(
    st.dictionaries(st.sampled_from("dhm"), st.integers(1, 9), min_size=3),
    st.lists(st.integers(0, 5), min_size=6),
)
def test_formulas_add_and_multiply_like_numbers(values: dict[str, int], numbers: list[int]) -> None:
    d, h, m = (Formula.of(symbol) for symbol in "dhm")
    a, b, c, e, f, g = numbers[:6]
    left, right = a * d * d + b * h + c, e * m * d + f * h * h + g
    assert (left + right).value(values) == left.value(values) + right.value(values)
    assert (left * right).value(values) == left.value(values) * right.value(values)
    assert left + right == right + left and left * right == right * left
    assert hash(left * right) == hash(right * left)


def test_accounting_needs_no_torch() -> None:
    code = "import sys, model.accounting as a; a.flops(a.GPTConfig()); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
