"""Token ids of every integer type, and whole numbers of every library, wherever a number is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lab import analysis
from lab.analysis.results import Result
from lab.training.config import DataConfig, TrainingConfig
from model import GPT, GPTConfig
from model.checks import as_whole, whole, wholes
from model.sampling import SamplingConfig
from model.token_ids import as_ids
from tests.model.variants import tiny

IDS = [3, 1, 4, 1, 5, 9, 2]
OTHER = [3, 1, 4, 8, 5, 9, 2]
METRIC = analysis.LogitDifference(1, 2)

WIDTHS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FORMS: dict[str, Callable[[list[int]], Any]] = {
    **{f"tensor {width}": lambda ids, w=width: torch.tensor(ids, dtype=getattr(torch, w)) for width in WIDTHS},
    **{f"array {width}": lambda ids, w=width: np.array(ids, dtype=w) for width in WIDTHS},
    "other byte order": lambda ids: np.array(ids, dtype=">i4"),
    "reversed view": lambda ids: np.array(ids[::-1])[::-1],
    "list of numpy": lambda ids: [np.uint16(value) for value in ids],
    "list of tensors": lambda ids: [torch.tensor(value) for value in ids],
    "mixed list": lambda ids: [np.int8(ids[0]), torch.tensor(ids[1]), *ids[2:]],
    "tuple": tuple,
}

TAKE_IDS: dict[str, Callable[[GPT, Any], Any]] = {
    "forward": lambda model, ids: model(ids),
    "forward of rows": lambda model, ids: model([ids, ids]),
    "loss": lambda model, ids: model(ids, return_type="loss"),
    "targets": lambda model, ids: model(torch.tensor([IDS]), return_type="loss", targets=as_ids(ids)[None].int()),
    "GPT.loss": lambda model, ids: model.loss(model(torch.tensor(IDS)), as_ids(ids)[None].to(torch.int32)),
    "run_with_cache": lambda model, ids: model.run_with_cache(ids)[1]["resid_post", 1],
    "generate": lambda model, ids: model.generate(ids, 4, seed=1, return_type="tokens"),
    "generate rows": lambda model, ids: model.generate([ids, ids[:3]], 4, seed=1, return_type="tokens"),
    "stream": lambda model, ids: [step.token for step in model.stream(ids, 4, seed=1)],
    "to_tokens": lambda model, ids: model.to_tokens(ids),
    "directions": lambda model, ids: model.tokens_to_residual_directions(ids),
    "predictions": lambda model, ids: analysis.token_predictions(model, ids),
    "logit_lens": lambda model, ids: analysis.logit_lens(model, ids),
    "attention": lambda model, ids: analysis.attention_patterns(model, ids),
    "contributions": lambda model, ids: analysis.logit_contributions(model, ids),
    "sources": lambda model, ids: analysis.source_contributions(model, ids, 1, 0),
    "decomposition": lambda model, ids: analysis.residual_decomposition(model, ids),
    "norms": lambda model, ids: analysis.residual_norms(model, ids),
    "heads": lambda model, ids: analysis.head_scores(model, ids),
    "inspect": lambda model, ids: analysis.inspect_prompt(model, ids),
    "patching": lambda model, ids: analysis.activation_patching(model, ids, OTHER, METRIC),
    "attribution": lambda model, ids: analysis.attribution_patching(model, OTHER, ids, METRIC),
    "paths": lambda model, ids: analysis.path_patching(model, ids, OTHER, METRIC),
    "circuit": lambda model, ids: analysis.circuit_faithfulness(
        model, ids, OTHER, METRIC, [(0, 1)], ablation="mean", reference=[ids]
    ),
    "direction": lambda model, ids: analysis.prompt_direction(model, ids, OTHER, 1),
    "effect": lambda model, ids: analysis.intervention_effect(
        model, ids, [analysis.Patch("head", 0, source=ids), analysis.Ablate("head", method="mean", reference=ids)]
    ),
    "tuned lens": lambda model, ids: analysis.train_tuned_lens(model, as_ids(ids).repeat(30).int(), steps=2).maps,
}


def told(value: Any) -> Any:
    """A result as plain values."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.tolist()
    if isinstance(value, Result):
        return value.to_dict()
    return [told(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def model() -> GPT:
    return tiny()


@pytest.fixture(scope="module")
def expected(model: GPT) -> dict[str, Any]:
    return {name: told(take(model, IDS)) for name, take in TAKE_IDS.items()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", TAKE_IDS)
def test_ids_of_every_type_are_the_same_ids(model: GPT, expected: dict[str, Any], where: str, form: str) -> None:
    assert json.dumps(told(TAKE_IDS[where](model, FORMS[form](IDS)))) == json.dumps(expected[where])


BAD_IDS: dict[str, Any] = {
    "float tensor": torch.tensor([1.0, 2.0]),
    "float array": np.array([1.0, 2.0]),
    "floats": [1, 2.0],
    "true": [1, True],
    "bool tensor": torch.tensor([True, False]),
    "bool array": np.array([True, False]),
    "complex": torch.tensor([1j, 2]),
    "negative": [1, -1],
    "negative tensor": torch.tensor([1, -1], dtype=torch.int8),
    "too large": np.array([1, 60000], dtype=np.uint16),
    "huge": [1, 2**70],
    "huge unsigned": np.array([1, 2**64 - 1], dtype=np.uint64),
    "none": [1, None],
    "nothing": [],
    "empty array": np.array([]),
}


@pytest.mark.parametrize("bad", BAD_IDS)
@pytest.mark.parametrize(
    "where", [name for name in TAKE_IDS if name not in ("targets", "GPT.loss", "tuned lens", "generate rows")]
)
def test_what_is_no_id_is_refused_in_a_sentence(model: GPT, where: str, bad: str) -> None:
    if where == "directions" and bad in ("nothing", "empty array"):
        assert model.tokens_to_residual_directions([]).shape == (0, 16)
        return
    with pytest.raises(ValueError, match=r"(whole number|outside the vocabulary|no token|empty|at least one).*[.]"):
        TAKE_IDS[where](model, BAD_IDS[bad])


@pytest.mark.parametrize("bad", [torch.tensor([[1.0] * 7]), torch.ones(1, 7).bool(), [[99] * 7], [[-3] * 7]])
def test_targets_that_are_no_ids_are_refused(model: GPT, bad: Any) -> None:
    with pytest.raises(ValueError, match=r"targets (must be whole numbers|hold an id outside the vocabulary, 0 to 22)"):
        model(IDS, return_type="loss", targets=bad)


def test_masks_are_taken_as_lists_and_arrays(model: GPT) -> None:
    mask = [[0, 0, 1, 1, 1, 1, 1]]
    want = model(torch.tensor([IDS]), attention_mask=torch.tensor(mask))
    for given in (mask, np.array(mask), np.array(mask, dtype=bool), torch.tensor(mask, dtype=torch.uint8)):
        assert torch.equal(model(torch.tensor([IDS]), attention_mask=given), want)
        tokens = model.generate(torch.tensor([IDS]), 3, temperature=0, attention_mask=given)
        assert tokens[0, 7:].tolist() == model.generate(IDS[2:], 3, temperature=0)[5:].tolist()


# --- whole numbers -------------------------------------------------------------------------------------------------

NUMBERS: dict[str, Callable[[int], Any]] = {
    "int64": np.int64,
    "uint8": np.uint8,
    "int32": np.int32,
    "array": np.array,
    "tensor": torch.tensor,
    "argmax": lambda n: np.eye(16)[n].argmax(),
}

TAKE_NUMBERS: dict[str, Callable[[GPT, Callable[[int], Any]], Any]] = {
    "max_new_tokens": lambda m, n: m.generate(IDS, n(3), seed=n(5)),
    "n_top": lambda m, n: [step.top for step in m.stream(IDS, n(2), seed=n(5), n_top=n(3))],
    "stop_tokens": lambda m, n: m.generate(IDS, 3, seed=5, stop_tokens=n(4)),
    "several stop_tokens": lambda m, n: m.generate(IDS, 3, seed=5, stop_tokens=[n(4), n(2)]),
    "sampling top_k": lambda m, n: m.generate(IDS, 3, seed=5, top_k=n(4)),
    "start, stop": lambda m, n: m(m(IDS, stop_at_layer=n(1)), start_at_layer=n(1)),
    "accumulated_bias": lambda m, n: m.accumulated_bias(n(1)),
    "a direction": lambda m, n: m.tokens_to_residual_directions(n(4)),
    "lens": lambda m, n: analysis.logit_lens(m, IDS, n(3), track=[n(2)]),
    "predictions": lambda m, n: analysis.token_predictions(m, IDS, n(3)),
    "attention": lambda m, n: analysis.attention_patterns(m, IDS, layers=n(1)),
    "attention of several": lambda m, n: analysis.attention_patterns(m, IDS, layers=[n(1), n(0)]),
    "contributions": lambda m, n: analysis.logit_contributions(
        m, IDS, position=n(3), token=n(4), versus=n(2), by="head", layer=n(1)
    ),
    "sources": lambda m, n: analysis.source_contributions(m, IDS, n(1), n(0), position=n(2), token=n(3)),
    "decomposition": lambda m, n: analysis.residual_decomposition(m, IDS, layer=n(1), position=n(2)),
    "inspect": lambda m, n: analysis.inspect_prompt(m, IDS, position=n(3), token=n(2), top_k=n(4)),
    "head scores": lambda m, n: analysis.head_scores(m, seed=n(1), sequences=n(2), period=n(3)),
    "neuron_tokens": lambda m, n: analysis.neuron_tokens(m, n(1), n(3), n(2)),
    "head_tokens": lambda m, n: analysis.head_tokens(m, n(1), n(3), n(2), n(4)),
    "strongest": lambda m, n: analysis.head_weights(m).strongest("q", n(3)),
    "token_direction": lambda m, n: analysis.token_direction(m, n(1), n(2)).tolist(),
    "prompt_direction": lambda m, n: analysis.prompt_direction(m, IDS, OTHER, n(1)).tolist(),
    "patching": lambda m, n: analysis.activation_patching(
        m, IDS, OTHER, analysis.Logit(n(2), position=n(5)), layers=n(1)
    ),
    "attribution": lambda m, n: analysis.attribution_patching(
        m, IDS, OTHER, analysis.LogProbability(n(2)), layers=[n(1), n(0)]
    ),
    "top patches": lambda m, n: analysis.activation_patching(m, IDS, OTHER, METRIC).top(n(3)),
    "paths": lambda m, n: analysis.path_patching(m, IDS, OTHER, METRIC, receiver=(n(1), n(2), "k")),
    "several paths": lambda m, n: analysis.path_patching(
        m, IDS, OTHER, METRIC, receiver=[(n(1), n(0), "q"), (1, 2, "k"), "logits"]
    ),
    "circuit": lambda m, n: analysis.circuit_faithfulness(m, IDS, OTHER, METRIC, [(n(1), n(0)), (n(0), n(3))]),
    "ablate": lambda m, n: analysis.intervention_effect(
        m, IDS, analysis.Ablate("head", n(1), head=n(2), position=n(3), method="resample", reference=IDS, seed=n(4))
    ),
    "scale": lambda m, n: analysis.intervention_effect(
        m, IDS, analysis.Scale("neuron", [n(1)], neuron=[n(2), n(3)], position=[n(3)], factor=n(4))
    ),
    "steer": lambda m, n: analysis.intervention_effect(
        m, IDS, analysis.Steer(np.ones(16), n(1), strength=n(2), position=n(1))
    ),
    "knock out": lambda m, n: analysis.intervention_effect(
        m, IDS, analysis.KnockOut(n(1), n(4), layer=n(1), head=[n(2), n(0)])
    ),
    "of an effect": lambda m, n: analysis.intervention_effect(m, IDS, []).probability(m, n(3), n(2)),
    "tuned lens": lambda m, n: (
        analysis.train_tuned_lens(
            m, np.array(IDS * 30, dtype=np.uint16), steps=n(2), windows=n(3), seed=n(4)
        ).training_record
    ),
    "config": lambda m, n: json.dumps(GPTConfig(d_vocab=n(9), n_ctx=n(8), d_model=n(8), n_heads=n(2)).to_dict()),
    "training": lambda m, n: json.dumps(TrainingConfig(steps=n(9), batch_size=n(4), warmup_steps=n(1)).to_dict()),
    "data": lambda m, n: json.dumps(DataConfig(corpus="stories", corpus_size=n(9), corpus_seed=n(2)).to_dict()),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("where", TAKE_NUMBERS)
def test_whole_numbers_of_every_library_are_taken(model: GPT, where: str, number: str) -> None:
    got, want = (told(TAKE_NUMBERS[where](model, kind)) for kind in (NUMBERS[number], int))
    assert got == want or json.dumps(got) == json.dumps(want)


@pytest.mark.parametrize("bad", [True, 1.0, np.float32(1), np.bool_(True), torch.tensor(True), "1", None, 1j])
@pytest.mark.parametrize(
    "take",
    [
        lambda m, bad: m.generate(IDS, bad),
        lambda m, bad: next(m.stream(IDS, 3, n_top=bad)),
        lambda m, bad: m.generate(IDS, 3, stop_tokens=[bad] if bad != "1" else 1.5),
        lambda m, bad: m(IDS, stop_at_layer=bad) if bad is not None else m.accumulated_bias(bad),
        lambda m, bad: analysis.logit_lens(m, IDS, bad),
        lambda m, bad: analysis.attention_patterns(m, IDS, layers=[bad]),
        lambda m, bad: analysis.source_contributions(m, IDS, 1, bad),
        lambda m, bad: analysis.neuron_tokens(m, bad, 1),
        lambda m, bad: analysis.activation_patching(m, IDS, OTHER, METRIC, layers=[bad]),
        lambda m, bad: analysis.path_patching(m, IDS, OTHER, METRIC, receiver=[(1, bad, "k")]),
        lambda m, bad: analysis.circuit_faithfulness(m, IDS, OTHER, METRIC, [(1, bad)]),
        lambda m, bad: analysis.intervention_effect(m, IDS, analysis.Ablate("head", [bad])),
        lambda m, bad: analysis.intervention_effect(m, IDS, analysis.KnockOut([bad])),
        lambda m, bad: analysis.head_scores(m, sequences=bad),
    ],
)
def test_what_is_no_whole_number_is_refused(model: GPT, take: Callable[[GPT, Any], Any], bad: Any) -> None:
    with pytest.raises(ValueError, match=r"is .*whole number"):
        take(model, bad)


def test_numbers_that_say_what_they_are() -> None:
    class Index:
        def __index__(self) -> int:
            return 7

    assert as_whole(Index()) == whole(Index(), "x") == 7
    assert type(whole(np.uint8(3), "x", 0)) is int
    assert wholes(np.arange(3), "x") == wholes(range(3), "x") == [0, 1, 2]
    assert as_whole(np.array([3])) is None
    with pytest.raises(ValueError, match="x is -1; it must be a whole number of at least 0"):
        whole(-1, "x", 0)
    with pytest.raises(ValueError, match=r"x is 'ab'; it must be a whole number or several"):
        wholes("ab", "x")


def test_settings_of_numpys_numbers_are_pythons() -> None:
    settings = SamplingConfig(np.float32(0.5), np.int64(3), np.float64(0.5), np.float16(0.25), np.float32(1.5))
    assert settings == SamplingConfig(0.5, 3, 0.5, 0.25, 1.5)
    assert all(type(value) in (int, float) for value in vars(settings).values())
