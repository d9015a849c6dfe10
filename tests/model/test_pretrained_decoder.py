"""Text comes back as the file's own decoder writes it: decoded, streamed, and on the labels of tokens."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tokenizers import token_labels, vocabulary_labels
from model.pretrained.tokenizer import PretrainedTokenizer, TokenListTokenizer
from model.text_stream import TextStream
from model.tokenizer import Tokenizer
from tests.model.engines import ENGINES

FFFD = "\N{REPLACEMENT CHARACTER}"
TEXT = "Tom went to the park, the park."


@cache
def tokenizer_of(name: str) -> PretrainedTokenizer:
    return PretrainedTokenizer(ENGINES[name]())


def ids_of(tokenizer: Tokenizer, most: int = 12) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=most)


def streamed(tokenizer: object, ids: list[int], prompt: list[int] | None = None) -> str:
    stream = TextStream(tokenizer, prompt or [])
    return "".join(stream.add(i, is_last=n == len(ids) - 1) for n, i in enumerate(ids))


def in_bytes(pieces: list[str] | list[bytes]) -> bytes:
    return b"".join(p if isinstance(p, bytes) else p.encode() for p in pieces)


# Where tokens carry their spaces, the one that a decoder takes from a text's beginning is shown: the model sees it.
# A run of bytes that is no text is U+FFFD as often as it has wrong parts, in the engine as often as it has bytes.
KEEPS_A_SPACE = {"Metaspace, always", "Metaspace, first", "byte fallback, Strip"}
OWN_BYTES = {name for name in ENGINES if name.startswith("byte fallback") and "both" not in name}


@pytest.mark.parametrize("name", sorted(ENGINES))
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_decoded_as_the_tokenizers_package_does(name: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(name)
    ids = data.draw(ids_of(tokenizer))
    ours = tokenizer.decode(ids)
    try:
        theirs = tokenizer.engine.decode(ids, skip_special_tokens=False)
    except BaseException as error:
        assert type(error).__name__ == "PanicException" and not ours.strip()  # its Strip fails on nothing but spaces
        return
    if name == "ByteLevel, no decoder":  # the way in has written the spaces: they are read, not joined by more
        theirs = PretrainedTokenizer(ENGINES["ByteLevel"]()).decode(ids)
    if FFFD in theirs and name in OWN_BYTES:
        assert FFFD in ours
        return
    if name in KEEPS_A_SPACE and ours.startswith(" "):
        assert theirs in (ours, ours[1:])
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", sorted(ENGINES))
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_streamed_is_decoded(name: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(name)
    ids = data.draw(ids_of(tokenizer))
    assert streamed(tokenizer, ids) == tokenizer.decode(ids)
    assert in_bytes(tokenizer.pieces(ids)).decode("utf-8", "replace") == tokenizer.decode(ids)  # type: ignore[arg-type]
    assert len(token_labels(tokenizer, ids)) == len(vocabulary_labels(tokenizer, ids)) == len(ids)


REWRITES = {"rewritten", "byte fallback, Strip at both ends", "suffix stripped", "CTC"}


@pytest.mark.parametrize("name", sorted({*ENGINES} - REWRITES))
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_stream_goes_on_from_its_prompt(name: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(name)
    prompt, ids = data.draw(ids_of(tokenizer)), data.draw(ids_of(tokenizer))
    before, whole = tokenizer.decode(prompt), tokenizer.decode(prompt + ids)
    if FFFD not in before + whole and ids:
        assert before + streamed(tokenizer, ids, prompt) == whole


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("WordPiece", "Tom went today.", ["Tom", " went", " to", "day", "."]),
        ("WordLevel, no decoder", "Tom went .", ["Tom", " went", " ."]),
        ("BPE with </w>", "the to.", ["the ", "to ", "."]),
        ("BPE, Whitespace, no decoder", "the he", ["the", " h", " e"]),
        ("Metaspace, always", "the a", [" the", " ", "a"]),
        ("byte fallback", "a春é", [" a", "春", "\\xC3", "\\xA9"]),
        ("ByteLevel", "x the日本é", ["x", " the", "日本", "\\xC3", "\\xA9"]),
        ("CTC", "AAB", ["A", "", "B"]),
    ],
)
def test_labels_are_what_a_token_adds(name: str, text: str, shown: list[str]) -> None:
    tokenizer = tokenizer_of(name)
    assert [label.text for label in token_labels(tokenizer, tokenizer.encode(text))] == shown


@pytest.mark.parametrize(
    ("name", "token", "shown"),
    [
        ("WordPiece", "##day", "day"),
        ("WordPiece", "Tom", "␣Tom"),
        ("WordLevel, no decoder", "Tom", "␣Tom"),
        ("BPE with </w>", "the</w>", "the␣"),
        ("BPE with </w>", "th", "th"),
        ("Metaspace, first", "▁the", "␣the"),
        ("byte fallback, Strip at both ends", "<0xE6>", "\\xE6"),
        ("ByteLevel, no decoder", "Ġthe", "␣the"),
    ],
)
def test_alone_a_token_is_what_it_is_in_a_text(name: str, token: str, shown: str) -> None:
    tokenizer = tokenizer_of(name)
    for beside in ([], [3], [3, 4, 5]):  # whatever stands in the same list
        ids = [*beside, tokenizer.engine.token_to_id(token)]
        assert vocabulary_labels(tokenizer, ids)[-1].display == shown


def test_text_comes_back_whole() -> None:
    assert tokenizer_of("WordPiece").decode(tokenizer_of("WordPiece").encode(TEXT)) == TEXT
    for name, text in [
        ("BPE with </w>", "the to"),
        ("WordLevel, no decoder", "Tom went to the park ."),
        ("characters", TEXT),
    ]:
        assert tokenizer_of(name).decode(tokenizer_of(name).encode(text)) == text


def test_a_hole_in_the_vocabulary_adds_nothing() -> None:
    engine = ENGINES["WordPiece"]()
    tokenizer = PretrainedTokenizer(engine)
    engine.add_tokens(["extra"])
    hole = tokenizer_of("WordPiece").vocab_size - 1
    assert tokenizer.decode([hole]) != ""
    described = tokenizer.to_dict()
    model = described["engine"]["model"]["vocab"]
    del model["park"]
    again = PretrainedTokenizer.from_dict(described)
    at = WORD = tokenizer.engine.token_to_id("park")
    ids = [again.engine.token_to_id("the"), at, again.engine.token_to_id("went")]
    assert again.decode(ids) == streamed(again, ids) == "the went"
    assert [label.text for label in token_labels(again, ids)] == ["the", "", " went"] and at == WORD


# --- tokens over bytes -----------------------------------------------------------------------------------------

SPRING = [0xE6, 0xE6, 0xE6, 0x98, 0xA5]


class OnlyDecodes:
    """Somebody else's tokenizer: it knows no pieces."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")


def byte_like() -> dict[str, object]:
    from lab.tokenizers import BPETokenizer, ByteTokenizer

    return {"byte": ByteTokenizer(), "bpe": BPETokenizer.train("the cat sat on the mat 春 日本 " * 9, 300),
            "only decodes": OnlyDecodes()}  # fmt: skip


def test_a_character_after_invalid_bytes_is_not_lost() -> None:
    tokenizer = byte_like()["byte"]
    stream = TextStream(tokenizer, [])
    assert [stream.add(i, n == 4) for n, i in enumerate(SPRING)] == ["", FFFD, FFFD, "", "春"]
    assert streamed(OnlyDecodes(), SPRING) == streamed(tokenizer, SPRING) == FFFD * 2 + "春"
    fallback = tokenizer_of("byte fallback")
    assert streamed(fallback, [i + 1 for i in SPRING]) == FFFD * 2 + "春"


@pytest.mark.parametrize("kind", ["byte", "bpe", "only decodes"])
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_bytes_are_streamed_as_they_are_decoded(kind: str, data: st.DataObject) -> None:
    tokenizer = _BYTE_LIKE[kind]
    most = getattr(tokenizer, "vocab_size", 256) - 1
    few = st.sampled_from([0xE6, 0x98, 0xA5, 0x61, 0xF0, 0x9F, 0x99, 0x82, 0xC3, 0xED, 0xA0])
    ids = data.draw(st.lists(st.one_of(few, st.integers(0, most)), max_size=16))
    prompt = data.draw(st.lists(st.one_of(few, st.integers(0, most)), max_size=5))
    assert streamed(tokenizer, ids) == tokenizer.decode(ids)  # type: ignore[attr-defined]
    assert streamed(tokenizer, ids, prompt) == tokenizer.decode(ids)  # type: ignore[attr-defined]


_BYTE_LIKE = byte_like()


def test_names_are_streamed_with_the_spaces_between_them() -> None:
    tokenizer = TokenListTokenizer(["a", "b", "<bos>"], bos_id=2)
    assert streamed(tokenizer, [0, 1, 0]) == tokenizer.decode([0, 1, 0]) == "a b a"
    assert streamed(tokenizer, [1, 0], [2]) == " b a"


def test_a_cut_character_is_shown_whole_beside_its_parts() -> None:
    from lab.tokenizers import partial_bytes

    tokenizer = byte_like()["byte"]
    labels = token_labels(tokenizer, [*"a春".encode(), 0xE6, 0x62])  # type: ignore[arg-type]
    assert [label.display for label in labels] == ["a", "\\xE6", "\\x98", "\\xA5", "\\xE6", "b"]
    assert [label.joined for label in labels] == ["", "春", "春", "春", "", ""]
    assert partial_bytes(tokenizer, 0xE6) == b"\xe6" and partial_bytes(tokenizer, 0x61) is None  # type: ignore[arg-type]
    bpe = tokenizer_of("ByteLevel")
    assert [label.joined for label in token_labels(bpe, bpe.encode("é é日本"))] == ["é", "é", "", "é", "é", ""]
    assert partial_bytes(tokenizer_of("WordPiece"), 3) is None
    odd = tokenizer_of("byte fallback, Strip at both ends")
    assert partial_bytes(odd, 0xE6 + 1) == b"\xe6"
