"""An hour of use, scripted: python -m tests.e2e.memory --runs RUNS [--minutes 60] [--tabs 3] [--csv FILE]

Several tabs go through the pages with ever new prompts, heads, layers and checkpoints, and are closed and opened again.
The server's resident memory is read after every round and written to the CSV file at once; standard error counts the
views. Prints JSON: what the memory was after the warm minutes (torch imported, caches begun), what it was at its
highest, at the end, and the ratio of the end to the start; and how many views did not finish within two minutes, which
another program's load explains better than a fault of a page. DESIGN's bar: at most 1.2.
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
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlencode

import psutil

from tests.e2e.serving import Server, browsing, serving, settled, widget

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = ("train", "generate", "lens", "attention", "contributions", "interventions", "probes", "compare", "dynamics")
PAGES += ("studies", "anatomy", "runs")
WORDS = "the cat sat on a mat and lily gave the red ball to tom who ran home".split()
BAR = 1.2


def resident(pid: int) -> float:
    """The server's memory in MB, without the processes that train."""
    return psutil.Process(pid).memory_info().rss / 2**20


@dataclass
class Use:
    """(seconds since the beginning, MB) after each round, and how many views were not finished in time."""

    rounds: list[tuple[float, float]]
    late: int


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


def use(browser: Browser, server: Server, runs: list[str], seconds: float, tabs: int, csv: TextIO | None = None) -> Use:
    """Go through the pages for `seconds`; a round is a view in every tab."""
    rng, began, used = random.Random(0), time.monotonic(), Use([], 0)
    contexts = [browser.new_context() for _ in range(tabs)]
    pages = [context.new_page() for context in contexts]
    while not used.rounds or time.monotonic() - began < seconds:
        for page in pages:
            used.late += not visited(page, server.url, runs, rng)
        at = round(time.monotonic() - began, 1), round(resident(server.process.pid), 1)
        used.rounds.append(at)
        if csv is not None:
            csv.write(f"{at[0]},{at[1]}\n")
            csv.flush()
        sys.stderr.write(f"\r{at[0] / 60:.1f} of {seconds / 60:g} min, {len(used.rounds) * tabs} views, {at[1]:g} MB ")
        if len(used.rounds) % 10 == 0:  # somebody leaves, somebody comes
            leaving = rng.randrange(tabs)
            contexts[leaving].close()
            contexts[leaving] = browser.new_context()
            pages[leaving] = contexts[leaving].new_page()
    sys.stderr.write("\n")
    for context in contexts:
        context.close()
    return used


def visited(page: Page, url: str, runs: list[str], rng: random.Random) -> bool:
    """Open one view; False where it was not finished in time. An exception on the page is not caught."""
    from playwright.sync_api import TimeoutError as Late

    try:
        visit(page, url, runs, rng)
    except Late:
        return False
    return True


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
        warm = use(browser, server, runs, 60 * asked.warm_minutes, asked.tabs)
        start = warm.rounds[-1][1]
        with asked.csv.open("w", encoding="utf-8") if asked.csv else nullcontext() as csv:
            if csv is not None:
                csv.write("seconds,mb\n")
            used = use(browser, server, runs, 60 * asked.minutes, asked.tabs, csv)
        time.sleep(5)
        end = round(resident(server.process.pid), 1)
    sizes = [size for _, size in used.rounds]
    report = {
        "minutes": round(used.rounds[-1][0] / 60, 1),
        "views": len(used.rounds) * asked.tabs,
        "late_views": used.late,
        "warm_views": len(warm.rounds) * asked.tabs,
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
