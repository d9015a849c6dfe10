"""The real server on a free port, and a headless Chromium that reads it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    from lab.runs import Run, RunStatus

PROJECT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE = 120_000  # milliseconds; a busy machine with two cores is slow, not wrong
IDLE = "[data-testid='stApp'][data-test-script-state='notRunning']"


@dataclass(frozen=True)
class Server:
    """A running explorer: where it is, its runs folder, and how long it took until it answered, in seconds."""

    url: str
    runs: Path
    answered_after: float
    process: subprocess.Popen[bytes]


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(runs: Path, log: Path, script: Path = Path("apps/explorer.py")) -> Iterator[Server]:
    """Serve the explorer (or another script) on `runs`, as a user would start it: streamlit run, in the project."""
    port = free_port()
    environment = os.environ | {"RESIDLAB_RUNS": str(runs), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait_until_it_answers(f"http://localhost:{port}/_stcore/health", process, log)
        yield Server(f"http://localhost:{port}", runs, time.monotonic() - began, process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended at once:\n{log.read_text(errors='replace')}")
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"no answer from {url}:\n{log.read_text(errors='replace')}")


@contextmanager
def browsing(chromium: str) -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def settled(page: Page) -> None:
    """Wait until the script has run and nothing is drawn any more; fails where the page shows an exception."""
    page.wait_for_selector(IDLE, timeout=PATIENCE)
    page.wait_for_timeout(400)
    page.wait_for_selector(IDLE, timeout=PATIENCE)
    # Parts of the page arrive as files of their own; a grey bar stands where one is still missing.
    page.wait_for_function("document.querySelectorAll('[data-testid=stSkeleton]').length === 0", timeout=PATIENCE)
    broken = page.locator("[data-testid='stException']")
    if broken.count():
        raise AssertionError(broken.first.inner_text())


def widget(page: Page, key: str) -> Locator:
    """The element with this key."""
    return page.locator(f".st-key-{key.replace('.', '-')}")


def wait_until(true: Callable[[], bool], otherwise: str, seconds: float = 240.0) -> None:
    """Wait until something holds; AssertionError with what to say otherwise."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{otherwise} ({seconds:g} s)")
        time.sleep(0.1)


def wait_for(run: Run, *states: str, step: int = 0, seconds: float = 240.0) -> RunStatus:
    """Wait until a run's folder says one of these states at this step or later."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = run.status()
        if status.state in states and status.step >= step:
            return status
        time.sleep(0.1)
    raise AssertionError(f"{run.status()} after {seconds} s, waiting for {states} at step {step}\n{run.log()}")


@contextmanager
def held(status: RunStatus) -> Iterator[None]:
    """The run's trainer is alive and stands still meanwhile, wherever it was."""
    assert status.pid is not None
    os.kill(status.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(status.pid, signal.SIGCONT)
