"""An array of weights as a picture of one pixel a cell: an indexed PNG in a data URI, for plotly's image trace.

Beside a heatmap of the same cells it is a tenth of the bytes, and the browser draws it as it is instead of computing a
colour for every cell. What is lost are the digits: 255 steps of colour, which is more than an eye tells apart.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from lab.plots.theme import Scale

CODES = 255
"""Steps of colour from 0 to 1; code 0 is a blank cell."""


def as_codes(z: np.ndarray) -> np.ndarray:
    """[row, column] codes of weights: 1 to 255 for 0 to 1 (what lies beyond takes the nearest), 0 where NaN."""
    codes = np.clip(z, 0, 1) * (CODES - 1) + 1.5
    return np.nan_to_num(codes, nan=0.0, copy=False).astype(np.uint8)


def palette(scale: Scale) -> np.ndarray:
    """[code, (red, green, blue)] colours of the codes; code 0, drawn clear, has that of code 1."""
    stops = np.array([at for at, _ in scale])
    colours = np.array([[int(name[i : i + 2], 16) for i in (1, 3, 5)] for _, name in scale])
    at = np.linspace(0, 1, CODES)
    shades = np.stack([np.interp(at, stops, channel) for channel in colours.T], axis=1)
    return np.rint(np.vstack([shades[:1], shades])).astype(np.uint8)


def picture_uri(codes: np.ndarray, colours: np.ndarray) -> str:
    """Codes [row, column], the first row on top, as a PNG whose code 0 is clear; ``data:image/png;base64,...``."""
    rows, columns = codes.shape
    lines = np.zeros((rows, columns + 1), dtype=np.uint8)  # each line begins with its filter: 0, none
    lines[:, 1:] = codes
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", colours.tobytes()),
        (b"tRNS", b"\x00"),
        (b"IDAT", zlib.compress(lines.tobytes(), 3)),
        (b"IEND", b""),
    )
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
