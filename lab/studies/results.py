"""What a study has come to, read from its folder alone: rates, losses, intervals, verdicts.

An unfinished study gives an unfinished result, which says so. No torch here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs import strict, write_json, write_text
from lab.studies import statistics
from lab.studies.definition import SEEDS_FOR_A_CLAIM, Claim, Study, StudyError
from lab.studies.folder import Job, Outcome, StudyFolder
from lab.studies.reading import typed
from lab.studies.tables import require_no_less, require_source

if TYPE_CHECKING:
    import pandas

EXPLORATORY = "exploratory: no claim"  # the verdict of few seeds
INSIGNIFICANT = 1.0  # p of a claim that cannot be tested, for Holm's count


@dataclass(frozen=True)
class RunRow:
    """One run of a study. loss: what it is counted with, nats (a diverged run: its initial loss).

    bits_per_nat: bits per byte for a nat per token in its arm's text and vocabulary; None where no run of it ended.
    """

    job: Job
    outcome: Outcome
    bits_per_nat: float | None = None

    @property
    def loss(self) -> float | None:
        """None for a run that failed before it was evaluated."""
        if self.outcome.initial_loss is None:
            return None
        return statistics.censored(self.outcome.final_val_loss, self.outcome.initial_loss)

    def value(self, outcome: str) -> float | None:
        """A claim's outcome: a loss, or a scalar measure."""
        if outcome == "final_val_loss":
            return self.loss
        if outcome == "val_bpb":  # as the loss: a diverged run is not left out
            loss, bits = self.loss, self.bits_per_nat
            return None if loss is None or bits is None else loss * bits
        found = self.outcome.measures.get(outcome, getattr(self.outcome, outcome, None))
        return float(found) if isinstance(found, int | float) else None


@dataclass(frozen=True)
class ArmResult:
    """An arm: its rate, its confirmation losses by seed, and how it behaved over the learning rates.

    lr: chosen; edge: "low" or "high" where the best rate lies on the grid's edge, else "". by_lr: rate -> mean loss of
    the tuning seeds. lost_by_lr: rate -> share of the tuning runs that were lost: diverged, or left with less than half
    of what the best rate gains over the initial loss (a network stuck at the tokens' frequencies, say).
    largest_stable_lr: the largest rate up to which none was lost. sensitivity: nats (Wortsman et al.).
    measures: name -> mean over the seeds.
    """

    name: str
    lr: float | None
    edge: str
    losses: Mapping[int, float]
    by_lr: Mapping[float, float]
    lost_by_lr: Mapping[float, float]
    largest_stable_lr: float | None
    sensitivity: float | None
    diverged: int
    failed: int
    runs: int
    measures: Mapping[str, Any]
    seconds_per_step: float | None
    area: float | None

    @property
    def mean(self) -> float | None:
        return sum(self.losses.values()) / len(self.losses) if self.losses else None

    @property
    def sd(self) -> float | None:
        n, mean = len(self.losses), self.mean
        if n < 2 or mean is None:
            return None
        return math.sqrt(sum((loss - mean) ** 2 for loss in self.losses.values()) / (n - 1))


@dataclass(frozen=True)
class Comparison:
    """A claim and what came of it: the differences by seed (treatment less control), their interval, the verdict.

    holm_p: p after correction for the number of claims; the primary claim's own p. margin: within it a difference is
    none; None: no equivalence is tested.
    """

    claim: Claim
    differences: Mapping[int, float]
    interval: statistics.Interval | None
    holm_p: float | None
    margin: float | None
    verdict: str

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
            f"{claim.treatment} against {against}, {claim.outcome}: {found.mean:+.4f}{unit} (95 % interval "
            f"{found.low:+.4f} to {found.high:+.4f}, n = {found.n}{share}); predicted {claim.predicted}: "
            f"{self.verdict}."
        )


@dataclass(frozen=True)
class StudyResult:
    """A study's result. noise: the control against itself under other seeds (A/A). complete: nothing is missing."""

    study: Study
    tier: str
    seeds: int
    registration: Mapping[str, Any]
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]
    noise: statistics.Interval | None
    margin: float
    rows: tuple[RunRow, ...]
    complete: bool

    def arm(self, name: str) -> ArmResult:
        return next(arm for arm in self.arms if arm.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: everything but the runs' configurations and curves."""
        return strict(
            {
                "study": self.study.name,
                "tier": self.tier,
                "seeds": self.seeds,
                "complete": self.complete,
                "registration": {k: v for k, v in self.registration.items() if k not in ("configs", "study")},
                "noise": None if self.noise is None else asdict(self.noise),
                "margin": self.margin,
                "arms": [{**_text_keys(asdict(arm)), "mean": arm.mean, "sd": arm.sd} for arm in self.arms],
                "claims": [{**_text_keys(asdict(c)), "sentence": c.sentence()} for c in self.comparisons],
                "runs": self.records(),
            }
        )

    def records(self) -> list[dict[str, Any]]:
        """A flat row for every run."""
        rows = []
        for row in self.rows:
            job, outcome = row.job, row.outcome
            rows.append(
                {
                    "arm": job.arm, "phase": job.phase, "lr": job.lr, "seed": job.seed, "state": outcome.state,
                    "loss": row.loss, "final_val_loss": outcome.final_val_loss, "best_val_loss": outcome.best_val_loss,
                    "best_step": outcome.best_step, "val_bpb": outcome.val_bpb, "train_loss": outcome.train_loss,
                    "initial_loss": outcome.initial_loss, "step": outcome.step, "tokens": outcome.tokens,
                    "seconds": outcome.seconds, "clipped": outcome.clipped, "run": job.run,
                    **{name: v for name, v in outcome.measures.items() if not isinstance(v, list)},
                }
            )  # fmt: skip
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """A row for every run (pandas is imported here)."""
        import pandas as pd

        return pd.DataFrame(self.records())

    def write(self, folder: StudyFolder) -> None:
        """results.json and results.csv in the study's folder. Raises StudyError where those there tell of more."""
        require_no_less(folder, len(self.rows), self.complete)
        write_json(folder.path / "results.json", self.to_dict())
        write_text(folder.path / "results.csv", self.to_frame().to_csv(index=False))


def _text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _text_keys(item) for key, item in value.items()}
    return [_text_keys(item) for item in value] if isinstance(value, list | tuple) else value


def best_rate(folder: StudyFolder, arm: str, grid: Sequence[float]) -> tuple[float, str]:
    """(the rate with the lowest mean loss of the tuning seeds, which edge of the grid it lies on or "").

    Raises StudyError where no run of the arm was ever evaluated.
    """
    rows = [row for row in read_rows(folder) if row.job.arm == arm and row.job.phase == "tune"]
    return _best_rate(arm, grid, rows)


def _best_rate(arm: str, grid: Sequence[float], rows: Sequence[RunRow]) -> tuple[float, str]:
    if len(grid) == 1:
        return grid[0], ""
    means = _mean_by_lr(rows)
    known = [lr for lr in grid if lr in means]
    if not known:
        reasons = sorted({row.outcome.error or "" for row in rows})
        raise StudyError(f"No tuning run of arm {arm} could be evaluated: {'; '.join(reasons)[:300]}")
    best = min(known, key=means.__getitem__)
    return best, "low" if best == grid[0] else "high" if best == grid[-1] else ""


def _mean_by_lr(rows: Sequence[RunRow]) -> dict[float, float]:
    found: dict[float, list[float]] = {}
    for row in rows:
        if row.loss is not None:
            found.setdefault(row.job.lr, []).append(row.loss)
    return {lr: sum(losses) / len(losses) for lr, losses in sorted(found.items())}


def read_rows(folder: StudyFolder) -> list[RunRow]:
    """Every run that is done with, in the jobs' order."""
    outcomes = folder.outcomes()
    jobs = [job for job in folder.jobs() if job.id in outcomes]
    bits: dict[str, float] = {}
    for job in jobs:
        found = outcomes[job.id]
        if found.val_bpb and found.final_val_loss:
            bits.setdefault(job.arm, found.val_bpb / found.final_val_loss)
    return [RunRow(job, outcomes[job.id], bits.get(job.arm)) for job in jobs]


def read_results(folder: StudyFolder | str | os.PathLike[str]) -> StudyResult:
    """The result so far of the study in a folder. Raises StudyError where there is none, or its files are not those
    that were written."""
    folder = folder if isinstance(folder, StudyFolder) else StudyFolder(Path(folder))
    path, registration = folder.path / "registration.json", folder.registration
    if missing := [name for name in ("study", "tier", "seeds", "rules", "budget") if name not in registration]:
        raise StudyError(f"{path} is damaged: it has no {missing[0]}.")
    require_source(folder)
    study, seeds = typed(Study, registration["study"], path), registration["seeds"]
    rows = read_rows(folder)
    tuned = [event for event in folder.events() if event.get("event") == "tuned"]
    grid = list(study.tier(registration["tier"]).lrs)
    if tuned:
        grid = typed(list[float], tuned[-1].get("lrs"), folder.path / "events.jsonl") or grid
    arms = tuple(_arm(arm.name, [row for row in rows if row.job.arm == arm.name], grid) for arm in study.arms)
    noise = _noise(study, rows)
    margin = statistics.margin_of(study.margin, noise.standard_error if noise else None)
    comparisons = _comparisons(study, rows, margin)
    return StudyResult(
        study, registration["tier"], seeds, registration, arms, comparisons, noise, margin, tuple(rows), folder.complete
    )


def _arm(name: str, rows: Sequence[RunRow], grid: Sequence[float]) -> ArmResult:
    tuning = [row for row in rows if row.job.phase == "tune"]
    confirm = [row for row in rows if row.job.phase == "confirm"]
    by_lr = _mean_by_lr(tuning)
    lr, edge = _best_rate(name, grid, tuning) if by_lr or len(grid) == 1 else (None, "")
    lost = _lost_by_lr(tuning, by_lr)
    stable = None
    for rate, failures in lost.items():
        if any(failures):
            break
        stable = rate
    initial = [row.outcome.initial_loss for row in tuning if row.outcome.initial_loss is not None]
    names = sorted({measure for row in confirm for measure in row.outcome.measures})
    seconds = [r.outcome.seconds / r.outcome.step for r in confirm if r.outcome.seconds and r.outcome.step]
    areas = [a for row in confirm if (a := _area(row)) is not None]
    return ArmResult(
        name=name,
        lr=lr,
        edge=edge,
        losses={row.job.seed: row.loss for row in confirm if row.loss is not None},
        by_lr=by_lr,
        lost_by_lr={rate: sum(failures) / len(failures) for rate, failures in lost.items()},
        largest_stable_lr=stable,
        sensitivity=statistics.lr_sensitivity(by_lr, max(initial)) if by_lr else None,
        diverged=sum(row.outcome.state == "diverged" for row in rows),
        failed=sum(row.outcome.state == "failed" for row in rows),
        runs=len(rows),
        measures={measure: _mean([row.outcome.measures.get(measure) for row in confirm]) for measure in names},
        seconds_per_step=sorted(seconds)[len(seconds) // 2] if seconds else None,
        area=sum(areas) / len(areas) if areas else None,
    )


def _lost_by_lr(tuning: Sequence[RunRow], by_lr: Mapping[float, float]) -> dict[float, list[bool]]:
    """Rate -> whether each tuning run was lost; see `ArmResult`."""

    def lost(row: RunRow) -> bool:
        initial, loss = row.outcome.initial_loss, row.loss
        if row.outcome.state != "done" or initial is None or loss is None:
            return True
        return loss > (initial + min(by_lr.values())) / 2

    rates = sorted({row.job.lr for row in tuning})
    return {rate: [lost(row) for row in tuning if row.job.lr == rate] for rate in rates}


def _area(row: RunRow) -> float | None:
    points = [(step, loss) for step, _, _, loss in row.outcome.curve if step > 0 and loss is not None]
    return statistics.area_under_curve(*zip(*points, strict=True)) if len(points) > 1 else None


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of rows of numbers place by place; None where there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], list):
        return [sum(column) / len(column) for column in zip(*known, strict=True)]
    return sum(known) / len(known)


def _noise(study: Study, rows: Sequence[RunRow]) -> statistics.Interval | None:
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


def _comparisons(study: Study, rows: Sequence[RunRow], margin: float) -> tuple[Comparison, ...]:
    differences = [_differences(claim, rows) for claim in study.claims]
    intervals = [statistics.paired_t(list(d.values())) if len(d) > 1 else None for d in differences]
    others = [i for i, claim in enumerate(study.claims) if not claim.primary]
    tested = [INSIGNIFICANT if (found := intervals[i]) is None else found.p for i in others]
    corrected = dict(zip(others, statistics.holm(tested), strict=True))
    comparisons = []
    for index, claim in enumerate(study.claims):
        found, pairs = intervals[index], differences[index]
        within = claim.margin if claim.margin is not None else margin if claim.outcome == study.outcome else None
        p = None if found is None else corrected.get(index, found.p)
        said = "unfinished"
        if found is not None:
            said = statistics.verdict(list(pairs.values()), claim.predicted, within, p=p)
        elif len(pairs) and len(pairs) < SEEDS_FOR_A_CLAIM:
            said = EXPLORATORY
        comparisons.append(Comparison(claim, pairs, found, p, within, said))
    return tuple(comparisons)


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
