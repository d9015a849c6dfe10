"""An empty prompt where the tokenizer has a mark of the beginning: every page starts from it, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.opening import checked, open_page, said
from tests.apps.test_prompts import INSPECTION


@pytest.mark.parametrize("page", INSPECTION)
def test_an_empty_prompt_starts_from_the_mark_of_the_beginning(page: str, with_stories: Path) -> None:
    at = open_page(page, run="stories", prompt="The cat")
    assert "2 tokens" in said(at, "caption")
    at.text_area(key="prompt").set_value("")
    checked(at.run())
    assert not at.error and "1 token" in said(at, "caption") and "beginning" in said(at, "caption")
    assert not said(at, "info").count("prompt is empty")  # nothing is asked for
