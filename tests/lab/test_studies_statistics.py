"""The statistics against scipy, against worked examples by hand, and against what they promise in simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from lab.studies import statistics
from lab.studies.statistics import (
    area_under_curve,
    censored,
    covers_zero,
    decision_p,
    detectable_effect,
    holm_levels,
    lr_sensitivity,
    outlying,
    paired_t,
    perplexity_change,
    read,
    seeds_needed,
    share,
    sign_flip_p,
    verdict,
)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, as in his paper, to hold the levels against."""
    order = np.argsort(ps, kind="stable")
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[int(index)]))
        adjusted[int(index)] = largest
    return adjusted


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
        said.append(verdict(found, "lower", 0.01))
    assert covers >= 186  # 93 %
    assert sum(word in ("replicates", "opposite") for word in said) <= 14
    assert "inconclusive" in said


def test_pairs_that_are_all_the_same_are_certain() -> None:
    found = paired_t([-0.5] * 4)
    assert (found.low, found.high, found.p, found.d_z, found.wins) == (-0.5, -0.5, 0.0, -math.inf, 1.0)
    none = paired_t([0.0] * 4)
    assert (none.p, none.d_z, none.wins) == (1.0, 0.0, 0.5)
    assert decision_p([0.0] * 4, 0.01) == 0.0 and decision_p([0.5] * 4, 0.01) == 0.0
    assert decision_p([0.01] * 4, 0.01) == 1.0


@pytest.mark.parametrize("bad, reason", [([0.1], "at least two"), ([], "at least two"), ([0.1, math.nan], "finite")])
def test_what_is_no_sample_is_refused(bad: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        paired_t(bad)


@pytest.mark.parametrize("mean, margin", [(0.002, 0.01), (0.03, 0.01), (-0.03, 0.01), (0.009, 0.01), (0.02, 0.0)])
def test_the_p_of_a_decision_is_where_its_interval_stops_straddling(mean: float, margin: float) -> None:
    sample = np.random.default_rng(3).normal(mean, 0.006, 8)
    p = decision_p(sample, margin)
    above, below = (stats.ttest_1samp(sample, m, alternative=side).pvalue for m, side in
                    ((margin, "greater"), (-margin, "less")))  # fmt: skip
    if min(above, below) < 0.5:
        within = max(1 - above, 1 - below)
        assert p == pytest.approx(min(1.0, 2 * min(above, below, within)), rel=1e-9)
    assert read(paired_t(sample, 1 - p * 0.999), margin) == "straddling"
    assert read(paired_t(sample, 1 - p * 1.001), margin) != "straddling"
    with pytest.raises(ValueError, match="margin is -1"):
        decision_p(sample, -1.0)


def test_holms_levels_decide_as_holms_corrected_ps_do() -> None:
    rng = np.random.default_rng(5)
    for ps in (*rng.beta(0.4, 4, (200, 6)), np.array([0.01, 0.04, 0.03, 0.005]), np.array([0.5, 0.9])):
        levels = holm_levels(ps)
        for p, alpha, corrected in zip(ps, levels, holm(ps), strict=True):
            assert (p < alpha) == (corrected < 0.05)
            assert 0.05 / len(ps) <= alpha <= 0.05
    assert holm_levels([]) == [] and holm_levels([0.02]) == [0.05]


def simulated(truths: list[float], sd: float, margin: float, predicted: statistics.Sign, n: int = 8) -> list[str]:
    """Verdicts of one study whose claims have these true differences, Holm's levels over all of them."""
    samples = [RNG.normal(truth, sd, n) for truth in truths]
    alphas = holm_levels([decision_p(sample, margin) for sample in samples])
    return [
        verdict(paired_t(sample, 1 - alpha), predicted, margin) for sample, alpha in zip(samples, alphas, strict=True)
    ]


RNG = np.random.default_rng(17)
STUDIES = 600


@pytest.mark.parametrize("sd", [0.02, 0.118, 0.46])
def test_noise_does_not_make_a_large_gap_no_difference(sd: float) -> None:
    said = [simulated([0.20], sd, 0.01, "no difference")[0] for _ in range(STUDIES)]
    assert np.mean([word in ("replicates", "no detectable difference") for word in said]) < 0.05


@pytest.mark.parametrize("sd", [0.002, 0.004, 0.01])
@pytest.mark.parametrize("at", [0.01, -0.01])
def test_a_difference_at_the_margin_is_rarely_no_difference_in_any_claim(sd: float, at: float) -> None:
    studies = [simulated([at] * 5, sd, 0.01, "no difference") for _ in range(STUDIES)]
    assert np.mean(["replicates" in said for said in studies]) < 0.05


@pytest.mark.parametrize("truth", [0.0, 0.006, -0.009])
@pytest.mark.parametrize("sd", [0.0055, 0.05])
def test_a_difference_inside_the_margin_is_not_opposite(truth: float, sd: float) -> None:
    said = [simulated([truth], sd, 0.01, "no difference")[0] for _ in range(STUDIES)]
    assert np.mean([word == "opposite" for word in said]) < 0.05
    certain = [simulated([truth], 1e-5, 0.01, "no difference")[0] for _ in range(20)]
    assert set(certain) == {"replicates"}


@pytest.mark.parametrize("stuck", [0.0, 0.1, 0.3])
def test_the_interval_of_runs_that_are_not_stuck_covers_the_truth(stuck: float) -> None:
    """The unconditional interval does not, with a tenth of the runs stuck; so the report names the other."""
    rng, repeats, truth = np.random.default_rng(23), 3000, 0.05
    apart, whole = [], []
    for _ in range(repeats):
        gone = rng.random(8) < stuck
        sample = rng.normal(truth, 0.05, 8) + 3.0 * gone
        kept = sample[~gone]
        if len(kept) > 1:
            found = paired_t(kept)
            apart.append(found.low <= truth <= found.high)
        found = paired_t(sample)
        whole.append(found.low <= truth + 3.0 * stuck <= found.high)
    assert 0.93 < np.mean(apart) < 0.97
    if stuck == 0.1:
        assert np.mean(whole) < 0.7


def test_seeds_for_a_margin_are_those_of_simulation() -> None:
    needed = seeds_needed(0.02, 0.01)
    assert needed is not None and 30 < needed < 50
    rng = np.random.default_rng(2)
    power = np.mean([read(paired_t(sample), 0.01) == "within" for sample in rng.normal(0, 0.02, (1500, needed))])
    assert 0.77 < power < 0.83
    assert seeds_needed(0.0, 0.01) == 2 and seeds_needed(0.02, 0.0) is None and seeds_needed(10.0, 1e-6) is None


def test_a_control_that_differs_from_itself_fails_the_gate() -> None:
    assert covers_zero(None) and covers_zero(paired_t([0.01, -0.02, 0.015, -0.01]))
    assert not covers_zero(paired_t([0.5, 0.52, 0.49, 0.51]))


@pytest.mark.parametrize("k, n, low, high", [(0, 8, 0.0, 0.3694), (3, 8, 0.0852, 0.7551), (8, 8, 0.6306, 1.0)])
def test_a_share_has_the_exact_interval(k: int, n: int, low: float, high: float) -> None:
    found = share(k, n)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    with pytest.raises(ValueError, match="is no share"):
        share(n + 1, n)


def test_outlying_differences_are_counted() -> None:
    assert outlying([0.01, 0.012, 0.009, 0.011, 3.0]) == 1
    assert (
        outlying([0.01, 0.012, 0.009, 0.011]) == 0 and outlying([1.0, 1.0, 1.0]) == 0 and outlying([1.0, 1.0, 5.0]) == 1
    )


def test_sign_flips_are_exact() -> None:
    sample = [0.3, 0.1, 0.5, -0.2, 0.4, 0.6]
    reference = stats.permutation_test((sample, [0.0] * 6), lambda a, b: np.sum(np.subtract(a, b)),
                                       permutation_type="samples", n_resamples=np.inf)  # fmt: skip
    assert sign_flip_p(sample) == pytest.approx(reference.pvalue)
    assert sign_flip_p([1.0] * 8) == 2 / 256
    many = np.random.default_rng(1).normal(0.5, 1, 30)
    assert sign_flip_p(many) == pytest.approx(stats.ttest_1samp(many, 0).pvalue, abs=0.01)


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
    assert verdict(paired_t(sample), predicted, 0.01) == said


def test_a_verdict_obeys_its_interval_and_the_margin() -> None:
    assert verdict(paired_t(FAR, 0.9999999), "lower", 0.01) == "inconclusive"
    # A difference that is certain and too small to matter is none; where nothing is too small, it counts.
    small = [value / 20 for value in FAR]
    assert verdict(paired_t(small), "lower", 0.01) == "no detectable difference"
    assert verdict(paired_t(small), "lower", 0.0) == "replicates"
    assert verdict(paired_t([0.0] * 6), "no difference", 0.0) == "inconclusive"


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
