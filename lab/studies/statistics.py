"""The statistics of a study: pure functions on arrays. numpy and scipy, no torch.

Intervals are Student's t on paired differences: with the few seeds of a study a bootstrap covers 75 to 90 % where it
says 95 (percentile and BCa alike), the t interval 95 % where differences are normal. Where some runs got stuck it does
not, so those are counted apart and the others have an interval of their own. One interval is read three ways against a
margin that was declared: noise never widens it. Sources: Student 1908; Fisher 1935 (sign flips); Clopper and Pearson
1934; Holm 1979; Schuirmann 1987 (equivalence); Wortsman et al. 2023, arXiv 2309.14322 (learning-rate sensitivity).
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


Reading = Literal["lower", "higher", "within", "straddling"]


def read(interval: Interval, margin: float) -> Reading:
    """Where an interval lies to [-margin, margin]: beyond it on one side, within it, or straddling a bound.

    With a margin of 0 nothing lies within.
    """
    if interval.high < -margin:
        return "lower"
    if interval.low > margin:
        return "higher"
    return "within" if -margin < interval.low and interval.high < margin else "straddling"


def decision_p(differences: Sequence[float] | np.ndarray, margin: float) -> float:
    """The smallest alpha at which the interval of level 1 - alpha no longer straddles a bound of [-margin, margin].

    It is the p that a verdict uses, so it is the one to correct for the number of claims. Beyond a bound and within
    both are exclusive, so reading all three from one interval errs no more often than alpha.
    """
    from scipy import stats

    if not (margin >= 0 and math.isfinite(margin)):
        raise ValueError(f"margin is {margin}; it must be 0 or more")
    found = paired_t(differences)
    if found.sd == 0:
        return 1.0 if abs(found.mean) == margin else 0.0
    se, df = found.standard_error, found.n - 1
    below, above = (found.mean + margin) / se, (found.mean - margin) / se
    beyond = min(stats.t.cdf(below, df), stats.t.sf(above, df))
    within = max(stats.t.sf(below, df), stats.t.cdf(above, df))
    return float(min(1.0, 2 * min(beyond, within)))


def holm_levels(ps: Sequence[float]) -> list[float]:
    """The alpha that Holm's method tests each of several p values at, in the order given.

    The smallest of k is tested at ALPHA / k, the next at ALPHA / (k - 1); from the first that fails on, all are tested
    at that one's alpha, and fail. An interval of level 1 - alpha says the same as the corrected p.
    """
    order = np.argsort(ps, kind="stable")
    levels = [ALPHA] * len(ps)
    failed: float | None = None
    for rank, index in enumerate(order):
        alpha = failed if failed is not None else ALPHA / (len(ps) - rank)
        if failed is None and not ps[int(index)] < alpha:
            failed = alpha
        levels[int(index)] = alpha
    return levels


def perplexity_change(nats: float) -> float:
    """A difference of losses in nats as a relative change of perplexity: exp(nats) - 1."""
    return math.expm1(nats)


def verdict(interval: Interval, predicted: Sign, margin: float) -> Verdict:
    """What a claim has come to, read from the one interval that is printed.

    replicates: the interval lies beyond the margin on the predicted side, or, where no difference was predicted,
    within it. opposite: it lies beyond on another side than predicted. no detectable difference: within the margin
    where a difference was predicted. inconclusive: it straddles a bound. Few seeds claim nothing.
    """
    if interval.n < SEEDS_FOR_A_CLAIM:
        return "exploratory: no claim"
    reading = read(interval, margin)
    if reading == "straddling":
        return "inconclusive"
    if reading == "within":
        return "replicates" if predicted == "no difference" else "no detectable difference"
    return "replicates" if reading == predicted else "opposite"


def covers_zero(noise: Interval | None) -> bool:
    """The A/A gate: whether a thing against itself under other seeds came out as no difference (None: not known)."""
    return noise is None or noise.low <= 0 <= noise.high


def seeds_needed(sd: float, margin: float, power: float = 0.8, most: int = 10_000) -> int | None:
    """How many pairs put the 95 % interval of a true difference of 0 within the margin with this power.

    sd: of the paired differences. None: more than `most`, or a margin of 0, which nothing can lie within.
    """
    from scipy import stats

    if not margin > 0:
        return None
    if sd == 0:
        return 2

    def reached(n: int) -> bool:
        """Power of the interval to lie within: the mean must be nearer to 0 than margin - reach, on average of s."""
        df = n - 1
        quantiles = stats.chi2.ppf((np.arange(200) + 0.5) / 200, df)  # of the sample's spread
        spread = sd * np.sqrt(quantiles / df)
        room = margin - stats.t.ppf(1 - ALPHA / 2, df) * spread / math.sqrt(n)
        inside = np.where(room > 0, 2 * stats.norm.cdf(np.maximum(room, 0) * math.sqrt(n) / sd) - 1, 0.0)
        return bool(inside.mean() >= power)

    low, high = 1, 2
    while not reached(high):
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Share:
    """k of n runs, with the exact 95 % interval of Clopper and Pearson (1934)."""

    k: int
    n: int
    low: float
    high: float


def share(k: int, n: int) -> Share:
    """How often something happened. Raises ValueError unless 0 <= k <= n and n is at least 1."""
    from scipy import stats

    if not 0 <= k <= n or n < 1:
        raise ValueError(f"{k} of {n} is no share")
    span = stats.binomtest(k, n).proportion_ci(1 - ALPHA, method="exact")
    return Share(k, n, float(span.low), float(span.high))


def outlying(differences: Sequence[float] | np.ndarray) -> int:
    """How many differences lie more than 3 scaled median absolute deviations from the median.

    With any of them a t interval covers less than it says, and the median and a permutation test stand beside it.
    """
    values = np.asarray(differences, float)
    away = np.abs(values - np.median(values))
    spread = 1.4826 * float(np.median(away))
    return int((away > 3 * spread).sum()) if spread > 0 else int((away > 0).sum())


def sign_flip_p(differences: Sequence[float] | np.ndarray) -> float:
    """Two-sided p of "the differences are symmetric about 0" by flipping their signs, exact to 16 pairs (Fisher 1935).

    Beyond 16 pairs 65,536 flips are drawn from a fixed seed, the observed signs among them.
    """
    values = np.asarray(differences, float)
    n = len(values)
    if n <= 16:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (2**16, n))
        signs[0] = 1
    sums = np.abs(signs @ values)
    return float((sums >= abs(values.sum()) * (1 - 1e-12)).mean())


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
