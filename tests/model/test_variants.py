"""Watched equals fast, and gradients too, in every variant."""

from __future__ import annotations

import pytest
import torch

from tests.model.variants import VARIANTS, name_of, tiny, tokens


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_watched_equals_fast(variant: dict) -> None:
    model = tiny(**variant)
    x = tokens()
    with torch.no_grad():
        fast = model(x)
        watched, cache = model.run_with_cache(x)
        requested, everything = model.run_with_cache(x, names_filter=lambda name: True)
    assert set(cache) == {name for name, point in model.hook_dict.items() if not point.on_request}
    assert set(everything) == set(model.hook_dict)
    torch.testing.assert_close(watched, fast, atol=1e-5, rtol=0)
    torch.testing.assert_close(requested, fast, atol=1e-5, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("norm", ["LN", "RMS"])
@pytest.mark.parametrize("extra", [{}, {"qk_norm": True, "n_key_value_heads": 2}, {"attention_window": 3}])
def test_gradients_of_watched_equal_fast(placement: str, norm: str, extra: dict) -> None:
    model = tiny(norm_placement=placement, normalization_type=norm, act_fn="relu2", logit_soft_cap=5.0, **extra)
    x = tokens()
    model(x, return_type="loss").backward()
    fast = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert len(fast) == len(list(model.parameters()))
    model.zero_grad()
    loss, _ = model.run_with_cache(x, return_type="loss")
    loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, fast[name], atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize(
    "variant",
    [{}, {"positional_embedding_type": "rotary"}, {"positional_embedding_type": "alibi"}, {"attention_window": 4}],
    ids=str,
)
def test_no_position_sees_a_later_token(variant: dict) -> None:
    model = tiny(**variant)
    x = tokens(1, 9)
    changed = x.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 23
    with torch.no_grad():
        before, after = model(x), model(changed)
    torch.testing.assert_close(after[:, :5], before[:, :5], atol=1e-6, rtol=0)
    assert not torch.allclose(after[:, 5:], before[:, 5:], atol=1e-3)


def test_window_forgets_what_lies_behind_it() -> None:
    model = tiny(attention_window=3, n_layers=1, positional_embedding_type="none")
    x = tokens(1, 9)
    changed = x.clone()
    changed[0, 0] = (changed[0, 0] + 1) % 23
    with torch.no_grad():
        before, after = model(x), model(changed)
    assert not torch.allclose(after[:, 2], before[:, 2], atol=1e-3)
    torch.testing.assert_close(after[:, 3:], before[:, 3:], atol=1e-6, rtol=0)


@pytest.mark.parametrize("variant", [VARIANTS[i] for i in range(0, len(VARIANTS), 7)], ids=name_of)
def test_left_padded_rows_are_what_they_are_alone(variant: dict) -> None:
    model = tiny(**variant)
    rows = [[1, 2, 3, 4, 5, 6], [7, 8, 9], [10]]
    with torch.no_grad():
        together = model(rows)
        _, cache = model.run_with_cache(rows)
        for index, row in enumerate(rows):
            alone = model(row)
            torch.testing.assert_close(together[index, -len(row) :], alone[0], atol=1e-5, rtol=0)
    assert torch.isfinite(cache["pattern", 1]).all()
    loss = model(rows[:2], return_type="loss")
    one, two = (model(row, return_type="loss", loss_per_token=True) for row in rows[:2])
    torch.testing.assert_close(loss, torch.cat((one[0], two[0])).mean(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm", ["LN", "RMS"])
def test_half_precision_is_near_and_finite(dtype: torch.dtype, norm: str) -> None:
    model = tiny(normalization_type=norm, positional_embedding_type="rotary", qk_norm=True)
    x = tokens()
    with torch.no_grad():
        exact = model(x).softmax(-1)
        half = model.to(dtype)(x)
        assert half.dtype == dtype
    torch.testing.assert_close(half.float().softmax(-1), exact, atol=0.1, rtol=0)
    model(x, return_type="loss").backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_last_position_is_trained() -> None:
    model = tiny(n_ctx=8)
    window = tokens(3, 9)
    model(window[:, :-1], return_type="loss", targets=window[:, 1:]).backward()
    gradient = model.pos_embed.weight.grad
    assert gradient.shape[0] == 8
    assert (gradient.norm(dim=-1) > 0).all()


def test_loss_is_mean_cross_entropy_in_nats() -> None:
    model = tiny()
    x = tokens()
    with torch.no_grad():
        logits, loss = model(x, return_type="both")
        expected = -logits[:, :-1].log_softmax(-1).gather(-1, x[:, 1:, None]).mean()
        per_token = model(x, return_type="loss", loss_per_token=True)
        shifted = model(x[:, :-1], return_type="loss", targets=x[:, 1:])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(per_token.mean(), expected)
    torch.testing.assert_close(shifted, expected)


def test_stop_and_start_at_layer_meet() -> None:
    for variant in ({}, {"norm_placement": "post"}, {"positional_embedding_type": "rotary"}):
        model = tiny(n_layers=3, **variant)
        x = tokens()
        with torch.no_grad():
            whole = model(x)
            for layer in range(4):
                residual = model(x, stop_at_layer=layer)
                torch.testing.assert_close(model(residual, start_at_layer=layer), whole)
            assert torch.equal(model(x, stop_at_layer=-1), model(x, stop_at_layer=2))
    with pytest.raises(ValueError, match="has 3 layers"):
        model(x, stop_at_layer=4)


def test_rmsnorm_derivative_by_hand_passes_gradcheck() -> None:
    from model.norms import _RMSNormFunction

    x = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: _RMSNormFunction.apply(x, w, 1e-5)[0], (x, w))
