"""Generation gives the same tokens with and without the cache, alone and in company, and leaves no trace."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model import GPT, GPTConfig
from model.config import RotaryScaling
from model.decoding import TokenPass
from model.generation import KVCache, Step

V, CTX = 13, 10


class Letters:
    """A tokenizer of small letters; may know a beginning of sequence."""

    def __init__(self, vocab_size: int = V, bos_id: int | None = None):
        self.vocab_size, self.bos_id = vocab_size, bos_id

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(ord("a") + id) for id in ids)


class Utf8:
    """A tokenizer of bytes."""

    vocab_size, bos_id = 256, None

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


def make(**changes: Any) -> GPT:
    """A small model whose random weights are large enough for its choices to differ."""
    values: dict[str, Any] = dict(d_vocab=V, n_ctx=CTX, d_model=16, n_layers=2, n_heads=4, init_std=0.3)
    model = GPT(GPTConfig(**(values | changes)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", ".b")):  # zero at first: then a forgotten bias would not be missed
                parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()))
    return model.eval()


@pytest.fixture(scope="module")
def model() -> GPT:
    return make()


def tokens_of(*ids: int) -> Tensor:
    return torch.tensor([ids])


VARIANTS = [
    dict(norm_placement=placement, normalization_type=norm, positional_embedding_type=positions)
    | dict(gated_mlp=gated, tie_word_embeddings=tied)
    for norm, placement, positions, gated, tied in itertools.product(
        ("LN", "RMS"),
        ("pre", "post", "sandwich"),
        ("standard", "sinusoidal", "rotary", "alibi", "none"),
        (False, True),
        (False, True),
    )
]
FURTHER = [
    dict(n_key_value_heads=2),
    dict(n_key_value_heads=1, positional_embedding_type="alibi"),
    dict(n_key_value_heads=2, positional_embedding_type="rotary", qk_norm=True),
    dict(qk_norm=True, d_head=6),
    dict(attention_window=3),
    dict(attention_window=3, positional_embedding_type="alibi", n_key_value_heads=2),
    dict(attention_window=1, positional_embedding_type="rotary"),
    dict(logit_soft_cap=5.0),
    dict(use_bias=False, act_fn="relu2"),
    dict(use_bias=False, attention_bias="qkv"),
    dict(positional_embedding_type="rotary", rotary_scaling=RotaryScaling("linear", 2.0)),
    dict(positional_embedding_type="rotary", rotary_scaling=RotaryScaling("yarn", 2.0, original_n_ctx=5)),
    dict(n_layers=1, n_heads=1),
    dict(d_model=3, n_heads=3, d_vocab=2),
    dict(n_ctx=1),
    dict(n_ctx=2),
]


def name_of(changes: dict[str, Any]) -> str:
    return "-".join(str(value) for value in changes.values())


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


# ---- stop tokens


def test_generation_ends_with_a_stop_token(model: GPT) -> None:
    free = model.generate(tokens_of(1), 12, temperature=0)[0].tolist()
    stop = free[4]
    first = free.index(stop, 1)
    stopped = model.generate(tokens_of(1), 12, temperature=0, stop_tokens=[stop])[0].tolist()
    assert stopped == free[: first + 1]
    assert model.generate(tokens_of(1), 12, temperature=0, stop_tokens=stop)[0].tolist() == stopped
    # a stop token in the prompt does not stop
    assert len(model.generate(tokens_of(stop), 3, temperature=0, stop_tokens=(stop,))[0]) > 1


def test_rows_stop_on_their_own() -> None:
    model = make()
    model.tokenizer = Letters()
    free = model.generate(["a", "bcd", "l"], 9, seed=1)
    stop = free[1][5]
    ends = [text.find(stop, len(prompt)) for text, prompt in zip(free, ["a", "bcd", "l"], strict=True)]
    expected = [text if end < 0 else text[: end + 1] for text, end in zip(free, ends, strict=True)]
    assert len({len(text) for text in expected}) > 1
    assert model.generate(["a", "bcd", "l"], 9, seed=1, stop_tokens=stop) == expected
    rectangle = model.generate(torch.tensor([[0, 1], [2, 3]]), 9, seed=1, stop_tokens=[model.to_single_token(stop)])
    for row in rectangle.tolist():
        if (id := model.to_single_token(stop)) in row[2:]:
            assert set(row[row.index(id, 2) :]) == {id}


@pytest.mark.parametrize("stop", [V, -1, [0, 99]])
def test_a_stop_token_outside_the_vocabulary_is_refused(model: GPT, stop: Any) -> None:
    with pytest.raises(ValueError, match=r"Stop token (13|-1|99) is outside the vocabulary, 0 to 12"):
        model.generate(tokens_of(1), 3, stop_tokens=stop)


# ---- prompts


def test_text_in_text_out() -> None:
    model = make()
    model.tokenizer = Letters()
    text = model.generate("abc", 6, temperature=0)
    assert isinstance(text, str) and text.startswith("abc") and len(text) == 9
    assert model.generate(["abc", "d"], 6, temperature=0) == [text, model.generate("d", 6, temperature=0)]
    ids = model.generate("abc", 6, temperature=0, return_type="tokens")
    assert ids.shape == (1, 9) and model.to_string(ids[0]) == text
    assert model.generate(ids[:, :3], 6, temperature=0, return_type="text") == text
    assert model.generate(ids[0, :3].tolist(), 6, temperature=0).tolist() == ids[0].tolist()
    lists = model.generate([[0, 1, 2], [3]], 6, temperature=0)
    assert [len(row) for row in lists] == [9, 7] and torch.equal(lists[0], ids[0])
    assert model.generate([[0, 1, 2], [3]], 6, temperature=0, return_type="text")[0] == text


def test_text_needs_a_tokenizer(model: GPT) -> None:
    with pytest.raises(ValueError, match=r"no tokenizer: give token ids, or set model\.tokenizer"):
        model.generate("abc", 3)
    with pytest.raises(ValueError, match='ask for return_type="tokens"'):
        model.generate(tokens_of(1), 3, return_type="text")


@pytest.mark.parametrize("empty", ["", [], torch.zeros(1, 0), torch.zeros(0, dtype=torch.long), ["", "ab"], [[], [1]]])
def test_an_empty_prompt_starts_from_the_beginning_of_sequence_or_asks(empty: Any) -> None:
    model = make()
    model.tokenizer = Letters()
    with pytest.raises(ValueError, match=r"prompt is empty .* give at least one token"):
        model.generate(empty, 3)
    model.tokenizer = Letters(bos_id=5)
    out = model.generate(empty, 3, temperature=0)
    expected = model.generate(tokens_of(5), 3, temperature=0)[0].tolist()
    if isinstance(out, Tensor):
        assert out.flatten().tolist() == expected
    elif isinstance(out, str):
        assert out == model.to_string(expected[1:])
    elif isinstance(out[0], str):
        assert out == [model.to_string(expected[1:]), model.generate("ab", 3, temperature=0)]
    else:
        assert out[0].tolist() == expected


def test_white_space_is_kept(model: GPT) -> None:
    other = make(d_vocab=256)
    other.tokenizer = Utf8()
    for prompt in (" ", "\n", "a", "text "):
        out = other.generate(prompt, 3, temperature=0, return_type="tokens")
        assert out[0, :-3].tolist() == list(prompt.encode())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.tensor([[1, V]]), "Token id 13 is outside the vocabulary, 0 to 12"),
        (torch.tensor([[-1] + [0] * 30]), "Token id -1 is outside"),  # also where the window would not reach
        (torch.tensor([[0.5]]), "whole numbers"),
        (torch.tensor([[True]]), "whole numbers"),
        (torch.zeros(1, 1, 1, dtype=torch.long), r"\[1, 1, 1\]"),
        (torch.zeros(0, 3, dtype=torch.long), r"\[0, 3\]"),
    ],
)
def test_what_are_no_tokens_is_refused(model: GPT, bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.generate(bad, 3)


@pytest.mark.parametrize("bad", [-1, 2.5, "3", True, None])
def test_an_impossible_length_is_refused(model: GPT, bad: Any) -> None:
    with pytest.raises(ValueError, match="max_new_tokens is"):
        model.generate(tokens_of(1), bad)


def test_no_new_tokens_return_the_prompt(model: GPT) -> None:
    assert model.generate(tokens_of(1, 2), 0).tolist() == [[1, 2]]
    assert list(model.stream(tokens_of(1, 2), 0)) == []


def test_an_unknown_return_type_is_refused(model: GPT) -> None:
    with pytest.raises(ValueError, match="return_type is 'str'; it must be one of input, tokens, text"):
        model.generate(tokens_of(1), 1, return_type="str")


def test_settings_are_checked_before_anything_runs(model: GPT) -> None:
    for call in (model.generate, model.stream):
        with pytest.raises(ValueError, match="temperature is -1"):
            call(tokens_of(1), 1, temperature=-1)


# ---- padded vocabularies and broken models


def test_ids_the_tokenizer_does_not_know_are_never_drawn() -> None:
    model = make()
    model.tokenizer = Letters(vocab_size=4)
    with torch.no_grad():
        model.embed.weight[4:] *= 30  # tied: the likeliest by far, were they real
    free = make()
    free.load_state_dict(model.state_dict())
    assert free.generate(tokens_of(1), 20, seed=0).max() >= 4
    for settings in (dict(seed=0), dict(temperature=0), dict(seed=0, top_k=100, temperature=9.0, min_p=0.0)):
        assert model.generate(tokens_of(1), 20, **settings).max() < 4
    for step in model.stream(tokens_of(1), 3, n_top=10):
        assert len(step.top) == 4
        assert math.isclose(sum(probability for _, probability in step.top), 1, rel_tol=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("settings", [dict(temperature=0), dict(seed=0), dict(seed=0, top_k=3), dict(top_p=0.5)])
def test_a_diverged_model_is_not_sampled(value: float, settings: dict[str, Any]) -> None:
    model = make(tie_word_embeddings=False)
    with torch.no_grad():
        model.unembed.weight[3, 0] = value
        model.unembed.weight[4, 0] = -value  # one of the two logits is inf, whatever the sign of what they read
    for call in (model.generate, lambda *a, **k: list(model.stream(*a, **k))):
        with pytest.raises(ValueError, match=r"not finite numbers.*diverged"):
            call(tokens_of(1), 3, **settings)


# ---- hooks


def test_hooks_act_during_generation_with_and_without_the_cache() -> None:
    model = make()

    def silence(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        z[:, :, 1] = 0
        return z

    free = model.generate(tokens_of(1, 2), 20, temperature=0)
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", silence), ("blocks.1.attn.hook_z", silence)]):
        cached = model.generate(tokens_of(1, 2), 20, temperature=0)
        uncached = model.generate(tokens_of(1, 2), 20, temperature=0, use_cache=False)
    assert torch.equal(cached, uncached)
    assert not torch.equal(cached, free)
    assert torch.equal(free, model.generate(tokens_of(1, 2), 20, temperature=0))
    with torch.no_grad():
        for block in model.blocks:
            block.attn.W_O[1] = 0
    assert torch.equal(cached, model.generate(tokens_of(1, 2), 20, temperature=0))


def test_a_hook_sees_every_token_once_with_the_cache(model: GPT) -> None:
    seen: list[int] = []
    with model.hooks(fwd_hooks=[("blocks.1.hook_resid_post", lambda x, hook: seen.append(x.shape[1]))]):
        model.generate(tokens_of(1, 2, 3), 5)
        assert seen == [3, 1, 1, 1, 1]
        seen.clear()
        model.generate(tokens_of(1, 2, 3), 5, use_cache=False)
        assert seen == [3, 4, 5, 6, 7]
        seen.clear()
        model.generate(tokens_of(1, 2, 3), CTX)
        assert seen == [3] + [1] * (CTX - 3) + [CTX] * 2


def test_watching_changes_no_token(model: GPT) -> None:
    free = model.generate(tokens_of(1, 2), 20, seed=3)
    with model.hooks(fwd_hooks=[(None, lambda x, hook: None)]):
        assert torch.equal(free, model.generate(tokens_of(1, 2), 20, seed=3))


def test_torchs_own_hooks_and_foreign_modules_are_not_passed_by() -> None:
    model = make()
    free = model.generate(tokens_of(1, 2), 6, temperature=0)
    fired: list[int] = []
    handle = model.blocks[1].mlp.register_forward_hook(lambda module, args, out: fired.append(out.shape[1]))
    model.generate(tokens_of(1, 2), 4)
    handle.remove()
    assert fired == [2, 1, 1, 1]
    fired.clear()
    handle = nn.modules.module.register_module_forward_hook(lambda *_: fired.append(0))
    model.generate(tokens_of(1), 2)
    handle.remove()
    assert len(fired) > 20

    class Silent(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 0

    model.blocks[0].mlp.w_out.__class__ = Silent
    replaced = model.generate(tokens_of(1, 2), 6, temperature=0)
    assert torch.equal(replaced, model.generate(tokens_of(1, 2), 6, temperature=0, use_cache=False))
    model.blocks[0].mlp.w_out.__class__ = nn.Linear
    assert torch.equal(free, model.generate(tokens_of(1, 2), 6, temperature=0))
    model.blocks[0].mlp.forward = lambda x: torch.zeros_like(x)
    assert not TokenPass.covers(model.modules())


def test_a_subclass_with_a_forward_of_its_own_is_used() -> None:
    class Stubborn(GPT):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            out = super().forward(*args, **kwargs)
            return out if kwargs.get("stop_at_layer") is not None else out + 100 * torch.eye(V)[7]

    model = Stubborn(make().config)
    assert model.generate(tokens_of(1), 4, temperature=0)[0].tolist() == [1, 7, 7, 7, 7]


# ---- nothing is left behind


def state_of(model: GPT) -> list[Any]:
    """Modes, hooks and gradients, module by module."""
    modes = [(name, module.training) for name, module in model.named_modules()]
    hooks = [
        (name, list(module._forward_hooks), list(module._backward_hooks)) for name, module in model.named_modules()
    ]
    gradients = [(p.requires_grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
    return [modes, hooks, [(r, None if g is None else g.tolist()) for r, g in gradients]]


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("use_cache", [True, False])
def test_mode_gradients_and_hooks_are_as_they_were(error: type[BaseException] | None, use_cache: bool) -> None:
    model = make(resid_dropout=0.5, embed_dropout=0.5, attn_dropout=0.5).train()
    model.blocks[0].eval()  # a mode of its own, which train() would lose
    model(tokens_of(1, 2, 3), return_type="loss").backward()
    calls: list[int] = []

    def hook(x: Tensor, hook: Any) -> None:
        calls.append(1)
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        if error is not None and len(calls) == 3:
            raise error("stop")

    model.add_hook("blocks.1.hook_resid_pre", hook)
    before = state_of(model)
    for run in (
        lambda: model.generate(tokens_of(1), 6, seed=0, use_cache=use_cache),
        lambda: list(model.stream(tokens_of(1), 6, seed=0, use_cache=use_cache)),
    ):
        calls.clear()
        if error is None:
            run()
        else:
            with pytest.raises(error, match="stop"):
                run()
        assert state_of(model) == before
        assert torch.is_grad_enabled()
    assert calls


def test_dropout_is_off_during_generation() -> None:
    model = make(resid_dropout=0.9).train()
    assert torch.equal(model.generate(tokens_of(1), 9, temperature=0), model.generate(tokens_of(1), 9, temperature=0))


def test_what_was_generated_can_be_trained_on() -> None:
    """Nothing made in inference mode gets out: results may take part in autograd."""
    model = make()
    out = model.generate(tokens_of(1, 2), 6, seed=0)
    model(out, return_type="loss").backward()
    out, cache = model.generate(tokens_of(1, 2), 6, seed=0, return_cache=True)
    direction = torch.ones(16, requires_grad=True)
    (cache["blocks.0.hook_resid_post"] @ direction).sum().backward()
    assert direction.grad is not None and direction.grad.abs().sum() > 0


def test_weights_may_change_between_generations() -> None:
    model = make()
    model.generate(tokens_of(1), 6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.7)
    assert torch.equal(
        model.generate(tokens_of(1), 6, temperature=0), model.generate(tokens_of(1), 6, temperature=0, use_cache=False)
    )


# ---- return_cache


@pytest.mark.parametrize("new", [0, 4, 2 * CTX])
def test_the_cache_is_of_the_final_sequence(model: GPT, new: int) -> None:
    out, cache = model.generate(tokens_of(1, 2, 3), new, seed=0, return_cache=True)
    assert out.shape == (1, 3 + new)
    _, expected = model.run_with_cache(out[:, -CTX:])
    assert list(cache.keys()) == list(expected.keys())
    for name in expected:
        assert torch.equal(cache[name], expected[name]), name
    assert cache["blocks.0.attn.hook_pattern"].shape[-1] == min(3 + new, CTX)


def test_the_cache_under_a_hook_and_with_padding() -> None:
    model = make()
    with model.hooks(fwd_hooks=[("blocks.0.hook_mlp_out", lambda x, hook: x * 0)]):
        _, cache = model.generate([[1, 2, 3], [4]], 3, seed=0, return_cache=True)
    assert cache["blocks.0.hook_mlp_out"].abs().max() == 0
    pattern = cache["blocks.0.attn.hook_pattern"][1]
    assert pattern[:, 2:, :2].abs().max() == 0  # nobody looks at padding


# ---- streaming


def test_a_stream_is_what_generate_returns(model: GPT) -> None:
    for settings in (dict(temperature=0), dict(seed=5, top_k=6, temperature=0.7), dict(seed=5, use_cache=False)):
        steps = list(model.stream(tokens_of(1, 2), 14, **settings))
        whole = model.generate(tokens_of(1, 2), 14, **settings)[0].tolist()
        assert [step.token for step in steps] == whole[2:]
        assert [step.index for step in steps] == list(range(14))
        assert [step.is_last for step in steps] == [False] * 13 + [True]


def test_a_steps_numbers_are_the_models_own(model: GPT) -> None:
    ids = [1, 2]
    for step in model.stream(tokens_of(*ids), 12, seed=1, temperature=0.5, top_k=4, n_top=6):
        logits = model(tokens_of(*ids[-CTX:]))[0, -1]
        own = logits.softmax(-1)
        assert step.probability == pytest.approx(own[step.token].item(), rel=1e-4)
        assert step.logprob == pytest.approx(math.log(step.probability), abs=1e-6)
        assert step.entropy == pytest.approx(-(own * own.log()).sum().item(), rel=1e-4)
        values, indices = own.topk(6)
        assert [id for id, _ in step.top] == indices.tolist()
        assert [probability for _, probability in step.top] == pytest.approx(values.tolist(), rel=1e-4)
        four = (logits / 0.5).topk(4)
        place = four.indices.tolist().index(step.token)
        assert step.sampled_probability == pytest.approx(four.values.softmax(-1)[place].item(), rel=1e-4)
        ids.append(step.token)


def test_a_greedy_step_reports_the_models_probability(model: GPT) -> None:
    step = next(model.stream(tokens_of(1), 3, temperature=0))
    assert isinstance(step, Step)
    assert step.sampled_probability == 1 and step.probability < 1
    assert (step.token, step.probability) == step.top[0]


def test_streamed_text_adds_up_and_holds_back_half_characters() -> None:
    model = make(d_vocab=256, n_ctx=40)
    model.tokenizer = Utf8()
    text = "é日👩x"
    wanted = list(text.encode())

    def dictate(logits_in: Tensor, hook: Any) -> Tensor:
        position = min(dictate.step, len(wanted) - 1)  # type: ignore[attr-defined]
        dictate.step += 1  # type: ignore[attr-defined]
        return logits_in * 0 + model.embed.weight[wanted[position]] * 1e3

    def steps(n: int) -> list[Step]:
        dictate.step = 0  # type: ignore[attr-defined]
        with model.hooks(fwd_hooks=[("ln_final.hook_normalized", dictate)]):
            return list(model.stream("a", n, temperature=0))

    with torch.no_grad():  # rows of one length: then the likeliest token is the one dictated
        model.embed.weight.copy_(nn.functional.normalize(model.embed.weight, dim=-1))
        model.ln_final.w.fill_(1), model.ln_final.b.zero_()  # type: ignore[union-attr,operator]
    whole = steps(len(wanted))
    assert [step.token for step in whole] == wanted
    assert [step.text for step in whole] == ["", "é", "", "", "日", "", "", "", "👩", "x"]
    assert [step.text for step in steps(4)] == ["", "é", "", "\ufffd"]  # cut in the middle: nothing is swallowed


def test_a_stream_stops_and_its_last_step_says_so(model: GPT) -> None:
    free = [step.token for step in model.stream(tokens_of(1), 12, temperature=0)]
    steps = list(model.stream(tokens_of(1), 12, temperature=0, stop_tokens=free[3]))
    assert [step.token for step in steps] == free[: free.index(free[3]) + 1]
    assert [step.is_last for step in steps] == [False] * (len(steps) - 1) + [True]


def test_between_steps_the_model_is_its_owners() -> None:
    model = make(resid_dropout=0.5).train()
    before = state_of(model)
    stream = model.stream(tokens_of(1, 2), 12, temperature=0)
    for _ in range(3):
        next(stream)
        assert state_of(model) == before
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        model(tokens_of(1, 2, 3), return_type="loss").backward()
        model.zero_grad()
    fired: list[int] = []
    model.add_hook("blocks.0.hook_resid_pre", lambda x, hook: fired.append(x.shape[1]))
    next(stream)
    assert fired == [1]  # a hook that came in the middle is heard, and the cache goes on
    model.reset_hooks()
    rest = [step.token for step in stream]
    assert model.generate(tokens_of(1, 2), 12, temperature=0)[0, -len(rest) :].tolist() == rest


def test_a_stream_left_early_leaves_nothing() -> None:
    model = make().train()
    before = state_of(model)
    stream: Iterator[Step] = model.stream(tokens_of(1), 12)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert state_of(model) == before and torch.is_grad_enabled()


def test_a_stream_takes_one_prompt(model: GPT) -> None:
    with pytest.raises(ValueError, match="one prompt, not 2; generate takes a batch"):
        model.stream([[1], [2]], 3)
    with pytest.raises(ValueError, match="n_top is -1"):
        model.stream(tokens_of(1), 3, n_top=-1)
    assert next(model.stream(tokens_of(1), 3, n_top=0)).top == ()
    assert len(next(model.stream(tokens_of(1), 3, n_top=99)).top) == V


# ---- the cache itself


def test_chunks_through_a_cache_are_one_pass(model: GPT) -> None:
    tokens = torch.randint(V, (2, CTX), generator=torch.Generator().manual_seed(0))
    whole = model(tokens)
    for sizes in ((1, 9), (4, 1, 5), (3, 3, 3, 1), (10,)):
        cache = KVCache(model.config)
        parts = [model(chunk, past_kv_cache=cache) for chunk in tokens.split(sizes, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-5)
        assert cache.length == CTX


def test_a_cropped_cache_forgets(model: GPT) -> None:
    cache = KVCache(model.config)
    with torch.no_grad():
        model(tokens_of(1, 2, 3, 4, 5), past_kv_cache=cache)
        cache.crop(2)
        assert cache.length == 2
        continued = model(tokens_of(7, 8), past_kv_cache=cache)
    torch.testing.assert_close(continued, model(tokens_of(1, 2, 7, 8))[:, 2:], rtol=0, atol=1e-5)


def test_a_cache_holds_what_the_hooks_see() -> None:
    model = make(positional_embedding_type="rotary", n_key_value_heads=2)
    cache = KVCache(model.config)
    with torch.no_grad():
        _, seen = model.run_with_cache(tokens_of(1, 2, 3), past_kv_cache=cache)
    keys, values = cache.layers[1].append(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4))
    assert torch.equal(keys[:, :, :3].transpose(1, 2), seen["blocks.1.attn.hook_rot_k"])
    assert torch.equal(values[:, :, :3].transpose(1, 2), seen["blocks.1.attn.hook_v"])


def test_a_cache_refuses_more_than_the_context(model: GPT) -> None:
    cache = KVCache(model.config)
    with torch.no_grad():
        model(torch.zeros(1, CTX, dtype=torch.long), past_kv_cache=cache)
        with pytest.raises(ValueError, match=f"{CTX + 1} positions .* {CTX}"):
            model(tokens_of(1), past_kv_cache=cache)
        with pytest.raises(ValueError, match=f"{CTX + 1} positions do not fit"):
            cache.layers[0].append(torch.zeros(1, 4, 1, 4), torch.zeros(1, 4, 1, 4))


def test_an_interrupted_pass_is_noticed(model: GPT) -> None:
    cache = KVCache(model.config)

    def interrupt(x: Tensor, hook: Any) -> None:
        raise KeyboardInterrupt

    with torch.no_grad():
        model(tokens_of(1, 2), past_kv_cache=cache)
        with pytest.raises(KeyboardInterrupt):
            model.run_with_hooks(tokens_of(3), fwd_hooks=[("blocks.1.hook_resid_pre", interrupt)], past_kv_cache=cache)
        with pytest.raises(ValueError, match=r"interrupted.*cache.crop\(2\)"):
            model(tokens_of(3), past_kv_cache=cache)
        cache.crop(2)
        again = model(tokens_of(3), past_kv_cache=cache)
    torch.testing.assert_close(again, model(tokens_of(1, 2, 3))[:, 2:], rtol=0, atol=1e-5)


def test_gradients_flow_through_a_cache() -> None:
    model = make().double()
    model(tokens_of(1, 2, 3, 4))[:, 2:].sum().backward()
    wanted = model.blocks[0].attn.w_qkv.weight.grad.clone()
    model.zero_grad()
    cache = KVCache(model.config)
    model(tokens_of(1, 2), past_kv_cache=cache)
    (model(tokens_of(3), past_kv_cache=cache).sum() + model(tokens_of(4), past_kv_cache=cache).sum()).backward()
    torch.testing.assert_close(model.blocks[0].attn.w_qkv.weight.grad, wanted)


def test_a_cache_grows_without_losing_anything() -> None:
    model = make(n_ctx=300)
    tokens = torch.randint(V, (1, 300), generator=torch.Generator().manual_seed(0))
    cache = KVCache(model.config)
    with torch.no_grad():
        parts = [model(chunk, past_kv_cache=cache) for chunk in tokens.split((40, 1, 60, 99, 100), dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens), rtol=0, atol=1e-4)
