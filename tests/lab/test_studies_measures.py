"""Each measure on a network whose weights were set so that the answer is known by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lab.runs import Run
from lab.studies.measures import MEASURES, Subject, Value, measure, resolve_measure
from lab.training import DataConfig, RunConfig
from model import GPT, GPTConfig

VOCAB, WIDTH, HEADS = 11, 16, 2


def subject(**changes: object) -> Subject:
    """A subject around an untrained network with biases, whose blocks write nothing until a test says otherwise."""
    plain = {"n_layers": 2, "n_ctx": 8, "use_bias": True, "act_fn": "relu"}
    config = GPTConfig.from_dict({"d_vocab": VOCAB, "d_model": WIDTH, "n_heads": HEADS, **plain, **changes})
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCAB, 200)
    made = Subject(None, SimpleNamespace(train=ids.astype(np.uint16), validation=ids[:90].astype(np.uint16)))
    made.__dict__["config"] = RunConfig(model=config, data=DataConfig(corpus="stories"))
    made.__dict__["model"] = model = GPT(config).eval()
    with torch.no_grad():
        for block in model.blocks:
            for part in (block.attn.w_o, block.mlp.w_out):
                part.weight.zero_()
                part.bias.zero_()
    return made


def of(name: str, looked_at: Subject) -> Value:
    return resolve_measure(name).compute(looked_at)


@torch.no_grad()
def embed_alike(looked_at: Subject, vector: torch.Tensor) -> None:
    """Every token at every position begins as `vector`."""
    looked_at.model.embed.weight.copy_(vector.expand(VOCAB, -1))
    looked_at.model.pos_embed.weight.zero_()


def test_the_residual_stream() -> None:
    one = subject()
    embed_alike(one, 3 * torch.eye(WIDTH)[0])  # RMS 3 / sqrt(16), largest entry 4 times that
    assert of("residual_rms", one) == pytest.approx([0.75] * 3)
    assert of("residual_growth", one) == pytest.approx(0.0)
    assert of("max_residual", one) == pytest.approx(4.0)
    with torch.no_grad():
        one.model.blocks[1].mlp.w_out.bias.copy_(9 * torch.eye(WIDTH)[0])  # 3 + 9
    assert of("residual_rms", one) == pytest.approx([0.75, 0.75, 3.0])
    assert of("residual_growth", one) == pytest.approx(math.log(4))


def test_the_residual_stream_before_training() -> None:
    one = subject(init="xavier", resid_dropout=0.3)
    row = of("untrained_residual_rms", one)
    assert isinstance(row, list) and len(row) == 3 and row[0] < row[1] < row[2]  # each sublayer adds its own
    again = of("untrained_residual_rms", subject(init="xavier", resid_dropout=0.0))
    assert row == again  # dropout has no part in it


def test_neurons() -> None:
    one = subject(d_mlp=20)
    for block in one.model.blocks:
        torch.nn.init.zeros_(block.mlp.w_in.weight)
        torch.nn.init.ones_(block.mlp.w_in.bias)
    assert of("mlp_active_share", one) == pytest.approx(1.0)  # all the same
    assert of("mlp_sparsity", one) == [0.0, 0.0]
    with torch.no_grad():
        one.model.blocks[0].mlp.w_in.bias[1:] = -1.0  # one of 20 is on
        one.model.blocks[1].mlp.w_in.bias[:] = torch.tensor([2.0] * 5 + [0.001] * 15)
    # (sum)^2 / (n sum of squares): 1/20, and near 5/20
    assert of("mlp_active_share", one) == pytest.approx((1 / 20 + 10.015**2 / (20 * 20.000015)) / 2)
    assert of("mlp_sparsity", one) == pytest.approx([0.95, 0.75])


def test_who_writes_the_logits() -> None:
    one = subject(tie_word_embeddings=False)
    mlp, attention = one.model.blocks[0].mlp.w_out, one.model.blocks[1].attn.w_o
    torch.nn.init.normal_(mlp.weight)
    assert of("mlp_logit_share", one) == pytest.approx(1.0)
    torch.nn.init.zeros_(mlp.weight)
    torch.nn.init.normal_(attention.weight)
    assert of("mlp_logit_share", one) == pytest.approx(0.0)
    torch.nn.init.zeros_(attention.weight)
    with torch.no_grad():  # three parts of the same vector from the MLP, one from attention
        direction = torch.randn(WIDTH)
        mlp.bias.copy_(3 * direction)
        attention.bias.copy_(direction)
    assert of("mlp_logit_share", one) == pytest.approx(0.75, abs=1e-5)


def test_embedding_against_unembedding() -> None:
    assert of("embedding_cosine", subject(tie_word_embeddings=True)) == pytest.approx(1.0)
    one = subject(tie_word_embeddings=False)
    half = torch.ones(VOCAB)
    half[:5] = -1
    with torch.no_grad():
        one.model.W_U.copy_((2 * half[:, None] * one.model.W_E).T)
    assert of("embedding_cosine", one) == pytest.approx((6 - 5) / 11)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none", "sinusoidal"])
def test_reading_further_than_trained(positions: str) -> None:
    one = subject(positional_embedding_type=positions)
    double, penalty = of("loss_at_double", one), of("longer_penalty", one)
    assert isinstance(double, float) and math.isfinite(double)
    if positions != "sinusoidal":  # the blocks write nothing, so a token's loss is of the token before it alone
        assert penalty == pytest.approx(0.0, abs=1e-6)
    else:
        assert penalty != pytest.approx(0.0, abs=1e-6)  # its vectors are added to the stream


def test_learned_positions_end_where_training_did() -> None:
    one = subject(positional_embedding_type="standard")
    assert of("loss_at_double", one) is None and of("longer_penalty", one) is None


@pytest.mark.parametrize("window", [None, 3])
def test_the_largest_attention_score_is_of_what_may_be_seen(window: int | None) -> None:
    one = subject(attention_window=window)
    d_head = WIDTH // HEADS
    with torch.no_grad():
        for block in one.model.blocks:
            block.attn.w_qkv.weight.zero_()
            block.attn.w_qkv.bias.zero_()
        bias = one.model.blocks[1].attn.w_qkv.bias  # queries, keys, values, head by head
        bias[d_head : 2 * d_head] = 5.0
        bias[WIDTH + d_head : 2 * WIDTH] = -7.0
    assert of("max_attention_logit", one) == pytest.approx(5 * 7 * d_head / math.sqrt(d_head))


def test_the_gap_is_validation_less_training() -> None:
    one = subject(resid_dropout=0.5, tie_word_embeddings=False)
    assert of("generalisation_gap", one) == pytest.approx(0.0, abs=1e-7)  # validation is the same text
    embed_alike(one, torch.zeros(WIDTH))  # every guess is the final norm's bias, read by the head
    with torch.no_grad():
        one.model.ln_final.b.copy_(torch.eye(WIDTH)[0])
        one.model.W_U[0] = torch.eye(VOCAB)[3] * 2  # token 3 has logit 2, the others 0
    one.data.train = np.full(90, 3, np.uint16)
    wrong, right = math.log(10 + math.e**2), math.log(10 + math.e**2) - 2
    share = float((one.data.validation[1:] == 3).mean())
    assert of("generalisation_gap", one) == pytest.approx(share * right + (1 - share) * wrong - right, rel=1e-5)


def test_gradients_before_the_first_step() -> None:
    """The norm is the slope of the loss along the gradient's own direction."""
    from lab.studies.measures import BATCH
    from lab.training.data import Batches

    one = subject(n_layers=4, init="xavier")
    rows = {depth: of(f"gradients_{depth}", one) for depth in (4, 8, 16)}
    assert [len(row) for row in rows.values()] == [4, 8, 16]
    model = one.untrained(4).double()
    windows = torch.from_numpy(Batches(one.data.train, 8, BATCH, one.config.training.data_seed)(0))
    weight = model.blocks[3].mlp.w_out.weight

    def loss() -> torch.Tensor:
        return model(windows[:, :-1], return_type="loss", targets=windows[:, 1:])

    (direction,) = torch.autograd.grad(loss(), weight)
    direction = direction / direction.norm()
    with torch.no_grad():
        weight += 1e-4 * direction
        ahead = loss()
        weight -= 2e-4 * direction
        slope = float(ahead - loss()) / 2e-4
    assert rows[4][-1] == pytest.approx(slope, rel=1e-4)
    assert of("gradient_slope_4", one) == pytest.approx(math.log(rows[4][-1] / rows[4][0]))
    assert of("last_gradient_8", one) == pytest.approx(math.log(rows[8][-1]))
    assert of("depth_effect", one) == pytest.approx(math.log(rows[16][-1] / rows[4][-1]))


def test_measures_of_a_run_on_disk(trained) -> None:
    from lab.analysis import head_scores
    from lab.models import open_model
    from lab.training import prepare_data

    run = Run(trained.run("a"))
    data = prepare_data(RunConfig.from_dict(run.config))
    found, problem = measure(MEASURES, run, data)
    assert problem is None
    assert set(found) == set(MEASURES)
    numbers = [
        v for value in found.values() if value is not None for v in (value if isinstance(value, list) else [value])
    ]
    assert len(numbers) > len(MEASURES) and np.isfinite(numbers).all()
    assert found["induction"] == float(np.nanmax(head_scores(open_model(run.path)).induction))
    cache = open_model(run.path).run_with_cache(torch.from_numpy(data.validation[:17].astype(np.int64))[None, :-1])[1]
    assert found["residual_rms"][-1] == pytest.approx(
        float(cache["blocks.1.hook_resid_post"].pow(2).mean().sqrt()), rel=0.2
    )
    assert 0 < found["mlp_active_share"] < 1


def test_an_unknown_measure_is_named_with_its_nearest() -> None:
    with pytest.raises(ValueError, match="residual_rms"):
        resolve_measure("residual_rsm")
