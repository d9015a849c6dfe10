"""Run a study: register the plan, tune each arm alike, confirm with fresh seeds, and say what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.studies.definition import Study
from lab.studies.executors import Executor, OnChange
from lab.studies.folder import Job, Phase, StudyFolder, studies_root
from lab.studies.plan import Plan, aa_seed, make_plan, tuning_seed
from lab.studies.results import StudyResult, read_results
from lab.studies.rows import best_rate
from lab.studies.tables import require_source

OnStage = Callable[[str], None]


def run_study(
    study: Study,
    tier: str,
    *,
    executor: Executor,
    root: str | os.PathLike[str] | None = None,
    seeds: int | None = None,
    exploratory: bool = False,
    on_stage: OnStage | None = None,
    on_change: OnChange | None = None,
) -> StudyResult:
    """Run a study at a tier, or go on with it: what is done is not done again. Returns its result.

    root: where studies live; None: `studies` in the folder of runs. seeds: confirmation seeds in place of the tier's;
    a single one settles no claim and is refused unless `exploratory`. Raises StudyError (the plan), ExecutorError
    (the machine), both with everything kept that is finished.
    """
    say = on_stage or (lambda text: None)
    say("planning")
    plan = make_plan(
        study, tier, seeds=seeds, exploratory=exploratory, on_arm=lambda name: say(f"looking at arm {name}")
    )
    folder = StudyFolder(Path(root if root is not None else studies_root()) / plan.name)
    require_source(folder)
    folder.register(stamped(plan))
    folder.reopen()
    folder.event("start", pid=os.getpid())
    with executor:
        say("tuning the learning rate of each arm")
        grid = _tune(plan, folder, executor, on_change)
        rates = {arm.name: best_rate(folder, arm.name, grid)[0] for arm in study.arms}
        folder.event("tuned", lrs=grid, chosen=rates)
        say("confirming with fresh seeds")
        jobs = [
            make_job(plan, arm.name, "confirm", rates[arm.name], seed, study.measures)
            for seed in range(plan.seeds)
            for arm in study.arms
        ]
        jobs += [
            make_job(plan, study.control, "aa", rates[study.control], aa_seed(index)) for index in range(plan.seeds)
        ]
        executor.run(folder, jobs, on_change)
    if not folder.complete:
        folder.event("complete")
    result = read_results(folder)
    result.write(folder)
    return result


def stamped(plan: Plan) -> dict[str, Any]:
    """The plan's registration with what is true at this moment: time, commit, versions. Not part of its hash."""
    from lab.training.provenance import origin

    return {**plan.registration, "registered": origin()}


def make_job(plan: Plan, arm: str, phase: Phase, lr: float, seed: int, measures: tuple[str, ...] = ()) -> Job:
    """The job of one run of an arm."""
    config = plan.study.config(plan.study.arm(arm), plan.tier, lr=lr, seed=seed)
    return Job.make(arm, phase, lr, seed, config.to_dict(), measures)


def _tune(plan: Plan, folder: StudyFolder, executor: Executor, on_change: OnChange | None) -> list[float]:
    """Run the grid, and let it grow for all arms where one's best rate lies on its edge; returns the whole grid."""
    grid = list(plan.tier.lrs)
    if len(grid) == 1:
        return grid
    for extension in range(plan.tier.extensions + 1):
        jobs = [
            make_job(plan, arm.name, "tune", lr, tuning_seed(index))
            for index in range(plan.tier.tuning_seeds)
            for lr in grid
            for arm in plan.study.arms
        ]
        executor.run(folder, jobs, on_change)
        if extension == plan.tier.extensions:
            break
        edges = {best_rate(folder, arm.name, grid)[1] for arm in plan.study.arms}
        wider = widen(grid, edges)
        if wider == grid:
            break
        grid = wider
    return grid


def widen(grid: list[float], edges: set[str]) -> list[float]:
    """A log grid with one more rate at each side in `edges` ("low", "high"), at the distance of its neighbours."""
    wider = list(grid)
    if "low" in edges:
        wider.insert(0, float(f"{grid[0] * grid[0] / grid[1]:.3g}"))
    if "high" in edges:
        wider.append(float(f"{grid[-1] * grid[-1] / grid[-2]:.3g}"))
    return wider
