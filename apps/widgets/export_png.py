"""Pages as pictures: a browser on the server photographs the page that HTML export makes. Nothing is downloaded."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "microsoft-edge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)  # fmt: skip
WIDTH, TALLEST = 1200, 5000  # CSS pixels; a taller page is cut
SCALE = 2  # device pixels a CSS pixel: sharp in print
MARGIN = 24
PATIENCE = 90  # seconds


def renderer() -> str | None:
    """The browser that can make a picture, or None."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def without_tools(html: str) -> str:
    """The page without plotly's row of buttons: it belongs to a mouse, not into a picture."""
    return html.replace("</head>", "<style>.modebar-container{display:none!important}</style></head>", 1)


def photographed(html: str) -> bytes:
    """A self-contained page as PNG, without the empty rest of the window. RuntimeError where the browser fails."""
    browser = renderer()
    if browser is None:
        raise RuntimeError(
            "A PNG needs Chrome, Chromium or Edge on the machine that serves the explorer; none is found."
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, picture = Path(folder) / "page.html", Path(folder) / "page.png"
        page.write_text(without_tools(html), encoding="utf-8")
        command = [
            browser, "--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
            f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{TALLEST}",
            f"--force-device-scale-factor={SCALE}", "--virtual-time-budget=10000", f"--screenshot={picture}",
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []), page.as_uri(),
        ]  # fmt: skip
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{browser} made no picture within {PATIENCE} s.") from error
        if not picture.is_file():
            last = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RuntimeError(f"{browser} made no picture (exit {ended.returncode}): {last}")
        return _cropped(picture.read_bytes())


def _cropped(png: bytes) -> bytes:
    """Without the rows below the last one that differs from the page's colour."""
    from PIL import Image, ImageChops

    image = Image.open(io.BytesIO(png)).convert("RGB")
    background = Image.new("RGB", image.size, image.getpixel((0, image.height - 1)))
    box = ImageChops.difference(image, background).getbbox()
    if box is not None:
        image = image.crop((0, 0, image.width, min(image.height, box[3] + MARGIN * SCALE)))
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()
