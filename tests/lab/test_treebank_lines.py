"""Treebanks: a line feed alone ends a line, whatever else Unicode calls a line break; errors name file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.analysis import conllu_labels
from lab.tokenizers import ByteTokenizer


def treebank(forms: list[str], end: str = "\n") -> str:
    rows = [f"{n}\t{form}\t_\t{'NOUN' if n % 2 else 'VERB'}\t_\t_\t0\troot\t_\t_" for n, form in enumerate(forms, 1)]
    return end.join([f"# text = {' '.join(forms)}", *rows, "", ""])


@pytest.mark.parametrize(
    "odd", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\x1d", "\x1e", "\u00a0", "\ufeff", "  "]
)
@pytest.mark.parametrize("form", ["a{}b", "{}ab", "ab{}"])
@pytest.mark.parametrize("mark, end", [("", "\n"), ("\ufeff", "\n"), ("", "\r\n"), ("\ufeff", "\r\n")])
def test_only_a_line_feed_ends_a_line(odd: str, form: str, mark: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "bank.conllu"
    forms = ["one", form.format(odd), "two"]
    path.write_bytes((mark + treebank(forms, end)).encode())
    found = conllu_labels(path, ByteTokenizer())
    assert ByteTokenizer().decode(found.documents[0].tolist()) == " ".join(forms)
    assert found.classes == ("NOUN", "VERB")
    codes = [found.classes[c] for c in found.codes[0].tolist() if c >= 0]
    assert codes.count("VERB") >= 2 and codes[0] == "NOUN" and codes[-1] == "NOUN"


@pytest.mark.parametrize(
    "raw, message",
    [
        (treebank(["Grün", "ist"]).encode("latin-1"), r"bank\.conllu, line 1: byte 0xFC is not UTF-8"),
        (treebank(["a", "b"]).replace("2\tb\t", "2 b ").encode(), r"bank\.conllu, line 3: 8 columns"),
        (treebank(["a", "b"]).replace("2\tb", "two\tb").encode(), r"bank\.conllu, line 3: the first column is 'two'"),
        (treebank(["a", "b"]).replace("2\tb", "2\tz").encode(), r"bank\.conllu, line 4: the word 'z' is not in"),
        (b"\n\n", r"bank\.conllu holds no sentences"),
    ],
)
def test_errors_name_the_file_and_the_line(raw: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bank.conllu"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message):
        conllu_labels(path, ByteTokenizer())
