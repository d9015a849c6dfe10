"""Attention patterns and head scores, checked against patterns that were put there."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lab.analysis import attention_patterns, head_scores
from lab.tokenizers import SymbolTokenizer
from model import GPT, GPTConfig


def tiny(**changes) -> GPT:
    settings = dict(d_vocab=40, n_ctx=32, d_model=16, n_layers=2, n_heads=4, init_std=0.3)
    return GPT(GPTConfig(**{**settings, **changes})).eval()


def planted(model: GPT, layer: int, head: int, offset: int):
    """A hook that makes one head look ``offset`` positions back, or at itself where there is no such position."""

    def look_back(pattern, hook):
        n = pattern.shape[-1]
        query = torch.arange(n)
        key = torch.where(query >= offset, query - offset, query)
        pattern = pattern.clone()
        pattern[:, head] = 0
        pattern[:, head, query, key] = 1
        return pattern

    return model.hooks(fwd_hooks=[(f"blocks.{layer}.attn.hook_pattern", look_back)])


@pytest.mark.parametrize("changes", [{}, dict(n_key_value_heads=2), dict(positional_embedding_type="alibi")])
def test_patterns_are_the_models(changes):
    model = tiny(**changes)
    ids = torch.arange(9)
    result = attention_patterns(model, ids)
    with torch.no_grad():
        _, cache = model.run_with_cache(ids)
        for layer in range(2):
            pattern = cache["pattern", layer][0]
            assert result.pattern[layer] == pytest.approx(pattern.numpy(), abs=1e-6)
            v = cache["v", layer][0]  # [key, key-value head, d_head]
            v = v.repeat_interleave(4 // v.shape[1], dim=1)
            for head in range(4):
                lengths = (v[:, head] @ model.blocks[layer].attn.W_O[head]).norm(dim=-1)
                weighted = pattern[head] * lengths
                expected = weighted / weighted.sum(-1, keepdim=True)
                assert result.value_weighted[layer, head] == pytest.approx(expected.numpy(), abs=1e-6)
    assert result.pattern.sum(-1) == pytest.approx(1, abs=1e-5)
    assert result.value_weighted.sum(-1) == pytest.approx(1, abs=1e-5)


def test_masked_cells_are_blank_and_a_zero_weight_is_not():
    model = tiny(attention_window=3)
    result = attention_patterns(model, torch.arange(8), layers=[1])
    assert result.pattern.shape == (1, 4, 8, 8) and result.layers.tolist() == [1]
    query, key = np.indices((8, 8))
    expected = (key > query) | (query - key >= 3)
    assert np.array_equal(result.masked, expected)
    assert (result.pattern[:, :, expected] == 0).all() and (result.pattern[:, :, ~expected] > 0).all()
    for weighting in ("pattern", "value_weighted"):
        shown = result.display(weighting)
        assert np.array_equal(np.isnan(shown), np.broadcast_to(expected, shown.shape))
    with pytest.raises(ValueError, match="value"):
        result.display("values")
    with pytest.raises(ValueError, match="Layer 2 does not exist"):
        attention_patterns(model, [1], layers=[2])
    with pytest.raises(ValueError, match="layers is empty"):
        attention_patterns(model, [1], layers=[])


def test_equal_tokens_keep_their_own_rows():
    result = attention_patterns(tiny(), [1, 2, 1, 2, 1])
    assert result.pattern.shape[-2:] == (5, 5) and result.token_texts == ("1", "2", "1", "2", "1")


def test_planted_heads_are_found_on_repeated_random_tokens():
    model = tiny()
    period = 16
    for name, offset in (("previous_token", 1), ("duplicate_token", period), ("induction", period - 1)):
        with planted(model, 1, 2, offset):
            scores = head_scores(model)
        assert scores.period == period and scores.source == "synthetic"
        value = getattr(scores, name)
        assert value.shape == (2, 4)
        assert value[1, 2] == pytest.approx(1), name
        others = np.delete(value.ravel(), 6)
        assert others.max() < 0.7, name
    assert scores.entropy[1, 2] == pytest.approx(0) and (np.delete(scores.entropy.ravel(), 6) > 0.1).all()
    with planted(model, 0, 0, 10**6):  # always itself: none of the patterns
        scores = head_scores(model)
    for name in ("induction", "previous_token", "duplicate_token", "first_token"):
        assert getattr(scores, name)[0, 0] == 0


def test_first_token_score():
    model = tiny()

    def rest(pattern, hook):
        pattern = torch.zeros_like(pattern)
        pattern[..., 0] = 1
        return pattern

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", rest)]):
        scores = head_scores(model)
    assert scores.first_token[0] == pytest.approx(1)


def test_an_even_head_scores_exactly_chance():
    """Zero queries and keys spread the weight evenly; the reported chance level is what that gives."""
    model = tiny(zero_projection_init=True)
    with torch.no_grad():
        for block in model.blocks:
            block.attn.w_qkv.weight.zero_()
    scores = head_scores(model)
    for name, chance in scores.chance.items():
        assert getattr(scores, name) == pytest.approx(chance, abs=1e-5), name
    n = scores.tokens.shape[1]
    assert scores.chance["entropy"] == pytest.approx(np.mean(np.log(np.arange(2, n + 1))), abs=1e-5)
    assert scores.chance["previous_token"] == pytest.approx(np.mean(1 / np.arange(2, n + 1)), abs=1e-5)


def test_scores_on_a_prompt_against_a_slow_count():
    model = tiny()
    ids = [5, 6, 7, 5, 6, 6, 5]
    scores = head_scores(model, ids)
    pattern = attention_patterns(model, ids).pattern
    sums = {name: [] for name in ("induction", "previous_token", "duplicate_token", "first_token")}
    for query in range(1, len(ids)):
        induction = [key for key in range(1, query) if ids[key - 1] == ids[query]]
        duplicates = [key for key in range(query) if ids[key] == ids[query]]
        for name, keys in (
            ("induction", induction),
            ("duplicate_token", duplicates),
            ("previous_token", [query - 1]),
            ("first_token", [0]),
        ):
            if keys:
                sums[name].append(pattern[:, :, query, keys].sum(-1))
    for name, values in sums.items():
        assert getattr(scores, name) == pytest.approx(np.mean(values, axis=0), abs=1e-6), name
        assert scores.queries[name] == len(values)
    assert scores.source == "prompt" and scores.period == 0


def test_nothing_to_measure_is_nan_not_zero():
    scores = head_scores(tiny(), [1, 2, 3])
    assert np.isnan(scores.induction).all() and np.isnan(scores.duplicate_token).all()
    assert np.isfinite(scores.previous_token).all()
    assert np.isnan(scores.chance["induction"]) and scores.queries["induction"] == 0
    assert json.loads(scores.to_json())["chance"]["induction"] is None
    alone = head_scores(tiny(), [1])
    assert all(np.isnan(getattr(alone, name)).all() for name in ("previous_token", "first_token", "entropy"))


@pytest.mark.parametrize(
    ("changes", "period"),
    [
        (dict(n_ctx=1), 1),
        (dict(n_ctx=2), 1),
        (dict(n_ctx=3), 1),
        (dict(n_ctx=7), 3),
        (dict(n_ctx=256, d_vocab=300), 50),
        (dict(d_vocab=1), 16),
        (dict(d_vocab=2), 16),
        (dict(attention_window=5), 4),
        (dict(attention_window=1), 1),
    ],
)
def test_the_sequences_fit_the_model(changes, period):
    model = tiny(**changes)
    scores = head_scores(model, sequences=2)
    assert scores.period == period
    assert scores.tokens.shape == (2, min(2 * period, model.config.n_ctx))
    if period > 1 and changes.get("d_vocab", 40) > 2:
        assert np.isfinite(scores.induction).all()
        assert all(len(set(row[:period])) == period for row in scores.tokens.tolist())
        assert np.array_equal(scores.tokens[:, :period], scores.tokens[:, period:])


def test_sequences_are_seeded_and_start_with_the_beginning_of_text():
    model = tiny(d_vocab=30)
    model.tokenizer = SymbolTokenizer(["<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz"], bos="<s>", eos="</s>")
    first, again, other = head_scores(model, seed=1), head_scores(model, seed=1), head_scores(model, seed=2)
    assert np.array_equal(first.tokens, again.tokens) and np.array_equal(first.induction, again.induction)
    assert not np.array_equal(first.tokens, other.tokens)
    assert (first.tokens[:, 0] == 0).all() and first.period == 15
    assert set(np.unique(first.tokens[:, 1:])) <= set(range(2, 28))


def test_bad_arguments_name_the_fix():
    with pytest.raises(ValueError, match=r"period is 17.*give 1 to 16"):
        head_scores(tiny(), period=17)
    with pytest.raises(ValueError, match="sequences is 0"):
        head_scores(tiny(), sequences=0)
    with pytest.raises(ValueError, match="leave it out"):
        head_scores(tiny(), [1, 2], period=3)
