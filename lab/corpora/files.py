"""A text file, a folder of text files, or a pasted text as a corpus: UTF-8, read whole, nothing guessed."""

from __future__ import annotations

import codecs
import shlex
from pathlib import Path

from lab.corpora.base import Corpus, CorpusInfo, split_by_position

MAX_BYTES = 512 * 1024 * 1024
TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", ".tex", ".csv", ".tsv", ".json", ".jsonl", ".html", ".xml", ".py")
_OTHER_ENCODINGS = ("gb18030", "big5", "shift_jis", "euc_kr", "cp1251", "cp1252")
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32-LE",
    codecs.BOM_UTF32_BE: "UTF-32-BE",
    codecs.BOM_UTF16_LE: "UTF-16-LE",
    codecs.BOM_UTF16_BE: "UTF-16-BE",
}


def open_path(path: str | Path, size: int | None = None) -> Corpus:
    """The text file at `path`, or every text file below the folder, in the order of their relative paths.

    `size` keeps the first so many characters. Splits 90/10 by position. ValueError in one sentence for
    a file that is empty, binary, in another encoding, or beyond MAX_BYTES.
    """
    path = Path(path).expanduser()
    ends: tuple[int, ...] = ()
    if path.is_dir():
        text, notes, ends = _read_folder(path, size)
    elif path.is_file():
        text, notes = read_text(path, size)
    else:
        raise ValueError(f"there is no file or folder {path}; see that the path is right")
    return text_corpus(text, name=path.name or str(path), source=str(path), notes=tuple(notes), document_ends=ends)


def text_corpus(
    text: str,
    *,
    name: str = "pasted text",
    source: str = "pasted",
    notes: tuple[str, ...] = (),
    document_ends: tuple[int, ...] = (),
) -> Corpus:
    """A corpus of `text` as it stands. ValueError when it is empty or only white space.

    document_ends: where the documents that it is made of end, in characters; none: it is taken as one piece.
    """
    if not text.strip():
        what = "is empty" if not text else f"holds only white space ({len(text)} characters)"
        raise ValueError(f"the text of {name!r} {what}; there is nothing to learn from. Give some text")
    info = CorpusInfo(
        name=name,
        kind="text",
        title={"en": name, "zh": name},
        description={"en": f"Your own text: {source}.", "zh": f"您自己的文本：{source}。"},
        licence="unknown (your own file)",
        source=source,
    )
    train, validation = split_by_position(text)
    return Corpus(info=info, train=train, validation=validation, notes=notes, document_ends=document_ends)


def read_text(path: Path, size: int | None = None) -> tuple[str, list[str]]:
    """(text, notes) of one file; see open_path."""
    try:
        total = path.stat().st_size
        limit = MAX_BYTES if size is None else 4 * size + 3  # no UTF-8 character is longer than 4 bytes
        if size is None and total > MAX_BYTES:
            raise ValueError(
                f"{path} has {total:,} bytes; at most {MAX_BYTES:,} are read into memory. "
                f"Give a size in characters to use its beginning, or cut the file"
            )
        with path.open("rb") as file:
            raw = file.read(limit)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    if not raw:
        raise ValueError(f"{path} is empty (0 bytes); there is nothing to learn from. Give a file with text in it")
    notes = []
    if raw.startswith(codecs.BOM_UTF8):
        raw = raw[len(codecs.BOM_UTF8) :]
        notes.append(f"{path.name}: the byte-order mark at its start was dropped")
    text = _decode(raw, path, cut_short=len(raw) < total)
    returns = text.count("\r")
    if returns:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        notes.append(f"{path.name}: {returns:,} carriage returns were turned into plain line breaks")
    if size is not None and len(text) > size:
        text = text[:size]
        notes.append(f"{path.name}: only the first {size:,} characters are used")
    if not text.strip():
        raise ValueError(f"{path} holds only white space ({len(text):,} characters). Give a file with text in it")
    return text, notes


def _decode(raw: bytes, path: Path, cut_short: bool) -> str:
    for mark, encoding in _WIDE_MARKS.items():
        if raw.startswith(mark):
            raise ValueError(_convert(path, f"is {encoding} (it starts with that byte-order mark)", encoding))
    zeros = raw[:8192].count(0)
    if zeros:
        even, odd = raw[:8192:2].count(0), raw[1:8192:2].count(0)
        if zeros > len(raw[:8192]) // 4 and min(even, odd) * 20 < max(even, odd):
            encoding = "UTF-16-LE" if odd > even else "UTF-16-BE"
            raise ValueError(_convert(path, f"looks like {encoding}, not UTF-8", encoding))
        raise ValueError(
            f"{path} is not a text file: {zeros:,} of its first {min(len(raw), 8192):,} bytes are zero. "
            f"Give a UTF-8 text file"
        )
    try:
        # a file read only in part may end inside a character: that is no fault of the file
        return codecs.getincrementaldecoder("utf-8")().decode(raw, final=not cut_short)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        fitting = [e for e in _by_likelihood(raw) if _decodes(raw, e, cut_short)]
        guess = f"; it could be {' or '.join(fitting[:3])}" if fitting else ""
        what = f"is not UTF-8: byte 0x{raw[error.start]:02X} at offset {error.start:,} (line {line:,}){guess}"
        raise ValueError(_convert(path, what, fitting[0] if fitting else "THE-ENCODING")) from None


def _by_likelihood(raw: bytes) -> tuple[str, ...]:
    """Every byte is a letter in both cp1251 and cp1252; but Cyrillic is mostly high bytes, Western text ASCII."""
    high = sum(byte >= 0x80 for byte in raw)
    letters = high + sum(chr(byte).isalpha() for byte in raw if byte < 0x80)
    return _OTHER_ENCODINGS if high * 2 > letters else (*_OTHER_ENCODINGS[:-2], *_OTHER_ENCODINGS[:-3:-1])


def _decodes(raw: bytes, encoding: str, cut_short: bool) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(raw, final=not cut_short)
    except UnicodeDecodeError:
        return False
    return True


def _convert(path: Path, what: str, encoding: str) -> str:
    return f"{path} {what}. Convert it first: iconv -f {encoding.upper()} -t UTF-8 {shlex.quote(str(path))} > utf8.txt"


def _read_folder(folder: Path, size: int | None) -> tuple[str, list[str], tuple[int, ...]]:
    """(text, notes, where each file ends in the text); a file that is cut short has no end."""
    files = sorted(
        (p for p in folder.rglob("*") if p.suffix.lower() in TEXT_SUFFIXES and p.is_file() and _shown(p, folder)),
        key=lambda p: p.relative_to(folder).as_posix(),
    )
    if not files:
        others = sorted(p.name for p in folder.iterdir())[:3]
        found = f"it holds {', '.join(others)}" if others else "it is empty"
        raise ValueError(f"{folder} has no text file ({', '.join(TEXT_SUFFIXES)}); {found}")
    total = sum(p.stat().st_size for p in files)
    if size is None and total > MAX_BYTES:
        raise ValueError(
            f"the {len(files):,} text files of {folder} have {total:,} bytes; at most {MAX_BYTES:,} are read "
            f"into memory. Give a size in characters to use the first of them"
        )
    parts: list[str] = []
    notes: list[str] = []
    ends: list[int] = []
    have = 0
    for path in files:
        if path.stat().st_size == 0:
            notes.append(f"{path.relative_to(folder)}: empty, left out")
            continue
        left = None if size is None else size - have
        if left is not None and left <= 0:
            notes.append(f"only the first {size:,} characters are used")
            break
        text, said = read_text(path, left)
        is_whole = left is None or len(text) < left or path.stat().st_size <= len(text.encode("utf-8"))
        text += "" if text.endswith("\n") else "\n"
        parts.append(text)
        notes += said
        have += len(text)
        ends += [have] if is_whole else []
    text = "".join(parts)
    if not text.strip():
        raise ValueError(f"the {len(files):,} text files of {folder} are all empty. Put text into one")
    if size is not None:
        text = text[:size]
    return text, notes, tuple(end for end in ends if end <= len(text))


def _shown(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)
