"""Patching on GPT-2's shape: TransformerLens' numbers, several times faster; attribution for a few forward passes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.bench import patching
from lab.bench.patching import GRIDS
from lab.bench.timing import Comparison
from lab.cli import main


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """TransformerLens runs ten patches of each grid; each costs it one forward pass, so its time is in proportion."""
    return patching.patching(rounds=2, patches=10)


# The ratios are of processor time, which other programs on the machine lengthen less than the clock's.


@pytest.mark.slow
@pytest.mark.parametrize("site", GRIDS)
def test_grids_are_transformer_lens_numbers_at_six_times_its_speed(measured: dict[str, Any], site: str) -> None:
    grid = measured[site]
    assert grid["largest_difference"] < 1e-4 < grid["largest_effect"]
    assert grid["patches"] == 12 * {"resid_pre": 16, "head": 12}[site]
    assert grid["cpu_time_ratio"] < 1 / 6


@pytest.mark.slow
@pytest.mark.parametrize("site", GRIDS)
def test_attribution_takes_no_longer_than_six_forward_passes(measured: dict[str, Any], site: str) -> None:
    assert measured["attribution"][site]["forward_passes_by_cpu"] < 6
    assert measured["attribution"]["head"]["correlation"] > 0.8


def test_the_bench_runs_every_patch_on_both_sides() -> None:
    result = patching.patching(rounds=1, size="tiny", n_tokens=8)
    for site, patches in (("resid_pre", 2 * 8), ("head", 2 * 2)):
        grid = result[site]
        assert grid["patches"] == grid["patches_of_the_reference"] == patches
        assert grid["largest_difference"] < 1e-4 < grid["largest_effect"]
        assert grid["speedup"] > 0
        estimate = result["attribution"][site]
        assert estimate["forward_passes"] > 0
        assert -1 <= estimate["correlation"] <= 1
    json.dumps(result, allow_nan=False)


def test_what_the_reference_left_out_is_added_in_proportion() -> None:
    timing = Comparison((1.0, 2.0), (1.0, 1.0), (1.0, 2.0), (1.0, 1.0))
    scaled = patching._scaled(timing, 4)
    assert scaled.ours == (1.0, 2.0) and scaled.reference == scaled.reference_cpu == (4.0, 4.0)
    assert scaled.time_ratio == scaled.cpu_time_ratio == 0.375


def test_the_command_asks_for_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(patching, "patching", lambda **options: options)
    assert main(["bench", "patching", "--rounds", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["patching"] == {"threads": 1, "rounds": 2}
