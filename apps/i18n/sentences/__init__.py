"""Sentences that the floors below make, in the reader's language: titles of figures, notes, what a config refuses.

`model` and `lab` speak English and know nothing of this app. What they say follows forms such as "{field} is {value};
it must be {rule_}." Each file here lists forms of one part in `FORMS`: English -> Chinese. A placeholder whose name
ends in _ is translated in turn; any other is a number, a name or a token, and stays as it is. What no form fits stays
English: never wrong, only untranslated. Tests demand that every form is still said by the code below, and that no
figure and no note on a page lacks one.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_SLOT = re.compile(r"{(\w+)}")
_TAIL = "<extra></extra>"  # how a hover text of plotly ends
_BREAK = "<br>"


@dataclass(frozen=True)
class _Form:
    pattern: re.Pattern[str]
    longest: str  # its longest fixed part, looked for before the pattern is tried
    chinese: str


def _filled_by(slot: str) -> str:
    """What may stand in a placeholder: text, in {maybe...} also none, in {one...} no space."""
    return r"\S+?" if slot.startswith("one") else ".*?" if slot.startswith("maybe") else ".+?"


def _compiled(english: str, chinese: str) -> _Form:
    fixed = _SLOT.split(english)[::2]
    pattern = "".join(
        f"(?P<{part}>{_filled_by(part)})" if index % 2 else re.escape(part)
        for index, part in enumerate(_SLOT.split(english))
    )
    return _Form(re.compile(pattern, re.DOTALL), max(fixed, key=len), chinese)


def forms() -> dict[str, str]:
    """Every form of every file, English -> Chinese."""
    found: dict[str, str] = {}
    for part in pkgutil.iter_modules(__path__):
        found |= importlib.import_module(f"{__name__}.{part.name}").FORMS
    return found


class _Translator:
    def __init__(self, table: dict[str, str]):
        self.exact = {english.lower(): chinese for english, chinese in table.items() if not _SLOT.search(english)}
        self.by_word: dict[str, list[_Form]] = {}
        self.anywhere: list[_Form] = []
        for english, chinese in table.items():
            if not _SLOT.search(english):
                continue
            first, _, rest = english.partition(" ")
            home = self.by_word.setdefault(first.lower(), []) if rest and "{" not in first else self.anywhere
            home.append(_compiled(english, chinese))
        for forms_of_a_word in (self.anywhere, *self.by_word.values()):
            forms_of_a_word.sort(key=lambda form: -len(form.longest))  # "{low} to {high}" fits what others fit better

    def line(self, text: str) -> str:
        exact = self.exact.get(text.lower())
        if exact is not None:
            return exact
        for form in (*self.by_word.get(text.partition(" ")[0].lower(), ()), *self.anywhere):
            if form.longest not in text:
                continue
            found = form.pattern.fullmatch(text)
            if found is not None:
                values = {
                    name: self.line(value) if name.endswith("_") and value else value
                    for name, value in found.groupdict().items()
                }
                return form.chinese.format(**values)
        return text


@lru_cache(maxsize=1)
def _translator() -> _Translator:
    return _Translator(forms())


@lru_cache(maxsize=4096)
def in_chinese(text: str) -> str:
    """A sentence, a term, or several lines of them (parted by <br>) in Chinese, as far as there are forms for them."""
    tail = _TAIL if text.endswith(_TAIL) else ""
    lines = text.removesuffix(tail).split(_BREAK)
    return _BREAK.join(_translator().line(line) for line in lines) + tail


def said(text: str) -> str:
    """A sentence of the floors below, in the reader's language."""
    from apps.i18n import language

    return in_chinese(text) if language() == "zh" else text


def translate_figure(figure: Any) -> Any:
    """Put a fresh plotly figure into the reader's language, in place; returns it. Tokens and tick labels stay."""
    from apps.i18n import language

    if language() != "zh":
        return figure
    layout = figure.layout
    for titled in (layout, *figure.select_xaxes(), *figure.select_yaxes(), *figure.select_coloraxes()):
        title = titled.title if hasattr(titled, "title") else titled.colorbar.title
        if title.text:
            title.text = in_chinese(title.text)
    for annotation in layout.annotations or ():
        annotation.text = in_chinese(annotation.text)
    if layout.legend.title.text:
        layout.legend.title.text = in_chinese(layout.legend.title.text)
    if layout.meta and "alt" in layout.meta:
        layout.meta = {**layout.meta, "alt": in_chinese(layout.meta["alt"])}
    for trace in figure.data:
        _translate_trace(trace)
    return figure


def _translate_trace(trace: Any) -> None:
    for name in ("name", "hovertemplate"):
        if text := getattr(trace, name, None):
            setattr(trace, name, in_chinese(text) if isinstance(text, str) else _each(text))
    hover = getattr(trace, "hovertext", None)
    if hover is not None:
        trace.hovertext = in_chinese(hover) if isinstance(hover, str) else _each(hover)
    for bar in (getattr(trace, "colorbar", None), getattr(getattr(trace, "marker", None), "colorbar", None)):
        if bar is not None and bar.title.text:
            bar.title.text = in_chinese(bar.title.text)


def _each(texts: Iterable[Any]) -> list[Any]:
    """The same for lists of texts, and lists of those; without the cache, which thousands of cells would flush."""
    line = _translator().line
    return [_BREAK.join(map(line, text.split(_BREAK))) if isinstance(text, str) else _each(text) for text in texts]
