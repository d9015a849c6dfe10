"""The statistics of a study: pure functions on arrays. numpy and scipy, no torch.

Intervals are Student's t on paired differences: with the few seeds of a study a bootstrap covers 75 to 90 % where it
says 95 (percentile and BCa alike), the t interval 95 %. Sources: Student 1908; Schuirmann 1987 (TOST); Holm 1979;
Wortsman et al. 2023, arXiv 2309.14322 (learning-rate sensitivity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lab.studies.definition import SEEDS_FOR_A_CLAIM, Sign

Verdict = Literal["replicates", "opposite", "no detectable difference", "inconclusive", "exploratory: no claim"]
ALPHA = 0.05


@dataclass(frozen=True)
class Interval:
    """Mean of n paired differences with its t interval; sd of the differences; p two-sided against zero.

    d_z: mean / sd, the paired effect size (infinite where all differences are the same number but zero).
    wins: share of the pairs below zero (for a loss: where the treatment won), ties count half.
    """

    n: int
    mean: float
    low: float
    high: float
    sd: float
    p: float
    d_z: float
    wins: float

    @property
    def standard_error(self) -> float:
        return self.sd / math.sqrt(self.n)


def paired_t(differences: Sequence[float] | np.ndarray, level: float = 1 - ALPHA) -> Interval:
    """The t interval of the mean of paired differences. Raises ValueError for fewer than two, or a non-finite one."""
    from scipy import stats

    values = np.asarray(differences, float)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"an interval needs at least two pairs, there are {values.size}")
    if not np.isfinite(values).all():
        raise ValueError(f"a difference is not finite: {values.tolist()}")
    n, mean, sd = len(values), float(values.mean()), float(values.std(ddof=1))
    wins = float(((values < 0) + 0.5 * (values == 0)).mean())
    if sd == 0:
        certain = 0.0 if mean else 1.0
        return Interval(n, mean, mean, mean, 0.0, certain, math.copysign(math.inf, mean) if mean else 0.0, wins)
    se = sd / math.sqrt(n)
    reach = float(stats.t.ppf((1 + level) / 2, n - 1)) * se
    p = float(2 * stats.t.sf(abs(mean) / se, n - 1))
    return Interval(n, mean, mean - reach, mean + reach, sd, p, mean / sd, wins)


def tost(differences: Sequence[float] | np.ndarray, margin: float) -> float:
    """p of "the difference is not within +-margin" by two one-sided t tests; small: the arms are equivalent."""
    from scipy import stats

    if not margin > 0:
        raise ValueError(f"margin is {margin}; it must be above 0")
    found = paired_t(differences)
    if found.sd == 0:
        return 0.0 if abs(found.mean) < margin else 1.0
    se = found.standard_error
    below = stats.t.sf((found.mean + margin) / se, found.n - 1)
    above = stats.t.cdf((found.mean - margin) / se, found.n - 1)
    return float(max(below, above))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: each below alpha stands while the family errs at most alpha."""
    order = np.argsort(ps, kind="stable")
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[int(index)]))
        adjusted[int(index)] = largest
    return adjusted


def perplexity_change(nats: float) -> float:
    """A difference of losses in nats as a relative change of perplexity: exp(nats) - 1."""
    return math.expm1(nats)


def noise_floor(differences: Sequence[float] | np.ndarray) -> float:
    """Standard error of the mean difference between a thing and itself under other seeds, nats."""
    return paired_t(differences).standard_error


def margin_of(declared: float, floor: float | None) -> float:
    """Within what a difference is none: what was declared, or twice the noise floor where that is more."""
    return max(declared, 2 * floor) if floor is not None else declared


def verdict(
    differences: Sequence[float] | np.ndarray, predicted: Sign, margin: float | None, *, p: float | None = None
) -> Verdict:
    """What a claim has come to.

    no detectable difference: the difference lies within the margin (TOST at 5 %), whatever its sign; that is how the
    prediction "no difference" replicates. Otherwise replicates: the interval excludes zero on the predicted side.
    opposite: on the other one. Else inconclusive. p: the claim's own after correction for the number of claims, in
    place of the interval's. margin: None: nothing is too small to matter.
    """
    if len(differences) < SEEDS_FOR_A_CLAIM:
        return "exploratory: no claim"
    found = paired_t(differences)
    if margin is not None and tost(differences, margin) < ALPHA:
        return "replicates" if predicted == "no difference" else "no detectable difference"
    if (found.p if p is None else p) >= ALPHA:
        return "inconclusive"
    return "replicates" if predicted == ("lower" if found.mean < 0 else "higher") else "opposite"


def censored(final: float | None, initial: float | None) -> float:
    """The loss a run is counted with: its final one, at most its initial one; a diverged run has learned nothing."""
    if initial is None or not math.isfinite(initial):
        raise ValueError(f"the initial loss is {initial}: the run was never evaluated")
    return initial if final is None or not math.isfinite(final) else min(final, initial)


def area_under_curve(steps: Sequence[int], losses: Sequence[float]) -> float:
    """Mean loss over the logarithm of the step (trapezoid), nats; step 0 is left out."""
    points = [(math.log(step), loss) for step, loss in zip(steps, losses, strict=True) if step > 0]
    if len(points) < 2:
        raise ValueError(f"an area needs two evaluations after step 0, there are {len(points)}")
    x, y = np.array(points).T
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def lr_sensitivity(finals: Mapping[float, float], initial: float) -> float:
    """Mean over the learning rates of min(final, initial) - the best final loss, nats. 0: any rate does as well.

    A final loss that is not finite (a diverged run) counts as the initial one, as it would above it.
    """
    if not finals:
        raise ValueError("sensitivity needs at least one learning rate")
    losses = [censored(loss, initial) for loss in finals.values()]
    return float(np.mean(losses) - min(losses))


def detectable_effect(n: int, power: float = 0.8) -> float:
    """The true d_z that n pairs find with this power at 5 % (noncentral t), in sd of the difference."""
    from scipy import optimize, stats

    if n < 2:
        raise ValueError(f"n is {n}; it must be at least 2")
    critical = stats.t.ppf(1 - ALPHA / 2, n - 1)

    def missing(d: float) -> float:
        shift = d * math.sqrt(n)
        return float(stats.nct.sf(critical, n - 1, shift)) - power  # the other tail is nothing at such effects

    return float(optimize.brentq(missing, 1e-3, (critical + 10) / math.sqrt(n)))
