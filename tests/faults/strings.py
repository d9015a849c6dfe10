"""Random strings through every kind of tokenizer: nothing is lost, and the one error is UnknownCharacters."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from lab.tokenizers import (
    SymbolTokenizer,
    UnknownCharacters,
    token_labels,
    train_tokenizer,
    vocabulary_labels,
)
from model.pretrained.tokenizer import PretrainedTokenizer, TokenListTokenizer, load
from model.text_stream import TextStream
from tests.model.engines import ENGINES

SEED_TEXT = "Tom went to the park, the park. It's 17 + 4 = 21!\n\n春 日本 é\n"
RIGHT_TO_LEFT = "שלום עולם مرحبا بالعالم"
JOINED = ("👩‍🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "1️⃣")
MARKS = ("<|endoftext|>", "<s>", "</s>", "<unk>", "[UNK]", "[CLS]", "##day", "the</w>", "<0xE6>", "▁", "Ġthe", "<tool>")


def tokenizers() -> dict[str, Any]:
    """One of every kind, by name."""
    kinds: dict[str, Any] = {
        spec: train_tokenizer(spec, SEED_TEXT * 8) for spec in ("char", "byte", "word", "word:9", "bpe:300")
    }
    kinds["symbol"] = SymbolTokenizer(["1", "17", "+", "=", "4", "the", " "])
    kinds["token-list"] = TokenListTokenizer(["Tom", "went", "the", "<unk>"])
    kinds |= {name: PretrainedTokenizer(make()) for name, make in ENGINES.items()}
    return kinds


def some_text(random: random.Random) -> str:
    """Up to 40 characters of all planes, marks, controls, words of the vocabularies, or half a surrogate pair."""
    makers: tuple[Callable[[], str], ...] = (
        lambda: chr(random.randrange(32, 127)),
        lambda: chr(random.randrange(0, 32)),
        lambda: chr(random.randrange(0x7F, 0xA1)),
        lambda: chr(random.choice([*range(0, 0xD800, 7), *range(0xE000, 0x110000, 97)])),
        lambda: chr(random.randrange(0x300, 0x370)),
        lambda: random.choice("\x00\u00ad\u200b\u200d\u200e\u202e\u2028\u2029\u2066\ufe0f\ufeff\ufffd\uffff\U000e0041"),
        lambda: random.choice(RIGHT_TO_LEFT),
        lambda: random.choice(JOINED),
        lambda: random.choice(MARKS),
        lambda: random.choice(SEED_TEXT.split(" ")) + random.choice(("", " ", "  ")),
        lambda: unicodedata.normalize(random.choice(("NFC", "NFD")), random.choice("éàü한글ﬁ")),
    )
    text = "".join(random.choice(makers)() for _ in range(random.randrange(0, 20)))[:40]
    if random.random() < 0.05:
        at = random.randrange(len(text) + 1)
        text = text[:at] + chr(random.randrange(0xD800, 0xE000)) + text[at:]
    return text


WHOLE = {"char", "byte", "word", "symbol", "bpe:300", "ByteLevel", "ByteLevel, no decoder", "characters"}
"""Kinds that say a text as it was given; the others normalise, or split at white space, as their files ask for."""


def faults(tokenizer: Any, text: str, is_whole: bool) -> Iterator[str]:
    """What is wrong with one text in one tokenizer."""
    halves = any("\ud800" <= c <= "\udfff" for c in text)
    try:
        ids = tokenizer.encode(text)
    except UnknownCharacters as error:
        if any(text[p : p + len(c)] != c for c, p in zip(error.characters, error.positions, strict=True)):
            yield "an unknown part is not where the error says"
        try:
            ids = tokenizer.encode(text, unknown="skip")
        except UnknownCharacters:
            return
    else:
        if halves:
            yield "half of a surrogate pair was encoded"
        if is_whole and tokenizer.decode(ids) != text:
            yield f"decoded to {tokenizer.decode(ids)!r}"
    decoded = tokenizer.decode(ids)
    stream = TextStream(tokenizer, [])
    streamed = "".join(stream.add(i, n == len(ids) - 1) for n, i in enumerate(ids))
    if streamed != decoded:
        yield f"streamed {streamed!r}, decoded {decoded!r}"
    labels = token_labels(tokenizer, ids)
    if [label.id for label in labels] != list(ids) or len(vocabulary_labels(tokenizer, ids)) != len(ids):
        yield "a token has no label"
    if any(not label.display.isprintable() or not label.display for label in labels):
        yield "a label shows nothing"
    pieces = tokenizer.pieces(ids)
    if not isinstance(tokenizer, TokenListTokenizer):
        joined = b"".join(p if isinstance(p, bytes) else p.encode() for p in pieces).decode("utf-8", "replace")
        if joined != decoded:
            yield f"pieces {joined!r}, decoded {decoded!r}"


def run(n: int, seed: int) -> tuple[int, int, list[str]]:
    """(texts tried in tokenizers, faults, what each fault was): ``n`` texts of a seed through every kind."""
    source = random.Random(seed)
    kinds = tokenizers()
    for name, tokenizer in list(kinds.items()):
        if isinstance(tokenizer, PretrainedTokenizer | TokenListTokenizer):
            kinds[f"{name}, read again"] = load(tokenizer.to_dict())
    tried, notes = 0, []
    for _ in range(n):
        text = some_text(source)
        for name, tokenizer in kinds.items():
            tried += 1
            try:
                found = list(faults(tokenizer, text, name.removesuffix(", read again") in WHOLE))
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            notes += [f"{name}: {text!r}: {fault}" for fault in found]
    return tried, len(notes), notes
