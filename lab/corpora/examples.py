"""Prompts that show something: each cut where the answer comes, with the other answer and the prompt that has it.

A model trained on stories is asked who gets the thing, one trained on repeats is stopped in the second copy. Of a text
of one's own, the beginning of a line is taken. Only a model can tell whether it reads a prompt (its tokenizer may not
know every character), so callers filter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LONGEST = 48  # characters of a prompt cut from a text
SHORTEST = 12
BLOCK = 16_384  # bytes of a file that are looked at, however large it is


@dataclass(frozen=True)
class Example:
    """A prompt and, where it has one right answer, what a good model writes next.

    answer, wrong    text of the right next token and of the one to compare it with; "" where there is none
    corrupt          the same prompt but for one word, so that `wrong` is right; "" where there is none
    """

    prompt: str
    answer: str = ""
    wrong: str = ""
    corrupt: str = ""


_OPENERS = frozenset("A After Although Before But Every Once One So Some The Then There They When While".split())

GENERAL = (
    Example(
        "When Mary and John went to the store, John gave a drink to",
        " Mary",
        " John",
        "When Mary and John went to the store, Mary gave a drink to",
    ),
    Example("Once upon a time"),
    Example("the cat sat. the cat sat. the cat"),
    Example("def main(args):\n    return"),
    Example("从前有一个小女孩"),
)
"""For a model whose corpus is not known."""

_SHAKESPEARE = (
    Example("First Citizen:\nBefore we proceed any further, hear me sp"),
    Example("ROMEO:\nO, she doth teach the torches to bu"),
    Example("KING HENRY:\nWhat news from the"),
    Example("To be, or not to be: that is the que"),
)
_PYTHON = (
    Example("def main(args):\n    return"),
    Example("import os\nimport sys\n\nclass "),
    Example("    def __init__(self, name):\n        self."),
    Example("for index, item in enumerate("),
)
_BRACKETS = (
    Example(";([()]", ")", "]", ";[[()]"),
    Example(";[([])", "]", ")", ";(([])"),
    Example(";([[()]()]", ")", "]", ";[[[()]()]"),
)


def corpus_examples(corpus: str) -> tuple[Example, ...]:
    """Prompts for a model trained on `corpus`: a built-in name, or the path of a text file or a folder.

    Those of most use first; none for a path that is not there any more or holds no UTF-8 text.
    """
    made = {
        "stories": _stories,
        "induction": _induction,
        "modular-addition": _addition,
        "brackets": lambda: _BRACKETS,
        "python": lambda: _PYTHON,
        "shakespeare": lambda: _SHAKESPEARE,
    }
    if corpus in made:
        return made[corpus]()
    return tuple(Example(prompt) for prompt in _lines(Path(corpus).expanduser()))


def second_prompt(text: str) -> str:
    """`text` with its last repeated name replaced by the other name in it, the usual second prompt for patching.

    "When Ann and Tom left, Tom gave it to" becomes "When Ann and Tom left, Ann gave it to". "" where no name occurs
    twice beside another one.
    """
    names = [word for word in re.finditer(r"\b[A-Z][a-z]+\b", text) if word[0] not in _OPENERS]
    last = next((name for name in reversed(names) if sum(n[0] == name[0] for n in names) > 1), None)
    if last is None:
        return ""
    others = [name[0] for name in names if name[0] != last[0]]
    return f"{text[: last.start()]}{others[0]}{text[last.end() :]}" if others else ""


def _stories() -> tuple[Example, ...]:
    from lab.corpora.stories.prompts import giving_prompts

    giving = [Example(one.prompt, one.answer, one.wrong, one.corrupt) for one in giving_prompts(3, names="known")]
    return (*giving, Example("Max and Luke were in the forest. It was a lovely"), Example("One day"))


def _induction() -> tuple[Example, ...]:
    """A sequence, and two thirds of its repeat. In the second prompt the looked-up symbol is another one."""
    found = []
    for sequence, other in (("catDOG7x4", "K"), ("Q3mZ8pL1ws", "b"), ("hello2WORd9", "T")):
        kept = 2 * len(sequence) // 3
        answer = sequence[kept]
        found.append(
            Example(
                f"|{sequence}{sequence[:kept]}",
                answer,
                other,
                f"|{sequence[:kept]}{other}{sequence[kept + 1 :]}{sequence[:kept]}",
            )
        )
    return tuple(found)


def _addition() -> tuple[Example, ...]:
    from lab.corpora.tasks import MODULUS

    return tuple(
        Example(f";{a}+{b}=", str((a + b) % MODULUS), str((other + b) % MODULUS), f";{other}+{b}=")
        for a, b, other in ((41, 97, 12), (7, 30, 8), (100, 50, 3))
    )


def _lines(path: Path) -> list[str]:
    """Beginnings of lines from the last tenth of a file, the part that is not trained on, ended inside a word."""
    try:
        if path.is_dir():
            path = next(file for file in sorted(path.rglob("*.txt")) if file.is_file())
        if not path.is_file():
            return []
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = size * 9 // 10 if size > 10 * LONGEST * 4 else 0
            file.seek(start)
            whole = file.read(BLOCK).split(b"\n")
        # A block begins and ends inside a line, perhaps inside a character
        whole = whole[start > 0 : None if start + BLOCK >= size else -1]
        lines = [line.strip() for line in b"\n".join(whole).decode("utf-8-sig").split("\n")]
    except (OSError, ValueError, StopIteration):
        return []
    long_enough = [line for line in lines if len(line) >= SHORTEST and line.isprintable()]
    found = dict.fromkeys(_cut(line) for line in long_enough[:40])
    return list(found)[:4]


def _cut(line: str) -> str:
    """At most LONGEST characters that end inside a word (where words have spaces between them)."""
    shown = line[:LONGEST]
    if " " not in shown:
        return shown[: LONGEST // 2]
    words = shown.split(" ")
    while len(words) > 3 and len(words[-1]) < 4:
        words.pop()
    return " ".join([*words[:-1], words[-1][: max(1, (len(words[-1]) + 1) // 2)]])
