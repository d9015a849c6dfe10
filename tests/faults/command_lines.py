"""Random command lines: each ends within seconds, with code 0, 2, 3 or 130, and with a sentence where it is refused."""

from __future__ import annotations

import importlib
import io
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from lab.cli import COMMANDS, main
from lab.commands.parsing import option_kinds

CODES = (0, 2, 3, 130)
SECONDS = 20  # of work, and four times as long on the clock, on a machine that does other things too: longer is a hang
LINES = 3  # of a message
MEMORY = 12 << 30  # bytes of address space
TEXT = "the cat sat on the mat. a dog ran to the cat, and the cat ran up a tree.\n" * 40
TINY = {
    "--corpus": "cat.txt", "--steps": "1", "--model.d-model": "16", "--model.n-layers": "1", "--model.n-heads": "2",
    "--model.n-ctx": "16", "--training.batch-size": "2", "--training.eval-every": "1", "--training.sample-every": "0",
}  # fmt: skip
KEPT = ("--steps", "--preset", "--tier", "--training.threads", "--training.compile")
"""Options that would only make a run long; nothing odd is given to them but what is refused."""
ODD = (
    "", " ", "-1", "0", "1", "2", "7", "nan", "inf", "-inf", "1e308", "-1e308", "1e-45", "1e400", "9" * 24,
    "-" + "9" * 24, "9" * 5000, "0x10", "1_000", "0.5", "2.5", "None", "none", "True", "false", "é春😀",
    "a\u0301", "\u202e", "a" * 3000, "/dev/null", "/nowhere/x", "..", ".", "%s", "{}", "{0}", "[red]", "[/]",
    "a\nb", "\t", "--", "-", "-x", "-Hello", "--json", "@", "x@y", "@best", "#5", "#99999999999999999999",
    "٣", "runs/a", "runs/a@3", "runs/a@best", "runs/a@" + "9" * 30, "cat.txt", "stories", "bpe:8",
    "bpe:" + "9" * 20, "bpe:-1", "char", "stories:pos", "conllu:cat.txt", "probe:stories:pos", "induction",
    "the cat", "the dog", "cat", "owner/name", "gpt2", os.fsdecode(b"\xff"), "x" * 300, "~", "~nobody/x",
    "$HOME", "*",
)  # fmt: skip
"""Values: numbers at and over every edge, words of other options, names of files and none, and text of many kinds."""


def run(n: int, seed: int, folder: Path) -> tuple[int, int, list[str]]:
    """Try `n` random command lines in a folder; (tried, lost, a note about each lost one).

    Each runs in a forked child, with the folder as its working directory and its home. No server is started, nothing
    is fetched or measured, and a training is of one step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cat.txt").write_text(TEXT, encoding="utf-8")
    import model.gpt  # noqa: F401  # loaded once, before the children are forked

    words = ["train", "--run", "runs/a", "--quiet", *(word for option in TINY.items() for word in option)]
    if not (folder / "runs" / "a" / "config.json").exists():
        code, said = _tried(words, folder, seconds=120)
        if code:
            raise RuntimeError(f"no run to try command lines on: it ended with {code}: {said}")

    rng = random.Random(seed)
    notes = []
    for number in range(n):
        words = command_line(rng, number)
        wrong = _wrong(*_tried(words, folder))
        if wrong:
            notes.append(f"{' '.join(map(_short, words))}: {wrong}")
    return n, len(notes), notes


def command_line(rng: random.Random, number: int) -> list[str]:
    """A command, words where it takes some, and up to four options of its own, one of them sometimes misspelt."""
    name = rng.choice(list(COMMANDS))
    command = COMMANDS[name]
    kinds = option_kinds(getattr(importlib.import_module(command.module), command.options))
    given: dict[str, str | None] = dict(TINY) if name == "train" else {}
    if name == "train":
        given |= {"--run": f"runs/r{number}", "--quiet": None}
    for option in rng.sample(list(kinds), min(len(kinds), rng.randint(0, 4))):
        value = rng.choice(ODD)
        if option in KEPT:
            value = rng.choice(("0", "-1", "nan", "x", "9" * 5000))
        given[option] = None if kinds[option] is bool and rng.random() < 0.7 else value
    if name == "train" and rng.random() < 0.1:
        # "None" is no resume: it would train for minutes
        given = {"--resume": rng.choice([odd for odd in ODD if odd != "None"])}
    for option in ("--prompt", "--clean", "--corrupt", "--answer", "--wrong"):
        if option in kinds and option not in given and rng.random() < 0.9:
            given[option] = rng.choice(("the cat", "the dog", "a"))
    words = [name]
    if name not in ("train", "runs", "explore", "worker"):
        words += [rng.choice((*ODD, *["runs/a"] * 40))] if rng.random() < 0.95 else []
    if name == "study":
        words[1:] = [rng.choice(("list", "report", "plan", "run", "x")), rng.choice(("x", "runs", "cat.txt", "..", ""))]
    for option, value in given.items():
        option = option + "x" if rng.random() < 0.02 else option
        if value is None:
            words.append(option)
        else:
            words += [f"{option}={value}"] if rng.random() < 0.5 else [option, value]
    return words


def _short(word: str) -> str:
    shown = repr(word)
    return shown if len(shown) < 60 else f"{shown[:50]}...({len(word)})"


def _wrong(code: int, said: str) -> str | None:
    """What is wrong with how a command line ended; None where nothing is."""
    if code in (-signal.SIGALRM, -signal.SIGPROF):
        return f"took longer than {SECONDS} s"
    if code not in CODES:
        return f"ended with {code}: {said[-300:]}"
    if "Traceback" in said or "unexpected " in said:
        return said[-400:]
    lines = [line for line in said.splitlines() if not line.startswith(("step ", "residlab: "))]
    if code == 2 and not (0 < len(lines) <= LINES):
        return f"a message of {len(lines)} lines: {said[:300]}"
    return None


def _tried(words: list[str], folder: Path, seconds: int = SECONDS) -> tuple[int, str]:
    """(exit code, what it said on stderr) of a command line in a child of its own; minus a signal that ended it."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _child(words, folder, write, seconds)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode("utf-8", errors="replace")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said


def _child(words: list[str], folder: Path, out: int, seconds: int) -> NoReturn:
    """Run the words and leave, whatever happens."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(4 * seconds)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for number, to in ((0, null), (1, null), (2, out)):
            os.dup2(to, number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", line_buffering=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", line_buffering=True)
        os.chdir(folder)
        os.environ |= {"RESIDLAB_RUNS": "runs", "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
        os.environ.pop("RESIDLAB_DEBUG", None)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        _keep_still()
        code = main(words)
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    os._exit(code)


def _keep_still() -> None:
    """Nothing that takes minutes or outlives the child: no server, no measurement, no study."""
    from lab.commands import bench, explore, study

    def refuse(*words: Any, **options: Any) -> NoReturn:
        raise OSError("nothing is started here")

    explore.subprocess.Popen = refuse  # type: ignore[misc,assignment]
    bench._measure = lambda what, options: {}
    study._run = refuse


if __name__ == "__main__":
    began = time.monotonic()
    tried, lost, notes = run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).resolve())
    print("\n".join(notes))
    print(f"{tried} tried, {lost} lost, {time.monotonic() - began:.0f} s")
