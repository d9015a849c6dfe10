"""The tokenizer of a folder, in the form every tool here reads: ids, pieces, labels, a hash, a JSON form.

Nothing is prepended or appended to a text. What a token looks like is what it is: the space that Llama 2's kind of
vocabulary puts before a text is shown, for the model does see it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.pretrained.files import PretrainedError, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

KINDS = ("pretrained", "token-list")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space


class UnknownText(ValueError):
    """The text holds something the vocabulary lacks: ``characters`` (or words), at ``positions`` in characters."""

    def __init__(self, characters: Sequence[str], positions: Sequence[int], unit: str):
        self.characters, self.positions, self.unit = tuple(characters), tuple(positions), unit
        shown = ", ".join(f"{c!r} at position {p}" for c, p in list(zip(characters, positions, strict=True))[:8])
        plural = "" if len(self.characters) == 1 else "s"
        super().__init__(
            f"the tokenizer does not know {len(self.characters)} {unit}{plural} of this text: {shown}. "
            f"Leave them out (unknown='skip') or write known ones."
        )

    def __reduce__(self) -> Any:
        return type(self), (self.characters, self.positions, self.unit)


class _Tokenizer:
    """What the two kinds share."""

    kind: str
    bos_id: int | None
    eos_id: int | None

    @property
    def vocab_size(self) -> int:
        raise NotImplementedError

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    @cached_property
    def sha256(self) -> str:
        """Hash of everything that decides what an id means."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the JSON form; ``load`` reads it."""
        Path(path).write_text(json.dumps(self.to_dict(), ensure_ascii=True) + "\n", encoding="ascii")

    @property
    def dtype(self) -> Any:
        """numpy dtype that holds every id."""
        import numpy as np

        return np.uint16 if self.vocab_size <= 1 << 16 else np.uint32

    def encode_array(self, text: str) -> Any:
        """Ids of a text as a numpy array [token]."""
        import numpy as np

        return np.asarray(self.encode(text), dtype=self.dtype)

    def check_ids(self, ids: Iterable[int]) -> list[int]:
        """``ids`` as a list of int, or ValueError naming the first that is no id of this vocabulary."""
        checked = [int(i) for i in ids]
        for position, i in enumerate(checked):
            if not 0 <= i < self.vocab_size:
                raise ValueError(
                    f"token id {i} at position {position} is outside this tokenizer's "
                    f"vocabulary of {self.vocab_size} (ids 0 to {self.vocab_size - 1})"
                )
        return checked

    def __len__(self) -> int:
        return self.vocab_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tokenizer) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"


class PretrainedTokenizer(_Tokenizer):
    """A ``tokenizers.Tokenizer``: the tokenizer.json of GPT-2, Llama, Qwen, SmolLM2 and the like."""

    kind = "pretrained"

    def __init__(self, engine: Engine, bos_id: int | None = None, eos_id: int | None = None):
        self.engine = engine
        self.engine.no_padding()
        self.engine.no_truncation()
        self.bos_id, self.eos_id = bos_id, eos_id

    @cached_property
    def vocab_size(self) -> int:
        return max(self.engine.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def _unknown_id(self) -> int | None:
        token = self._description["model"].get("unk_token")
        if token is None and (index := self._description["model"].get("unk_id")) is not None:
            return int(index)
        return None if token is None else self.engine.token_to_id(token)

    @cached_property
    def _description(self) -> dict[str, Any]:
        return json.loads(self.engine.to_str())

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        """Ids of a text, without a beginning-of-text token; one that is written in the text is taken as such."""
        if unknown not in ("error", "skip", "replace"):
            raise ValueError(f"unknown must be 'error', 'skip' or 'replace', not {unknown!r}")
        try:
            encoded = self.engine.encode(text, add_special_tokens=False)
        except Exception as error:  # what the engine raises has no type of its own
            if type(error) is not Exception and not isinstance(error, ValueError):
                raise
            raise ValueError(f"the tokenizer cannot read this text: {error}") from None
        if self._unknown_id is None or unknown == "replace" or self._unknown_id not in encoded.ids:
            return encoded.ids
        if unknown == "skip":
            return [i for i in encoded.ids if i != self._unknown_id]
        where = [span for i, span in zip(encoded.ids, encoded.offsets, strict=True) if i == self._unknown_id]
        if all(text[a:b] == self.engine.id_to_token(self._unknown_id) for a, b in where):
            return encoded.ids  # written out in the text
        raise UnknownText([text[a:b] for a, b in where], [a for a, _ in where], "part")

    @cached_property
    def _bytes(self) -> list[bytes]:
        """What each id adds to a text. Added tokens stand for their own text."""
        decoders = list(_parts(self._description.get("decoder")))
        if "ByteLevel" in decoders:
            alphabet = {c: b for b, c in enumerate(byte_alphabet())}

            def read(token: str) -> bytes:
                return b"".join(bytes((alphabet[c],)) if c in alphabet else c.encode() for c in token)

        elif "ByteFallback" in decoders or "Metaspace" in decoders or _SPACE in self._spaces():

            def read(token: str) -> bytes:
                byte = _BYTE.fullmatch(token)
                return bytes((int(byte[1], 16),)) if byte else token.replace(_SPACE, " ").encode()

        else:

            def read(token: str) -> bytes:
                return token.encode()

        pieces = [b""] * self.vocab_size
        for token, i in self.engine.get_vocab(with_added_tokens=True).items():
            pieces[i] = read(token)
        for i, added in self.engine.get_added_tokens_decoder().items():
            pieces[i] = added.content.encode()
        return pieces

    def _spaces(self) -> str:
        return json.dumps([self._description.get(k) for k in ("decoder", "normalizer", "pre_tokenizer")],
                          ensure_ascii=False)  # fmt: skip

    def pieces(self, ids: Iterable[int]) -> list[bytes]:
        """The bytes each id stands for; joined they are the decoded text."""
        return [self._bytes[i] for i in self.check_ids(ids)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``. Bytes that form no whole UTF-8 character become U+FFFD."""
        return b"".join(self.pieces(ids)).decode("utf-8", errors="replace")

    def spans(self, text: str) -> tuple[Any, Any, Any]:
        """(ids, starts, ends), each [token]: token i covers the characters text[starts[i]:ends[i]]."""
        import numpy as np

        encoded = self.engine.encode(text, add_special_tokens=False)
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)
        return np.array(encoded.ids, dtype=self.dtype), offsets[:, 0], offsets[:, 1]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "engine": self._description, "bos": self.bos_id, "eos": self.eos_id}

    def __getstate__(self) -> dict[str, Any]:
        return {"engine": self.engine, "bos_id": self.bos_id, "eos_id": self.eos_id}


class TokenListTokenizer(_Tokenizer):
    """A list of names, an id each, written with spaces between them: vocabularies of things that are no text."""

    kind = "token-list"

    def __init__(self, names: Sequence[str], bos_id: int | None = None, eos_id: int | None = None):
        self.names = tuple(names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        if len(self._ids) != len(self.names):
            twice = next(n for i, n in enumerate(self.names) if self._ids[n] != i)
            raise PretrainedError(f"the list of tokens has {twice!r} twice; each needs one id.")
        bad = next((n for n in self.names if not n or n.split() != [n]), None)
        if bad is not None:
            raise PretrainedError(f"the list of tokens has {bad!r}, which cannot be told apart between spaces.")
        self.bos_id, self.eos_id = bos_id, eos_id

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        """The names between the white space of a text. A name that is not listed is an error, or left out."""
        return [i for i, _, _ in self._words(text, unknown)]

    def _words(self, text: str, unknown: str = "error") -> list[tuple[int, int, int]]:
        if unknown not in ("error", "skip", "replace"):
            raise ValueError(f"unknown must be 'error', 'skip' or 'replace', not {unknown!r}")
        words = [(m[0], m.start(), m.end()) for m in re.finditer(r"\S+", text)]
        stand_in = next((self._ids[n] for n in ("<unk>", "<mask>") if n in self._ids), None)
        if unknown == "replace" and stand_in is not None:
            return [(self._ids.get(w, stand_in), a, b) for w, a, b in words]
        strange = {w: a for w, a, _ in reversed(words) if w not in self._ids}
        if strange and unknown != "skip":
            ordered = sorted(strange.items(), key=lambda item: item[1])
            raise UnknownText([w for w, _ in ordered], [a for _, a in ordered], "name")
        return [(self._ids[w], a, b) for w, a, b in words if w in self._ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The name of each id; the spaces between them belong to none."""
        return [self.names[i] for i in self.check_ids(ids)]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.pieces(ids))

    def spans(self, text: str) -> tuple[Any, Any, Any]:
        """(ids, starts, ends), each [token]: token i covers the characters text[starts[i]:ends[i]]."""
        import numpy as np

        words = np.array(self._words(text), dtype=np.int64).reshape(-1, 3)
        return words[:, 0].astype(self.dtype), words[:, 1], words[:, 2]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "names": list(self.names), "bos": self.bos_id, "eos": self.eos_id}


def byte_alphabet() -> tuple[str, ...]:
    """The printable character that byte-level vocabularies write for each byte (Radford et al. 2019)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    stand_ins = iter(range(0x100, 0x200))
    return tuple(chr(b) if b in printable else chr(next(stand_ins)) for b in range(256))


def _parts(description: Any) -> Iterator[str]:
    """The types in a decoder's description, those inside of a sequence too."""
    if isinstance(description, dict):
        yield description.get("type", "")
        for part in description.get("decoders", ()):
            yield from _parts(part)


# --- out of a folder -------------------------------------------------------------------------------------------


def find_tokenizer(folder: Path, config: Mapping[str, Any]) -> Any:
    """The tokenizer in a model's folder, or None where it has none. PretrainedError naming a damaged file."""
    if (path := folder / "tokenizer.json").is_file():
        return _from_json(path, folder, config)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        from model.pretrained.tokenizer_export import gpt2_engine

        engine = gpt2_engine(folder)
        return PretrainedTokenizer(engine, *_marks(engine.token_to_id, folder, config))
    if (path := folder / "tokenizer.model").is_file():
        return _from_sentencepiece(path, folder, config)
    if (path := folder / "tokens.json").is_file():
        names = read_json(path)
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise PretrainedError(f"{path} is no list of tokens' names.")
        return TokenListTokenizer(names, *_marks(lambda n: names.index(n) if n in names else None, folder, config))
    return None


def load(data: Mapping[str, Any]) -> Any:
    """The tokenizer that ``to_dict`` described."""
    kind = data.get("kind")
    if kind == "token-list":
        return TokenListTokenizer(data["names"], data.get("bos"), data.get("eos"))
    if kind == "pretrained":
        return PretrainedTokenizer(_engine(json.dumps(data["engine"]), "tokenizer.json"), data["bos"], data["eos"])
    raise PretrainedError(f"tokenizer kind {kind!r} is none of {', '.join(KINDS)}.")


def _from_json(path: Path, folder: Path, config: Mapping[str, Any]) -> Any:
    data = read_json(path)
    if isinstance(data, dict) and data.get("kind") in KINDS:
        return load(data)
    if isinstance(data, dict) and "kind" in data:
        from model.pretrained.tokenizer_export import engine_of

        engine = engine_of(data)
        return PretrainedTokenizer(engine, *_marks(engine.token_to_id, folder, config))
    engine = _engine(path.read_text(encoding="utf-8"), str(path))
    return PretrainedTokenizer(engine, *_marks(engine.token_to_id, folder, config))


def _engine(text: str, origin: str) -> Engine:
    from tokenizers import Tokenizer as Engine

    try:
        return Engine.from_str(text)
    except Exception as error:  # what the engine raises has no type of its own
        if type(error) is not Exception and not isinstance(error, ValueError):
            raise
        raise PretrainedError(f"{origin} is no tokenizer file: {error}") from None


def _from_sentencepiece(path: Path, folder: Path, config: Mapping[str, Any]) -> Any:
    import transformers

    try:
        theirs = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, ImportError, KeyError, RuntimeError) as error:
        raise PretrainedError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    engine = getattr(theirs, "backend_tokenizer", None)
    if engine is None:
        raise PretrainedError(f"{path} holds a tokenizer that the tokenizers package does not know.")
    return PretrainedTokenizer(engine, *_marks(engine.token_to_id, folder, config))


def _marks(id_of: Any, folder: Path, config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(bos, eos): as tokenizer_config.json names them, else the ids in config.json."""
    path = folder / "tokenizer_config.json"
    named = read_json(path) if path.is_file() else {}
    found: list[int | None] = []
    for mark in ("bos", "eos"):
        token = named.get(f"{mark}_token") if isinstance(named, dict) else None
        token = token.get("content") if isinstance(token, dict) else token
        i = id_of(token) if isinstance(token, str) else None
        if i is None:
            listed = config.get(f"{mark}_token_id")
            i = listed[0] if isinstance(listed, list) and listed else listed
        found.append(i if isinstance(i, int) else None)
    return found[0], found[1]
