"""What to train on: a built-in corpus, pasted text, or an uploaded file, decoded with care and stored by hash."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from apps import selection
from apps.i18n import language, t
from apps.widgets.plain import plain
from lab.corpora.encodings import ENCODINGS, candidates, no_text

LARGEST_UPLOAD = 20_000_000  # bytes of text; a file of a folder corpus can be larger, through the command line
LARGEST_PASTE = 2_000_000  # characters
SOURCES = ("builtin", "paste", "upload")


class UnreadableText(ValueError):
    """Bytes that are not text in the encoding asked for; the sentence says where."""


@dataclass(frozen=True)
class CorpusChoice:
    """A corpus `spec` for `open_corpus` (None while there is none), and what is wrong, in the reader's words."""

    spec: str | None
    problem: str | None = None


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """`data` as text. Raises UnreadableText naming the first bad byte, for binary files, and for too many bytes."""
    if len(data) > LARGEST_UPLOAD:
        raise UnreadableText(t("corpus.too_large", size=f"{len(data):,}", most=f"{LARGEST_UPLOAD:,}"))
    if encoding not in ENCODINGS:
        raise UnreadableText(t("corpus.bad_encoding", encoding=encoding, known=", ".join(ENCODINGS)))
    binary = no_text(data)
    if binary is not None:
        raise UnreadableText(t("corpus.no_text", what=binary))
    try:
        text = data.decode("utf-8-sig" if encoding == "utf-8" else encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        found = candidates(data)[:4]
        if not found:
            raise UnreadableText(t("corpus.not_text", encoding=encoding, position=f"{error.start:,}")) from None
        listed = "; ".join(f"{one.encoding}: {one.preview}" for one in found)
        raise UnreadableText(
            t("corpus.other_encoding", encoding=encoding, position=f"{error.start:,}", listed=listed)
        ) from None
    if encoding != "utf-8":
        sure = next((one for one in candidates(data)[:1] if one.encoding.startswith("utf-")), None)
        if sure is not None and data.decode(sure.encoding, "replace").removeprefix("\ufeff") != text:
            raise UnreadableText(t("corpus.surely", encoding=encoding, other=sure.encoding, preview=sure.preview))
    if "\x00" in text:
        raise UnreadableText(t("corpus.binary", position=f"{text.index(chr(0)):,}"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def store(text: str, stem: str, folder: Path) -> Path:
    """Write `text` under `folder` as a file named by its stem and hash; the same text is the same file.

    The stem loses everything but letters, digits, - and _, so an uploaded name cannot lead out of the folder.
    """
    safe = re.sub(r"[^\w-]+", "_", Path(stem).name.rsplit(".", 1)[0]).strip("_")[:40] or "text"
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]
    path = folder / f"{safe}-{digest}.txt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(path)
    return path


def _keep(text: str, stem: str, folder: Path) -> CorpusChoice:
    if not text.strip():
        return CorpusChoice(None, t("corpus.empty"))
    try:
        return CorpusChoice(str(store(text, stem, folder)))
    except UnicodeEncodeError as error:  # half of a surrogate pair: no character, and UTF-8 has no form for it
        code = f"U+{ord(text[error.start]):04X}"
        return CorpusChoice(None, t("corpus.half_character", code=code, position=f"{error.start:,}"))
    except OSError as error:
        return CorpusChoice(None, t("corpus.unwritable", folder=str(folder), reason=error.strerror or str(error)))


def _builtin() -> CorpusChoice:
    from lab.corpora import corpus_infos

    infos = {info.name: info for info in corpus_infos()}
    selection.tell("corpus_name")
    name = st.selectbox(
        t("corpus.name"), list(infos), key="corpus_name", persist_state="session",
        format_func=lambda name: f"{name}: {infos[name].title[language()]}",
    )  # fmt: skip
    if name not in infos:  # the browser's list of options binds only the browser
        return CorpusChoice(None, t("corpus.unknown", name=str(name), known=", ".join(infos)))
    info = infos[name]
    st.caption(plain(f"{info.description[language()]} · {info.licence}"))
    return CorpusChoice(name)


def _paste(folder: Path) -> CorpusChoice:
    text = st.text_area(
        t("corpus.paste_label"),
        key="corpus_paste",
        height=200,
        placeholder=t("corpus.paste_hint"),
        persist_state="session",
    )
    if len(text or "") > LARGEST_PASTE:
        return CorpusChoice(None, t("corpus.paste_too_long", size=f"{len(text):,}", most=f"{LARGEST_PASTE:,}"))
    return _keep(text or "", "pasted", folder)


def _upload(folder: Path) -> CorpusChoice:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    file = left.file_uploader(
        t("corpus.upload_label"), type=["txt", "md", "text", "csv", "json", "py", "tex"], key="corpus_upload",
        max_upload_size=LARGEST_UPLOAD // 1_000_000,
    )  # fmt: skip
    encoding = right.selectbox(t("corpus.encoding"), ENCODINGS, key="corpus_encoding", persist_state="session")
    if file is None:
        return CorpusChoice(None, t("corpus.no_file"))
    try:
        text = decode(file.getvalue(), str(encoding))
    except UnreadableText as error:
        return CorpusChoice(None, str(error))
    return _keep(text, file.name, folder)


def corpus_choice(folder: Path) -> CorpusChoice:
    """Draw the choice; pasted and uploaded text is kept under `folder`."""
    st.session_state.setdefault("corpus_source", "builtin")
    source = st.segmented_control(
        t("corpus.source"), SOURCES, key="corpus_source", required=True, persist_state="session",
        format_func=lambda value: t(f"corpus.source_{value}"),
    )  # fmt: skip
    if source == "paste":
        return _paste(folder)
    if source == "upload":
        return _upload(folder)
    return _builtin()
