"""Each claim of a study against its margin: the differences by seed, their interval, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.studies import statistics
from lab.studies.definition import SEEDS_FOR_A_CLAIM, Claim, Study
from lab.studies.rows import RunRow

EXPLORATORY = "exploratory: no claim"  # the verdict of few seeds
INSIGNIFICANT = 1.0  # p of a claim that cannot be tested, for Holm's count


@dataclass(frozen=True)
class Comparison:
    """A claim and what came of it: the differences by seed (treatment minus control), their interval, the verdict.

    alpha: 1 - the level of the interval, which is Holm's for the number of claims (the primary claim's: 0.05), so that
    the interval says what the verdict says. margin: within it a difference is none. p: what the verdict is decided by,
    see `statistics.decision_p`. planned: pairs the tier asks for; those that are not among the differences are missing.
    not_stuck: the interval of the pairs in which neither run was lost; None where none was, or fewer than two are left.
    """

    claim: Claim
    differences: Mapping[int, float]
    interval: statistics.Interval | None
    alpha: float
    margin: float
    p: float | None
    verdict: str
    planned: int
    not_stuck: statistics.Interval | None = None

    @property
    def missing(self) -> int:
        """Pairs of which one run has no such number."""
        return max(0, self.planned - len(self.differences))

    def sentence(self) -> str:
        """The verdict in one sentence."""
        found, claim = self.interval, self.claim
        against = claim.control or "zero"
        if found is None and self.verdict == EXPLORATORY and len(self.differences) == 1:
            (only,) = self.differences.values()
            return f"{claim.treatment} against {against}, {claim.outcome}: {only:+.4f} in one pair; {EXPLORATORY}."
        if found is None:
            return f"{claim.name}: not known yet ({len(self.differences)} pairs of {claim.treatment} and {against})."
        unit = " nats" if claim.outcome in ("final_val_loss", "train_loss", "best_val_loss") else ""
        share = f", {statistics.perplexity_change(found.mean):+.1%} perplexity" if unit else ""
        return (
            f"{claim.treatment} against {against}, {claim.outcome}: {found.mean:+.4f}{unit} "
            f"({100 * (1 - self.alpha):.3g} % interval {found.low:+.4f} to {found.high:+.4f}, n = {found.n} of "
            f"{self.planned}, margin {self.margin:g}{share}); predicted {claim.predicted}: {self.verdict}."
        )


def control_noise(study: Study, rows: Sequence[RunRow]) -> statistics.Interval | None:
    """The primary outcome of the control's A/A runs less that of its confirmation runs, in the order of their seeds."""
    control = [row for row in rows if row.job.arm == study.control]
    losses = {
        phase: [
            row.value(study.outcome) for row in sorted(control, key=lambda row: row.job.seed) if row.job.phase == phase
        ]
        for phase in ("aa", "confirm")
    }
    pairs = [(a, b) for a, b in zip(losses["aa"], losses["confirm"], strict=False) if a is not None and b is not None]
    return statistics.paired_t([a - b for a, b in pairs]) if len(pairs) > 1 else None


def _margin(study: Study, claim: Claim) -> float:
    if claim.margin is not None:
        return claim.margin
    return study.margin if claim.outcome == study.outcome else 0.0


def compare(
    study: Study, rows: Sequence[RunRow], seeds: int, trusted: bool, lost: set[tuple[str, int]]
) -> tuple[Comparison, ...]:
    """Each claim against its margin; Holm's correction is over the p that the verdicts use."""
    margins = [_margin(study, claim) for claim in study.claims]
    differences = [_differences(claim, rows) for claim in study.claims]
    ps = [
        statistics.decision_p(list(pairs.values()), margin) if len(pairs) > 1 else None
        for pairs, margin in zip(differences, margins, strict=True)
    ]
    others = [i for i, claim in enumerate(study.claims) if not claim.primary]
    tested = [INSIGNIFICANT if (p := ps[i]) is None else p for i in others]
    alphas = dict(zip(others, statistics.holm_levels(tested), strict=True))
    comparisons = []
    for index, (claim, pairs, margin) in enumerate(zip(study.claims, differences, margins, strict=True)):
        alpha = alphas.get(index, statistics.ALPHA)
        found = statistics.paired_t(list(pairs.values()), 1 - alpha) if len(pairs) > 1 else None
        said = "unfinished"
        if len(pairs) and (len(pairs) < SEEDS_FOR_A_CLAIM or not trusted):
            said = EXPLORATORY
        elif found is not None:
            said = statistics.verdict(found, claim.predicted, margin)
        planned = _planned(study, claim, rows, seeds)
        kept = [value for seed, value in pairs.items() if not {(claim.treatment, seed), (claim.control, seed)} & lost]
        apart = statistics.paired_t(kept, 1 - alpha) if 1 < len(kept) < len(pairs) else None
        comparisons.append(Comparison(claim, pairs, found, alpha, margin, ps[index], said, planned, apart))
    return tuple(comparisons)


def _planned(study: Study, claim: Claim, rows: Sequence[RunRow], seeds: int) -> int:
    """Pairs that a finished study has: the confirmation seeds, or for a sensitivity the tuning seeds."""
    if claim.outcome != "lr_sensitivity":
        return seeds
    return len({row.job.seed for row in rows if row.job.phase == "tune"})


def _differences(claim: Claim, rows: Sequence[RunRow]) -> dict[int, float]:
    """Seed -> treatment less control, of the seeds of which both are known."""
    treatment = _by_seed(claim.treatment, claim.outcome, rows)
    if claim.control is None:
        return treatment
    control = _by_seed(claim.control, claim.outcome, rows)
    return {seed: value - control[seed] for seed, value in treatment.items() if seed in control}


def _by_seed(arm: str, outcome: str, rows: Sequence[RunRow]) -> dict[int, float]:
    """Seed -> an arm's outcome. lr_sensitivity is of the tuning runs, of seeds that have tried the whole grid."""
    if outcome != "lr_sensitivity":
        confirm = [row for row in rows if row.job.phase == "confirm" and row.job.arm == arm]
        return {row.job.seed: value for row in confirm if (value := row.value(outcome)) is not None}
    tuning = [row for row in rows if row.job.phase == "tune"]
    grid, found = {row.job.lr for row in tuning}, {}
    for seed in sorted({row.job.seed for row in tuning}):
        mine = [row for row in tuning if row.job.arm == arm and row.job.seed == seed]
        losses = {row.job.lr: row.loss for row in mine if row.loss is not None}
        initial = max((row.outcome.initial_loss for row in mine if row.outcome.initial_loss is not None), default=None)
        if initial is not None and set(losses) == grid:
            found[seed] = statistics.lr_sensitivity(losses, initial)
    return found
