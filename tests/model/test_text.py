"""Ids are given with what they need: padding with its mask, and no option is passed over in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lab.tokenizers import ByteTokenizer, WordTokenizer
from model import GPT
from model.pretrained.tokenizer import PretrainedTokenizer
from tests.model.engines import ENGINES
from tests.model.generated import make


@pytest.fixture(scope="module")
def model() -> GPT:
    model = make(d_vocab=256, n_ctx=40)
    model.tokenizer = WordTokenizer.train("Hi there is a cat. ")
    return model


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("texts", [["Hi", " there is"], ["Hi", "Hi", " a cat."], (" a", " a cat")])
def test_no_padded_ids_without_their_mask(model: GPT, texts: Any, bos: bool) -> None:
    with pytest.raises(ValueError, match=r"unequal numbers of tokens \([\d, ]+\).*model\.as_tokens\(texts\)"):
        model.to_tokens(texts, prepend_bos=bos)
    with pytest.raises(ValueError, match="unequal numbers of tokens"):
        model.to_str_tokens(texts, prepend_bos=bos)


def test_lists_of_ids_of_unequal_length_are_refused_as_well(model: GPT) -> None:
    with pytest.raises(ValueError, match=r"unequal numbers of tokens \(1, 2\)"):
        model.to_tokens([[1], [1, 2]])


def test_what_the_refusal_offers_gives_the_numbers_of_each_text_alone(model: GPT) -> None:
    tokens, mask = model.as_tokens(["Hi", " there is"])
    assert mask is not None and mask.tolist() == [[0, 1], [1, 1]]
    together = model(tokens, attention_mask=mask)[:, -1]
    alone = torch.cat([model(model.to_tokens(text))[:, -1] for text in ("Hi", " there is")])
    assert torch.allclose(together, alone, atol=1e-5)


def test_texts_of_equal_length_are_ids(model: GPT) -> None:
    bos = model.tokenizer.bos_id
    assert model.to_tokens(["Hi", " a"]).shape == (2, 1)
    assert model.to_tokens(["Hi", " a"], prepend_bos=True)[:, 0].tolist() == [bos, bos]
    assert model.to_tokens("Hi", prepend_bos=True).tolist() == [[bos, *model.tokenizer.encode("Hi")]]
    assert model.to_str_tokens("Hi", prepend_bos=True) == ["\n\n", "Hi"]


@pytest.mark.parametrize("option", ["padding_side", "truncate", "move_to_device", "prepend_boss"])
@pytest.mark.parametrize("method", ["to_tokens", "to_str_tokens", "to_string", "to_single_token"])
def test_an_option_that_is_not_there_is_refused(model: GPT, method: str, option: str) -> None:
    with pytest.raises(TypeError, match=option):
        getattr(model, method)("Hi", **{option: True})


def test_a_mask_that_would_be_dropped_is_refused(model: GPT) -> None:
    mask = torch.ones(2, 1, dtype=torch.long)
    with pytest.raises(ValueError, match="get a mask of their own"):
        model.as_tokens(["Hi", " a"], attention_mask=mask)
    with pytest.raises(ValueError, match="get a mask of their own"):
        model("Hi", attention_mask=mask[:1])
    for given in ("Hi", ["Hi", " a"], [[1], [2, 3]]):
        with pytest.raises(ValueError, match="get a mask of their own"):
            model.generate(given, 2, attention_mask=mask)


@pytest.mark.parametrize("given", [[1, 2], [[1, 2]], torch.tensor([1, 2])])
def test_a_beginning_is_put_before_texts_alone(model: GPT, given: Any) -> None:
    with pytest.raises(ValueError, match="prepend_bos goes with a text"):
        model.to_tokens(given, prepend_bos=True)


def test_token_texts_are_those_of_the_text() -> None:
    model = make(d_vocab=256, n_ctx=40)
    model.tokenizer = PretrainedTokenizer(ENGINES["WordPiece"]())
    assert model.to_str_tokens("Tom went today") == ["Tom", " went", " to", "day"]
    model.tokenizer = ByteTokenizer()
    assert model.to_str_tokens("aé") == ["a", "\ufffd", "\ufffd"]


@pytest.mark.parametrize("value", [2, -1, 0.5, float("nan"), float("inf"), 255])
def test_a_mask_holds_0_and_1_only(value: float) -> None:
    import torch

    from model import GPT, GPTConfig

    model = GPT(GPTConfig(d_vocab=9, n_ctx=8, d_model=16, n_layers=1, n_heads=2))
    tokens = torch.tensor([[1, 2, 3, 4]])
    mask = torch.full((1, 4), value)
    with pytest.raises(ValueError, match="attention_mask holds"):
        model(tokens, attention_mask=mask)
    for ones in (torch.ones(1, 4), torch.ones(1, 4, dtype=torch.uint8), torch.ones(1, 4, dtype=torch.bool)):
        assert torch.equal(model(tokens, attention_mask=ones), model(tokens))
