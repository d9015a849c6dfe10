"""`python`: source of the running interpreter's standard library, with token classes from `tokenize`."""

from __future__ import annotations

import ast
import builtins
import hashlib
import io
import keyword
import platform
import sysconfig
import tokenize
from functools import partial
from pathlib import Path

import numpy as np

from lab.corpora.base import Corpus, CorpusInfo, Split, split_by_position
from lab.corpora.labels import GoldLabels, LabelLayer

TOKEN_CLASSES = ("keyword", "builtin", "name", "number", "string", "comment", "operator", "space")

DEFAULT_SIZE = 1_500_000  # characters

INFO = CorpusInfo(
    name="python",
    kind="text",
    title={"en": "Python source", "zh": "Python 源代码"},
    description={
        "en": "Source files of this Python's own standard library, each token labelled as keyword, name, "
        "string, comment and so on by Python's tokenizer.",
        "zh": "本机 Python 标准库的源文件；每个词元由 Python 自带的分词器标注为关键字、名称、字符串、注释等。",
    },
    licence="PSF-2.0",
    source=f"standard library of Python {platform.python_version()}",
    label_layers=("token",),
    default_size=DEFAULT_SIZE,
)

# Tests, vendored wheels, generated tables and Tk programs: little of it reads like code someone wrote.
_LEFT_OUT = frozenset(
    ("test", "tests", "idlelib", "lib2to3", "ensurepip", "site-packages", "dist-packages", "pydoc_data", "tkinter",
     "turtledemo", "encodings", "__pycache__", "_pyrepl", "__phello__")
)  # fmt: skip
_LONGEST_FILE = 150_000  # bytes; a single huge module would crowd out the others


def library_files(folder: Path) -> list[Path]:
    """The source files used, in an order that depends on their names alone and mixes the packages."""
    found = [
        p
        for p in folder.rglob("*.py")
        if not _LEFT_OUT & set(p.relative_to(folder).parts) and 0 < p.stat().st_size <= _LONGEST_FILE
    ]
    return sorted(found, key=lambda p: hashlib.sha256(p.relative_to(folder).as_posix().encode()).digest())


def open_python(size: int | None = None, folder: Path | None = None) -> Corpus:
    """About `size` characters of library source (whole files, at least one); split 90/10 by position.

    `folder` is the library to read, by default this interpreter's.
    """
    target = DEFAULT_SIZE if size is None else size
    folder = Path(sysconfig.get_paths()["stdlib"]) if folder is None else folder
    parts: list[str] = []
    length = 0
    for path in library_files(folder):
        if length >= target:
            break
        text = _source(path)
        if text is None:
            continue
        parts.append(text if text.endswith("\n") else text + "\n")
        length += len(parts[-1])
    if not parts:
        raise ValueError(
            f"this Python keeps no library source at {folder}; name a folder of .py files as the corpus instead"
        )
    text = "".join(parts)
    train, validation = split_by_position(text)
    return Corpus(
        info=INFO,
        train=train,
        validation=validation,
        default_tokenizer_spec="byte",
        _make_labels=partial(_labels, tuple(parts), len(train)),
    )


def _source(path: Path) -> str | None:
    """The text of a source file as the compiler reads it; None where it is not valid."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
        ast.parse(text)  # what parses also has tokens
    except (OSError, SyntaxError, ValueError):
        return None
    return text


def classify(source: str) -> tuple[np.ndarray, np.ndarray]:
    """(ends, codes), each [unit]: stretches that tile `source`, and their places in TOKEN_CLASSES.

    A stretch of "space" is whatever lies between tokens, line breaks and indentation included.
    """
    line_starts = _line_starts(source)
    ends: list[int] = []
    codes: list[int] = []
    position = 0

    def upto(end: int, code: int) -> None:
        nonlocal position
        if end > position:
            ends.append(end)
            codes.append(code)
            position = end

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        code = _class_of(token)
        if code is None:
            continue
        upto(line_starts[token.start[0] - 1] + token.start[1], _SPACE)
        upto(line_starts[token.end[0] - 1] + token.end[1], code)
    upto(len(source), _SPACE)
    return np.array(ends, dtype=np.int64), np.array(codes, dtype=np.int16)


def _line_starts(source: str) -> list[int]:
    # tokenize counts lines as readline does: at "\n" alone, where str.splitlines cuts at form feeds too
    starts = [0]
    at = source.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = source.find("\n", at + 1)
    starts.append(len(source))
    return starts


_KEYWORD, _BUILTIN, _NAME, _NUMBER, _STRING, _COMMENT, _OPERATOR, _SPACE = range(len(TOKEN_CLASSES))
_BUILTIN_NAMES = frozenset(n for n in dir(builtins) if not n.startswith("_"))
_BY_TYPE = {
    tokenize.NUMBER: _NUMBER,
    tokenize.STRING: _STRING,
    tokenize.COMMENT: _COMMENT,
    tokenize.OP: _OPERATOR,
    # f-strings come in parts from Python 3.12 on
    **{
        getattr(tokenize, name): _STRING
        for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END", "TSTRING_START", "TSTRING_MIDDLE", "TSTRING_END")
        if hasattr(tokenize, name)
    },
}


def _class_of(token: tokenize.TokenInfo) -> int | None:
    if token.type == tokenize.NAME:
        if keyword.iskeyword(token.string):
            return _KEYWORD
        return _BUILTIN if token.string in _BUILTIN_NAMES else _NAME
    return _BY_TYPE.get(token.type)


def _labels(files: tuple[str, ...], train_length: int, split: Split) -> GoldLabels:
    all_ends, all_codes, documents = [], [], []
    offset = 0
    for number, source in enumerate(files):
        ends, codes = classify(source)
        all_ends.append(ends + offset)
        all_codes.append(codes)
        documents.append(np.full(len(ends), number, dtype=np.int32))
        offset += len(source)
    ends = np.concatenate(all_ends)
    starts = np.concatenate(([0], ends[:-1]))
    low, high = (0, train_length) if split == "train" else (train_length, offset)
    inside = (starts < high) & (ends > low)  # the unit that the cut divides is in both, clipped
    return GoldLabels(
        starts=np.maximum(starts[inside], low) - low,
        ends=np.minimum(ends[inside], high) - low,
        document=np.concatenate(documents)[inside],
        layers={
            "token": LabelLayer("token", "class of the Python token", TOKEN_CLASSES, np.concatenate(all_codes)[inside])
        },
    )
