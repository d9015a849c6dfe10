"""The Chinese README says what the English one says: the same commands, the same numbers, the same parts."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
PLACE = "README.md and README.zh-CN.md are changed together"


def blocks(text: str) -> list[str]:
    """Every block of code, with the language it is in."""
    return re.findall(r"^```(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """Every row of every table: what stands in it as code, and its numbers."""
    return [
        re.findall(r"`[^`]+`|\d[\d,.]*", line)
        for line in text.splitlines()
        if line.startswith("|") and "---" not in line
    ]


def test_the_commands_are_the_same() -> None:
    assert blocks(CHINESE) == blocks(ENGLISH), PLACE


def test_the_tables_hold_the_same_rows_and_numbers() -> None:
    for english, chinese in zip(rows(ENGLISH), rows(CHINESE), strict=True):
        assert set(english) <= set(chinese), f"{PLACE}: {english} and {chinese}"


def test_the_parts_links_and_pictures_are_the_same() -> None:
    for pattern in (r"^#+ ", r"!\[[^]]*\]\(([^)]*)\)"):
        assert re.findall(pattern, CHINESE, re.MULTILINE) == re.findall(pattern, ENGLISH, re.MULTILINE), PLACE
    assert set(re.findall(r"\]\(([^)]*)\)", ENGLISH)) - {"README.zh-CN.md"} <= set(
        re.findall(r"\]\(([^)]*)\)", CHINESE)
    ), PLACE


def test_commands_named_in_the_text_are_the_same() -> None:
    def named(text: str) -> set[str]:
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        return set(re.findall(r"`([^`\n]+)`", prose))

    assert named(ENGLISH) <= named(CHINESE), PLACE


def test_each_links_to_the_other_and_the_text_is_chinese() -> None:
    assert "(README.zh-CN.md)" in ENGLISH and "(README.md)" in CHINESE
    prose = re.sub(r"^```.*?^```", "", CHINESE, flags=re.DOTALL | re.MULTILINE)
    english = [line for line in prose.splitlines() if len(line) > 40 and not re.search(r"[\u4e00-\u9fff]", line)]
    assert [line for line in english if not re.fullmatch(r"[|\-\d\s.,x()`\w]+", line)] == []
