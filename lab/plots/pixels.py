"""An array of weights as a picture of one pixel a cell: an indexed PNG in a data URI, for plotly's image trace.

Beside a heatmap of the same cells it is a tenth of the bytes, and the browser draws it as it is instead of computing a
colour for every cell. What is lost are the digits: 255 steps of colour, which is more than an eye tells apart.
"""

from __future__ import annotations

import base64
import io

import numpy as np

from lab.plots.ink import colours_of
from lab.plots.theme import Scale

CODES = 255
"""Steps of colour from 0 to 1; code 0 is a blank cell."""


def as_codes(z: np.ndarray) -> np.ndarray:
    """[row, column] codes of weights: 1 to 255 for 0 to 1 (what lies beyond takes the nearest), 0 where NaN."""
    codes = np.clip(z, 0, 1) * (CODES - 1) + 1.5
    return np.nan_to_num(codes, nan=0.0, copy=False).astype(np.uint8)


def palette(scale: Scale) -> np.ndarray:
    """[code, (red, green, blue)] colours of the codes; code 0, drawn clear, has that of code 1."""
    shades = colours_of(np.linspace(0, 1, CODES), 0, 1, scale)
    return np.rint(np.vstack([shades[:1], shades])).astype(np.uint8)


def picture_uri(codes: np.ndarray, colours: np.ndarray) -> str:
    """Codes [row, column], the first row on top, as a PNG whose code 0 is clear; ``data:image/png;base64,...``."""
    from PIL import Image

    picture, png = Image.fromarray(codes), io.BytesIO()
    picture.putpalette(colours.tobytes())  # makes it an indexed one
    picture.save(png, format="PNG", transparency=0, compress_level=3)
    return "data:image/png;base64," + base64.b64encode(png.getvalue()).decode("ascii")
