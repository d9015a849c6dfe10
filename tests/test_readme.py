"""Every command and every line of Python in the README works, in the order in which it stands there.

Trainings are run with fewer steps on a smaller corpus (``scaled``); the slow test runs them as they are written.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

SCALED_STEPS = 3
SCALED_CORPUS = 30_000
"""Characters of the corpus."""


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The shell commands of a page, without the comments beside them."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    return [stripped for line in lines if (stripped := re.sub(r"\s{2,}#.*", "", line).strip())]


def is_raw(command: str) -> bool:
    """One of the commands for people without make."""
    return command.startswith((".venv/", "python3 -m venv"))


RUN = [command for command in commands(README) if not command.startswith("make ") and not is_raw(command)]
MAKE = [command for command in commands(README) + commands(CONTRIBUTING) if command.startswith("make ")]
RAW = [command for command in commands(README) if is_raw(command)]


def test_the_readme_was_understood() -> None:
    assert len(RUN) >= 10
    assert {"make explore", "make test"} <= set(MAKE)
    assert len(RAW) == 4
    assert "residlab explore" in RUN
    assert len(blocks(README, "python")) == 1


@pytest.fixture(scope="module")
def make() -> str:
    path = shutil.which("make")
    if path is None:
        pytest.skip("make is not installed; the README's commands without it are still run")
    return path


@pytest.mark.parametrize("command", MAKE)
def test_make_knows_the_target(make: str, command: str) -> None:
    asked = subprocess.run([make, "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize("command", RAW)
def test_the_commands_without_make_are_those_make_runs(make: str, command: str) -> None:
    # -B: as on a fresh clone, where nothing is made yet
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    asked = subprocess.run(
        [make, "-n", "-B", "explore", "test"], cwd=ROOT, env=clean, capture_output=True, text=True, check=True
    )
    assert command in asked.stdout


def scaled(text: str) -> str:
    """The same command or program, with few steps on a small corpus."""
    text = re.sub(r"--steps \d+", f"--steps {SCALED_STEPS}", text)
    text = re.sub(r"\bsteps=\d+", f"steps={SCALED_STEPS}, corpus_size={SCALED_CORPUS}", text)
    if "--corpus stories" in text:
        text += f" --data.corpus-size {SCALED_CORPUS}"
    text = re.sub(r"(study run .*)", r"\1 --seeds 1 --exploratory", text)
    return re.sub(r"--tokens \d+", "--tokens 20", text)


def environment() -> dict[str, str]:
    """As after ``source .venv/bin/activate``."""
    binaries = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": binaries + os.pathsep + os.environ["PATH"], "PYTHONUNBUFFERED": "1"}


def run_all(folder: Path, full: bool) -> None:
    shutil.copy(ROOT / "README.md", folder)
    for command in RUN:
        command = command if full else scaled(command)
        if command == "residlab explore":
            serves_the_explorer(shlex.split(command), folder)
            continue
        done = subprocess.run(
            shlex.split(command), cwd=folder, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        assert "Traceback" not in done.stderr, f"{command}\n{done.stderr[-4000:]}"
    assert (folder / "runs/first/inspect.json").stat().st_size > 1000
    assert (folder / "runs/first/inspect.html").stat().st_size > 1000
    assert (folder / "runs/two/status.json").is_file()


def serves_the_explorer(command: list[str], folder: Path) -> None:
    """``residlab explore`` prints its address, answers there, and ends with Ctrl-C; in a terminal, with a browser,
    and for someone who never started Streamlit, it asks for nothing."""
    home = folder / "home"
    home.mkdir()
    first_time = {**environment(), "HOME": str(home), "BROWSER": "true"}  # the command `true` opens every page
    screen, keyboard = pty.openpty()
    server = subprocess.Popen(
        command, cwd=folder, env=first_time, stdin=keyboard, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        address = re.search(r"http://localhost:\d+", line)
        assert address, line
        assert answers(f"{address[0]}/_stcore/health", seconds=60) == "ok"
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(timeout=20) == 130
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        os.close(screen)
        os.close(keyboard)


def answers(address: str, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as response:
                return response.read().decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def run_python(folder: Path, full: bool) -> None:
    (program,) = blocks(README, "python")
    done = subprocess.run(
        [sys.executable, "-c", program if full else scaled(program)],
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("One day") >= 2, done.stdout


def test_every_command_runs(tmp_path: Path) -> None:
    run_all(tmp_path, full=os.environ.get("RESIDLAB_README") == "full")


def test_the_python_runs(tmp_path: Path) -> None:
    run_python(tmp_path, full=os.environ.get("RESIDLAB_README") == "full")


@pytest.mark.slow
def test_every_command_and_the_python_run_as_written(tmp_path: Path) -> None:
    run_all(tmp_path, full=True)
    run_python(tmp_path, full=True)


def test_what_the_readme_says_of_presets_and_recipes_is_so() -> None:
    from lab.training import RECIPES
    from model import PRESETS, GPTConfig, count_parameters

    for name in PRESETS:
        row = re.search(rf"^\| `{name}` \|(.*?)\|(.*?)\|", README, flags=re.MULTILINE)
        assert row, f"the README does not list the preset {name}"
        config = GPTConfig.preset(name)
        shape = [config.n_layers, config.d_model, config.n_heads, config.n_ctx]
        assert [int(number) for number in re.findall(r"\d+", row[1])] == shape
        assert int(row[2].replace(",", "")) == count_parameters(config).total
    for name in RECIPES:
        assert re.search(rf"^\| `{name}` \|", README, flags=re.MULTILINE), f"the README does not list recipe {name}"


def test_what_the_readme_says_of_corpora_is_so() -> None:
    from lab.corpora import corpus_names

    table = README.split("| corpus | |")[1].split("\n\n")[0]
    listed = set(re.findall(r"`([\w-]+)`", table))
    assert listed == set(corpus_names())


def test_links_in_the_pages_lead_somewhere() -> None:
    for page in (README, CONTRIBUTING):
        for target in re.findall(r"\]\(([^)#:]+)\)", page):
            assert (ROOT / target).exists(), target
