"""How long the explorer takes: python -m tests.e2e.timing [--runs RUNS]. Prints seconds, and the machine's load.

First page: from starting the server until a tiny model can be trained, and until the whole form can be used, in a
browser with an empty cache; beside it a bare Streamlit page, under the same load.
Page change: from the click on the navigation until the page has drawn everything. The second visit of each page counts,
when torch is imported and the model is open, as it is for somebody at work. Without --runs small models are trained
for it first.
Many heads: 12 layers of 12 heads on 256 tokens, and a prompt of 512 tokens, on an untrained model made for it (a GPT of
width 192): from a new prompt's address until the Attention page, then the Lens page, has drawn everything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from apps.i18n import TABLES
from tests.apps.opening import PAGES as NAMES
from tests.apps.training import train_all
from tests.e2e.serving import PATIENCE, browsing, serving, settled, widget

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = tuple(TABLES["en"][f"{name}.title"] for name in (*NAMES[1:], NAMES[0]))
BARS = {"first_page_usable_s": 5.0, "page_change_s": 1.5, "heads_144_x_256_s": 2.5}


def first_page(browser: Browser, runs: Path, log: Path) -> tuple[float, float, float]:
    """Seconds until the server answers, until the tiny model can be trained, and until the whole form can be used."""
    context = browser.new_context()
    page = context.new_page()
    page.goto("about:blank")
    began = time.monotonic()
    with serving(runs, log) as server:
        page.goto(server.url)
        widget(page, "tiny_train").get_by_role("button").wait_for(timeout=PATIENCE)
        usable = time.monotonic() - began
        page.wait_for_function("document.querySelector('.st-key-start button')?.disabled === false", timeout=PATIENCE)
        whole = time.monotonic() - began
    context.close()
    return server.answered_after, usable, whole


def bare_page(browser: Browser, home: Path) -> float:
    """Seconds until a Streamlit page with nothing but a button can be used: what no page here can be faster than."""
    script = home / "bare.py"
    script.write_text('import streamlit as st\nst.button("go", key="start")\n', encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto("about:blank")
    began = time.monotonic()
    with serving(home / "none", home / "bare.log", script=script) as server:
        page.goto(server.url)
        widget(page, "start").get_by_role("button").wait_for(timeout=PATIENCE)
        usable = time.monotonic() - began
    context.close()
    return usable


def page_changes(page: Page) -> dict[str, float]:
    """Seconds from a click on a page's name until all of it is drawn, on the second visit."""
    seconds = {}
    for _ in range(2):
        for name in PAGES:
            began = time.monotonic()
            page.get_by_role("link", name=name, exact=True).click()
            page.get_by_role("heading", name=name, exact=True).wait_for(timeout=PATIENCE)
            settled(page)
            seconds[name] = round(time.monotonic() - began - 0.4, 2)  # `settled` waits 0.4 s to be sure
    return seconds


def small_runs(home: Path) -> Path:
    """A folder of finished runs of tiny models: one that seems to train would draw itself anew every second."""
    runs = train_all(home)
    shutil.rmtree(runs / "running")
    return runs


def wide_run(runs: Path) -> None:
    """A run whose model has 144 heads and a context of 512, at its initial weights, read byte by byte."""
    from lab.models import save_as_run
    from lab.tokenizers import train_tokenizer
    from model import GPT, GPTConfig

    model = GPT(GPTConfig(d_vocab=256, n_ctx=512, d_model=192, n_layers=12, n_heads=12))
    model.tokenizer = train_tokenizer("byte", "")
    os.environ["RESIDLAB_RUNS"] = str(runs)
    save_as_run(model, runs / "wide", corpus="nothing")


def many_heads(page: Page, url: str) -> dict[str, float]:
    """Seconds from a new prompt's address until everything is drawn; the first visit of each page is not counted."""
    text = "the cat sat on the mat and looked at the moon. " * 12
    seconds = {}
    for name, path, length in (
        ("heads_144_x_256_s", "attention", 256),
        ("attention_512_s", "attention", 512),
        ("lens_512_s", "lens", 512),
    ):
        for attempt in range(2):
            prompt = f"{attempt}{text}"[:length]
            began = time.monotonic()
            page.goto(f"{url}/{path}?{urlencode({'run': 'wide', 'lang': 'en', 'prompt': prompt})}")
            settled(page)
            seconds[name] = round(time.monotonic() - began - 0.4, 2)
    return seconds


def main() -> None:
    """Print the measures as JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--runs", type=Path, help="a folder with at least one finished run, for the page changes; default: tiny ones"
    )
    asked = options.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no chromium on PATH")
    with tempfile.TemporaryDirectory() as home, browsing(chromium) as browser:
        answered, usable, whole = first_page(browser, Path(home) / "none", Path(home) / "first.log")
        bare = bare_page(browser, Path(home))
        measured: dict[str, object] = {
            "cores": os.cpu_count(),
            "load": [round(x, 1) for x in os.getloadavg()],
            "server_answers_s": round(answered, 2),
            "bare_page_usable_s": round(bare, 2),
            "first_page_usable_s": round(usable, 2),
            "form_usable_s": round(whole, 2),
        }
        runs = asked.runs.resolve() if asked.runs is not None else small_runs(Path(home))
        with serving(runs, Path(home) / "second.log") as server:
            page = browser.new_page()
            page.goto(server.url)
            settled(page)
            measured["page_change_s"] = page_changes(page)
        wide_run(Path(home) / "wide")
        with serving(Path(home) / "wide", Path(home) / "third.log") as server:
            measured |= many_heads(browser.new_page(), server.url)
        measured["load_at_the_end"] = [round(x, 1) for x in os.getloadavg()]
        measured["bars"] = BARS
        sys.stdout.write(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
