"""The runs of a study as rows, and what is asked of rows alone: a rate's mean loss, the best rate, which were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.studies import statistics
from lab.studies.definition import StudyError
from lab.studies.folder import Job, Outcome, StudyFolder


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


def best_rate(folder: StudyFolder, arm: str, grid: Sequence[float]) -> tuple[float, str]:
    """(the rate with the lowest mean loss of the tuning seeds, which edge of the grid it lies on or "").

    Raises StudyError where no run of the arm was ever evaluated.
    """
    rows = [row for row in read_rows(folder) if row.job.arm == arm and row.job.phase == "tune"]
    return best_of(arm, grid, rows)


def best_of(arm: str, grid: Sequence[float], rows: Sequence[RunRow]) -> tuple[float, str]:
    if len(grid) == 1:
        return grid[0], ""
    means = mean_by_lr(rows)
    known = [lr for lr in grid if lr in means]
    if not known:
        reasons = sorted({row.outcome.error or "" for row in rows})
        raise StudyError(f"No tuning run of arm {arm} could be evaluated: {'; '.join(reasons)[:300]}")
    best = min(known, key=means.__getitem__)
    return best, "low" if best == grid[0] else "high" if best == grid[-1] else ""


def mean_by_lr(rows: Sequence[RunRow]) -> dict[float, float]:
    found: dict[float, list[float]] = {}
    for row in rows:
        if row.loss is not None:
            found.setdefault(row.job.lr, []).append(row.loss)
    return {lr: sum(losses) / len(losses) for lr, losses in sorted(found.items())}


def is_lost(row: RunRow, best: float | None) -> bool:
    """Whether a run was lost; see `ArmResult`. best: mean loss of its arm's best rate; None: only divergence tells."""
    initial, loss = row.outcome.initial_loss, row.loss
    if row.outcome.state != "done" or initial is None or loss is None:
        return True
    return best is not None and loss > (initial + best) / 2


def lost_runs(rows: Sequence[RunRow]) -> set[tuple[str, int]]:
    """(arm, seed) of the confirmation runs that were lost."""
    best = {}
    for arm in {row.job.arm for row in rows}:
        means = mean_by_lr([row for row in rows if row.job.arm == arm and row.job.phase == "tune"])
        best[arm] = min(means.values(), default=None)
    confirm = [row for row in rows if row.job.phase == "confirm"]
    return {(row.job.arm, row.job.seed) for row in confirm if is_lost(row, best[row.job.arm])}
