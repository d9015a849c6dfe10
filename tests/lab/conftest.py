"""What the command-line tests share: a corpus, a finished run, and how to call and be refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.cli import BAD_INPUT, DONE, main

TEXT = "the cat sat on the mat. a dog ran to the cat, and the cat ran up a tree.\n" * 60
TINY = "--model.d-model 16 --model.n-layers 2 --model.n-heads 2 --model.n-ctx 16".split()
QUICK = "--training.eval-every 3 --training.log-every 1 --training.sample-every 0 --training.batch-size 4".split()


class TrainedFolder:
    """A folder with a corpus, ``cat.txt``, and runs of a tiny model on it; ``runs/a`` is done after 6 steps."""

    def __init__(self, path: Path):
        self.path = path
        self.corpus = path / "cat.txt"
        self.corpus.write_text(TEXT, encoding="utf-8")

    def run(self, name: str) -> Path:
        return self.path / "runs" / name

    def words(self, run: str, *more: str) -> list[str]:
        """The words that train a run here in little time."""
        return ["train", "--corpus", str(self.corpus), "--run", str(self.run(run)), *TINY, *QUICK, *more]

    def train(self, run: str, *more: str) -> int:
        return main(self.words(run, *more))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedFolder:
    trained = TrainedFolder(tmp_path_factory.mktemp("cli"))
    assert trained.train("a", "--steps", "6", "--quiet") == DONE
    return trained


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The sentence with which a command line is refused: on stderr alone, one line, with code 2."""

    def call(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == BAD_INPUT
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1, said.err
        assert "Traceback" not in said.err
        return said.err.strip()

    return call


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command that succeeds prints on stdout."""

    def call(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == DONE
        return capsys.readouterr().out

    return call


@pytest.fixture
def starting(root: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python on these words, with these variables, its stderr kept; whatever still runs is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **environment: str) -> subprocess.Popen[str]:
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        variables = {**os.environ, "PYTHONPATH": path, **environment}
        started.append(subprocess.Popen([sys.executable, *words], env=variables, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
