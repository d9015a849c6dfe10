"""Tokenizers lose nothing, name what they do not know, and show every token."""

from __future__ import annotations

import html
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tokenizers import (
    BPETokenizer,
    ByteTokenizer,
    CharTokenizer,
    SymbolTokenizer,
    UnknownCharacters,
    WordTokenizer,
    id_dtype,
    load_tokenizer,
    token_labels,
    tokenizer_from_dict,
    train_tokenizer,
)

MIXED = "Seán 日本語 👩‍🚀 בנ"
SAMPLE = "When Mary and John went to the store, John gave a drink to Mary.\nIt's cold; the store's door shut.\n\n" * 20
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.fixture(scope="module")
def bpe() -> BPETokenizer:
    return BPETokenizer.train(SAMPLE, 300)


@pytest.fixture(scope="module")
def gpt2(shared: Path) -> BPETokenizer:
    return BPETokenizer.from_gpt2_files(shared / "data" / "gpt2_bpe")


@given(ANY_TEXT)
def test_byte_level_round_trip_of_any_text(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_array(text).tolist() == tokenizer.encode(text)


@settings(deadline=None)
@given(text=ANY_TEXT)
def test_bpe_round_trip_of_any_text(bpe: BPETokenizer, text: str) -> None:
    ids = bpe.encode(text)
    assert bpe.decode(ids) == text
    assert b"".join(bpe.pieces(ids)) == text.encode()  # type: ignore[arg-type]


@given(ANY_TEXT.filter(bool))
def test_char_round_trip_when_trained_on_the_text(text: str) -> None:
    tokenizer = CharTokenizer.train(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_array(text).tolist() == tokenizer.encode(text)
    assert "".join(tokenizer.pieces(tokenizer.encode(text))) == text  # type: ignore[arg-type]


@given(ANY_TEXT.filter(bool))
def test_word_round_trip_when_trained_on_the_text(text: str) -> None:
    tokenizer = WordTokenizer.train(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None)
@given(text=ANY_TEXT.filter(bool))
def test_spans_cover_the_text(bpe: BPETokenizer, text: str) -> None:
    for tokenizer in (bpe, ByteTokenizer(), CharTokenizer.train(text), WordTokenizer.train(text)):
        ids, starts, ends = tokenizer.spans(text)
        assert ids.tolist() == tokenizer.encode(text)
        covered = np.zeros(len(text), dtype=bool)
        for start, end in zip(starts, ends, strict=True):
            assert start < end
            covered[start:end] = True
        assert covered.all()
        assert starts[0] == 0 and ends[-1] == len(text) and np.all(np.diff(starts) >= 0)


def test_word_tokens_carry_their_space() -> None:
    tokenizer = WordTokenizer.train(SAMPLE)
    prompt = "When Mary and John went to the store, John gave a drink to"
    pieces = tokenizer.pieces(tokenizer.encode(prompt))
    assert pieces[:4] == ["When", " Mary", " and", " John"] and pieces[-1] == " to" and "," in pieces
    assert len(tokenizer.encode(" Mary")) == 1
    assert tokenizer.pieces(tokenizer.encode(" the store's")) == [" the", " store", "'s"]
    assert tokenizer.bos_id == tokenizer.eos_id == tokenizer.encode("\n\n")[0]


def test_gpt2_ids(gpt2: BPETokenizer) -> None:
    assert gpt2.encode("Hello world") == [15496, 995]
    assert gpt2.vocab_size == 50257 and gpt2.eos_id == gpt2.bos_id == 50256
    assert gpt2.decode(gpt2.encode(MIXED)) == MIXED
    assert gpt2.encode("a<|endoftext|>b") == [64, 50256, 65]
    assert gpt2.dtype is np.uint16


def test_encoding_in_chunks_changes_nothing(bpe: BPETokenizer) -> None:
    text = ("\n \n  a b\n\n\tc\n" + SAMPLE) * 120
    assert len(text) > 1 << 17
    assert bpe.encode(text) == bpe.engine.encode(text).ids


def test_unknown_characters_are_named_with_positions() -> None:
    tokenizer = CharTokenizer.train("abc ?")
    with pytest.raises(UnknownCharacters) as caught:
        tokenizer.encode("a日b🙂日")
    assert caught.value.characters == ("日", "🙂") and caught.value.positions == (1, 3)
    message = str(caught.value)
    assert "'日'" in message and "position 1" in message and "U+1F642" in message and "skip" in message
    assert tokenizer.decode(tokenizer.encode("a日b🙂日", unknown="skip")) == "ab"
    assert tokenizer.decode(tokenizer.encode("a日b🙂日", unknown="replace")) == "a?b??"
    with pytest.raises(UnknownCharacters, match="position 1"):
        tokenizer.encode_array("a日")
    assert isinstance(caught.value, ValueError)
    assert pickle.loads(pickle.dumps(caught.value)).positions == (1, 3)


def test_a_corpus_without_spaces_names_the_space() -> None:
    with pytest.raises(UnknownCharacters, match=r"U\+0020 space\) at position 1"):
        CharTokenizer.train("ab").encode("a b")


def test_many_unknown_characters_give_a_short_message() -> None:
    with pytest.raises(UnknownCharacters) as caught:
        CharTokenizer.train("a").encode("".join(chr(0x4E00 + i) for i in range(500)))
    assert len(caught.value.characters) == 500 and len(str(caught.value)) < 900


def test_unknown_words_are_named() -> None:
    tokenizer = WordTokenizer.train(SAMPLE)
    with pytest.raises(UnknownCharacters, match=r"word.*' Zebedee' at position 4"):
        tokenizer.encode("When Zebedee went")
    assert tokenizer.decode(tokenizer.encode("When Zebedee went", unknown="replace")) == "When<unk> went"
    assert tokenizer.decode(tokenizer.encode("When Zebedee went", unknown="skip")) == "When went"


@pytest.mark.parametrize("unknown", ["ignore", "", None])
def test_a_wrong_way_with_unknowns_is_refused(unknown: str) -> None:
    for tokenizer in (ByteTokenizer(), CharTokenizer.train("a")):
        with pytest.raises(ValueError, match=r"error.*skip.*replace"):
            tokenizer.encode("a", unknown=unknown)  # type: ignore[arg-type]


def test_lone_surrogate_is_named() -> None:
    with pytest.raises(ValueError, match=r"U\+D83D at position 1"):
        ByteTokenizer().encode("a\ud83d")


def test_symbols_are_matched_longest_first() -> None:
    tokenizer = SymbolTokenizer(["1", "12", "+", "="])
    assert tokenizer.pieces(tokenizer.encode("12+1=")) == ["12", "+", "1", "="]
    with pytest.raises(UnknownCharacters, match=r"symbol.*'3'.*position 2"):
        tokenizer.encode("123")


@pytest.mark.parametrize(
    ("size", "dtype"), [(65, np.uint16), (65536, np.uint16), (65537, np.uint32), (70001, np.uint32)]
)
def test_dtype_holds_the_largest_id(size: int, dtype: type) -> None:
    assert id_dtype(size) is dtype
    assert np.asarray([size - 1], dtype=id_dtype(size))[0] == size - 1


def test_ids_beyond_16_bits_survive() -> None:
    tokenizer = CharTokenizer([chr(i) for i in range(0x20, 0x20 + 90000) if not 0xD800 <= i < 0xE000])
    text = tokenizer.vocabulary[70000] + tokenizer.vocabulary[1]
    assert tokenizer.encode_array(text).tolist() == [70000, 1]


@pytest.mark.parametrize("spec", ["char", "byte", "word", "word:20", "bpe:280"])
def test_save_and_load_give_the_same_tokenizer(spec: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(spec, SAMPLE)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = load_tokenizer(path)
    assert again == tokenizer and again.sha256 == tokenizer.sha256 and type(again) is type(tokenizer)
    assert again.vocab_size == tokenizer.vocab_size and again.bos_id == tokenizer.bos_id
    text = "When Mary and" if spec != "word:20" else " the store,"
    assert again.encode(text) == tokenizer.encode(text)
    assert tokenizer_from_dict(json.loads(path.read_text())) == tokenizer


def test_sha256_tells_vocabularies_apart() -> None:
    assert CharTokenizer.train("ab").sha256 != CharTokenizer.train("abc").sha256
    assert CharTokenizer.train("ab").sha256 != SymbolTokenizer(["a", "b"]).sha256
    assert CharTokenizer.train("ba").sha256 == CharTokenizer.train("ab").sha256


def test_training_is_the_same_in_every_process() -> None:
    program = (
        "from lab.tokenizers import train_tokenizer as t; text = 'the cat sat on the mat; a cat ran. ' * 30\n"
        "print(t('bpe:300', text).sha256, t('word', text).sha256, t('char', text).sha256)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout
        for seed in ("0", "7")
    }
    assert len(outputs) == 1 and len(outputs.pop().split()) == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chars", "Did you mean 'char'"),
        ("bpe", "vocabulary size"),
        ("bpe:many", "vocabulary size"),
        ("bpe:100", "256"),
        ("gpt2:/no/such/folder", "vocab.json"),
        ("word:1", "at least 3"),
        ("", "char, byte"),
    ],
)
def test_bad_specs_are_explained(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_tokenizer(spec, SAMPLE)


def test_empty_text_trains_no_char_tokenizer() -> None:
    with pytest.raises(ValueError, match="empty"):
        CharTokenizer.train("")


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "nope"}', '{"kind": "char"}', '{"kind": "bpe", "merges": 1}'])
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        load_tokenizer(path)


@pytest.mark.parametrize("bad", [-1, 256, 70000])
def test_ids_outside_the_vocabulary_are_named(bad: int) -> None:
    with pytest.raises(ValueError, match=f"{bad} at position 1.*256"):
        ByteTokenizer().decode([0, bad])


def test_decoding_a_partial_character_does_not_fail() -> None:
    assert ByteTokenizer().decode("日".encode()[:2]) == "\N{REPLACEMENT CHARACTER}"


# --- what a token looks like --------------------------------------------------------------------------


def displays(tokenizer: object, text: str) -> list[str]:
    return [label.display for label in token_labels(tokenizer, tokenizer.encode(text))]  # type: ignore[attr-defined,arg-type]


def test_whitespace_is_visible() -> None:
    text = " a\n\t\r\u00a0\u200b\x07"
    assert displays(CharTokenizer.train(text), text) == [
        "␣",
        "a",
        "⏎",
        "⇥",
        "␍",
        "\\u00A0",
        "\\u200B",
        "\\x07",
    ]


def test_partial_bytes_are_escaped_and_never_equal(gpt2: BPETokenizer) -> None:
    labels = token_labels(gpt2, gpt2.encode(MIXED))
    assert [label.index for label in labels] == list(range(len(labels)))
    assert not any("\N{REPLACEMENT CHARACTER}" in label.display for label in labels)
    assert labels[2].display == "␣\\xE6" and labels[3].display == "\\x97"
    assert gpt2.decode([label.id for label in labels]) == MIXED


def test_repeated_tokens_keep_their_own_index() -> None:
    tokenizer = WordTokenizer.train("the cat the cat the")
    labels = token_labels(tokenizer, tokenizer.encode("the cat the cat the"))
    assert len(labels) == len({label.index for label in labels}) == 5


@given(ANY_TEXT.filter(bool))
def test_html_shows_exactly_the_display(text: str) -> None:
    tokenizer = CharTokenizer.train(text)
    for label in token_labels(tokenizer, tokenizer.encode(text)):
        inner = label.html.strip("\u2068\u2069")
        assert html.unescape(inner) == label.display
        assert not set(inner) & set("<>\"'")
        assert label.display.strip() == label.display and label.display
        assert all(c.isprintable() for c in label.display)


def test_markup_is_harmless(bpe: BPETokenizer) -> None:
    prompt = "<b>x</b> </script> $a$ :red[b] & <br>"
    for tokenizer in (bpe, CharTokenizer.train(prompt), WordTokenizer.train(prompt)):
        labels = token_labels(tokenizer, tokenizer.encode(prompt))
        assert html.unescape("".join(label.html for label in labels)).replace("␣", " ") == prompt
        assert not any("<" in label.html or ">" in label.html for label in labels)


def test_right_to_left_text_is_isolated() -> None:
    labels = token_labels(CharTokenizer.train("אa"), CharTokenizer.train("אa").encode("אa"))
    assert labels[0].html == "\u2068א\u2069" and labels[1].html == "a"


def test_a_lone_accent_gets_a_carrier() -> None:
    tokenizer = CharTokenizer.train("e\u0301")
    assert displays(tokenizer, "e\u0301") == ["e", "\u25cc\u0301"]


def test_importing_tokenizers_stays_light() -> None:
    program = (
        "import sys; import lab.tokenizers; "
        "sys.exit(bool({'torch', 'tokenizers', 'transformers'} & {m for m in sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2]).returncode == 0
