"""Train a run from its configuration, or take one up again, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lab.runs import Run, RunLock, RunNotFoundError, require_resumable, write_json
from lab.training.config import RunConfig
from lab.training.data import TrainingData, prepare_data
from lab.training.distributed import World, world
from lab.training.footprint import plan, require_memory
from lab.training.recipe import build_run_config
from lab.training.sampling import prompt_ids

if TYPE_CHECKING:
    from lab.corpora import Corpus
    from lab.tokenizers import OnProgress, Tokenizer
    from lab.training.trainer import OnStep


def train(
    config: RunConfig | str,
    *,
    run: str | os.PathLike[str] | Run,
    on_step: OnStep | None = None,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[str], None] | None = None,
    corpus: Corpus | None = None,
    **options: Any,
) -> Run:
    """Train a new run to its end, in this process, and return it.

    config:  a RunConfig, or a corpus (a built-in name, a file, a folder) with the `options` of
    `build_run_config`:
             train("stories", preset="nano", recipe="fast", steps=300, run="runs/a").
    run:     the folder to make; one that holds a run already is refused, never overwritten.
    on_step: called with each line of metrics (a mapping with step, train_loss, val_loss, seconds, ...).
    on_progress: called while a long text is read and encoded, with what is done and which share of it is.
    on_plan: called before the first step with what it will take: parameters, tokens, arithmetic, memory.
    corpus:  an open corpus to use instead of opening `config.data.corpus`.

    Everything that can be wrong with the data is found before the folder is made. Whether it ended `done`,
    `stopped` or `diverged` is in `run.status()`. Raises ValueError (configuration, data), RunExistsError,
    RunBusyError, OSError.
    """
    if isinstance(config, str):
        config = build_run_config(config, **options)
    elif options:
        raise TypeError(f"{', '.join(options)} belong in the RunConfig that was given")
    folder = run if isinstance(run, Run) else Run(run)
    with world(config.training.device) as here:
        tokenizer = _source_tokenizer(config)
        data = prepare_data(config, tokenizer=tokenizer, corpus=corpus, on_progress=on_progress)
        resolved = resolve(config, data, here)
        if here.main:
            require_memory(resolved, processes=here.size)
            if on_plan is not None:
                on_plan(plan(resolved))
            folder.create(resolved.to_dict())
        here.wait()
        execute(folder, data=data, here=here, on_step=on_step)
    return folder


def _source_tokenizer(config: RunConfig) -> Tokenizer | None:
    """The tokenizer of the weights a run starts from, whose model must be the run's; None for fresh weights."""
    reference = config.training.from_weights
    if reference is None:
        return None
    from lab.training.initial import open_source, require_same_model

    source = open_source(reference)
    if config.data.tokenizer != "auto":
        raise ValueError(
            f"weights of {reference} come with a tokenizer of their own; leave data.tokenizer at 'auto', not "
            f"{config.data.tokenizer!r}"
        )
    require_same_model(source.config, config.model.replace(d_vocab=source.config.d_vocab), reference)
    return source.tokenizer


def resume(run: str | os.PathLike[str] | Run, *, on_step: OnStep | None = None, corpus: Corpus | None = None) -> Run:
    """Take a run up again at its newest checkpoint, in this process; exact, as if it had never ended.

    corpus: the open corpus, for a run that was trained on one instead of on a name or a file.

    Raises ValueError for a run that is done or diverged or whose corpus has changed, RunBusyError for one in
    training.
    """
    folder = run if isinstance(run, Run) else Run(run)
    if not folder.exists():
        raise RunNotFoundError.at(folder.path)
    require_resumable(folder)
    with world(RunConfig.from_dict(folder.config).training.device) as here:
        execute(folder, here=here, on_step=on_step, corpus=corpus, clear=True)
    return folder


def resolve(config: RunConfig, data: TrainingData, here: World) -> RunConfig:
    """The configuration with nothing left open: vocabulary, device and precision. Raises ValueError."""
    from lab.training.precision import resolve_device, resolve_precision

    device = resolve_device(config.training.device)
    precision = resolve_precision(config.training, config.model, device)
    if config.training.batch_size % here.size:
        raise ValueError(
            f"batch_size {config.training.batch_size} does not divide among {here.size} processes; "
            f"use a multiple of {here.size}"
        )
    if config.training.sample_every:
        prompt_ids(data, config.training, config.model.n_ctx)  # an unreadable prompt is told now, not at step 250
    return config.replace(
        model=config.model.replace(d_vocab=data.tokenizer.vocab_size),
        training=config.training.replace(device=device.type, precision=precision),
    )


def execute(
    run: Run,
    *,
    data: TrainingData | None = None,
    corpus: Corpus | None = None,
    here: World | None = None,
    on_step: OnStep | None = None,
    lock: RunLock | None = None,
    clear: bool = False,
) -> str:
    """Train a run folder that has its config.json, from where it is, and return the state it ended in.

    lock: the folder's lock, if the caller holds it. clear: forget pause and stop requests made before now.
    Whatever goes wrong is written to status.json before it is raised.
    """
    here = here or World()
    if not here.main:
        return _trainer(run, data, corpus, here, on_step).train()
    with lock or run.lock(), _failures_noted(run), _threads_restored():
        if clear:
            run.clear_requests()
        return _trainer(run, data, corpus, here, on_step).train()


def _trainer(run: Run, data: TrainingData | None, corpus: Corpus | None, here: World, on_step: OnStep | None) -> Any:
    """Everything that is read before the first step; rank 0 writes down what it found."""
    import torch

    from lab.training.precision import resolve_device
    from lab.training.provenance import provenance
    from lab.training.restore import require_same_training
    from lab.training.trainer import Trainer

    config = RunConfig.from_dict(run.config)
    tokenizer_path = run.path / "tokenizer.json"
    if data is None:
        tokenizer = run.tokenizer() if tokenizer_path.is_file() else None
        data = prepare_data(config, tokenizer=tokenizer, corpus=corpus)
    resolved = resolve(config, data, here)
    device = here.device(resolve_device(resolved.training.device))
    threads = here.threads(resolved.training.threads)
    torch.set_num_threads(threads)
    require_same_training(run, resolved, data.hashes)  # before anything is written down
    if here.main:
        if resolved != config:
            write_json(run.path / "config.json", resolved.to_dict())
        if not tokenizer_path.is_file():
            write_json(tokenizer_path, data.tokenizer.to_dict())
        if not run.provenance:
            record = provenance(data, device, threads, here.size)
            write_json(run.path / "provenance.json", record)
    here.wait()
    return Trainer(run, resolved, data, device, here, on_step)


@contextmanager
def _threads_restored() -> Iterator[None]:
    """A run sets torch's number of threads; whoever called it gets their own back."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _failures_noted(run: Run) -> Iterator[None]:
    """Write an exception's reason to status.json and events.jsonl, as far as the disk allows, and raise it."""
    import contextlib

    try:
        yield
    except BaseException as error:
        if not run.exists():
            raise OSError(
                f"{run.path} was moved, renamed or deleted while it was being trained; what is left of it can be taken "
                "up where it lies now (residlab train --resume)"
            ) from error
        status = run.status()
        stopped = isinstance(error, KeyboardInterrupt | SystemExit)
        message = "interrupted before it could save" if stopped else f"{error}" or type(error).__name__
        if not isinstance(error, ValueError | OSError | KeyboardInterrupt | SystemExit):
            message = f"{type(error).__name__}: {message}"
        with contextlib.suppress(OSError):
            run.write_status("stopped" if stopped else "failed", status.step, status.max_steps, error=message)
            run.event("stop" if stopped else "failed", step=status.step, error=message)
        raise
