"""The statistics against scipy, against worked examples by hand, and against what they promise in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lab.studies import statistics
from lab.studies.statistics import (
    area_under_curve,
    censored,
    detectable_effect,
    holm,
    lr_sensitivity,
    margin_of,
    noise_floor,
    paired_t,
    perplexity_change,
    tost,
    verdict,
)

# Student's own data (1908, The probable error of a mean): hours of sleep gained by ten patients under two drugs.
SLEEP_1 = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SLEEP_2 = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])


def test_students_own_example() -> None:
    found = paired_t(SLEEP_1 - SLEEP_2)
    assert (found.n, found.mean) == (10, pytest.approx(-1.58))
    assert found.low == pytest.approx(-2.4598858, abs=1e-6) and found.high == pytest.approx(-0.7001142, abs=1e-6)
    assert found.p == pytest.approx(0.002832890, abs=1e-8)
    assert found.d_z == pytest.approx(-1.58 / 1.2299955, abs=1e-6)
    assert found.wins == 0.95  # nine below zero, one tie
    assert found.standard_error == pytest.approx(1.2299955 / math.sqrt(10), abs=1e-6)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_the_interval_and_p_are_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), rng.normal(0.3, 1, n)
    reference, found = stats.ttest_rel(a, b), paired_t(a - b)
    assert found.p == pytest.approx(reference.pvalue, rel=1e-9)
    span = reference.confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(span.low), pytest.approx(span.high))


@pytest.mark.parametrize("n", [3, 5, 8])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int) -> None:
    rng, truth, repeats = np.random.default_rng(7), 0.04, 1000
    covered = 0
    for sample in rng.normal(truth, 0.02, (repeats, n)):
        found = paired_t(sample)
        covered += found.low <= truth <= found.high
    assert abs(covered / repeats - 0.95) < 4 * math.sqrt(0.95 * 0.05 / repeats)  # 0.922 to 0.978
    # What is not offered: the percentile bootstrap is the normal interval with sd/n, and covers less the fewer seeds.
    less = [abs(s.mean() - truth) <= 1.96 * s.std() / math.sqrt(n) for s in rng.normal(truth, 0.02, (repeats, n))]
    assert np.mean(less) < {3: 0.82, 5: 0.89, 8: 0.93}[n] < covered / repeats


def test_a_thing_against_itself_covers_zero() -> None:
    rng = np.random.default_rng(0)
    covers, said = 0, []
    for _ in range(200):  # as a study does it: eight losses of the control, eight more of other seeds
        losses = rng.normal(1.85, 0.0155, (2, 8))
        found = paired_t(losses[0] - losses[1])
        covers += found.low <= 0 <= found.high
        said.append(verdict(losses[0] - losses[1], "lower", margin_of(0.01, None)))
    assert covers >= 186  # 93 %
    assert sum(word in ("replicates", "opposite") for word in said) <= 14
    assert "inconclusive" in said


def test_pairs_that_are_all_the_same_are_certain() -> None:
    found = paired_t([-0.5] * 4)
    assert (found.low, found.high, found.p, found.d_z, found.wins) == (-0.5, -0.5, 0.0, -math.inf, 1.0)
    none = paired_t([0.0] * 4)
    assert (none.p, none.d_z, none.wins) == (1.0, 0.0, 0.5)
    assert tost([0.0] * 4, 0.01) == 0.0 and tost([0.5] * 4, 0.01) == 1.0


@pytest.mark.parametrize("bad, reason", [([0.1], "at least two"), ([], "at least two"), ([0.1, math.nan], "finite")])
def test_what_is_no_sample_is_refused(bad: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        paired_t(bad)


def test_equivalence_is_two_one_sided_tests() -> None:
    rng = np.random.default_rng(3)
    sample = rng.normal(0.002, 0.006, 8)
    above = stats.ttest_1samp(sample, -0.01, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 0.01, alternative="less").pvalue
    assert tost(sample, 0.01) == pytest.approx(max(above, below), rel=1e-9)
    # p < .05 exactly when the 90 % interval lies within the margin
    ninety = paired_t(sample, level=0.9)
    reach = max(abs(ninety.low), abs(ninety.high))
    assert tost(sample, reach * 1.0001) < 0.05 < tost(sample, reach * 0.9999)
    with pytest.raises(ValueError, match="margin is 0"):
        tost(sample, 0.0)


def test_equivalence_is_claimed_falsely_at_most_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    false = [tost(sample, 0.01) < 0.05 for sample in rng.normal(0.01, 0.004, (500, 8))]  # the truth is at the margin
    assert np.mean(false) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 500)


def test_holm_by_hand() -> None:
    # 4 x 0.005, then 3 x 0.01, then 2 x 0.03, then max(that, 1 x 0.04): the textbook example of the step-down.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.02]) == [0.02]


def test_holm_lets_one_false_claim_through_in_twenty() -> None:
    rng = np.random.default_rng(11)
    wrong = [min(holm(row)) < 0.05 for row in rng.uniform(size=(1000, 6))]  # nothing is true
    assert np.mean(wrong) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 1000)
    alone = [row.min() < 0.05 for row in rng.uniform(size=(1000, 6))]
    assert np.mean(alone) > 0.2  # without it


@pytest.mark.parametrize("n, effect", [(3, 3.26), (5, 1.68), (6, 1.43), (8, 1.16), (10, 1.00), (16, 0.75), (20, 0.66)])
def test_detectable_effects_are_the_published_ones(n: int, effect: float) -> None:
    assert detectable_effect(n) == pytest.approx(effect, abs=0.006)


def test_nats_as_perplexity() -> None:
    assert perplexity_change(-0.039) == pytest.approx(-0.03825, abs=1e-5)  # GELU to SwiGLU in Shazeer 2020: -4 %
    assert perplexity_change(0.0) == 0.0


def test_the_margin_is_the_declared_or_twice_the_noise() -> None:
    noise = noise_floor([0.01, -0.02, 0.03, 0.0])
    assert noise == pytest.approx(np.std([0.01, -0.02, 0.03, 0.0], ddof=1) / 2)
    assert margin_of(0.01, 0.002) == 0.01 and margin_of(0.01, 0.02) == 0.04 and margin_of(0.01, None) == 0.01


FAR, NEAR, WIDE = (
    [-0.05, -0.04, -0.06, -0.05, -0.045, -0.055],
    [0.001, -0.001, 0.002, 0.0, -0.002, 0.001],
    [0.08, -0.09, 0.05, -0.02, 0.1, -0.04],
)


@pytest.mark.parametrize(
    "sample, predicted, said",
    [
        (FAR, "lower", "replicates"),
        (FAR, "higher", "opposite"),
        (FAR, "no difference", "opposite"),
        (NEAR, "lower", "no detectable difference"),
        (NEAR, "higher", "no detectable difference"),
        (NEAR, "no difference", "replicates"),
        (WIDE, "lower", "inconclusive"),
        (WIDE, "no difference", "inconclusive"),
        (FAR[:5], "lower", "exploratory: no claim"),
    ],
)
def test_verdicts(sample: list[float], predicted: statistics.Sign, said: str) -> None:
    assert verdict(sample, predicted, 0.01) == said


def test_a_verdict_obeys_the_corrected_p_and_the_margin() -> None:
    assert verdict(FAR, "lower", 0.01, p=0.2) == "inconclusive"
    # A difference that is certain and too small to matter is none; where nothing is too small, it counts.
    small = [value / 20 for value in FAR]
    assert verdict(small, "lower", 0.01) == "no detectable difference"
    assert verdict(small, "lower", None) == "replicates"


def test_a_diverged_run_counts_with_what_it_began_with() -> None:
    assert censored(1.5, 4.2) == 1.5
    assert censored(9.0, 4.2) == censored(None, 4.2) == censored(math.nan, 4.2) == censored(math.inf, 4.2) == 4.2
    for initial in (None, math.nan):
        with pytest.raises(ValueError, match="never evaluated"):
            censored(1.0, initial)


def test_area_under_the_curve_is_the_mean_over_log_steps() -> None:
    # loss = 5 - ln(step): over ln(step) from 0 to ln(100) its mean is its middle value.
    steps = [0, 1, 10, 100]
    losses = [9.0, *(5 - math.log(step) for step in steps[1:])]
    assert area_under_curve(steps, losses) == pytest.approx(5 - math.log(100) / 2)
    assert area_under_curve([10, 20], [2.0, 2.0]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="two evaluations"):
        area_under_curve([0, 10], [5.0, 4.0])


def test_sensitivity_to_the_learning_rate() -> None:
    # Best 2.0; the others lose 0.5 and, diverged, all that there was to learn: (0.5 + 0 + 2.2) / 3.
    assert lr_sensitivity({1e-3: 2.5, 1e-2: 2.0, 1e-1: 9.0}, initial=4.2) == pytest.approx(0.9)
    assert lr_sensitivity({1e-3: 2.5, 1e-2: 2.0, 1e-1: math.nan}, initial=4.2) == pytest.approx(0.9)
    assert lr_sensitivity({1e-3: 2.0, 1e-2: 2.0}, initial=4.2) == 0.0
    with pytest.raises(ValueError, match="at least one"):
        lr_sensitivity({}, 4.2)
