"""Experiments on small GPTs: corpora, training, runs on disk, analysis and studies.

The names below load what they need when first used, so `import lab` is light and torch-free.
"""

import importlib

TYPE_CHECKING = False  # as typing's, which would be loaded before the command line hears Ctrl-C
if TYPE_CHECKING:
    from lab.corpora import Corpus, corpus_names, open_corpus
    from lab.models import open_model
    from lab.runs import Run, RunStatus, delete_run, list_runs, resume_training, start_training
    from lab.tokenizers import load_tokenizer, train_tokenizer
    from lab.training import (
        RECIPES,
        DataConfig,
        RunConfig,
        TrainingConfig,
        build_run_config,
        resume,
        train,
    )

_HOME = {
    "Corpus": "lab.corpora",
    "corpus_names": "lab.corpora",
    "open_corpus": "lab.corpora",
    "open_model": "lab.models",
    "Run": "lab.runs",
    "RunStatus": "lab.runs",
    "delete_run": "lab.runs",
    "list_runs": "lab.runs",
    "resume_training": "lab.runs",
    "start_training": "lab.runs",
    "load_tokenizer": "lab.tokenizers",
    "train_tokenizer": "lab.tokenizers",
    "RECIPES": "lab.training",
    "DataConfig": "lab.training",
    "RunConfig": "lab.training",
    "TrainingConfig": "lab.training",
    "build_run_config": "lab.training",
    "resume": "lab.training",
    "train": "lab.training",
}

__all__ = [
    "RECIPES",
    "Corpus",
    "DataConfig",
    "Run",
    "RunConfig",
    "RunStatus",
    "TrainingConfig",
    "build_run_config",
    "corpus_names",
    "delete_run",
    "list_runs",
    "load_tokenizer",
    "open_corpus",
    "open_model",
    "resume",
    "resume_training",
    "start_training",
    "train",
    "train_tokenizer",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
