"""residlab train: a new run, or more of an old one."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from lab.commands.parsing import given, overrides_of
from lab.commands.progress import Progress
from lab.training.config import DataConfig, TrainingConfig
from model.config import GPTConfig

if TYPE_CHECKING:
    from lab.runs import Run
    from lab.training import RunConfig

    ModelOverrides = dict[str, Any]
    DataOverrides = dict[str, Any]
    TrainingOverrides = dict[str, Any]
else:
    ModelOverrides = overrides_of(GPTConfig, leave_out=["d_vocab", "norms_folded", "weights_centered"])
    DataOverrides = overrides_of(DataConfig, leave_out=["corpus"])
    TrainingOverrides = overrides_of(TrainingConfig)

DONE, DIVERGED, FAILED = 0, 3, 2


@dataclass(frozen=True)
class Train:
    """Train a small GPT into a run folder, or go on with one (--resume).

    The preset gives the model's shape, the recipe how it is trained; whatever is typed beside them counts before
    both: --model.n-layers 6, --training.lr 3e-4, --data.tokenizer bpe:4096.
    """

    corpus: str = "stories"
    """A built-in corpus (stories, python, induction, modular-addition, brackets, shakespeare), a text file or a
    folder of text files."""
    preset: str = "nano"
    """The model's shape: nano, small, tinygpt, minigpt, gpt2-small."""
    recipe: str = "fast"
    """How it is trained: fast, textbook, nanogpt."""
    steps: int | None = None
    """Updates of the weights; by default the recipe's."""
    run: Path | None = None
    """The new run's folder; by default one named after corpus, preset and recipe in RESIDLAB_RUNS or ./runs."""
    seed: int = 0
    """Seed of the weights, the dropout and the order of the data."""
    from_weights: str | None = None
    """Begin with the weights of this run, RUN@STEP or model folder, in place of fresh ones: the model is theirs, and
    so is the tokenizer."""
    resume: Path | None = None
    """Go on with this run from its last checkpoint. Takes no other option."""
    quiet: bool = False
    """No progress, only the result."""
    model: Annotated[ModelOverrides, tyro.conf.arg(help="Fields of the model.")] = field(default_factory=dict)
    data: Annotated[DataOverrides, tyro.conf.arg(help="Fields of the data.")] = field(default_factory=dict)
    training: Annotated[TrainingOverrides, tyro.conf.arg(help="Fields of the training.")] = field(default_factory=dict)


def train(options: Train) -> int:
    """Train in this process; returns 0, 3 after a divergence, 130 after Ctrl-C."""
    if options.resume is not None:
        return _resume(options)
    if options.run == Path():
        raise ValueError("--run is the current folder; name one for the run, for example runs/first.")
    str(options.run).encode("utf-8")  # UnicodeEncodeError now, and not when the run's files are written
    config = run_config(options)
    path = options.run or _free_path(config)
    _refuse_existing(path)

    quiet = options.quiet or not _first_process()
    _say_before_the_wait(options.corpus, quiet)

    from lab.training import train as start  # torch from here on

    with Progress(config.training.steps, quiet=quiet) as progress, stopping_on_interrupt(path) as interrupted:
        run = start(config, run=path, on_step=progress, on_progress=progress.preparing, on_plan=progress.plan)
    return _report(run, interrupted)


LONG_TEXT = 20_000_000  # bytes of a file that take a while


def _say_before_the_wait(corpus: str, quiet: bool) -> None:
    path = Path(corpus).expanduser()
    if not quiet and path.is_file() and path.stat().st_size >= LONG_TEXT:
        print(f"reading {path.name}: {path.stat().st_size / 1e6:,.0f} MB", file=sys.stderr, flush=True)


def run_config(options: Train) -> RunConfig:
    """The typed options over the recipe over the preset."""
    from lab.training import build_run_config

    data, model, training = given(options.data), given(options.model), given(options.training)
    if options.from_weights is not None:
        training["from_weights"] = options.from_weights
    if first := training.get("from_weights"):
        from lab.training.initial import model_of

        model = {**model_of(first), **model}
    return build_run_config(
        options.corpus,
        preset=options.preset,
        recipe=options.recipe,
        steps=options.steps,
        seed=options.seed,
        model_overrides=model,
        training_overrides=training,
        **data,
    )


def _resume(options: Train) -> int:
    from lab.runs import find_run

    plain = Train()
    groups = ("model", "data", "training")
    changed = [f"--{group}.*" for group in groups if given(getattr(options, group))]
    others = [f.name for f in fields(Train) if f.name not in ("resume", "quiet", *groups)]
    changed += [f"--{name}" for name in others if getattr(options, name) != getattr(plain, name)]
    if changed:
        raise ValueError(f"--resume goes on with the run as it is, so {', '.join(changed)} cannot be given with it.")
    run = find_run(options.resume or "")
    status = run.status()
    # No process has taken a queued run yet; if one is about to, the folder's lock lets only one of us train.
    if status.active and status.pid is not None:
        if status.state == "paused" or run.requested("pause"):
            run.request_continue()
            print(f"{run.path} was paused at step {status.step}; its process goes on.")
            return DONE
        raise ValueError(f"{run.path} is being trained by process {status.pid}, at step {status.step}.")

    from lab.training import resume  # torch from here on

    quiet = options.quiet or not _first_process()
    with Progress(status.max_steps, quiet=quiet) as progress, stopping_on_interrupt(run.path) as interrupted:
        run = resume(run.path, on_step=progress)
    return _report(run, interrupted)


def _report(run: Run, interrupted: list[int]) -> int:
    status = run.status()
    if not _first_process():
        return {"done": DONE, "diverged": DIVERGED}.get(status.state, INTERRUPTED if interrupted else DONE)
    rows = run.metrics()
    losses = [row for row in rows if row.get("val_loss") is not None]
    best = min(losses, key=lambda row: row["val_loss"], default=None)
    said = f"{run.path}: {status.state} at step {status.step} of {status.max_steps}"
    if best is not None:
        said += f", val {losses[-1]['val_loss']:.4f} nats/token"
        said += f" at step {losses[-1]['step']}" if losses[-1]["step"] != status.step else ""
        said += f" (best {best['val_loss']:.4f} at step {best['step']})" if best is not losses[-1] else ""
    seconds = _seconds(run, status.step, rows)
    if seconds is not None:
        said += f", {f'{seconds / 60:.1f} minutes' if seconds >= 60 else f'{seconds:.0f} s'} of training"
    print(said)
    if status.state == "diverged":
        print(f"{status.error}. Its last good checkpoint stays; start another run with a lower learning rate.")
        return DIVERGED
    if status.resumable:
        print(f"Go on with it: residlab train --resume {run.path}")
    elif status.state == "done":
        print(f'Next: residlab sample {run.path} --prompt "..."   or   residlab explore')
    return INTERRUPTED if interrupted else FAILED if status.state == "failed" else DONE


INTERRUPTED = 130


def _seconds(run: Run, step: int, rows: list[dict[str, Any]]) -> float | None:
    """How long the training took up to this step: of its line of metrics, or its checkpoint; None where neither is."""
    from lab.runs import RunNotFoundError, read_json

    if rows and rows[-1]["step"] == step:
        return rows[-1].get("seconds")
    try:
        return read_json(run.checkpoint_path(step) / "state.json").get("seconds")
    except (RunNotFoundError, OSError, ValueError):
        return None


def _refuse_existing(path: Path) -> None:
    from lab.runs import Run, RunExistsError

    if Run(path).exists() and _first_process():
        raise RunExistsError(
            f"{path} already holds a run: go on with it (residlab train --resume {path}) or name another with --run"
        )


def _free_path(config: RunConfig) -> Path:
    from lab.runs import fresh_run_path, run_path

    corpus = re.sub(r"[^\w.-]+", "-", Path(config.data.corpus).stem).strip("-.") or "corpus"
    stem = f"{corpus}-{config.preset}-{config.recipe}-s{config.training.seed}"
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return run_path(stem)  # a free number could differ from process to process
    return fresh_run_path(stem)


def _first_process() -> bool:
    """Whether this is the process that speaks: the only one, or torchrun's first."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def stopping_on_interrupt(path: Path) -> Iterator[list[int]]:
    """The first Ctrl-C asks the trainer to write a checkpoint and stop; a second one ends it at once.

    Yields a list that holds the signals that came. Before there is a run folder, one Ctrl-C is enough.
    """
    from lab.runs import Run

    came: list[int] = []

    def ask(number: int, frame: Any) -> None:
        came.append(number)
        run = Run(path)
        if len(came) > 1 or not run.exists():
            raise KeyboardInterrupt
        run.request_stop()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)
