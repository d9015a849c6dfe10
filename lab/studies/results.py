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
from lab.runs.spreadsheet import csv_text
from lab.studies import statistics
from lab.studies.comparisons import Comparison, compare, control_noise
from lab.studies.definition import Study, StudyError
from lab.studies.folder import StudyFolder
from lab.studies.reading import typed
from lab.studies.rows import RunRow, best_of, is_lost, lost_runs, mean_by_lr, read_rows
from lab.studies.tables import require_no_less, require_source

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ArmResult:
    """An arm: its rate, its confirmation losses by seed, and how it behaved over the learning rates.

    lr: chosen; edge: "low" or "high" where the best rate lies on the grid's edge, else "". by_lr: rate -> mean loss of
    the tuning seeds. lost_by_lr: rate -> share of the tuning runs that were lost: diverged, or left with less than half
    of what the best rate gains over the initial loss (a network stuck at the tokens' frequencies, say).
    largest_stable_lr: the largest rate up to which none was lost. sensitivity: nats (Wortsman et al.).
    measures: name -> mean over the seeds. stuck: confirmation runs that were lost, by the same rule; mean_not_stuck:
    the mean loss of the others. optimism: mean confirmation loss minus the tuning loss that chose the rate, nats.
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
    stuck: statistics.Share | None
    mean_not_stuck: float | None
    optimism: float | None
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
class StudyResult:
    """A study's result. noise: the control against itself under other seeds (A/A). complete: nothing is missing.

    Where the A/A differs from zero the table is exploratory: no claim has a verdict.
    """

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

    @property
    def trusted(self) -> bool:
        """Whether the control came out equal to itself."""
        return statistics.covers_zero(self.noise)

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
        write_text(folder.path / "results.csv", csv_text(self.to_frame()))


def _text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _text_keys(item) for key, item in value.items()}
    return [_text_keys(item) for item in value] if isinstance(value, list | tuple) else value


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
    noise = control_noise(study, rows)
    comparisons = compare(study, rows, seeds, statistics.covers_zero(noise), lost_runs(rows))
    return StudyResult(
        study,
        registration["tier"],
        seeds,
        registration,
        arms,
        comparisons,
        noise,
        study.margin,
        tuple(rows),
        folder.complete,
    )


def _arm(name: str, rows: Sequence[RunRow], grid: Sequence[float]) -> ArmResult:
    tuning = [row for row in rows if row.job.phase == "tune"]
    confirm = [row for row in rows if row.job.phase == "confirm"]
    by_lr = mean_by_lr(tuning)
    lr, edge = best_of(name, grid, tuning) if by_lr or len(grid) == 1 else (None, "")
    best = min(by_lr.values(), default=None)
    lost = {
        rate: [is_lost(row, best) for row in tuning if row.job.lr == rate]
        for rate in sorted({row.job.lr for row in tuning})
    }
    stuck = [is_lost(row, best) for row in confirm]
    losses = {row.job.seed: row.loss for row in confirm if row.loss is not None}
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
        losses=losses,
        by_lr=by_lr,
        lost_by_lr={rate: sum(failures) / len(failures) for rate, failures in lost.items()},
        largest_stable_lr=stable,
        sensitivity=statistics.lr_sensitivity(by_lr, max(initial)) if by_lr else None,
        diverged=sum(row.outcome.state == "diverged" for row in rows),
        failed=sum(row.outcome.state == "failed" for row in rows),
        runs=len(rows),
        stuck=statistics.share(sum(stuck), len(stuck)) if stuck else None,
        mean_not_stuck=_mean([row.loss for row, gone in zip(confirm, stuck, strict=True) if not gone]),
        optimism=_mean(list(losses.values())) - by_lr[lr] if losses and lr in by_lr else None,
        measures={measure: _mean([row.outcome.measures.get(measure) for row in confirm]) for measure in names},
        seconds_per_step=sorted(seconds)[len(seconds) // 2] if seconds else None,
        area=sum(areas) / len(areas) if areas else None,
    )


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
