"""The tokenizer that comes along: the source's ids, nothing prepended, every token shown as what it is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from lab.tokenizers import Tokenizer, token_labels, train_tokenizer
from model import GPT
from model.pretrained import PretrainedError
from model.pretrained.tokenizer import PretrainedTokenizer, TokenListTokenizer, find_tokenizer, load
from model.pretrained.tokenizer_export import engine_of, save_tokenizer
from tests.model.references import reference
from tests.model.variants import tiny

TEXT = "Seán 日本語 👩‍🚀 \t<b>x</b>\n  It's 12"


@pytest.fixture
def gpt2(shared: Path) -> PretrainedTokenizer:
    return find_tokenizer(shared / "data/gpt2_bpe", {})


def test_gpt2s_vocabulary(gpt2: PretrainedTokenizer, shared: Path) -> None:
    assert gpt2.encode("Hello world") == [15496, 995]
    assert gpt2.vocab_size == 50257 and gpt2.bos_id is None
    ours = train_tokenizer(f"gpt2:{shared / 'data/gpt2_bpe'}", "")
    ids = gpt2.encode(TEXT)
    assert ids == ours.encode(TEXT) and gpt2.decode(ids) == TEXT
    assert gpt2.pieces(ids) == ours.pieces(ids)
    assert [label.display for label in token_labels(gpt2, ids)] == [label.display for label in token_labels(ours, ids)]  # type: ignore[arg-type]
    for one, other in zip(gpt2.spans("aé日 b"), ours.spans("aé日 b"), strict=True):
        assert one.tolist() == other.tolist()


def test_partial_bytes_are_facts_in_labels(gpt2: PretrainedTokenizer) -> None:
    labels = token_labels(gpt2, gpt2.encode(" 語\n"))  # type: ignore[arg-type]
    assert [label.display for label in labels] == ["␣\\xE8", "\\xAA", "\\x9E", "⏎"]
    assert [label.index for label in labels] == [0, 1, 2, 3]


@pytest.fixture
def model_with_text(tmp_path: Path) -> Path:
    """A folder as the hub has them: a fast tokenizer that would put <s> before every text."""
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2, **{f"<0x{b:02X}>": b + 3 for b in range(256)}}
    vocabulary |= {"▁": 259, "▁a": 260, "a": 261, "b": 262}
    engine = Engine(models.BPE(vocab=vocabulary, merges=[("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    engine.add_special_tokens(["<s>", "</s>"])
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    reference("llama").save_pretrained(tmp_path)
    engine.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": {"content": "<s>"}, "eos_token": "</s>"}), encoding="utf-8"
    )
    return tmp_path


def test_llamas_kind_of_vocabulary(model_with_text: Path) -> None:
    tokenizer = GPT.from_pretrained(model_with_text).tokenizer
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocab_size) == (0, 1, 263)
    ids = tokenizer.encode("a b日")
    assert ids == [260, 259, 262, *(b + 3 for b in "日".encode())]  # no <s> that nobody wrote
    assert tokenizer.decode(ids) == " a b日"  # the space that the model does see
    assert tokenizer.pieces(ids) == [b" a", b" ", b"b", b"\xe6", b"\x97", b"\xa5"]
    assert tokenizer.encode("<s>a")[0] == 0  # unless somebody writes it
    with pytest.raises(ValueError, match="token id 263 at position 1 is outside"):
        tokenizer.pieces([0, 263])


def test_what_the_vocabulary_lacks_is_an_error() -> None:
    engine = Engine(models.WordLevel({"the": 0, "cat": 1, "<unk>": 2}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PretrainedTokenizer(engine)
    assert tokenizer.encode("the cat") == [0, 1]
    with pytest.raises(ValueError, match="does not know 1 part of this text: 'dog' at position 4") as error:
        tokenizer.encode("the dog")
    assert error.value.characters == ("dog",) and error.value.positions == (4,)  # type: ignore[attr-defined]
    assert tokenizer.encode("the dog", unknown="skip") == [0]
    assert tokenizer.encode("the dog", unknown="replace") == [0, 2]


def test_a_list_of_tokens(shared: Path) -> None:
    tokenizer = GPT.from_pretrained(shared / "models/gpt2-arch-mgm").tokenizer
    assert isinstance(tokenizer, TokenListTokenizer)
    ids = tokenizer.encode("<bos>  g__Bacteroides\n")
    assert tokenizer.decode(ids) == "<bos> g__Bacteroides" and ids[0] == tokenizer.bos_id == 2
    assert [label.display for label in token_labels(tokenizer, ids)] == ["<bos>", "g__Bacteroides"]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not know 2 names of this text: 'x' at position 0, 'y' at position 8"):
        tokenizer.encode("x <eos> y y x")
    assert tokenizer.encode("<bos> nothing", unknown="skip") == [2]
    assert [a.tolist() for a in tokenizer.spans("<bos> <eos>")] == [[2, 3], [0, 6], [5, 11]]


@pytest.mark.parametrize("names", [["a", "a"], ["a b"], [""]])
def test_a_list_of_tokens_that_is_none(names: list[str]) -> None:
    with pytest.raises(PretrainedError, match="the list of tokens has"):
        TokenListTokenizer(names)


def test_kept_and_read_again_it_is_the_same(gpt2: PretrainedTokenizer, shared: Path, tmp_path: Path) -> None:
    for tokenizer in (gpt2, find_tokenizer(shared / "models/gpt2-arch-mgm", {"bos_token_id": 2})):
        tokenizer.save(tmp_path / "tokenizer.json")
        again = load(json.loads((tmp_path / "tokenizer.json").read_text()))
        assert again == tokenizer and again.sha256 == tokenizer.sha256 and hash(again) == hash(tokenizer)
        assert (again.bos_id, again.eos_id) == (tokenizer.bos_id, tokenizer.eos_id)
        assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer
        assert find_tokenizer(tmp_path, {}) == tokenizer
        for name in (n for n in dir(Tokenizer) if not n.startswith("_") and n not in ("kind", "from_dict")):
            assert hasattr(tokenizer, name), f"{type(tokenizer).__name__} lacks {name}"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("tokenizer.json", "{", "is no JSON file"),
        ("tokenizer.json", "{}", "is no tokenizer file"),
        ("tokenizer.json", '{"kind": "magic"}', "kind 'magic' has no counterpart"),
        ("tokens.json", '{"a": 1}', "is no list of tokens"),
    ],
)
def test_a_damaged_tokenizer_is_named(tmp_path: Path, file: str, content: str, words: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(PretrainedError, match=words):
        find_tokenizer(tmp_path, {})


# --- ours, for transformers ------------------------------------------------------------------------------------


def trained(kind: str) -> Any:
    return train_tokenizer(kind, TEXT * 3 + " the cat the cat")


@pytest.mark.parametrize("kind", ["char", "byte", "bpe:300", "word"])
def test_transformers_reads_our_tokenizers(kind: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = trained(kind)
    model = tiny(d_vocab=ours.vocab_size)
    model.tokenizer = ours
    model.save_pretrained(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    again = GPT.from_pretrained(tmp_path).tokenizer
    for text in (TEXT, "the cat", "  the \n\ncat"):
        ids = ours.encode(text, unknown="skip")
        if ours.decode(ids) != text:
            continue
        assert theirs.encode(text, add_special_tokens=False) == again.encode(text) == ids
        assert theirs.decode(ids) == again.decode(ids) == text
    assert (again.bos_id, again.eos_id) == (ours.bos_id, ours.eos_id)
    assert theirs.bos_token_id == ours.bos_id


def test_symbols_longest_first() -> None:
    from lab.tokenizers import SymbolTokenizer

    ours = SymbolTokenizer(["1", "17", "+", "7", "="])
    engine = engine_of(ours.to_dict())
    assert engine.encode("17+1=7").ids == ours.encode("17+1=7") == [1, 2, 0, 4, 3]
    with pytest.raises(ValueError, match="cannot read this text"):
        PretrainedTokenizer(engine).encode("18")


def test_a_tokenizer_without_a_counterpart(tmp_path: Path) -> None:
    class Strange:
        def to_dict(self) -> dict[str, Any]:
            return {"kind": "strange"}

    with pytest.raises(PretrainedError, match="kind 'strange' has no counterpart"):
        save_tokenizer(Strange(), tmp_path)
