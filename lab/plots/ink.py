"""Text on a colour: black or white for each cell, whichever stands out more, by relative luminance (WCAG 2)."""

from __future__ import annotations

import numpy as np

from lab.plots.theme import Scale

BLACK, WHITE = "#000000", "#ffffff"  # with these, the better of the two stands out 4.58 to 1 on any colour


def luminance(rgb: np.ndarray) -> np.ndarray:
    """Relative luminance, 0 to 1, of sRGB colours [..., 3] from 0 to 255."""
    part = np.asarray(rgb, dtype=float) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Contrast ratio, 1 to 21, of two luminances."""
    return (np.maximum(one, other) + 0.05) / (np.minimum(one, other) + 0.05)


def _rgb(name: str) -> list[int]:
    return [int(name[at : at + 2], 16) for at in (1, 3, 5)]


def colours_of(values: np.ndarray, low: float, high: float, scale: Scale) -> np.ndarray:
    """The sRGB colour [..., 3] of each value, as plotly interpolates it; values beyond the range take its ends."""
    at = np.clip((np.asarray(values, dtype=float) - low) / (high - low), 0.0, 1.0)
    stops = np.array([stop for stop, _ in scale])
    parts = np.array([_rgb(name) for _, name in scale], dtype=float)
    return np.stack([np.interp(at, stops, parts[:, part]) for part in range(3)], axis=-1)


def inked(text: np.ndarray, values: np.ndarray, low: float, high: float, scale: Scale) -> np.ndarray:
    """``text`` [row, column] (escaped) in black or white, for cells of ``values`` coloured from ``low`` to ``high``.

    A cell that is not finite has no colour, and keeps its text as it is; so does an empty one.
    """
    finite = np.isfinite(values)
    under = luminance(colours_of(np.where(finite, values, low), low, high, scale))
    ends = [luminance(np.array(_rgb(name))) for name in (BLACK, WHITE)]
    dark = contrast(under, ends[0]) >= contrast(under, ends[1])
    shown = text.astype(object)
    for row, column in np.argwhere(finite & (text != "")):
        colour = BLACK if dark[row, column] else WHITE
        shown[row, column] = f"<span style='color:{colour}'>{text[row, column]}</span>"
    return shown
