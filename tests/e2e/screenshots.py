"""Pictures of every page, light and dark, English and Chinese: python -m tests.e2e.screenshots FOLDER [--runs RUNS]

Without --runs a small model is trained first, through the page itself. Needs Chromium on PATH.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from tests.e2e.serving import PATIENCE, browsing, serving, settled, widget

PAGES = (
    "train", "generate", "runs", "studies", "lens", "attention", "contributions",
    "interventions", "probes", "compare", "dynamics", "anatomy",
)  # fmt: skip
LOOKS = (("light", "en"), ("dark", "en"), ("light", "zh"), ("dark", "zh"))
FRESH = "document.querySelectorAll('[data-testid=stElementContainer][data-stale=true]').length === 0"  # none is faded
SIZE = {"width": 1440, "height": 1000}


def _train(page, url: str) -> None:
    page.goto(url)
    settled(page)
    page.screenshot(path=str(_train.folder / "first-visit.png"), full_page=True)
    widget(page, "tiny_train").get_by_role("button").click()
    page.wait_for_selector("text=/done, [0-9]/", timeout=4 * PATIENCE)
    settled(page)


def _look(browser, url: str, folder: Path, theme: str, lang: str, only: list[str], link: dict[str, str]) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme=theme, device_scale_factor=1)
    page = context.new_page()
    for name in only:
        path = "" if name == "train" else name
        page.goto(f"{url}/{path}?{urlencode({'lang': lang, **link})}")
        settled(page)
        if name == "generate":
            page.locator(".st-key-generate-go button").click()
            settled(page)
        page.wait_for_timeout(800)
        # The page scrolls inside its own container: make the window as tall as what it holds.
        height = page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight")
        page.set_viewport_size({"width": SIZE["width"], "height": max(SIZE["height"], int(height) + 60)})
        settled(page)
        page.wait_for_function(FRESH, timeout=PATIENCE)
        page.screenshot(path=str(folder / f"{name}-{theme}-{lang}.png"))
        page.set_viewport_size(SIZE)
        sys.stdout.write(f"{name} {theme} {lang}\n")
    context.close()


def main() -> None:
    """Make the pictures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--runs", type=Path)
    options.add_argument("--pages", nargs="*", default=list(PAGES), choices=PAGES)
    options.add_argument("--looks", nargs="*", default=[f"{a}-{b}" for a, b in LOOKS])
    options.add_argument("--link", nargs="*", default=[], help="NAME=VALUE parameters of the address")
    asked = options.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no chromium on PATH")
    asked.folder.mkdir(parents=True, exist_ok=True)
    link = dict(item.split("=", 1) for item in asked.link)
    with tempfile.TemporaryDirectory() as home:
        runs = asked.runs or Path(home) / "runs"
        with serving(runs.resolve(), Path(home) / "server.log") as server, browsing(chromium) as browser:
            if asked.runs is None:
                _train.folder = asked.folder
                began = time.monotonic()
                _train(browser.new_page(viewport=SIZE), server.url)
                sys.stdout.write(f"trained in {time.monotonic() - began:.0f} s\n")
            for look in asked.looks:
                theme, lang = look.split("-")
                _look(browser, server.url, asked.folder, theme, lang, asked.pages, link)


if __name__ == "__main__":
    main()
