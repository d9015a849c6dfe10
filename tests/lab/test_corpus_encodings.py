"""Bytes that are not UTF-8: the right encoding is named first, with a line of it; files of other kinds are named."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from lab.corpora import encodings, open_corpus
from lab.corpora.encodings import ENCODINGS, candidates, no_text

TEXTS = {
    "German": "Für die schöne Müllerin wählte er süße Äpfel. Über den Wäldern hing ein grauer Himmel.\n",
    "Spanish": "El niño pequeño comió una manzana por la mañana. ¿Dónde está la estación?\n",
    "French": "L'été dernier, nous sommes allés à la forêt où les élèves parlaient français.\n",
    "Portuguese": "O coração não sabe dizer a razão; amanhã virá a manhã às três.\n",
    "Swedish": "Flickan gick över ängen och såg en älg i den gröna skogen. På kvällen åt hon ärtsoppa.\n",
    "Polish": "Zażółć gęślą jaźń. Książka leży na stole, a chłopiec idzie do szkoły.\n",
    "Czech": "Příliš žluťoučký kůň úpěl ďábelské ódy. Včera jsme viděli starý hrad.\n",
    "Turkish": "Bir varmış bir yokmuş, küçük bir kız ormanın yanındaki evde yaşarmış.\n",
    "Russian": "Однажды утром мальчик пошёл в лес. Там он увидел большую птицу.\n",
    "Ukrainian": "Одного разу маленька дівчинка пішла до лісу. Їй було дуже цікаво.\n",
    "Japanese": "昔々、あるところにおじいさんとおばあさんが住んでいました。山へ芝刈りに行きました。\n",
    "simplified Chinese": "从前有一个小女孩，她住在森林旁边的小屋里。有一天，妈妈让她去看望外婆。\n",
    "traditional Chinese": "從前有一個小女孩，她住在森林旁邊的小屋裡。有一天，媽媽讓她去看望外婆。\n",
    "Korean": "옛날 옛적에 작은 마을에 한 소녀가 살고 있었습니다. 어느 날 소녀는 숲으로 들어갔습니다.\n",
}
CASES = [
    ("German", "latin-1"), ("German", "cp1252"), ("Spanish", "latin-1"), ("Spanish", "cp1252"), ("French", "cp1252"),
    ("Portuguese", "latin-1"), ("Swedish", "cp1252"), ("Polish", "cp1250"), ("Polish", "iso8859-2"),
    ("Czech", "cp1250"), ("Czech", "iso8859-2"), ("Turkish", "cp1254"), ("Russian", "cp1251"), ("Russian", "koi8-r"),
    ("Ukrainian", "cp1251"), ("Japanese", "shift_jis"), ("Japanese", "euc_jp"), ("simplified Chinese", "gb18030"),
    ("traditional Chinese", "big5"), ("Korean", "euc_kr"), ("Korean", "cp949"),
    *((name, wide) for name in ("German", "Russian", "simplified Chinese", "Japanese", "Korean")
      for wide in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")),
]  # fmt: skip


@pytest.mark.parametrize("repeated", [1, 20])
@pytest.mark.parametrize("language, encoding", CASES)
def test_the_right_encoding_is_first_and_refused_by_name(
    language: str, encoding: str, repeated: int, tmp_path: Path
) -> None:
    text = TEXTS[language] * repeated
    first = candidates(text.encode(encoding))[0]
    assert text.encode(encoding).decode(first.encoding).removeprefix("\ufeff") == text
    assert first.encoding in ENCODINGS and first.preview.strip("…") in text
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(ValueError, match=r"text\.txt .*iconv -f") as caught:
        open_corpus(path)
    assert "\n" not in str(caught.value)
    assert first.encoding.upper().replace("_", "-") in str(caught.value).upper().replace("_", "-")


def test_the_sample_is_found_behind_much_plain_text_and_may_end_in_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"plain words only\n" * 100_000 + TEXTS["Russian"].encode("cp1251")
    assert candidates(raw)[0].encoding == "cp1251"
    for width in range(40, 60):
        monkeypatch.setattr(encodings, "SAMPLE", width)
        assert candidates(TEXTS["simplified Chinese"].encode("gb18030"))[0].encoding == "gb18030"


def test_utf8_and_ascii_are_what_they_are() -> None:
    for text in (*TEXTS.values(), "plain\n"):
        assert [one.encoding for one in candidates(text.encode())] == ["utf-8"]


def packed(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("[Content_Types].xml", "<x/>")
        file.writestr(name, "<x/>")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


BINARY = [
    (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "a PDF document"),
    (packed("word/document.xml"), "a Word document"),
    (packed("xl/workbook.xml"), "an Excel workbook"),
    (packed("notes.txt"), "a zip archive"),
    (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a PNG image"),
    (b"\xff\xd8\xff\xe0\x00\x10JFIF", "a JPEG image"),
    (b"GIF89a\x01\x00", "a GIF image"),
    (gzip.compress(b"text"), "compressed by gzip"),
    (tarred(), "a tar archive"),
    (b"PAR1\x15\x04\x15", "a Parquet table"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00\x00", "an old Office document"),
    (b"{\\rtf1\\ansi some text}", "an RTF document"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 3\n", "a git-lfs pointer"),
    (b"SQLite format 3\x00", "an SQLite database"),
]


@pytest.mark.parametrize("raw, what", BINARY, ids=[what for _, what in BINARY])
def test_files_of_other_kinds_are_named(raw: bytes, what: str, tmp_path: Path) -> None:
    assert (no_text(raw) or "").startswith(what)
    path = tmp_path / "book.txt"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=rf"book\.txt is {what}.*, not a text file"):
        open_corpus(path)


@pytest.mark.parametrize(
    "name, content, said",
    [
        (
            "rows.jsonl",
            '{"id": 1, "text": "One day"}\n{"id": 2, "text": "Two"}\n',
            r"JSON lines .*id, text.*jq -r \.text",
        ),
        ("rows.txt", '{"body": "One day"}\n{"body": "Two"}\n', r"jq -r \.body"),
        ("rows.json", '[{"text": "One day"}, {"text": "Two"}]', r"a JSON list .*jq -r '\.\[\]\.text'"),
        ("chat.jsonl", '{"messages": [1]}\n', r"fields messages"),
    ],
)
def test_records_are_not_learned_as_their_braces(name: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(ValueError, match=said):
            open_corpus(path)


def test_a_folder_of_tables_is_named(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("What this is.")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"train\.parquet.*datasets"):
        open_corpus(tmp_path)


@pytest.mark.parametrize("text", ['{"a": 1}', "{not json}\nat all\n", "[a list]\n", '{\n  "name": "x"\n}\n'])
def test_text_with_braces_is_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text(text)
    assert open_corpus(tmp_path / "notes.json").text == text


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a named pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(ValueError, match=what):
            open_corpus(path)


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "locked").mkdir()
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("locked"):  # a chmod binds no superuser
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ValueError, match=r"locked, a folder of the corpus .* cannot be read \(Permission denied\)"):
        open_corpus(tmp_path)


def test_a_file_named_like_a_builtin_corpus_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stories").write_text("my own words\n" * 9)
    with pytest.warns(UserWarning, match=r"'stories' is the built-in corpus; .*\./stories"):
        assert open_corpus("stories", size=2000).info.kind == "text"
    assert open_corpus("./stories").text == "my own words\n" * 9


def test_a_size_beyond_memory_is_refused() -> None:
    for size in (10**20, 10**10):
        with pytest.raises(ValueError, match=f"corpus size is {size}; at most"):
            open_corpus("stories", size=size)


@pytest.mark.parametrize(
    ("encoding", "name", "text"),
    [
        ("iso2022_jp", "ISO-2022-JP", "昔々あるところに、おじいさんとおばあさんがいました。\n"),
        ("iso2022_kr", "ISO-2022-KR", "옛날 옛적에 호랑이가 담배 피우던 시절에\n"),
        ("hz", "HZ", "从前有一座山，山上有一座庙。\n庙里有个老和尚。\n他在讲故事。\n"),
    ],
)
@pytest.mark.parametrize("times", [1, 300])
def test_seven_bit_encodings_are_not_learned_as_ascii(
    encoding: str, name: str, text: str, times: int, tmp_path: Path
) -> None:
    raw = (text * times).encode(encoding)
    assert raw.isascii()
    assert candidates(raw)[0].encoding == encoding and text[:8] in candidates(raw)[0].preview
    (tmp_path / "book.txt").write_bytes(raw)
    with pytest.raises(ValueError, match=f"looks like {name}"):
        open_corpus(tmp_path / "book.txt")


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m text of a terminal\n" * 9, "if (~{a} & ~{b}) { return ~{c}; }\n" * 9]
)
def test_escapes_of_terminals_and_code_are_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(text)
    assert open_corpus(tmp_path / "log.txt").text == text


def test_a_file_of_white_space_is_left_out_of_a_folder(tmp_path: Path) -> None:
    for name, text in (("a.txt", "one day\n" * 9), ("b.txt", "\n \n"), ("c.txt", "two\n" * 9)):
        (tmp_path / name).write_text(text)
    corpus = open_corpus(tmp_path)
    assert "b.txt: only white space, left out" in corpus.notes and "two" in corpus.text
