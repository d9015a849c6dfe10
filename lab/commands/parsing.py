"""From words to options: tyro reads a dataclass; what it says about a mistake becomes one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import types
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import tyro

Options = TypeVar("Options")

_WIDE = "2000"
_SIDES, _EDGE, _RULE = " │╭╮╰╯", "╭", "─-"
_MARK_FOR_TOOLS = re.compile(r"^(type: ignore|noqa|pragma)\S*(?: no cover)?\s*(?:#\s*)?")
"""At the beginning of a comment that speaks to a checker; what follows speaks to people."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class UsageError(ValueError):
    """Words that are no options of the command."""


def parse(options: type[Options], *, prog: str, words: Sequence[str]) -> Options:
    """Read the words into the options class. ``--help`` prints and raises SystemExit(0).

    Raises:
        UsageError: one sentence that names the word at fault and the nearest option.
    """
    words = _spelled(options, words)
    if "-h" in words or "--help" in words:
        return tyro.cli(options, prog=prog, args=words)
    complaint = io.StringIO()
    with _environment(COLUMNS=_WIDE), contextlib.redirect_stderr(complaint):
        try:
            return tyro.cli(options, prog=prog, args=words)
        except SystemExit as refused:
            if not refused.code:
                raise
    raise UsageError(_one_sentence(complaint.getvalue(), prog, words))


def _spelled(options: type, words: Sequence[str]) -> list[str]:
    """The words as tyro reads them.

    A flag may be given a value, ``--model.use-bias False`` for ``--model.no-use-bias``; true and false are True and
    False; and a value that begins with a dash, ``--prompt -Hello``, is joined to its option.
    """
    kinds = option_kinds(options)
    spelled: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        kind = kinds.get(name.replace("_", "-"))
        if kind is None:
            spelled.append(word)
            continue
        if not equals:
            if not rest or _is_option(rest[0]) or (kind is bool and rest[0].lower() not in _TRUTH):
                spelled.append(word)
                continue
            value = rest.pop(0)
        parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
        if kind is bool:
            if value.lower() not in _TRUTH:
                raise UsageError(f"{name} is {value!r}; it must be true or false.")
            group, dot, field = name.removeprefix("--").rpartition(".")
            spelled.append(name if _TRUTH[value.lower()] else f"--{group}{dot}no-{field}")
            continue
        if bool in parts and value.lower() in _TRUTH:
            value = str(_TRUTH[value.lower()])
        spelled += [f"{name}={value}"] if equals or value.startswith("-") else [name, value]
    return spelled


_TRUTH = {"true": True, "false": False}


def _is_option(word: str) -> bool:
    """Whether a word can only be meant as an option; a dash may well begin a text, a number or a file's name."""
    return word == "-h" or re.match(r"--[a-zA-Z]", word) is not None


def option_kinds(options: type, prefix: str = "--") -> dict[str, Any]:
    """Option -> the type of its value."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(options).items():
        option = prefix + name.replace("_", "-")
        if is_typeddict(kind):
            found |= option_kinds(kind, f"{option}.")
        else:
            found[option] = kind
    return found


def _one_sentence(complaint: str, prog: str, words: Sequence[str]) -> str:
    """tyro's message and the option it suggests, without the box around them.

    Below the title, which is in the box's upper edge (or, in ASCII, a paragraph of its own), rules part paragraphs.
    """
    paragraphs: list[list[str]] = [[]]
    for raw in _COLOUR.sub("", complaint).splitlines():
        line = " ".join(raw.strip(_SIDES).split())
        if raw.startswith(_EDGE) or (line and not line.strip(_RULE)):
            paragraphs.append([])
        elif line:
            paragraphs[-1].append(line)
    message, *others = paragraphs[1:] or paragraphs
    near = next((line.split()[0] for lines in others for line in lines if line.startswith("--")), "")
    said = " ".join(message).replace("Unrecognized options:", "There is no option").rstrip(".")
    said = re.sub(r"^Missing from [^:]*: (.*?)\.? \(required\)$", r"Missing: \1", said)
    said = re.sub(r"^Missing: STR .*$", "Missing: the first word, a model", said)
    said = re.sub(r"no type matching (\S+) could be instantiated from \['(.*?)'\]\. Got errors:.*$", _needs, said)
    said = re.sub(r"invalid literal for int\(\) with base 10: '(.*?)'", r"'\1' is no whole number", said)
    said = re.sub(r"could not convert string to float: '(.*?)'", r"'\1' is no number", said)
    said = re.sub(r"^Missing value for argument '(.*?)'.*$", lambda found: _misses(found[1], words), said)
    said = said.replace("Error parsing ", "")
    hint = f"; did you mean {near}?" if near and near not in said else "."
    return f"{said}{hint} See {prog} --help."


def _misses(option: str, words: Sequence[str]) -> str:
    following = next((after for before, after in pairwise(words) if before == option), None)
    hint = "" if following is None else f"; if {following} is its value, write {option}={following}"
    return f"{option} needs a value{hint}"


_KINDS = {
    "INT": "a whole number",
    "FLOAT": "a number",
    "{None}": "None",
    "{True,False}": "true or false",
    "STR": "text",
}


def _needs(found: re.Match[str]) -> str:
    kinds = [_KINDS.get(kind, kind) for kind in found[1].split("|") if kind != "{None}"]
    return f"{found[2]!r} is not {' or '.join(kinds)}"


@contextlib.contextmanager
def _environment(**changes: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def overrides_of(config: type, *, leave_out: Sequence[str] = ()) -> Any:
    """A TypedDict of a config's fields, none of them required: it holds what was given and nothing else.

    tyro would otherwise hand back every field, and a preset could not be told from a value typed by hand.
    """
    helps = field_help(config)
    fields: dict[str, Any] = {}
    for name, kind in get_type_hints(config).items():
        if name in leave_out or name not in {f.name for f in dataclasses.fields(config)}:
            continue
        nested = _dataclass_in(kind)
        kind = overrides_of(nested) if nested else kind
        fields[name] = kind if nested else Annotated[kind, tyro.conf.arg(help=helps.get(name, ""))]
    return TypedDict(config.__name__, fields, total=False)  # type: ignore[operator]


def given(overrides: Any) -> dict[str, Any]:
    """The overrides that were really typed: groups of which nothing was typed are left out."""
    return {name: value for name, value in dict(overrides or {}).items() if value != {}}


def _dataclass_in(kind: Any) -> type | None:
    """The dataclass in ``SomeConfig`` or ``SomeConfig | None``."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return next((part for part in parts if dataclasses.is_dataclass(part) and isinstance(part, type)), None)


def field_help(config: type) -> dict[str, str]:
    """What a config's source says about its fields: the string below a field, or the comment beside it."""
    found: dict[str, str] = {}
    names = {f.name for f in dataclasses.fields(config)}
    last = ""
    for line in inspect.getsource(config).splitlines():
        field = re.match(r"    (\w+): [^#]*(?:#\s*(.*))?$", line)
        string = re.match(r'    """(.*?)(?:""")?$', line)
        if field and field[1] in names:
            last = field[1]
            said = _MARK_FOR_TOOLS.sub("", field[2] or "")
            if said:
                found[last] = said
        elif string and last:
            found[last] = string[1]
            last = ""
        else:
            last = ""
    return found
