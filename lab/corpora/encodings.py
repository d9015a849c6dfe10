"""What bytes are: UTF-8 text, text in another encoding (the likeliest first, with a line of it), or no text at all.

Detection is charset-normalizer's, on a sample of the lines that are not plain ASCII. It is advice: nothing is ever
learned from in an encoding that was guessed; the reader converts the file, or chooses the encoding.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

ENCODINGS = (
    "utf-8", "utf-16", "utf-32", "cp1252", "latin-1", "cp1250", "iso8859-2", "cp1251", "koi8-r", "cp1253", "cp1254",
    "cp1255", "cp1256", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp949", "utf-16-le", "utf-16-be",
    "utf-32-le", "utf-32-be", "iso2022_jp", "iso2022_kr", "hz",
)  # fmt: skip
"""What a text can be read in, by Python's names; of two that read a text alike the first is named."""

SAMPLE = 1 << 16  # bytes given to the detector
PREVIEW = 40  # characters of a line shown
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_TEXT: tuple[tuple[bytes, str], ...] = (
    (rb"%PDF-", "a PDF document"),
    (rb"PK\x03\x04[\s\S]{0,4000}?word/", "a Word document (.docx)"),
    (rb"PK\x03\x04[\s\S]{0,4000}?xl/", "an Excel workbook (.xlsx)"),
    (rb"PK\x03\x04[\s\S]{0,4000}?ppt/", "a PowerPoint document (.pptx)"),
    (rb"PK\x03\x04[\s\S]{26}mimetypeapplication/epub", "an EPUB book"),
    (rb"PK\x03\x04[\s\S]{26}mimetypeapplication/vnd\.oasis", "an OpenDocument file (.odt)"),
    (rb"PK(\x03\x04|\x05\x06)", "a zip archive"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document (.doc, .xls)"),
    (rb"\{\\rtf", "an RTF document"),
    (rb"\x1f\x8b", "compressed by gzip"),
    (rb"BZh[1-9]", "compressed by bzip2"),
    (rb"\xfd7zXZ\x00", "compressed by xz"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (rb"Rar!\x1a", "a RAR archive"),
    (rb"[\s\S]{257}ustar", "a tar archive"),
    (rb"\x89PNG\r\n", "a PNG image"),
    (rb"\xff\xd8\xff", "a JPEG image"),
    (rb"GIF8[79]a", "a GIF image"),
    (rb"RIFF[\s\S]{4}WEBP", "a WebP image"),
    (rb"RIFF[\s\S]{4}WAVE", "a sound file (WAV)"),
    (rb"BM[\s\S]{4}\x00{4}", "a BMP image"),
    (rb"(II\*\x00|MM\x00\*)", "a TIFF image"),
    (rb"(ID3|OggS|fLaC)", "a sound file"),
    (rb"[\s\S]{4}ftyp", "a video (MP4)"),
    (rb"\x1aE\xdf\xa3", "a video (Matroska)"),
    (rb"PAR1", "a Parquet table"),
    (rb"ARROW1\x00\x00", "an Arrow table"),
    (rb"\xff{4}[\s\S]{4}[\x10\x14]\x00{3}", "an Arrow table"),
    (rb"SQLite format 3\x00", "an SQLite database"),
    (rb"\x93NUMPY", "an array of numpy"),
    (rb"\x89HDF\r\n", "an HDF5 file"),
    (rb"GGUF", "a GGUF model"),
    (rb"\x7fELF", "a program"),
    (rb"MZ[\s\S]{58}", "a program"),
    (rb"[\s\S]{8}\{\"__metadata__\"", "a safetensors file"),
    (rb"\x80[\x02-\x05]", "a pickle"),
    (rb"version https://git-lfs\.github\.com/spec/", "a git-lfs pointer and not the file itself (run `git lfs pull`)"),
)  # fmt: skip

_SEVERAL_BYTES = ("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp949")
_LATIN_ENCODINGS = ("cp1252", "latin-1", "cp1250", "iso8859-2", "cp1254")
_LATIN_LETTERS = (
    "äöüß", "áéíóúüñ", "àâæçéèêëîïôœùûüÿ", "àèéìíîòóùú", "áàâãçéêíóôõúü", "àçèéíïòóúü·", "åäöæøé", "áðéíóúýþæö",
    "àáèéëïóöü", "ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîșțşţ",
    "çğıöşüâîûi\u0307",
)  # fmt: skip
"""Letters beyond ASCII of German, Spanish, French, Italian, Portuguese, Catalan, the Scandinavian languages, Icelandic,
Dutch, Polish, Czech, Slovak, Hungarian, Croatian, Romanian and Turkish."""
_MARKS_OF_ALL = "«»„“”‚‘’–—…¿¡°§€©®\u00a0"


@dataclass(frozen=True)
class Candidate:
    """An encoding that fits, and a line of the text as it reads in it."""

    encoding: str
    preview: str


def no_text(raw: bytes | bytearray | memoryview) -> str | None:
    """What bytes that are no text are ("a PDF document"), by how they begin; None where they may be text."""
    start = bytes(raw[:8192])
    found = next((words for pattern, words in _NO_TEXT if re.match(pattern, start)), None)
    if found == "a program" and start.startswith(b"MZ") and 0 not in start:
        return None
    return found


def byte_order_mark(raw: bytes | bytearray | memoryview) -> tuple[str, int] | None:
    """(encoding, bytes of the mark) where a text begins with a byte-order mark."""
    start = bytes(raw[:4])
    return next(((encoding, len(mark)) for mark, encoding in _MARKS if start.startswith(mark)), None)


def candidates(raw: bytes | bytearray | memoryview) -> list[Candidate]:
    """The encodings that `raw` may be in, the likeliest first, each with a line as it reads; empty where none fits.

    A byte-order mark and valid UTF-8 settle it alone.
    """
    view = memoryview(raw)
    marked = byte_order_mark(view)
    if marked is not None:
        encoding, width = marked
        return [Candidate(encoding, _preview(bytes(view[width : width + SAMPLE]), encoding))]
    wide = _wide(bytes(view[:SAMPLE]))
    if wide is not None:
        return [Candidate(wide, _preview(bytes(view[:SAMPLE]), wide))]
    seven = seven_bit(bytes(view[:SAMPLE]))
    if seven is not None:
        return [Candidate(seven, _preview(bytes(view[:SAMPLE]), seven))]
    if is_utf8(view):
        return [Candidate("utf-8", _preview(bytes(view[:SAMPLE]), "utf-8"))]
    sample = _sample(view)
    found = _detected(sample)
    for cut in range(1, 4 if len(sample) >= SAMPLE else 0):  # a long line may have been cut inside a character
        if not set(found[:1]) & set(_SEVERAL_BYTES):
            other = _detected(sample[:-cut])
            found = other if set(other[:1]) & set(_SEVERAL_BYTES) else found
    return [Candidate(encoding, _preview(sample, encoding)) for encoding in found]


def seven_bit(raw: bytes) -> str | None:
    """The encoding of bytes that are all ASCII but switch to Chinese, Japanese or Korean characters with escapes."""
    escapes = {
        "iso2022_jp": rb"\x1b\$[B@]", "iso2022_kr": rb"\x1b\$\)C", "hz": rb"(~\{[!-~]+~\}[\s\S]*?){3}",
    }  # fmt: skip
    if not raw.isascii():
        return None
    for encoding, pattern in escapes.items():
        if re.search(pattern, raw):
            last = raw.rfind(b"\n") + 1 or len(raw)  # a block may end inside an escape
            try:
                text = raw[:last].decode(encoding)
            except UnicodeDecodeError:
                continue
            if not text.isascii():
                return encoding
    return None


def is_utf8(raw: bytes | bytearray | memoryview) -> bool:
    """Whether all of `raw` is valid UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(raw), 1 << 20):
            decoder.decode(raw[at : at + (1 << 20)])
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _wide(start: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark. Both hold zeros, which other text does not: in spaces and line breaks."""
    if 0 not in start:
        return None
    zeros, quarter = [start[at::4].count(0) for at in range(4)], len(start) // 4
    if quarter and min(zeros[2:]) >= 0.9 * quarter:
        fitting = ["utf-32-le"]
    elif quarter and min(zeros[:2]) >= 0.9 * quarter:
        fitting = ["utf-32-be"]
    else:
        # the higher bytes of a text's characters take fewer values than the lower ones
        kinds = len(set(start[1::2])) - len(set(start[::2])) or zeros[0] + zeros[2] - zeros[1] - zeros[3]
        fitting = ["utf-16-le"] if kinds < 0 else ["utf-16-be"]
    for encoding in fitting:
        text = _decoded(start, encoding)
        if text and sum(c.isprintable() or c in "\n\r\t\f" for c in text) > 0.95 * len(text):
            return encoding
    return None


def _sample(view: memoryview) -> bytes:
    """The lines with bytes beyond ASCII, as far as SAMPLE goes. No character of these has a line feed in it."""
    found, size = [], 0
    for at in range(0, len(view), 1 << 20):
        block = bytes(view[at : at + (1 << 20)])
        lines = block.split(b"\n") if at == 0 else block.split(b"\n")[1:]
        if at + len(block) < len(view) and len(lines) > 1:
            lines.pop()
        for line in lines:
            if not line.isascii():
                found.append(line[:SAMPLE])
                size += len(found[-1]) + 1
                if size >= SAMPLE:
                    return b"\n".join(found)
    return b"\n".join(found)


def _detected(sample: bytes) -> list[str]:
    """charset-normalizer's matches among ENCODINGS, the likeliest first."""
    import charset_normalizer

    names = {_same(encoding): encoding for encoding in reversed(ENCODINGS)}
    matches = charset_normalizer.from_bytes(
        sample, cp_isolation=[codecs.lookup(e).name.replace("-", "_") for e in ENCODINGS[3:21]], threshold=0.4
    )
    ranked = []
    for match in matches:
        alike = [names[_same(one)] for one in match.could_be_from_charset if _same(one) in names]
        if alike:
            encoding = min(alike, key=ENCODINGS.index)
            ranked.append((round(match.chaos, 2), -round(match.coherence, 1), ENCODINGS.index(encoding), encoding))
    found = [encoding for *_, encoding in sorted(ranked)]
    if found and found[0] in _LATIN_ENCODINGS:
        found.sort(key=lambda encoding: -_share_of_letters(sample, encoding))
    japanese = [e for e in ("shift_jis", "euc_jp") if _share_of_kana(sample, e) > 0.25]  # no other language has them
    fitting = [e for e in ENCODINGS[3:21] if e not in found and _decoded(sample, e) is not None]
    return list(dict.fromkeys([*japanese, *found, *fitting[: max(0, 1 - len(found) - len(japanese))]]))


def _same(encoding: str) -> str:
    return codecs.lookup(encoding).name


def _share_of_letters(sample: bytes, encoding: str) -> float:
    """How much of what is not ASCII one language would write, at best; 0 where it is no Latin encoding."""
    text = [c for c in (_decoded(sample, encoding) or "").lower() if not c.isascii()]
    letters = _LATIN_LETTERS if encoding in _LATIN_ENCODINGS else ()
    return max((sum(c in one or c in _MARKS_OF_ALL for c in text) for one in letters), default=0) / max(1, len(text))


def _share_of_kana(sample: bytes, encoding: str) -> float:
    text = [c for c in _decoded(sample, encoding) or "" if not c.isascii()]
    return sum("\u3041" <= c <= "\u30fe" for c in text) / max(1, len(text))


def _decoded(raw: bytes, encoding: str) -> str | None:
    """The text, which may end inside a character; None where the bytes are not of this encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(raw)
    except UnicodeDecodeError:
        return None


def _preview(raw: bytes, encoding: str) -> str:
    """A line of it, from the first character that is not ASCII where there is one; white space made one space."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(raw)
    lines = [" ".join(line.split()) for line in text.split("\n")]
    line = next((one for one in lines if not one.isascii()), next(filter(None, lines), ""))
    first = next((at for at, c in enumerate(line) if not c.isascii()), 0)
    start = max(0, first - PREVIEW // 2)
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line[start : start + PREVIEW])
    return ("…" if start else "") + shown + ("…" if start + PREVIEW < len(line) else "")
