"""Prompts that show something: their answers follow from the corpus, and both prompts differ in what decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.corpora import corpus_names, open_corpus
from lab.corpora.examples import GENERAL, LONGEST, corpus_examples, second_prompt

SIZE = 3000
NEEDS_NO_NETWORK = [name for name in corpus_names() if name != "shakespeare"]


@pytest.mark.parametrize("corpus", corpus_names())
def test_every_corpus_has_examples(corpus: str) -> None:
    assert 3 <= len(corpus_examples(corpus)) <= 6
    for example in corpus_examples(corpus):
        assert example.prompt == example.prompt.rstrip() or corpus in ("python",)
        assert example.prompt.lstrip("\n") == example.prompt


@pytest.mark.parametrize("corpus", NEEDS_NO_NETWORK)
def test_a_corpus_tokenizer_reads_its_examples(corpus: str) -> None:
    tokenizer = open_corpus(corpus, size=400_000 if corpus == "stories" else SIZE).default_tokenizer()
    for example in corpus_examples(corpus):
        ids = tokenizer.encode(example.prompt)
        assert 0 < len(ids) <= 64
        if example.answer:
            other = tokenizer.encode(example.corrupt)
            assert len(other) == len(ids) and list(other) != list(ids)
            for text in (example.answer, example.wrong):
                assert len(tokenizer.encode(text)) == 1


def test_the_second_copy_is_answered_by_the_first() -> None:
    for example in corpus_examples("induction"):
        for prompt, answer in ((example.prompt, example.answer), (example.corrupt, example.wrong)):
            body = prompt[1:]
            half = next(n for n in range(1, len(body)) if body[n:] and body.startswith(body[n:]))
            assert body[len(body) - half] == answer


def test_the_open_bracket_asks_for_its_own_kind() -> None:
    for example in corpus_examples("brackets"):
        for prompt, answer in ((example.prompt, example.answer), (example.corrupt, example.wrong)):
            stack = []
            for mark in prompt[1:]:
                if mark in "([":
                    stack.append(mark)
                else:
                    assert (stack.pop() + mark) in ("()", "[]")
            assert {"(": ")", "[": "]"}[stack[-1]] == answer


def test_sums_are_right_modulo_113() -> None:
    for example in corpus_examples("modular-addition"):
        for prompt, answer in ((example.prompt, example.answer), (example.corrupt, example.wrong)):
            a, b = prompt.strip(";=").split("+")
            assert (int(a) + int(b)) % 113 == int(answer)


@pytest.mark.parametrize("make", ["file", "folder", "chinese", "large", "crlf"])
def test_a_text_of_ones_own_gives_beginnings_of_lines(tmp_path: Path, make: str) -> None:
    line = "The ferryman untied his boat and looked at the water for a long time"
    if make == "chinese":
        line = "从前有一个小女孩住在河边的村子里她每天早上都去河边打水"
    gap = "" if make == "chinese" else " "
    text = "".join(f"{line}{gap}{n}\n" for n in range(4000 if make == "large" else 40))
    path = tmp_path / "text.txt"
    if make == "folder":
        (tmp_path / "in").mkdir()
        path = tmp_path / "in" / "a.txt"
    path.write_bytes((text.replace("\n", "\r\n") if make == "crlf" else text).encode())
    found = corpus_examples(str(tmp_path if make == "folder" else path))
    assert found
    for example in found:
        assert line.startswith(example.prompt) and 12 <= len(example.prompt) <= LONGEST
        if " " in example.prompt:  # it ends inside a word
            assert line[len(example.prompt)].isalpha()


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe\x00\x01", b"short\n", "größe über alles\n".encode("latin-1") * 9]
)
def test_a_text_that_is_gone_or_unreadable_gives_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    assert corpus_examples(str(path)) == ()


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("When Ann and Tom left, Tom gave it to", "When Ann and Tom left, Ann gave it to"),
        ("Ann met Tom. Tom gave the ball to", "Ann met Tom. Ann gave the ball to"),
        ("Then Bob and Eve sat. Then Bob", "Then Bob and Eve sat. Then Eve"),
        ("no names here", ""),
        ("Tom and Tom", ""),
        ("", ""),
    ],
)
def test_second_prompts_exchange_the_repeated_name(text: str, other: str) -> None:
    assert second_prompt(text) == other


def test_general_examples_hold_the_answers_they_claim() -> None:
    (giving,) = [example for example in GENERAL if example.answer]
    assert giving.prompt.replace("John gave", "Mary gave") == giving.corrupt
    assert second_prompt(giving.prompt) == giving.corrupt
