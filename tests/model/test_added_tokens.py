"""Tokens that a folder adds beside its tokenizer.json have the ids that transformers' AutoTokenizer gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, pre_tokenizers

from model.pretrained import PretrainedError
from model.pretrained.tokenizer import PretrainedTokenizer, find_tokenizer, load
from tests.model.engines import ENGINES

START, END, TOOL = "<|im_start|>", "<|im_end|>", "<tool>"
CHAT = f"{START}user\nTom went{END} {END}<x> {TOOL}a<s>b</s> <m>the{END}"
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}


def token(content: str, special: bool = True, **flags: bool) -> dict[str, Any]:
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    return {"content": content, **plain, "special": special, **flags}


def folder_of(path: Path, engine: str | None, files: dict[str, Any], model_type: str | None = "llama") -> Path:
    if engine is not None:
        ENGINES[engine]().save(str(path / "tokenizer.json"))
    if model_type is not None:
        (path / "config.json").write_text(json.dumps({"model_type": model_type}))
    for name, content in files.items():
        (path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def size(engine: str) -> int:
    return PretrainedTokenizer(ENGINES[engine]()).vocab_size


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    n = size("WordPiece")
    b = size("ByteLevel")
    both = {str(b): token(START), str(b + 1): token(END)}
    return {
        "added_tokens.json": (
            "ByteLevel",
            {"added_tokens.json": {START: b, END: b + 1}, "tokenizer_config.json": {**FAST, "eos_token": END}},
        ),
        "added_tokens.json alone": ("ByteLevel", {"added_tokens.json": {START: b}}),
        "added_tokens.json, ids from another end": ("WordPiece", {"added_tokens.json": {END: n + 1, START: n}}),
        "added_tokens_decoder": (
            "ByteLevel",
            {"tokenizer_config.json": {**FAST, "added_tokens_decoder": both, "bos_token": START, "eos_token": END}},
        ),
        "marks as objects": (
            "ByteLevel",
            {
                "tokenizer_config.json": {
                    **FAST,
                    "added_tokens_decoder": both,
                    "bos_token": {"__type": "AddedToken", **token(START)},
                    "eos_token": {"__type": "AddedToken", **token(END)},
                }
            },
        ),
        **{
            f"flag {flag} of {engine}": (
                engine,
                {
                    "tokenizer_config.json": {
                        **FAST,
                        "added_tokens_decoder": {
                            str(size(engine)): token(START, **{flag: True}),
                            str(size(engine) + 1): token(END, special=False, **{flag: True}),
                        },
                    }
                },
            )
            for flag in ("lstrip", "rstrip", "normalized", "single_word")
            for engine in ("ByteLevel", "WordPiece", "byte fallback")
        },
        "other flags than in tokenizer.json": (
            "ByteLevel",
            {"tokenizer_config.json": {**FAST, "added_tokens_decoder": {str(b - 3): token(TOOL, lstrip=True)}}},
        ),
        "additional_special_tokens": (
            "ByteLevel",
            {"tokenizer_config.json": {**FAST, "additional_special_tokens": [START, END], "eos_token": END}},
        ),
        "extra_special_tokens, a list": (
            "WordPiece",
            {"tokenizer_config.json": {**FAST, "extra_special_tokens": [START]}},
        ),
        "extra_special_tokens, an object": (
            "WordPiece",
            {"tokenizer_config.json": {**FAST, "extra_special_tokens": {"image_token": START}}},
        ),
        "special_tokens_map.json": (
            "ByteLevel",
            {
                "special_tokens_map.json": {
                    "bos_token": "<s>",
                    "eos_token": token(END, rstrip=True),
                    "additional_special_tokens": ["<x>"],
                },
                "tokenizer_config.json": FAST,
            },
        ),
        "the map goes before the config": (
            "ByteLevel",
            {
                "special_tokens_map.json": {"bos_token": "<m>", "pad_token": "<p>"},
                "tokenizer_config.json": {**FAST, "bos_token": "<s>"},
            },
        ),
        "not where the config lists added tokens": (
            "ByteLevel",
            {
                "special_tokens_map.json": {"bos_token": "<m>"},
                "tokenizer_config.json": {**FAST, "bos_token": "<s>", "added_tokens_decoder": both},
            },
        ),
        "a mark that the vocabulary has as a plain word": (
            "WordPiece",
            {"tokenizer_config.json": {**FAST, "bos_token": "[CLS]", "eos_token": "Tom"}},
        ),
        "a mark that nothing has": (
            "ByteLevel",
            {"tokenizer_config.json": {**FAST, "bos_token": "<s>", "eos_token": "</s>"}},
        ),
        "no mark": (
            "ByteLevel",
            {"tokenizer_config.json": {**FAST, "bos_token": None, "additional_special_tokens": ["<x>"]}},
        ),
        "add_bos_token": (
            "ByteLevel",
            {"tokenizer_config.json": {**FAST, "add_bos_token": True, "add_eos_token": True, "bos_token": "<s>"}},
        ),
        "a tokenizer of Llama's": (
            "byte fallback, Strip",
            {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "legacy": True, "eos_token": END}},
        ),
        "chat tokens": (
            "byte fallback",
            {
                "tokenizer_config.json": {**FAST, "bos_token": "<s>", "eos_token": END, "chat_template": "{{ x }}"},
                "added_tokens.json": {START: size("byte fallback"), END: size("byte fallback") + 1},
            },
        ),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_ids_and_marks_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    engine, files = cases()[name]
    folder = folder_of(tmp_path, engine, files)
    theirs = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ours = find_tokenizer(folder, {})
    assert isinstance(ours, PretrainedTokenizer)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)
    # A space alone between two added tokens is read anew by transformers' class for Llama, not as the file says.
    text = CHAT.replace(f"{END} {END}", END) if "Llama" in name else CHAT
    ids = theirs.encode(text, add_special_tokens=False)
    assert ours.encode(text, unknown="replace") == ids
    assert ours.vocab_size == max(theirs.get_vocab().values()) + 1
    for content in theirs.get_added_vocab():
        assert ours.encode(content, unknown="replace") == theirs.encode(content, add_special_tokens=False)
        assert content in ours.decode(ours.encode(content, unknown="replace"))
    again = load(json.loads(json.dumps(ours.to_dict())))
    assert again.encode(text, unknown="replace") == ids and again == ours


def gpt2_folder(path: Path, files: dict[str, Any], end: bool = True) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, "Ġt", *(["<|endoftext|>"] if end else [])]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    return folder_of(path, None, {"vocab.json": vocabulary, "merges.txt": "#version: 0.2\nĠ t\n", **files}, "gpt2")


SPECIALS: list[dict[str, Any]] = [
    {"added_tokens.json": {START: 300}},
    {"tokenizer_config.json": {"additional_special_tokens": [START], "eos_token": END}},
    {"special_tokens_map.json": {"bos_token": START, "eos_token": END}},
]
AT_258 = {"tokenizer_config.json": {"added_tokens_decoder": {"258": token(START, lstrip=True)}, "eos_token": START}}


@pytest.mark.parametrize(
    ("files", "end"),
    # An id beyond a hole, as 258 is where there is no end token, is a case of its own
    [*((files, end) for files in SPECIALS for end in (True, False)), (AT_258, True)],
)
def test_gpt2s_files_with_tokens_beside_them(files: dict[str, Any], end: bool, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    if "added_tokens.json" in files:
        files = {"added_tokens.json": {START: 258 if end else 257}}
    folder = gpt2_folder(tmp_path, {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}, **files}, end)
    theirs = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ours = find_tokenizer(folder, {})
    assert ours is not None
    assert ours.encode(CHAT) == theirs.encode(CHAT, add_special_tokens=False)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)


def test_an_id_without_room_is_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "ByteLevel", {"added_tokens.json": {START: 900}, "tokenizer_config.json": FAST})
    with pytest.warns(UserWarning, match=r"<\|im_start\|>.* the id 900, but its vocabulary has no room there"):
        ours = find_tokenizer(folder, {})
    assert ours is not None and ours.encode(START) == [size("ByteLevel")]


def test_what_is_held_already_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ENGINES["ByteLevel"]()
    engine.add_special_tokens([AddedToken(START, lstrip=True, normalized=False)])
    index = engine.token_to_id(START)
    listed = {str(index): token(START, lstrip=True), str(index - 1): token("<|endoftext|>")}
    folder_of(tmp_path, None, {"tokenizer_config.json": {"added_tokens_decoder": listed, "eos_token": START}})
    engine.save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setattr("model.pretrained.added_tokens._transformers_own", lambda folder: pytest.fail("it was asked"))
    ours = find_tokenizer(tmp_path, {"bos_token_id": 7})
    assert ours is not None and (ours.bos_id, ours.eos_id) == (7, index)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"added_tokens.json": "{"}, r"added_tokens\.json is no JSON file"),
        ({"added_tokens.json": ["<x>"]}, r"added_tokens\.json holds no JSON object"),
        ({"added_tokens.json": {"<x>": "seven"}}, r"added_tokens\.json gives '<x>' the id 'seven'"),
        ({"tokenizer_config.json": []}, r"tokenizer_config\.json holds no JSON object"),
        (
            {"tokenizer_config.json": {"added_tokens_decoder": {"1": 3}}},
            r"tokenizer_config\.json: added_tokens_decoder",
        ),
        (
            {"tokenizer_config.json": {"added_tokens_decoder": {"x": token("<x>")}}},
            r"added_tokens_decoder has no token",
        ),
        ({"special_tokens_map.json": "[" * 100_000}, r"special_tokens_map\.json is nested too deeply"),
    ],
)
def test_a_damaged_list_of_tokens_is_named(files: dict[str, Any], words: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "ByteLevel", files)
    with pytest.raises(PretrainedError, match=words):
        find_tokenizer(folder, {})
