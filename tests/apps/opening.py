"""Open a page of the explorer as a reader's link would, and read what it says."""

from __future__ import annotations

import re
from pathlib import Path

from streamlit.testing.v1 import AppTest

BROKEN = "This cannot be shown: "
EXPLORER = Path(__file__).resolve().parents[2] / "apps" / "explorer.py"
PAGES = (
    "train", "generate", "runs", "studies", "lens", "attention", "contributions",
    "interventions", "probes", "compare", "dynamics", "anatomy",
)  # fmt: skip


def open_page(page: str = "train", **link: str) -> AppTest:
    """The explorer on `page`, with a link's parameters; fails where the page raised."""
    at = AppTest.from_file(EXPLORER, default_timeout=60)
    for name, value in link.items():
        at.query_params[name] = value
    if page != PAGES[0]:
        at.switch_page(f"views/{page}.py")
    return checked(at.run())


def checked(at: AppTest) -> AppTest:
    """`at`, after asserting that the page raised nothing, and that every part of it could be shown."""
    at = unraised(at)
    assert not said_broken(at), said_broken(at)
    return at


def said_broken(at: AppTest) -> list[str]:
    """What the page says of parts that cannot be shown."""
    return [text for text in (unescaped(str(error.value)) for error in at.error) if text.startswith(BROKEN)]


def unraised(at: AppTest) -> AppTest:
    """`at`, after asserting that the page raised nothing."""
    assert not at.exception, "\n".join(f"{e.message}\n{''.join(e.stack_trace or [])}" for e in at.exception)
    return at


def code(at: AppTest) -> str:
    """What "copy as Python" of the page's only export row hands over."""
    (block,) = [element.value for element in at.code if element.language == "python"]
    return str(block)


def unescaped(text: str) -> str:
    """A message without the backslashes that keep Markdown from acting on it."""
    return re.sub(r"\\(.)", r"\1", text)


def said(at: AppTest, *kinds: str) -> str:
    """Everything the page says in errors, warnings, infos and captions, unescaped."""
    chosen = kinds or ("error", "warning", "info", "caption")
    return "\n".join(unescaped(str(element.value)) for kind in chosen for element in getattr(at, kind))
