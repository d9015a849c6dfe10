"""A text file, a folder of text files, or a pasted text as a corpus: UTF-8, read whole, nothing guessed."""

from __future__ import annotations

import codecs
import json
import os
import shlex
from pathlib import Path
from typing import NoReturn

from lab.corpora.base import Corpus, CorpusInfo, split_by_position
from lab.corpora.encodings import SAMPLE, byte_order_mark, candidates, no_text, seven_bit
from lab.corpora.text import Utf8Text, byte_of_character, count_characters
from lab.tokenizers import OnProgress
from model.pretrained.files import require_regular

MAX_BYTES = 512 * 1024 * 1024
TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", ".tex", ".csv", ".tsv", ".json", ".jsonl", ".html", ".xml", ".py")
TABLE_SUFFIXES = (".parquet", ".arrow")
_BLOCK = 1 << 22  # bytes read at a time
_ICONV = {
    "iso2022_jp": "ISO-2022-JP",
    "iso2022_kr": "ISO-2022-KR",
    "latin-1": "ISO-8859-1",
    "iso8859-2": "ISO-8859-2",
    "euc_jp": "EUC-JP",
    "euc_kr": "EUC-KR",
}


class OnlyWhiteSpace(ValueError):
    """A text file with nothing to learn from; in a folder it is left out, as an empty one is."""


def open_path(path: str | Path, size: int | None = None, on_progress: OnProgress | None = None) -> Corpus:
    """The text file at `path`, or every text file below the folder, in the order of their relative paths.

    `size` keeps the first so many characters. Splits 90/10 by position. ValueError in one sentence for
    a file that is empty, binary, in another encoding, no regular file, or beyond MAX_BYTES, and for a folder below
    which something cannot be read.
    """
    path = Path(path).expanduser()
    ends: tuple[int, ...] = ()
    if path.is_dir():
        raw, notes, ends = _read_folder(path, size, on_progress)
    elif path.exists():
        raw, notes = read_file(path, size, on_progress)
    else:
        raise ValueError(f"there is no file or folder {path}; see that the path is right")
    return Corpus(_info(path.name or str(path), str(path)), Utf8Text.of(raw), notes=tuple(notes), document_ends=ends)


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
    train, validation = split_by_position(text)
    return Corpus(_info(name, source), train, validation, notes=notes, document_ends=document_ends)


def _info(name: str, source: str) -> CorpusInfo:
    return CorpusInfo(
        name=name,
        kind="text",
        title={"en": name, "zh": name},
        description={"en": f"Your own text: {source}.", "zh": f"您自己的文本：{source}。"},
        licence="unknown (your own file)",
        source=source,
    )


def read_file(
    path: Path, size: int | None = None, on_progress: OnProgress | None = None
) -> tuple[bytearray, list[str]]:
    """(UTF-8 bytes with plain line breaks, notes) of one file; see open_path."""
    require_regular(path)
    total = path.stat().st_size
    if size is None and total > MAX_BYTES:
        raise ValueError(
            f"{path} has {total:,} bytes; at most {MAX_BYTES:,} are read into memory. "
            f"Give a size in characters to use its beginning, or cut the file"
        )
    # no UTF-8 character is longer than 4 bytes; a mark at the start has 3
    raw = _read(path, total if size is None else min(total, 4 * size + 7), on_progress)
    if not raw:
        raise ValueError(f"{path} is empty (0 bytes); there is nothing to learn from. Give a file with text in it")
    notes = []
    cut_short = len(raw) < total
    _require_text(raw, path, cut_short)
    if byte_order_mark(raw) is not None:
        del raw[:3]
        notes.append(f"{path.name}: the byte-order mark at its start was dropped")
    returns = raw.count(b"\r")
    if returns:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        notes.append(f"{path.name}: {returns:,} carriage returns were turned into plain line breaks")
    if size is not None:
        end = byte_of_character(raw, size)
        if end < len(raw) or cut_short:
            del raw[end:]
            notes.append(f"{path.name}: only the first {size:,} characters are used")
    if not any(str(raw[at : at + _BLOCK], "utf-8", "ignore").strip() for at in range(0, len(raw), _BLOCK)):
        characters = len(str(raw, "utf-8", "ignore"))
        raise OnlyWhiteSpace(f"{path} holds only white space ({characters:,} characters). Give a file with text in it")
    _refuse_records(raw, path)
    return raw, notes


def _read(path: Path, limit: int, on_progress: OnProgress | None) -> bytearray:
    raw = bytearray(limit)
    view, have = memoryview(raw), 0
    try:
        with path.open("rb") as file:
            while have < limit and (got := file.readinto(view[have : have + _BLOCK])):
                have += got
                if on_progress is not None:
                    on_progress(f"reading {path.name}", have / limit)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    view.release()
    del raw[have:]
    return raw


def _require_text(raw: bytearray, path: Path, cut_short: bool) -> None:
    """Raise ValueError, saying what it is, unless it is UTF-8 text. A file read in part may end inside a character."""
    binary = no_text(raw)
    if binary is not None:
        raise ValueError(f"{path} is {binary}, not a text file. Save the text in it as a plain text file in UTF-8")
    marked = byte_order_mark(raw)
    if marked is not None and marked[0] != "utf-8":
        encoding = marked[0].upper()
        raise ValueError(f"{path} is {encoding} (it starts with that byte-order mark). {_convert(path, encoding)}")
    if 0 in raw[:8192]:
        found = [one for one in candidates(raw) if one.encoding.startswith("utf-")]
        if found and found[0].encoding != "utf-8":
            encoding = found[0].encoding.upper()
            raise ValueError(
                f"{path} looks like {encoding}, not UTF-8 ({found[0].preview!r}). {_convert(path, encoding)}"
            )
        raise ValueError(
            f"{path} is not a text file: {raw[:8192].count(0):,} of its first {min(len(raw), 8192):,} bytes are zero. "
            f"Give a UTF-8 text file"
        )
    seven = seven_bit(bytes(raw[:SAMPLE]))
    if seven is not None:
        name = _ICONV.get(seven, seven.upper())
        raise ValueError(
            f"{path} looks like {name}, not UTF-8 ({candidates(raw)[0].preview!r}). {_convert(path, name)}"
        )
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(raw), _BLOCK):
        pending = len(decoder.getstate()[0])
        last = at + _BLOCK >= len(raw)
        try:
            decoder.decode(raw[at : at + _BLOCK], last and not cut_short)
        except UnicodeDecodeError as error:
            _refuse_encoding(raw, at - pending + error.start, path)


def _refuse_encoding(raw: bytearray, offset: int, path: Path) -> NoReturn:
    what = f"is not UTF-8: byte 0x{raw[offset]:02X} at offset {offset:,} (line {raw.count(10, 0, offset) + 1:,})"
    found = candidates(raw)
    if not found:
        raise ValueError(f"{path} {what}, and of no encoding known here. Give a text file in UTF-8")
    listed = "; ".join(f"{one.encoding} would read {one.preview!r}" for one in found[:4])
    raise ValueError(
        f"{path} {what}. Likeliest first: {listed}. Convert it from the one that reads right: "
        f"{_command(path, found[0].encoding)}"
    )


def _convert(path: Path, encoding: str) -> str:
    return f"Convert it first: {_command(path, encoding)}"


def _command(path: Path, encoding: str) -> str:
    return f"iconv -f {_ICONV.get(encoding, encoding.upper())} -t UTF-8 {shlex.quote(str(path))} > utf8.txt"


def _refuse_records(raw: bytearray, path: Path) -> None:
    """Refuse JSON lines, or a JSON list, of records: their braces and keys are not what is to be learned."""
    start = raw[:65536].decode("utf-8", "ignore").lstrip()
    if start[:1] not in ("{", "["):
        return
    lines = [line for line in start.split("\n") if line.strip()][:3]
    try:
        if start[0] == "[":
            rows = [json.JSONDecoder().raw_decode(start[1:].lstrip())[0]]
        else:
            rows = [json.loads(line) for line in (lines[:-1] if len(lines) > 2 else lines)]
    except (ValueError, RecursionError):
        return
    if (
        not rows
        or not all(isinstance(row, dict) for row in rows)
        or (start[0] == "{" and len(rows) < 2 and path.suffix == ".json")
    ):
        return
    form, items = ("a JSON list", ".[]") if start[0] == "[" else ("JSON lines", "")
    texts = [str(name) for name, value in rows[0].items() if isinstance(value, str)]
    field = "text" if "text" in texts else next(iter(texts), "FIELD")
    chosen = f"{items}.{field if field.isidentifier() else json.dumps(field)}"
    raise ValueError(
        f"{path} holds {form} of records with the fields {', '.join(map(str, rows[0])) or '(none)'}; only plain text "
        f"is read here. Write the texts to a file first: jq -r {shlex.quote(chosen)} "
        f"{shlex.quote(str(path))} > texts.txt"
    )


def _read_folder(
    folder: Path, size: int | None, on_progress: OnProgress | None
) -> tuple[bytearray, list[str], tuple[int, ...]]:
    """(UTF-8 bytes, notes, where each file ends in the text, in characters); a file that is cut short has no end."""
    found = _files_below(folder)
    tables = [p for p in found if p.suffix.lower() in TABLE_SUFFIXES]
    if tables:
        raise ValueError(
            f"{folder} holds a data set in tables ({tables[0].relative_to(folder)}); only plain text is read here. "
            f"Write its texts to a file first, with the package datasets (load_dataset or load_from_disk)"
        )
    files = [p for p in found if p.suffix.lower() in TEXT_SUFFIXES]
    if not files:
        others = sorted(p.name for p in folder.iterdir())[:3]
        holds = f"it holds {', '.join(others)}" if others else "it is empty"
        raise ValueError(f"{folder} has no text file ({', '.join(TEXT_SUFFIXES)}); {holds}")
    total = sum(p.stat().st_size for p in files)
    if size is None and total > MAX_BYTES:
        raise ValueError(
            f"the {len(files):,} text files of {folder} have {total:,} bytes; at most {MAX_BYTES:,} are read "
            f"into memory. Give a size in characters to use the first of them"
        )
    raw = bytearray()
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
        try:
            text, said = read_file(path, left, on_progress)
        except OnlyWhiteSpace:
            notes.append(f"{path.relative_to(folder)}: only white space, left out")
            continue
        is_whole = left is None or count_characters(text) < left or path.stat().st_size <= len(text)
        if not text.endswith(b"\n"):
            text += b"\n"
        raw += text
        notes += said
        have += count_characters(text)
        ends += [have] if is_whole else []
    if not raw.strip():
        raise ValueError(f"the {len(files):,} text files of {folder} are all empty. Put text into one")
    if size is not None:
        del raw[byte_of_character(raw, size) :]
    characters = count_characters(raw)
    return raw, notes, tuple(end for end in ends if end <= characters)


def _files_below(folder: Path) -> list[Path]:
    """The files below a folder that are not hidden, by relative path. A subfolder that cannot be read is an error:
    what is in it would be missing in silence."""

    def refuse(error: OSError) -> NoReturn:
        raise ValueError(
            f"{error.filename}, a folder of the corpus {folder}, cannot be read ({error.strerror}): change its "
            f"permissions (chmod u+rx), or take it out of the corpus"
        )

    found = []
    for at, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(at, name) for name in names if not name.startswith(".")]
    return sorted((p for p in found if p.is_file()), key=lambda p: p.relative_to(folder).as_posix())
