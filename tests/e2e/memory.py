"""An hour of use, scripted: python -m tests.e2e.memory --runs RUNS [--minutes 60] [--tabs 3] [--csv FILE]

Several tabs go through the pages with ever new prompts, heads, layers and checkpoints, and are closed and opened again.
The server's resident memory is read after every round. Prints JSON: what it was once every page had been seen by every
tab (torch imported, caches begun), what it was at its highest, at the end, and the ratio of the end to the start.
DESIGN's bar: at most 1.2.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import psutil

from tests.e2e.serving import browsing, serving, settled, widget

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = ("train", "generate", "lens", "attention", "contributions", "interventions", "probes", "compare", "dynamics")
PAGES += ("studies", "anatomy", "runs")
WORDS = "the cat sat on a mat and lily gave the red ball to tom who ran home".split()
BAR = 1.2


def resident(pid: int) -> float:
    """The server's memory in MB, without the processes that train."""
    return psutil.Process(pid).memory_info().rss / 2**20


def visit(page: Page, url: str, runs: list[str], rng: random.Random) -> str:
    """Open one page on a new view, as a reader following a link and pressing its buttons would."""
    name = rng.choice(PAGES)
    link = {
        "run": rng.choice(runs),
        "lang": rng.choice(("en", "zh")),
        "prompt": " ".join(rng.choices(WORDS, k=rng.randint(1, 8))),
        "layer": rng.randint(0, 3),
        "head": rng.randint(0, 3),
        "step": rng.choice(("latest", "0", "8", "64")),
    }
    page.goto(f"{url}/{'' if name == 'train' else name}?{urlencode(link)}")
    settled(page)
    if name == "generate" and widget(page, "generate.go").count():
        button = widget(page, "generate.go").get_by_role("button")
        if button.is_enabled():
            button.click()
            settled(page)
    return name


def use(browser: Browser, url: str, pid: int, runs: list[str], seconds: float, tabs: int) -> list[tuple[float, float]]:
    """(seconds since the beginning, MB) after each round; a round is a view in every tab."""
    rng, began = random.Random(0), time.monotonic()
    contexts = [browser.new_context() for _ in range(tabs)]
    pages = [context.new_page() for context in contexts]
    measured: list[tuple[float, float]] = []
    while not measured or time.monotonic() - began < seconds:
        for page in pages:
            visit(page, url, runs, rng)
        measured.append((round(time.monotonic() - began, 1), round(resident(pid), 1)))
        if len(measured) % 10 == 0:  # somebody leaves, somebody comes
            at = rng.randrange(tabs)
            contexts[at].close()
            contexts[at] = browser.new_context()
            pages[at] = contexts[at].new_page()
    for context in contexts:
        context.close()
    return measured


def main() -> None:
    """Print the measures as JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=Path, required=True, help="a folder with finished runs")
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--warm-minutes", type=float, default=5.0, help="use before the start is taken")
    options.add_argument("--tabs", type=int, default=3)
    options.add_argument("--csv", type=Path, help="where to write seconds and MB of every round")
    asked = options.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no chromium on PATH")
    os.environ["RESIDLAB_RUNS"] = str(asked.runs.resolve())
    from lab.runs import list_runs

    runs = [run.id for run in list_runs() if run.checkpoints()]
    if not runs:
        raise SystemExit(f"{asked.runs} holds no run with a checkpoint; train one first")
    with (
        tempfile.TemporaryDirectory() as home,
        browsing(chromium) as browser,
        serving(asked.runs.resolve(), Path(home) / "server.log") as server,
    ):
        pid = server.process.pid
        warm = use(browser, server.url, pid, runs, 60 * asked.warm_minutes, asked.tabs)
        start = warm[-1][1]
        rounds = use(browser, server.url, pid, runs, 60 * asked.minutes, asked.tabs)
        time.sleep(5)
        end = round(resident(pid), 1)
    if asked.csv is not None:
        lines = [f"{seconds},{size}" for seconds, size in rounds]
        asked.csv.write_text("\n".join(["seconds,mb", *lines]) + "\n", encoding="utf-8")
    sizes = [size for _, size in rounds]
    report = {
        "minutes": round(rounds[-1][0] / 60, 1),
        "views": len(rounds) * asked.tabs,
        "warm_views": len(warm) * asked.tabs,
        "start_mb": start,
        "highest_mb": max(sizes),
        "end_mb": end,
        "end_to_start": round(end / start, 3),
        "bar": BAR,
        "within_bar": end <= BAR * start,
    }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
