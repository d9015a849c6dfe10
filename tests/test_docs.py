"""Every snippet of the pages in docs/ runs: each page's Python as one program, each command as it is written.

The model is the one the pages name, ``runs/first``, trained for a few steps instead of hundreds.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from lab.cli import DONE, main

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OWN_TESTS = {"loading-weights.md"}
"""Pages whose snippets need weights that only their own tests have."""
PAGES = sorted(path.name for path in DOCS.glob("*.md") if path.name not in OWN_TESTS)
STEPS, CORPUS = "--steps 8", "--data.corpus-size 60000"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs/first, as the first command of docs/README.md makes it, but quickly."""
    folder = tmp_path_factory.mktemp("docs")
    (command,) = blocks("README.md", "sh")
    quick = re.sub(r"--steps \d+", STEPS, command) + f" {CORPUS} --quiet"
    with contextlib.chdir(folder):
        assert main(shlex.split(quick)[1:]) == DONE
    return folder


def test_the_pages_were_found() -> None:
    assert {"attribution.md", "patching.md", "probes.md", "planted-truth.md"} <= set(PAGES)
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 8
    assert sum(len(blocks(page, "sh")) for page in PAGES) >= 5


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_runs(folder: Path, page: str) -> None:
    program = "\n".join(blocks(page, "python")).replace("size=300_000", "size=60_000").replace("steps=50)", "steps=3)")
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        exec(compile(program, page, "exec"), {"__name__": "docs"})
    assert said.getvalue().strip()


@pytest.mark.parametrize(
    ("page", "command"),
    [
        (page, line)
        for page in PAGES
        if page != "README.md"
        for block in blocks(page, "sh")
        for line in block.splitlines()
    ],
)
def test_commands_run(folder: Path, page: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    assert words[0] == "residlab"
    with contextlib.chdir(folder):
        assert main(words[1:]) == DONE
    written = [folder / words[at + 1] for at, word in enumerate(words) if word in ("--json", "--html")]
    assert written or words[1] == "study"  # which says something, or writes where studies live
    assert all(path.stat().st_size > 1000 for path in written)
    capsys.readouterr()


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_what_they_do_not_show_and_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w./-]+\.md)\)", text):
        assert (DOCS / target).is_file(), target
    if page != "README.md":
        assert re.search(r"\*\*(It does|They do) not show\*\*", text)
        assert re.search(r"^Sources?: ", text, flags=re.M)
