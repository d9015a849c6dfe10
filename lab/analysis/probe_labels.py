"""What a probe is asked to read: texts with a label on their tokens, from gold corpora, treebanks or a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.corpora import Corpus, GoldLabels, LabelLayer, open_corpus
from lab.tokenizers import Tokenizer, UnknownCharacters

SOURCES = ("stories", "python", "conllu")
STORIES_SIZE = 700_000
"""Characters of stories that are generated for probes: about 14,000 labelled validation words."""
CONLLU_FIELDS = {"upos": 3, "xpos": 4, "deprel": 7}


class UnreadableLabels(ValueError):
    """A tokenizer knows no document of what has the labels: `what` that is, and the last `problem` met."""

    def __init__(self, what: str, problem: UnknownCharacters) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"The model's tokenizer cannot read {what}: no document is without words unknown to it ({problem}) Use a "
            "model trained on such text, or one with a byte-level tokenizer."
        )

    def __reduce__(self) -> tuple[Any, ...]:  # the default would call __init__ with the message
        return type(self), (self.what, self.problem)


@dataclass(frozen=True, eq=False)
class LabelledTokens:
    """Documents of token ids, each token with a class or none.

    name        what is asked, e.g. "stories:pos"
    classes     the possible answers
    documents   ids [token] of each document; codes [token] index into classes, -1 where there is no label
    skipped     documents left out because the tokenizer does not know a word or character of theirs
    """

    name: str
    classes: tuple[str, ...]
    documents: tuple[np.ndarray, ...]
    codes: tuple[np.ndarray, ...]
    skipped: int = 0

    def __len__(self) -> int:
        """Labelled tokens in all."""
        return sum(int((codes >= 0).sum()) for codes in self.codes)


def read_labels(spec: str, tokenizer: Tokenizer, *, size: int | None = None, seed: int = 0) -> LabelledTokens:
    """Labels by name: "stories:pos" (or role, entity, sex, referent, quoted), "python:token", "conllu:FILE", whose
    universal parts of speech are read, or "conllu:FILE:xpos", "conllu:FILE:deprel".

    The corpora's validation texts are read, which a model trained on them here has not seen. size: characters of
    the corpus, a tenth of which is read (stories: as many as probes need by default); seed: of the generated stories.
    ValueError for a source, a layer or a file that is not there.
    """
    source, _, what = spec.partition(":")
    if source not in SOURCES or not what:
        raise ValueError(
            f"Labels {spec!r} are not known: give stories:pos, python:token, or conllu:FILE (a treebank file)."
        )
    if source == "conllu":
        path, _, field = what.rpartition(":")
        named = path and field in CONLLU_FIELDS
        return conllu_labels(path if named else what, tokenizer, field=field if named else "upos")
    if size is None and source == "stories":
        size = STORIES_SIZE
    return corpus_labels(open_corpus(source, seed=seed, size=size), tokenizer, what)


def corpus_labels(corpus: Corpus, tokenizer: Tokenizer, layer: str, *, split: str = "validation") -> LabelledTokens:
    """One layer of a corpus' gold labels (``corpus.info.label_layers``) on the tokens of a split."""
    name = f"{corpus.name}:{layer}"
    text, gold = corpus.split(split), corpus.labels(split)
    if gold is None or not isinstance(text, str):
        ids, gold = corpus.labels_on_tokens(tokenizer, split)  # a token task, or an error that says what has labels
        chosen = gold.layer(layer)
        cuts = np.flatnonzero(np.diff(gold.document)) + 1
        return LabelledTokens(name, chosen.values, tuple(np.split(ids, cuts)), tuple(np.split(chosen.codes, cuts)))
    values = gold.layer(layer).values
    edges = np.flatnonzero(np.diff(gold.document)) + 1
    first, last = np.concatenate([[0], edges]), np.concatenate([edges, [len(gold)]]) - 1
    ranges = list(zip(gold.starts[first].tolist(), gold.ends[last].tolist(), strict=True))
    read = _read_known([text[low:high] for low, high in ranges], tokenizer, f"corpus {corpus.name!r}")
    found = [(ids, starts + ranges[at][0], ends + ranges[at][0]) for at, ids, starts, ends in read]
    on_tokens = gold.on_tokens(text, *(np.concatenate([one[part] for one in found]) for part in (1, 2)))
    cuts = np.cumsum([len(ids) for ids, _, _ in found])[:-1]
    codes = tuple(np.split(on_tokens.layer(layer).codes, cuts))
    return LabelledTokens(name, values, tuple(ids for ids, _, _ in found), codes, len(ranges) - len(found))


Spans = tuple[int, np.ndarray, np.ndarray, np.ndarray]


def _read_known(texts: list[str], tokenizer: Tokenizer, what: str) -> list[Spans]:
    """(which text, ids, starts, ends) of those that the tokenizer knows all of; UnreadableLabels where of none."""
    found: list[Spans] = []
    problem: UnknownCharacters | None = None
    for at, text in enumerate(texts):
        try:
            found.append((at, *tokenizer.spans(text)))
        except UnknownCharacters as unknown:
            problem = unknown
    if problem is None and not found:
        raise ValueError(f"There is no document in {what}.")
    if problem is not None and not found:
        raise UnreadableLabels(what, problem)
    return found


def function_labels(
    documents: Iterable[str | Sequence[int]],
    label: Callable[[list[int], int], str | None],
    *,
    tokenizer: Tokenizer | None = None,
    name: str = "function",
) -> LabelledTokens:
    """Labels that a function gives: ``label(ids, position)`` names the class of one token, or None.

    documents: texts (with a tokenizer) or lists of ids. Classes are the names it gives, in order.
    """
    found: list[np.ndarray] = []
    names: list[list[str | None]] = []
    for document in documents:
        if isinstance(document, str):
            if tokenizer is None:
                raise ValueError("Text needs a tokenizer: give tokenizer=, or documents of token ids.")
            ids = list(tokenizer.encode(document))
        else:
            ids = [int(index) for index in document]
        found.append(np.array(ids, dtype=np.int64))
        names.append([label(ids, position) for position in range(len(ids))])
    classes = tuple(sorted({str(one) for row in names for one in row if one is not None}))
    code = {one: index for index, one in enumerate(classes)}
    codes = [np.array([-1 if one is None else code[str(one)] for one in row], dtype=np.int64) for row in names]
    return LabelledTokens(name, classes, tuple(found), tuple(codes))


def conllu_labels(path: str | Path, tokenizer: Tokenizer, *, field: str = "upos") -> LabelledTokens:
    """Words of a CoNLL-U treebank (universaldependencies.org/format.html), labelled by "upos", "xpos" or "deprel".

    Documents are those the file marks with "# newdoc", sentences where it marks none. A token takes the label of the
    word that holds its last letter; a contraction ("don't", written as one token of two words) that of its first word.
    """
    if field not in CONLLU_FIELDS:
        raise ValueError(f"field is {field!r}; known are {', '.join(CONLLU_FIELDS)}.")
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(f"There is no treebank file {path}.")
    documents = _read_conllu(path, CONLLU_FIELDS[field])
    classes = tuple(sorted({word.label for document in documents for word in document.words if word.label}))
    code = {label: index for index, label in enumerate(classes)}
    read = _read_known([document.text for document in documents], tokenizer, path.name)
    codes = []
    for at, _, starts, ends in read:
        gold = documents[at].gold(code, classes, field)
        codes.append(gold.on_tokens(documents[at].text, starts, ends).layer(field).codes.astype(np.int64))
    ids = tuple(np.asarray(tokens, dtype=np.int64) for _, tokens, _, _ in read)
    return LabelledTokens(f"{path.stem}:{field}", classes, ids, tuple(codes), len(documents) - len(read))


@dataclass(frozen=True)
class _Word:
    end: int
    label: str | None


@dataclass
class _Document:
    text: str
    words: list[_Word]

    def add(self, text: str, forms: list[tuple[str, str | None]], where: str) -> None:
        """Append a sentence; every word takes the space before it."""
        if self.text:
            self.text += " "
        at = len(self.text)
        self.text += text
        for form, label in forms:
            found = self.text.find(form, at)
            if found < 0:
                raise ValueError(f"{where}: the word {form!r} is not in the sentence's text {text!r}.")
            at = found + len(form)
            self.words.append(_Word(at, label))
        if self.words:
            self.words[-1] = _Word(len(self.text), self.words[-1].label)

    def gold(self, code: dict[str, int], classes: tuple[str, ...], field: str) -> GoldLabels:
        ends = np.array([word.end for word in self.words], dtype=np.int64)
        codes = np.array([-1 if word.label is None else code[word.label] for word in self.words], dtype=np.int64)
        layer = LabelLayer(field, f"{field} of the treebank", classes, codes)
        starts = np.concatenate([[0], ends[:-1]])
        return GoldLabels(starts, ends, np.zeros(len(ends), dtype=np.int64), {field: layer})


def _read_conllu(path: Path, column: int) -> list[_Document]:
    marked = False
    documents: list[_Document] = []
    fresh = True
    text: str | None = None
    rows: list[list[str]] = []
    for number, line in enumerate([*_lines(path), ""], 1):
        if line.startswith("#"):
            marked = marked or line.startswith("# newdoc")
            fresh = fresh or line.startswith("# newdoc")
            text = line.removeprefix("# text = ") if line.startswith("# text = ") else text
        elif line.strip(" "):
            cells = line.split("\t")
            if len(cells) != 10:
                raise ValueError(f"{path}, line {number}: {len(cells)} columns; CoNLL-U has 10, tab-separated.")
            if not re.fullmatch(r"[0-9]{1,9}([.-][0-9]{1,9})?", cells[0]):
                raise ValueError(
                    f"{path}, line {number}: the first column is {cells[0]!r}; it numbers the word: 1, 2-3, 2.1."
                )
            rows.append(cells)
        elif rows:
            if fresh or not marked:
                documents.append(_Document("", []))
            forms = _surface(rows, column)
            documents[-1].add(_joined(rows) if text is None else text, forms, f"{path}, line {number}")
            fresh, text, rows = False, None, []
    if not documents:
        raise ValueError(f"{path} holds no sentences.")
    return documents


def _lines(path: Path) -> list[str]:
    """A file's lines. A line feed alone ends one: other line breaks of Unicode may stand inside a text or a word."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: byte 0x{error.object[error.start]:02X} is not UTF-8; CoNLL-U is."
        ) from None
    return [line.removesuffix("\r") for line in text.split("\n")]


def _surface(rows: list[list[str]], column: int) -> list[tuple[str, str | None]]:
    """(form, label) of what is written: a multiword token once, with its first word's label; empty nodes never."""
    forms: list[tuple[str, str | None]] = []
    inside = 0  # the last word of the multiword token being read
    open_token = False
    for row in rows:
        number, label = row[0], None if row[column] == "_" else row[column]
        if "." in number:
            continue
        if "-" in number:
            inside, open_token = int(number.split("-")[1]), True
            forms.append((row[1], None))
        elif int(number) > inside:
            forms.append((row[1], label))
        elif open_token:
            forms[-1], open_token = (forms[-1][0], label), False
    return forms


def _joined(rows: list[list[str]]) -> str:
    """A sentence's text where the file does not give it."""
    inside, text = 0, ""
    for row in rows:
        if "." in row[0] or ("-" not in row[0] and int(row[0]) <= inside):
            continue
        inside = int(row[0].split("-")[1]) if "-" in row[0] else inside
        text += row[1] + ("" if "SpaceAfter=No" in row[9] else " ")
    return text.rstrip(" ")
