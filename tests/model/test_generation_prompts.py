"""What generation takes and refuses: texts and ids, empty prompts, stop tokens, padded vocabularies."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from model import GPT
from tests.model.generated import Letters, Utf8, V, make, tokens_of


@pytest.fixture(scope="module")
def model() -> GPT:
    return make()


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
