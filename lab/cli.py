"""residlab: train, watch, sample and inspect small GPTs from a shell.

Each command is a dataclass of options and a function in a module of ``lab.commands``, imported when called:
``residlab --help`` waits for nothing.

Exit codes: 0 done, 2 bad input (one sentence on stderr), 3 the run diverged, 130 interrupted with Ctrl-C.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

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
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell  # a sentence, without the file and line that Python would name
            code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain again at exit: give it nowhere to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (ValueError, OSError) as problem:
        if os.environ.get("RESIDLAB_DEBUG"):
            raise
        name = words[0] if words else ""
        print(f"residlab {name}: {_sentence(problem)}", file=sys.stderr)
        return BAD_INPUT
    except (MemoryError, RuntimeError) as problem:
        if not isinstance(problem, MemoryError) and "allocate memory" not in str(problem):
            raise
        print(f"residlab {words[0]}: not enough memory: {_sentence(problem)}. Take a smaller model.", file=sys.stderr)
        return BAD_INPUT


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


def _sentence(problem: Exception) -> str:
    """An exception as one clear sentence."""
    from model.tokenizer import UnknownCharacters

    if isinstance(problem, OSError) and problem.strerror and problem.filename is not None:
        return f"{problem.strerror}: {problem.filename}"
    if isinstance(problem, UnknownCharacters):  # of an option that offers no --unknown
        return problem.sentence(skip="", replace="")
    return " ".join(str(problem).split()) or type(problem).__name__


if __name__ == "__main__":
    sys.exit(main())
