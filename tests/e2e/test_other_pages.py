"""What other pages may do to the explorer: nothing. And what ours asks of the world: nothing."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.screenshots import PAGES
from tests.e2e.serving import FLAGS, PATIENCE, PROJECT, Server, free_port, settled
from tests.e2e.test_reading import open_link

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture
def elsewhere(server: Server) -> Iterator[str]:
    """A page of another origin that shows the explorer in a frame."""
    text = f"<h1>outer</h1><iframe src='{server.url}' width=900 height=600></iframe>".encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *about: object) -> None:
            pass

    outer = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=outer.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{outer.server_port}/"
    outer.shutdown()


def test_a_name_that_was_pointed_at_this_machine_draws_nothing(server: Server, browser: Browser) -> None:
    """DNS rebinding: evil.example resolves to 127.0.0.1, so its origin is the server's own."""
    rebound = browser.browser_type.launch(
        executable_path=browser_path(), args=[*FLAGS, "--host-resolver-rules=MAP evil.example 127.0.0.1"]
    )
    try:
        here = rebound.new_page()
        here.goto(server.url)
        settled(here)
        assert here.get_by_role("heading", name="Train", exact=True).first.is_visible()  # the browser itself works
        page = rebound.new_page()
        refused: list[str] = []
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: refused.append("data")))
        page.goto(server.url.replace("localhost", "evil.example"))
        page.wait_for_timeout(4000)
        assert not refused and not page.get_by_text("Start training").count()
    finally:
        rebound.close()


def browser_path() -> str:
    import shutil

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found
    return found


def test_inside_another_page_nothing_is_drawn(server: Server, page: Page, elsewhere: str) -> None:
    page.goto(elsewhere)
    inner = next(frame for frame in page.frames if frame.url.startswith(server.url))
    inner.get_by_text("does not open inside another page").wait_for(timeout=PATIENCE)
    page.wait_for_timeout(1500)
    assert inner.locator("button").count() == 0 and inner.get_by_text("Start training").count() == 0


@pytest.mark.parametrize("name", PAGES)
def test_no_page_asks_anything_of_another_machine(server: Server, page: Page, name: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_link(page, server, "" if name == "train" else name)
    assert asked and [url for url in asked if not url.startswith((server.url, "data:", "blob:"))] == []


def test_the_first_page_has_an_address_of_its_own(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/train?run=tiny&lang=en")
    settled(page)
    page.get_by_role("heading", name="Train", exact=True).first.wait_for(timeout=PATIENCE)
    assert page.get_by_text("Page not found").count() == 0 and "run=tiny" in page.url


def test_a_server_without_our_settings_refuses_other_names_itself(browser: Browser, tmp_path: Path) -> None:
    """Started from another folder, Streamlit reads no config.toml of ours."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(PROJECT / "apps" / "explorer.py"), "--server.port",
               str(port), "--server.headless", "true", "--server.address", "localhost"]  # fmt: skip
    environment = os.environ | {"RESIDLAB_RUNS": str(tmp_path / "runs"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    rebound = browser.browser_type.launch(
        executable_path=browser_path(), args=[*FLAGS, "--host-resolver-rules=MAP evil.example 127.0.0.1"]
    )
    try:
        page = rebound.new_page()
        for _ in range(600):
            try:
                page.goto(f"http://evil.example:{port}/?lang=en")
                break
            except Exception:  # not there yet
                page.wait_for_timeout(100)
        page.get_by_text("no name of this machine").wait_for(timeout=PATIENCE)
        assert page.locator("button").filter(has_text="Train").count() == 0
    finally:
        rebound.close()
        process.terminate()
        process.wait(timeout=30)
