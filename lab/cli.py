"""residlab: train, watch, sample and inspect small GPTs from a shell.

Each command is a dataclass of options and a function in a module of ``lab.commands``, imported when called:
``residlab --help`` waits for nothing.

Exit codes: 0 done, 2 bad input (one sentence on stderr), 3 the run diverged, 130 interrupted with Ctrl-C.
"""

from __future__ import annotations

if __name__ == "__main__":  # python -m lab.cli: before anything is loaded that Ctrl-C could interrupt
    import importlib
    import sys

    sys.exit(importlib.import_module("lab.entry").main())

import contextlib
import difflib
import errno
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from lab.commands.console import speak_plainly
from lab.runs.files import reason
from lab.runs.process import RunBusyError

DONE, BAD_INPUT, DIVERGED, INTERRUPTED = 0, 2, 3, 130


@dataclass(frozen=True)
class Command:
    """Where a command lives: a module with the named options class and a function that runs them."""

    module: str
    options: str
    function: str
    summary: str


COMMANDS: dict[str, Command] = {
    "train": Command("lab.commands.train", "Train", "train", "train a small GPT, or go on with a run"),
    "pause": Command("lab.commands.runs", "Pause", "pause", "ask a run to write a checkpoint and pause"),
    "stop": Command("lab.commands.runs", "Stop", "stop", "ask a run to write a checkpoint and stop"),
    "runs": Command("lab.commands.runs", "Runs", "runs", "list the runs, their state and their losses"),
    "sample": Command("lab.commands.sample", "Sample", "sample", "let a trained model write"),
    "inspect": Command("lab.commands.inspect", "Inspect", "inspect", "what each layer and head adds to the next token"),
    "heads": Command("lab.commands.heads", "Heads", "heads", "what kind of head each one is"),
    "patch": Command("lab.commands.patch", "Patch", "patch", "which activations carry the answer between prompts"),
    "probe": Command("lab.commands.probe", "Probe", "probe", "at which layer a property of a token can be read"),
    "dynamics": Command("lab.commands.dynamics", "Dynamics", "dynamics", "one measure at every checkpoint of a run"),
    "study": Command("lab.commands.study", "StudyOptions", "study", "settle a question: plan, run or report a study"),
    "worker": Command("lab.commands.worker", "Worker", "worker", "take runs of a study from a shared folder"),
    "explore": Command("lab.commands.explore", "Explore", "explore", "open the explorer in a browser"),
    "bench": Command("lab.commands.bench", "Bench", "bench", "measure speed against references, as JSON"),
}

OVERVIEW = """\
usage: residlab COMMAND [OPTIONS]      residlab COMMAND --help shows a command's options

{commands}

A minute of it:
  residlab train --corpus stories --preset nano --recipe fast --steps 300 --run runs/first
  residlab sample runs/first --prompt "One day" --tokens 100
  residlab inspect runs/first --prompt "John gave the ball to"
  residlab explore
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    speak_plainly()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell  # a sentence, without the file and line that Python would name
            code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()  # the reader (head, less) has seen enough
        return DONE
    except SystemExit:
        raise
    except BaseException as problem:  # what a library written in Rust panics with is no Exception
        if os.environ.get("RESIDLAB_DEBUG"):
            raise
        said = _sentence(problem, words)
        if not _stdout_works() or _names_no_file(problem):
            said = f"the output could not be written: {said}"
            _let_go_of_stdout()
        print(f"residlab {words[0] if words else ''}: {said}", file=sys.stderr)
        return BAD_INPUT


def _stdout_works() -> bool:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return False
    return True


def _names_no_file(problem: BaseException) -> bool:
    """Whether a disk refused something that has no name here: what is written to stdout."""
    refusals = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
    return isinstance(problem, OSError) and problem.filename is None and problem.errno in refusals


def _let_go_of_stdout() -> None:
    """Python would flush once more at exit and complain again: give it nowhere to."""
    with contextlib.suppress(OSError, ValueError):  # a stdout that is no file has nothing to let go of
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    if not words:
        print(overview(), end="", file=sys.stderr)
        return BAD_INPUT
    name, *rest = words
    if name in ("-h", "--help", "help"):
        print(overview(), end="")
        return DONE
    if name in ("-V", "--version"):
        print(f"residlab {metadata.version('residlab')}")
        return DONE
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(COMMANDS)}."
        raise ValueError(f"There is no command {name!r}; {hint}")
    command = COMMANDS[name]
    module = import_module(command.module)
    from lab.commands.parsing import UsageError, parse

    try:
        options = parse(getattr(module, command.options), prog=f"residlab {name}", words=rest)
    except UsageError as problem:
        print(f"residlab {name}: {problem}", file=sys.stderr)
        return BAD_INPUT
    except SystemExit as asked:  # --help has been printed
        return int(asked.code or DONE)
    function: Callable[[Any], int] = getattr(module, command.function)
    return function(options)


def overview() -> str:
    """The text of ``residlab --help``."""
    width = max(map(len, COMMANDS))
    return OVERVIEW.format(commands="\n".join(f"  {n:<{width}}  {c.summary}" for n, c in COMMANDS.items()))


def _tell(message: Warning | str, *where: Any, **more: Any) -> None:
    print(f"residlab: {message}", file=sys.stderr)


def _sentence(problem: BaseException, words: Sequence[str]) -> str:
    """An exception as one clear sentence."""
    from model.tokenizer import UnknownCharacters

    if isinstance(problem, MemoryError) or "allocate memory" in str(problem):
        return f"not enough memory: {reason(problem)}. Take a smaller model."
    if isinstance(problem, UnicodeEncodeError):
        odd = next((word for word in words if not _is_utf8(word)), None)
        if odd is not None:
            shown = os.fsencode(odd).decode("utf-8", errors="backslashreplace")
            return f"'{shown}' is not UTF-8; write it in UTF-8, and give a file that is named so another name"
    if isinstance(problem, UnknownCharacters):  # of an option that offers no --unknown
        return problem.sentence(skip="", replace="")
    if isinstance(problem, (ValueError, OSError, RunBusyError)):
        return reason(problem)
    kind = type(problem).__name__  # nobody foresaw it: a mistake of ours
    return f"unexpected {kind}: {reason(problem)[:300]}; with RESIDLAB_DEBUG=1 set, its traceback is shown"


def _is_utf8(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
