"""Numbers in cells can be read: each in black or white, whichever stands out more from its cell, in both themes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.plots.cells import heatmap
from lab.plots.compare import triple_maps
from lab.plots.ink import BLACK, WHITE, colours_of, contrast, inked, luminance
from lab.plots.theme import THEMES

READABLE = 4.5  # WCAG 2, level AA
SCALES = [(name, kind) for name in THEMES for kind in ("sequential", "diverging")]


def rgb(name: str) -> np.ndarray:
    return np.array([int(name[at : at + 2], 16) for at in (1, 3, 5)])


def colour_of(cell: str) -> str:
    found = re.fullmatch(r"<span style='color:(#\w{6})'>.+</span>", cell)
    assert found, cell
    return found[1]


def test_luminance_and_contrast_are_those_of_the_standard() -> None:
    assert contrast(luminance(rgb("#000000")), luminance(rgb("#ffffff"))) == pytest.approx(21)
    assert contrast(luminance(rgb("#777777")), luminance(rgb("#ffffff"))) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("name", "kind"), SCALES)
@given(value=st.floats(-1, 1))
def test_text_is_readable_on_every_colour_of_every_scale(name: str, kind: str, value: float) -> None:
    scale = getattr(THEMES[name], kind)
    low = -1.0 if kind == "diverging" else 0.0
    values = np.array([[value]])
    ink = colour_of(inked(np.array([["0.5"]]), values, low, 1.0, scale)[0, 0])
    under = luminance(colours_of(values, low, 1.0, scale))[0, 0]
    ratios = {colour: contrast(under, luminance(rgb(colour))) for colour in (BLACK, WHITE)}
    assert ratios[ink] == max(ratios.values()) >= READABLE


def test_a_cell_without_text_or_without_colour_is_left_alone() -> None:
    scale = THEMES["light"].sequential
    shown = inked(np.array([["", "x"]], dtype=object), np.array([[0.5, np.nan]]), 0.0, 1.0, scale)
    assert shown.tolist() == [["", "x"]]


@pytest.mark.parametrize(("template", "inks"), [("light", [BLACK, WHITE]), ("dark", [WHITE, BLACK])])
def test_maps_write_in_both_inks(template: str, inks: list[str]) -> None:
    values = np.array([[0.0, 1.0]])
    names = dict(what="w", x_title="x", y_title="y")
    one = heatmap(values, x_labels=["a", "b"], y_labels=["r"], title="t", alt="a", template=template, **names)
    assert [colour_of(cell) for cell in one.data[0].text[0]] == inks
    three = triple_maps(values, values, x_labels=["a", "b"], y_labels=["r"], template=template, **names)
    assert [colour_of(cell) for cell in three.data[0].text[0]] == inks
