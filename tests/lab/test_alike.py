"""A share of no difference is no number: NaN with a note, in objects, tables, JSON and figures."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from apps.i18n.sentences import in_chinese
from lab.analysis import (
    Logit,
    LogitDifference,
    activation_patching,
    attribution_patching,
    circuit_faithfulness,
    path_patching,
    residual_decomposition,
)
from lab.analysis.results import are_alike, share
from lab.plots import patching_grid
from model import GPT
from tests.model.variants import tiny

CLEAN, CORRUPT = [3, 1, 4, 1, 5], [3, 1, 4, 8, 5]

ALIKE: dict[str, Any] = {
    "a position before the prompts differ": Logit(2, position=1),
    "a constant": lambda logits: logits.sum() * 0 + 0.1,
    "zero": lambda logits: logits.sum() * 0,
    "equal up to rounding": lambda logits: 7 + 1e-7 * logits[-1, 0],
    "not a number": lambda logits: logits[-1, 0] * float("nan"),
    "infinite": lambda logits: logits[-1, 0] + float("inf"),
}

TAKEN: dict[str, Callable[[GPT, Any], Any]] = {
    "exact": lambda model, metric: activation_patching(model, CLEAN, CORRUPT, metric),
    "noise": lambda model, metric: activation_patching(model, CLEAN, CORRUPT, metric, direction="noise", site="head"),
    "estimate": lambda model, metric: attribution_patching(model, CLEAN, CORRUPT, metric, site="component"),
    "paths": lambda model, metric: path_patching(model, CLEAN, CORRUPT, metric),
}


def strict(text: str) -> Any:
    """JSON without Infinity and NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.mark.parametrize("metric", ALIKE)
@pytest.mark.parametrize("how", TAKEN)
def test_prompts_that_score_alike_have_no_share(how: str, metric: str) -> None:
    found = TAKEN[how](tiny(), ALIKE[metric])
    assert np.isnan(found.recovered).all()
    assert found.recovered.shape == found.values.shape
    assert found.note.startswith("The prompts score ")
    assert found.note.endswith("there is no difference to take shares of.")
    assert strict(found.to_json())["note"] == found.note
    assert in_chinese(found.note).endswith("没有差异可以按比例衡量。")
    table = found.to_frame()
    if "recovered" in table:
        assert table["recovered"].isna().all()
        text = table.to_csv(index=False)
        assert pandas.read_csv(io.StringIO(text))["recovered"].isna().all()
    if how != "paths":
        figure = patching_grid(found)
        assert found.note in figure.layout.title.text
        assert found.note in figure.layout.meta["alt"]
        assert "Infinity" not in figure.to_json()
        assert found.note not in patching_grid(found, "effect").layout.title.text


@pytest.mark.parametrize("how", TAKEN)
def test_prompts_that_differ_have_shares_and_no_note(how: str) -> None:
    found = TAKEN[how](tiny(), LogitDifference(1, 2))
    assert np.isfinite(found.recovered[np.isfinite(found.values)]).all()
    assert found.note == ""
    assert "note" not in found.to_dict()


@pytest.mark.parametrize("metric", ALIKE)
@pytest.mark.parametrize("ablation", ["corrupt", "zero"])
def test_a_circuit_of_no_difference_is_not_faithful(metric: str, ablation: str) -> None:
    given = ALIKE[metric] if metric[0] != "a" else lambda logits: logits.sum() * 0 + 0.1
    found = circuit_faithfulness(tiny(), CLEAN, CORRUPT, given, [(0, 1)], ablation=ablation)
    assert np.isnan(found.faithfulness)
    assert np.isnan(found.completeness)
    assert "no difference for a circuit to make" in found.note
    assert strict(found.to_json())["faithfulness"] is None
    assert len(found.to_frame()) == 4


@pytest.mark.parametrize("metric", [lambda logits: 1.0, lambda logits: logits[-1, 0].detach(), lambda logits: 3])
def test_an_estimate_needs_a_metric_with_a_gradient(metric: Any) -> None:
    with pytest.raises(ValueError, match="has no gradient"):
        attribution_patching(tiny(), CLEAN, CORRUPT, metric)
    assert activation_patching(tiny(), CLEAN, CORRUPT, metric).values.shape == (2, 5)


def test_a_stream_of_zeros_has_no_shares() -> None:
    model = tiny(positional_embedding_type="none", norm_placement="pre")
    with torch.no_grad():
        model.embed.weight[3] = 0
    with np.errstate(all="raise"):
        found = residual_decomposition(model, [3, 1], layer=0)
        assert np.isnan(found.shares[:, 0]).all()
        assert np.isfinite(found.shares[:, 1]).all()
        assert found.to_frame()["share"].isna().sum() == len(found.labels)


@pytest.mark.parametrize("one, other, alike", [
    (0, 0, True), (1, 1, True), (1, 1 + 1e-9, True), (-1, 1, False), (1e-9, 2e-9, False), (1e-300, 0, False),
    (np.nan, 1, True), (1, np.nan, True), (np.inf, np.inf, True), (np.inf, 1, True), (1e300, -1e300, False),
])  # fmt: skip
def test_what_counts_as_alike(one: float, other: float, alike: bool) -> None:
    assert are_alike(one, other) is alike
    assert np.isnan(share(1.0, one, other)) == alike
