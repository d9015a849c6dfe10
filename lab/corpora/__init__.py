"""Corpora: built in, from a file or a folder, or pasted; each with a licence, a source and a hash.

Built-in ones need no network except `shakespeare`. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import warnings
from pathlib import Path

from lab.corpora.base import SPLITS, Corpus, CorpusInfo, Split
from lab.corpora.files import open_path, text_corpus
from lab.corpora.labels import GoldLabels, LabelLayer
from lab.corpora.shakespeare import CorpusUnavailable
from lab.tokenizers import OnProgress

__all__ = [
    "SPLITS",
    "Corpus",
    "CorpusInfo",
    "CorpusUnavailable",
    "GoldLabels",
    "LabelLayer",
    "Split",
    "corpus_infos",
    "corpus_names",
    "open_corpus",
    "text_corpus",
]

LARGEST_SIZE = 1_000_000_000


def corpus_infos() -> tuple[CorpusInfo, ...]:
    """The built-in corpora, the one to start with first."""
    from lab.corpora import python, shakespeare, stories, tasks

    return (stories.INFO, shakespeare.INFO, python.INFO, *tasks.INFOS)


def corpus_names() -> tuple[str, ...]:
    """Names of the built-in corpora."""
    return tuple(info.name for info in corpus_infos())


def open_corpus(
    spec: str | Path, *, seed: int = 0, size: int | None = None, on_progress: OnProgress | None = None
) -> Corpus:
    """The corpus that `spec` names: a built-in name, or the path of a text file or a folder of them.

    seed: chooses what the generated corpora generate; the others have no use for it.
    size: characters of text, tokens of a task; None for the corpus' own default (a file: all of it).
    on_progress: hears what is being read and which share of it has been, for long files.
    A built-in name is the built-in corpus even where a file of that name lies beside; a warning says so, and that
    ./NAME is the file.
    ValueError, in one sentence, for a name or path that is not there and for a file that is no UTF-8 text.
    """
    if size is not None and size < 1:
        raise ValueError(f"corpus size must be at least 1, not {size}")
    if size is not None and size > LARGEST_SIZE:
        raise ValueError(f"corpus size is {size}; at most {LARGEST_SIZE:,} characters or tokens fit into memory")
    if isinstance(spec, str) and spec in corpus_names():
        if Path(spec).exists():
            warnings.warn(
                f"{spec!r} is the built-in corpus; the file or folder of that name here is ./{spec}", stacklevel=2
            )
        return _open_builtin(spec, seed, size)
    path = Path(spec).expanduser()
    if str(spec).strip() and path.exists():
        return open_path(path, size, on_progress)
    near = difflib.get_close_matches(str(spec), corpus_names(), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"{str(spec)!r} is neither a built-in corpus ({', '.join(corpus_names())}) nor a file or folder.{hint}"
    )


def _open_builtin(name: str, seed: int, size: int | None) -> Corpus:
    from lab.corpora import python, shakespeare, stories, tasks

    if name == stories.INFO.name:
        return stories.open_stories(seed, size)
    if name == shakespeare.INFO.name:
        return shakespeare.open_shakespeare(size)
    if name == python.INFO.name:
        return python.open_python(size)
    return tasks.open_task(name, seed, size)
