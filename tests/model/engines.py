"""Small engines of every kind of tokenizer.json, to be tested against the tokenizers package."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine

WORDS = ["to", "##day", "##mw", "##en", "the", "park", "Tom", "went", ".", ",", "do", "not", "'", "s", "##s"]
LETTERS = [chr(c) for c in range(33, 127)]


def _word_piece(cleanup: bool = True) -> Engine:
    pieces = ["[UNK]", "[CLS]", *WORDS, *(c for c in LETTERS if c not in WORDS), *(f"##{c}" for c in LETTERS)]
    vocabulary = {p: i for i, p in enumerate(dict.fromkeys(pieces))}
    engine = Engine(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(lowercase=False)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(cleanup=cleanup)
    engine.add_special_tokens(["[CLS]"])
    return engine


def _words(decoder: bool = False) -> Engine:
    engine = Engine(models.WordLevel({w: i for i, w in enumerate(["<unk>", *WORDS])}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    if decoder:
        engine.decoder = decoders.Fuse()
    return engine


def _suffix() -> Engine:
    pieces = ["<unk>", *LETTERS, *(f"{c}</w>" for c in LETTERS), "to", "the</w>", "to</w>", "th"]
    vocabulary = {p: i for i, p in enumerate(pieces)}
    merges = [("t", "h"), ("th", "e</w>"), ("t", "o"), ("t", "o</w>")]
    engine = Engine(models.BPE(vocabulary, merges, unk_token="<unk>", end_of_word_suffix="</w>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.decoder = decoders.BPEDecoder(suffix="</w>")
    return engine


def _split_bpe() -> Engine:
    """Byte-pair encoding over words of white space, without a decoder."""
    engine = Engine(models.BPE({p: i for i, p in enumerate([*LETTERS, "th", "the"])}, [("t", "h"), ("th", "e")]))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    return engine


def _metaspace(scheme: str = "always") -> Engine:
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁the", -1.0), *((c, -3.0) for c in LETTERS)]
    engine = Engine(models.Unigram(pieces, unk_id=0))
    engine.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    engine.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return engine


def _byte_fallback(strip: bool = True, odd: bool = False) -> Engine:
    vocabulary = {"<unk>": 0, **{f"<0x{b:02X}>": b + 1 for b in range(256)}}
    vocabulary |= {p: 257 + i for i, p in enumerate(["▁", "▁a", "a", "b", "春"])}
    engine = Engine(models.BPE(vocabulary, [("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts: list[decoders.Decoder] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if odd:  # takes white space from the end as well
        engine.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 1)])
    else:
        engine.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if strip else parts)
    return engine


def _byte_level(decoder: bool = True) -> Engine:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate([*alphabet, "Ġt", "Ġth", "Ġthe", "he"])}
    engine = Engine(models.BPE(vocabulary, [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("h", "e")]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if decoder:
        engine.decoder = decoders.ByteLevel()
    engine.add_tokens(["<tool>", "日本"])
    engine.add_special_tokens(["<|endoftext|>"])
    return engine


def _characters() -> Engine:
    engine = Engine(models.WordLevel({c: i for i, c in enumerate([" ", "\n", *LETTERS])}))
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    engine.decoder = decoders.Fuse()
    return engine


def _rewritten() -> Engine:
    """A decoder that rewrites the joined text: an end is certain only when the text is whole."""
    engine = _words()
    engine.decoder = decoders.Sequence(
        [decoders.WordPiece(cleanup=False), decoders.Fuse(), decoders.Replace(" .", ".")]
    )
    return engine


def _stripped() -> Engine:
    """A decoder that takes a mark away from the end of every token."""
    engine = _suffix()
    engine.decoder = decoders.Sequence([decoders.Replace("</w>", " "), decoders.Fuse(), decoders.Strip(" ", 0, 1)])
    return engine


def _ctc() -> Engine:
    engine = Engine(models.WordLevel({c: i for i, c in enumerate(["<unk>", "<pad>", "|", *LETTERS[:60]])}, "<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Split("", behavior="isolated")
    engine.decoder = decoders.CTC()
    return engine


ENGINES: dict[str, Callable[[], Engine]] = {
    "WordPiece": _word_piece,
    "WordPiece, not cleaned": lambda: _word_piece(cleanup=False),
    "WordLevel, no decoder": _words,
    "WordLevel, Fuse": lambda: _words(decoder=True),
    "BPE with </w>": _suffix,
    "BPE, Whitespace, no decoder": _split_bpe,
    "Metaspace, always": _metaspace,
    "Metaspace, first": lambda: _metaspace("first"),
    "Metaspace, never": lambda: _metaspace("never"),
    "byte fallback": lambda: _byte_fallback(strip=False),
    "byte fallback, Strip": _byte_fallback,
    "byte fallback, Strip at both ends": lambda: _byte_fallback(odd=True),
    "ByteLevel": _byte_level,
    "ByteLevel, no decoder": lambda: _byte_level(decoder=False),
    "characters": _characters,
    "rewritten": _rewritten,
    "suffix stripped": _stripped,
    "CTC": _ctc,
}
