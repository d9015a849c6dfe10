"""A stream is generate step by step, with each token's numbers and text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model import GPT
from model.generation import Step
from tests.model.generated import CTX, Utf8, V, make, state_of, tokens_of


@pytest.fixture(scope="module")
def model() -> GPT:
    return make()


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
