"""Generation gives the same tokens with and without the cache, alone and in company."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from model import GPT
from model.decoding import TokenPass
from model.generation import KVCache
from tests.model.generated import CTX, FURTHER, V, make, tokens_of
from tests.model.variants import VARIANTS, name_of


@pytest.fixture(scope="module")
def model() -> GPT:
    return make()


# ---- with and without the cache


@pytest.mark.parametrize("changes", [*VARIANTS, *FURTHER], ids=name_of)
def test_cached_is_uncached_past_the_context_too(changes: dict[str, Any]) -> None:
    model = make(**changes)
    prompt = torch.tensor([[1, 0, 1]])
    for settings in (dict(temperature=0), dict(seed=1, temperature=0.8, top_k=7, repetition_penalty=1.2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a context of 1 or 2 is shorter than the prompt
            cached = model.generate(prompt, max_new_tokens=CTX + 2, **settings)
            uncached = model.generate(prompt, max_new_tokens=CTX + 2, use_cache=False, **settings)
        assert torch.equal(cached, uncached)
        assert torch.equal(cached[:, :3], prompt)
        assert cached.shape == (1, 3 + CTX + 2)


@pytest.mark.parametrize("changes", [*VARIANTS, *FURTHER], ids=name_of)
def test_the_pass_without_modules_gives_the_modules_logits(changes: dict[str, Any]) -> None:
    model = make(**changes).double()
    n_ctx, d_vocab = model.config.n_ctx, model.config.d_vocab
    tokens = torch.randint(d_vocab, (3, n_ctx), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, n_ctx, dtype=torch.long)
    mask[1, : n_ctx // 2] = 0
    assert TokenPass.covers(model.modules())
    for rows, padding in ((tokens, None), (tokens, mask), (tokens[:1], None)):
        wanted = model(rows, attention_mask=padding)
        quick = TokenPass(model, model.modules(), padding)
        cache = KVCache(model.config)
        first = n_ctx // 2 + 1
        with torch.no_grad():
            model(rows[:, :first], attention_mask=None if padding is None else padding[:, :first], past_kv_cache=cache)
            for position in range(first, n_ctx):
                with torch.inference_mode():
                    logits = quick(rows[:, position], cache)
                torch.testing.assert_close(logits, wanted[:, position], rtol=0, atol=1e-10)


def test_greedy_generation_is_the_argmax_of_the_last_window(model: GPT) -> None:
    ids = [1, 2, 3]
    out = model.generate(tokens_of(*ids), max_new_tokens=2 * CTX, temperature=0)[0].tolist()
    for _ in range(2 * CTX):
        ids.append(int(model(tokens_of(*ids[-CTX:]))[0, -1].argmax()))
    assert out == ids


def test_a_prompt_beyond_the_context_counts_by_its_end_and_says_so(model: GPT) -> None:
    prompt = torch.arange(V)[None]
    with pytest.warns(UserWarning, match=f"13 tokens; the model sees the last {CTX}"):
        out = model.generate(prompt, max_new_tokens=4, temperature=0)
    assert torch.equal(out[:, :V], prompt)
    assert torch.equal(out[:, V:], model.generate(prompt[:, -CTX:], max_new_tokens=4, temperature=0)[:, CTX:])


def test_continuing_what_was_generated_is_generating_more(model: GPT) -> None:
    once = model.generate(tokens_of(4), max_new_tokens=14, temperature=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        halves = model.generate(model.generate(tokens_of(4), 7, temperature=0), 7, temperature=0)
    assert torch.equal(once, halves)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(dtype: torch.dtype) -> None:
    model = make(positional_embedding_type="rotary", qk_norm=True).to(dtype)
    out = model.generate(tokens_of(1, 2), max_new_tokens=6, temperature=0)
    assert out.shape == (1, 8)
    assert model.dtype == dtype


def test_autocast_generates_what_the_model_says() -> None:
    model = make()
    with torch.autocast("cpu", torch.bfloat16):
        steps = list(model.stream(tokens_of(1, 2), 6, temperature=0))
    ids = [1, 2]
    for step in steps:
        exact = model(tokens_of(*ids))[0, -1].log_softmax(-1)[step.token].item()
        assert step.logprob == pytest.approx(exact, abs=0.2)
        ids.append(step.token)


# ---- against transformers


def test_greedy_with_a_penalty_is_transformers_generate() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = make(n_ctx=24, n_layers=2)
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=V, n_positions=24, n_embd=16, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None)
    ).eval()
    state = {"transformer.wte.weight": model.embed.weight, "transformer.wpe.weight": model.W_pos}
    names = {"ln1": "ln_1", "ln2": "ln_2", "attn.w_qkv": "attn.c_attn", "attn.w_o": "attn.c_proj"}
    names |= {"mlp.w_in": "mlp.c_fc", "mlp.w_out": "mlp.c_proj"}
    for layer in range(2):
        for ours, hers in names.items():
            module = model.get_submodule(f"blocks.{layer}.{ours}")
            target = f"transformer.h.{layer}.{hers}"
            if isinstance(module, nn.Linear):
                state[f"{target}.weight"], state[f"{target}.bias"] = module.weight.T, module.bias
            else:
                state[f"{target}.weight"], state[f"{target}.bias"] = module.w, module.b
    state["transformer.ln_f.weight"], state["transformer.ln_f.bias"] = model.ln_final.w, model.ln_final.b
    missing = theirs.load_state_dict(state, strict=False)
    assert missing.missing_keys == ["lm_head.weight"] and not missing.unexpected_keys
    prompt = tokens_of(1, 2, 3)
    for penalty in (1.0, 1.3, 0.8):
        expected = theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=20,
            do_sample=False,
            repetition_penalty=penalty,
            pad_token_id=0,
        )
        assert torch.equal(model.generate(prompt, 20, temperature=0, repetition_penalty=penalty), expected)


# ---- temperature zero, draws and seeds


def test_temperature_zero_is_argmax_whatever_the_seed() -> None:
    model = make(n_layers=1, n_heads=1)
    outs = [model.generate(tokens_of(3), 8, temperature=0, seed=seed) for seed in (None, 0, 1)]
    assert torch.equal(outs[0], outs[1]) and torch.equal(outs[0], outs[2])
    for settings in (dict(top_k=1), dict(top_k=1, seed=5), dict(top_p=1e-9), dict(min_p=1.0)):
        assert torch.equal(outs[0], model.generate(tokens_of(3), 8, **settings))


def test_greedy_takes_the_lowest_of_tied_ids() -> None:
    model = make(tie_word_embeddings=False)
    with torch.no_grad():
        model.unembed.weight.zero_()
    assert model.generate(tokens_of(5), 4, temperature=0)[0].tolist() == [5, 0, 0, 0, 0]


def test_a_top_k_beyond_the_vocabulary_and_a_top_p_of_1_change_nothing(model: GPT) -> None:
    plain = model.generate(tokens_of(1), 20, seed=3)
    assert torch.equal(plain, model.generate(tokens_of(1), 20, seed=3, top_k=V))
    assert torch.equal(plain, model.generate(tokens_of(1), 20, seed=3, top_k=200, top_p=1.0, min_p=0.0))


def test_a_seed_fixes_the_draws_and_only_them(model: GPT) -> None:
    torch.manual_seed(0)
    random.seed(0)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    one = model.generate(tokens_of(1), 30, seed=7)
    two = model.generate(tokens_of(1), 30, seed=7)
    other = model.generate(tokens_of(1), 30, seed=8)
    anew = [model.generate(tokens_of(1), 30) for _ in range(2)]
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert not torch.equal(*anew)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert (before[2] == np.random.get_state()[1]).all()
    torch.manual_seed(99)
    assert torch.equal(one, model.generate(tokens_of(1), 30, seed=7))


def test_draws_follow_the_distribution() -> None:
    model = make()
    n = 4000
    drawn = model.generate(tokens_of(2).expand(n, 1), 1, seed=0, temperature=1.5)[:, 1]
    expected = (model(tokens_of(2))[0, -1] / 1.5).softmax(-1) * n
    counts = torch.bincount(drawn, minlength=V)
    chi_squared = ((counts - expected) ** 2 / expected).sum().item()
    assert chi_squared < 32.9  # the 99.9% point for 12 degrees of freedom


def test_what_a_filter_removed_is_never_drawn(model: GPT) -> None:
    logits = model(tokens_of(2))[0, -1]
    likely = set(logits.topk(3).indices.tolist())
    drawn = model.generate(tokens_of(2).expand(500, 1), 1, seed=0, temperature=3.0, top_k=3)[:, 1]
    assert set(drawn.tolist()) == likely


@pytest.mark.parametrize("bad", [1.5, "0", True])
def test_a_seed_that_is_no_whole_number_is_refused(model: GPT, bad: Any) -> None:
    with pytest.raises(ValueError, match="seed is"):
        model.generate(tokens_of(1), 1, seed=bad)


# ---- batches


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        *(dict(positional_embedding_type=p) for p in ("standard", "sinusoidal", "rotary", "alibi", "none")),
        dict(attention_window=3),
        dict(attention_window=2, n_key_value_heads=2, positional_embedding_type="alibi"),
        dict(norm_placement="post"),
        dict(norm_placement="sandwich", normalization_type="RMS", qk_norm=True),
    ],
    ids=name_of,
)
def test_each_row_is_what_its_prompt_gives_alone(changes: dict[str, Any], use_cache: bool) -> None:
    """Unequal prompts, past the context: padding is never seen, positions start after it."""
    model = make(**changes)
    prompts = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 3], [8, 8, 8, 8]]
    for settings in (dict(temperature=0), dict(seed=4, repetition_penalty=1.5), dict(seed=4, top_p=0.9)):
        together = model.generate(prompts, CTX, use_cache=use_cache, **settings)
        for prompt, row in zip(prompts, together, strict=True):
            assert torch.equal(row, model.generate(torch.tensor(prompt), CTX, use_cache=use_cache, **settings))


def test_equal_prompts_draw_different_continuations(model: GPT) -> None:
    prompt = tokens_of(1, 2)
    three = model.generate(prompt.expand(3, 2), 12, seed=0)
    assert torch.equal(three[:1], model.generate(prompt, 12, seed=0))
    assert torch.equal(three[:2], model.generate(prompt.expand(2, 2), 12, seed=0))
    assert len({tuple(row) for row in three.tolist()}) == 3
    company = model.generate([[5], [1, 2], [1, 2]], 12, seed=0)
    assert torch.equal(company[1], three[0]) and torch.equal(company[2], three[1])


def test_padded_tensors_with_their_mask(model: GPT) -> None:
    tokens = torch.tensor([[7, 7, 1], [1, 2, 3]])
    mask = torch.tensor([[0, 0, 1], [1, 1, 1]])
    out = model.generate(tokens, 5, temperature=0, attention_mask=mask)
    assert torch.equal(out[:, :3], tokens)
    assert torch.equal(out[0, 2:], model.generate(torch.tensor([1]), 5, temperature=0))
    assert torch.equal(out[1], model.generate(torch.tensor([1, 2, 3]), 5, temperature=0))
    with pytest.raises(ValueError, match="padding after a token"):
        model.generate(tokens, 5, attention_mask=torch.tensor([[1, 1, 0], [1, 1, 1]]))
    with pytest.raises(ValueError, match=r"attention_mask is \[2, 2\], tokens are \[2, 3\]"):
        model.generate(tokens, 5, attention_mask=mask[:, :2])
