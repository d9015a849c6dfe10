"""Both languages say everything, with the same placeholders, and nothing is said that is not in the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from apps.i18n import LANGUAGES, TABLES

APPS = Path(__file__).resolve().parents[2] / "apps"
LITERAL = re.compile(r"""\bt\(\s*(f?)(["'])([a-z_.{}\[\]'"]+?)\2""")


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in APPS.rglob("*.py") if "i18n" not in path.parts)


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"{(\w+)}", text))


def test_both_tables_hold_the_same_keys() -> None:
    assert set(TABLES) == set(LANGUAGES) == {"en", "zh"}
    assert TABLES["en"].keys() == TABLES["zh"].keys()


def test_a_string_has_the_same_placeholders_in_both_languages() -> None:
    for key in TABLES["en"]:
        assert placeholders(TABLES["en"][key]) == placeholders(TABLES["zh"][key]), key
        assert TABLES["zh"][key].strip() and TABLES["en"][key].strip(), key


def test_every_key_asked_for_exists() -> None:
    asked = {key for form, _, key in LITERAL.findall(sources()) if not form}
    assert len(asked) > 100
    assert asked <= TABLES["en"].keys()


def test_every_string_is_used() -> None:
    text = sources()
    plain = {key for form, _, key in LITERAL.findall(text) if not form}
    patterns = [
        re.compile(re.sub(r"\\{[^}]*\\}", "[a-z0-9_]+", re.escape(key)) + r"\Z")
        for key in re.findall(r"""t\(\s*f["']([^"]+)["']""", text)
    ]
    built = {"field." + key for key in re.findall(r'Field\("(\w+)"', text)}
    unused = {
        key for key in TABLES["en"] if key not in plain | built and not any(pattern.match(key) for pattern in patterns)
    }
    assert unused == set()


def test_chinese_is_chinese() -> None:
    same = {"export.html", "export.csv", "export.json", "anatomy.view_flops", "anatomy.mlp"}
    for key, text in TABLES["zh"].items():
        assert key in same or re.search(r"[\u4e00-\u9fff]", text), key


@pytest.mark.parametrize("locale, language", [("zh-CN", "zh"), ("zh", "zh"), ("en-GB", "en"), ("fr", "en"), ("", "en")])
def test_the_browser_picks_the_language(locale: str, language: str, runs: Path) -> None:
    from streamlit.testing.v1 import AppTest

    at = AppTest.from_file(APPS / "explorer.py", default_timeout=60)
    at.context = {"locale": locale}
    at.run()
    assert not at.exception
    assert at.title[0].value == TABLES[language]["train.title"]
    assert at.query_params["lang"] == language


def test_every_placeholder_is_filled_where_a_string_is_asked_for() -> None:
    """Else a page would show "{what}". Calls that hand their values over whole (**values) cannot be read here."""
    empty = []
    for path in sorted(APPS.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "t"):
                continue
            key = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            given = {keyword.arg for keyword in call.keywords}
            if key in TABLES["en"] and None not in given:
                lacking = set(placeholders(TABLES["en"][key])) - given
                empty += [f"{path.name}:{call.lineno} {key} lacks {', '.join(sorted(lacking))}"] if lacking else []
    assert not empty, "\n".join(empty)
