"""residlab study run | plan | report | list: settle a question with arms tuned alike and paired seeds."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import tyro

if TYPE_CHECKING:
    from lab.studies import Plan, Progress, StudyFolder, StudyResult

LINE_SECONDS = 15.0


@dataclass(frozen=True)
class StudyOptions:
    """Settle a question: does this design choice matter?

    run: do the study, or go on with it; what is done is not done again. plan: what it would cost, nothing is run.
    report: write the report of what there is. list: the studies there are, and those that were begun.
    """

    what: tyro.conf.Positional[Literal["run", "plan", "report", "list"]]
    """What to do."""
    name: tyro.conf.Positional[str | None] = None
    """A study of ours (norm_placement), a Python file that sets STUDY, or, for report, a study's folder."""
    tier: str = "small"
    """How much is spent: smoke (under two minutes), small (about half an hour on two cores), full."""
    executor: Literal["local", "ray"] = "local"
    """Where the runs are made: processes of this machine, or tasks of a Ray cluster."""
    address: str | None = None
    """The Ray cluster's address, auto for the one this machine belongs to; by default one on this machine."""
    workers: int | None = None
    """Runs at a time; by default one a core."""
    seeds: int | None = None
    """Confirmation seeds in place of the tier's: 2 at least, 6 for a verdict, better 8."""
    exploratory: bool = False
    """Run with a single seed, too: nothing is claimed then."""
    root: Path | None = None
    """Where studies live; by default studies in RESIDLAB_RUNS, or ./runs/studies."""


def study(options: StudyOptions) -> int:
    """Do what was asked."""
    if options.what == "list":
        return _list(options)
    if options.name is None:
        from lab.studies import study_names

        raise ValueError(f"Which study? residlab study {options.what} NAME; there are {', '.join(study_names())}.")
    return {"run": _run, "plan": _plan, "report": _report}[options.what](options)


def _run(options: StudyOptions) -> int:
    from lab.studies import ExecutorError, StudyFolder, find_study, make_executor, run_study, studies_root
    from lab.studies.execute import disk_full, reason
    from lab.studies.report import write_report

    chosen = find_study(str(options.name))
    folder = StudyFolder((options.root or studies_root()) / f"{chosen.name}-{chosen.tier(options.tier).name}")
    try:
        executor = make_executor(options.executor, workers=options.workers, address=options.address)
        with _Live(folder) as live:
            result = run_study(
                chosen, options.tier, executor=executor, root=options.root, seeds=options.seeds,
                exploratory=options.exploratory, on_stage=live.stage, on_change=live.change,
            )  # fmt: skip
        write_report(folder)
    except ExecutorError as problem:
        raise ValueError(f"{problem} Go on: {_again(options)}") from None
    except KeyboardInterrupt:
        print(f"\nStopped; the runs are kept. Go on: {_again(options)}", file=sys.stderr)
        raise
    except OSError as problem:
        if not disk_full(problem):
            raise
        raise ValueError(f"Stopped: {reason(problem)}. Finished runs are kept. Go on: {_again(options)}") from None
    _print_result(result)
    print(f"Report: {folder.path / 'report.html'}")
    return 0


def _again(options: StudyOptions) -> str:
    """The command that goes on with this study."""
    words = ["residlab", "study", "run", str(options.name), "--tier", options.tier]
    plain = StudyOptions("run")
    for name in ("executor", "address", "workers", "seeds", "root"):
        if getattr(options, name) != getattr(plain, name):
            words += [f"--{name}", str(getattr(options, name))]
    words += ["--exploratory"] * options.exploratory
    return shlex.join(words)


def _plan(options: StudyOptions) -> int:
    from lab.studies import find_study, make_plan

    chosen = find_study(str(options.name))
    _print_plan(make_plan(chosen, options.tier, seeds=options.seeds, exploratory=options.exploratory))
    return 0


def _report(options: StudyOptions) -> int:
    from lab.studies import StudyFolder, find_study, studies_root
    from lab.studies.report import write_report

    path = Path(str(options.name))
    if not StudyFolder(path).registered:
        chosen = find_study(str(options.name))
        path = (options.root or studies_root()) / f"{chosen.name}-{chosen.tier(options.tier).name}"
    folder = StudyFolder(path)
    result = write_report(folder)
    _print_result(result)
    for file in ("report.html", "report.md", "results.csv"):
        print(folder.path / file)
    return 0


def _list(options: StudyOptions) -> int:
    from lab.studies import find_study, list_studies, studies_root, study_names

    for name in study_names():
        print(f"{name:<16} {find_study(name).question}")
    begun = list_studies(options.root or studies_root())
    for folder in begun:
        print(f"{folder.path}  {_state(folder)}")
    return 0


def _state(folder: StudyFolder) -> str:
    """How far a study is; a damaged one does not hide the others."""
    try:
        _ = folder.registration
        if not (jobs := folder.jobs()) and (folder.path / "report.md").is_file():
            return "only its report is here"
        return "complete" if folder.complete else f"{len(folder.outcomes())} of {len(jobs)} runs so far"
    except (ValueError, OSError) as problem:
        return str(problem)


class _Live:
    """What is going on: a live table in a terminal, a line now and then elsewhere."""

    def __init__(self, folder: StudyFolder):
        self.folder = folder
        self._stage, self._last, self._began = "", 0.0, time.monotonic()
        self._at_start: int | None = None
        self._seen: dict[str, tuple[float, int]] = {}  # when a run was first seen training, and at which step
        self._live: Any = None

    def __enter__(self) -> _Live:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, text: str) -> None:
        self._stage, self._at_start = text, None
        if self._live is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._live.update(text)

    def change(self, folder: StudyFolder, progress: Progress) -> None:
        now = time.monotonic()
        if self._at_start is None:
            self._at_start, self._began = progress.done, now
        if self._live is not None:
            self._live.update(self._table(folder, progress, now))
        elif now - self._last >= LINE_SECONDS:
            self._last = now
            print(f"{progress.done} of {progress.total} runs{self._left(progress, now)}", file=sys.stderr, flush=True)

    def _left(self, progress: Progress, now: float) -> str:
        made = progress.done - (self._at_start or 0)
        if not made:
            return ""
        seconds = (progress.total - progress.done) * (now - self._began) / made
        return f", {_span(seconds)} left"

    def _run_left(self, job: str, step: int, steps: int, now: float) -> str:
        began, first = self._seen.setdefault(job, (now, step))
        return _span((steps - step) * (now - began) / (step - first)) if step > first else ""

    def _table(self, folder: StudyFolder, progress: Progress, now: float) -> Any:
        from rich.table import Table

        table = Table(title=f"{self._stage}: {progress.done} of {progress.total} runs{self._left(progress, now)}")
        for heading in ("arm", "learning rate", "seed"):
            table.add_column(heading)
        for heading in ("step", "left"):
            table.add_column(heading, justify="right")
        for job in progress.running:
            run = folder.run(job)
            status = run.status() if run.exists() else None
            if status is None or status.state == "queued":
                step, left = "starting", ""
            elif status.state == "running":
                step = f"{status.step}/{status.max_steps}"
                left = self._run_left(job.id, status.step, status.max_steps, now)
            else:
                step, left = f"{status.state}, being measured", ""
            table.add_row(job.arm, f"{job.lr:g}", str(job.seed), step, left)
        return table


def _span(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _print_plan(plan: Plan) -> None:
    from rich.table import Table

    from lab.commands.console import console

    table = Table(box=None, pad_edge=False)
    table.add_column("arm", no_wrap=True)
    for heading in ("params", "tokens", "tokens a param", "GFLOPs", "epochs", "vocab", "est. min a run"):
        table.add_column(heading, justify="right")
    for row in plan.budgets:
        table.add_row(
            row.arm, f"{row.parameters:,}", f"{row.tokens:,}", f"{row.tokens_per_parameter:.1f}",
            f"{row.flops / 1e9:,.0f}", f"{row.epochs:.2f}", f"{row.d_vocab:,}", f"{row.minutes:.2f}",
        )  # fmt: skip
    out = console()
    out.print(plan.study.question)
    out.print(table)
    out.print("est. min: estimated from a few steps of each arm, for one core of this machine")
    out.print(
        f"{len(plan.budgets)} arms x ({len(plan.tier.lrs)} learning rates x {plan.tier.tuning_seeds} seeds + "
        f"{plan.seeds} seeds) + {plan.seeds} A/A = {plan.runs} runs, about {plan.minutes:.0f} minutes of one core"
    )
    out.print(f"Registration {str(plan.registration['sha256'])[:12]}")


def _print_result(result: StudyResult) -> None:
    print(result.study.question)
    if not result.complete:
        print("This study is not finished: what follows is what there is.")
    for arm in result.arms:
        if arm.mean is not None:
            sd = "" if arm.sd is None else f" (sd {arm.sd:.4f})"
            lr = "" if arm.lr is None else f"  lr {arm.lr:g}"
            lost = f"  diverged {arm.diverged} of {arm.runs}" if arm.diverged else ""
            print(f"  {arm.name:<22} {arm.mean:.4f}{sd}, n = {len(arm.losses)}{lr}{lost}")
    for comparison in result.comparisons:
        print(comparison.sentence())
