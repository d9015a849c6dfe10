"""Giving sentences cut before the answer, for asking a model who gets the thing and for patching."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from lab.corpora.stories import lexicon as lx

Names = Literal["known", "new-pair", "unseen"]


@dataclass(frozen=True)
class GivingPrompt:
    """ "When Mary and John went to the store, John gave a drink to": the answer is " Mary".

    `corrupt` differs in the giver alone ("..., Mary gave a drink to"), so that its right answer is `wrong`
    and both have the same number of words.
    """

    prompt: str
    answer: str
    wrong: str
    corrupt: str


def giving_prompts(count: int, *, seed: int = 0, names: Names = "new-pair") -> list[GivingPrompt]:
    """`count` prompts in the stories' own words, their names drawn by `seed`.

    names: "known" for pairs that stories hold giving sentences about, "new-pair" for known names that
    never met in one, "unseen" for an answer that no giving sentence of the stories contains. All of them get things
    in other words, in two sentences for example: what is new is the name in this one.
    """
    if names not in ("known", "new-pair", "unseen"):
        raise ValueError(f"names must be 'known', 'new-pair' or 'unseen', not {names!r}")
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    random = Random(f"giving/{seed}/{names}")

    def pick(options: tuple[str, ...]) -> str:
        return options[int(random.random() * len(options))]

    everyone = (*lx.FEMALE_NAMES, *lx.MALE_NAMES)
    prompts: list[GivingPrompt] = []
    while len(prompts) < count:
        answer = pick(lx.UNSEEN_GIVERS if names == "unseen" else everyone)
        wrong = pick(everyone)
        unseen = bool({answer, wrong} & set(lx.UNSEEN_GIVERS))
        if answer == wrong or unseen != (names == "unseen"):
            continue
        if names != "unseen" and lx.may_give(answer, wrong) != (names == "known"):
            continue
        first, second = (answer, wrong) if random.random() < 0.5 else (wrong, answer)
        thing = pick((*lx.DRINKS, *lx.FOODS, *lx.BELONGINGS))
        article = "some" if thing in lx.MASS_NOUNS else "an" if thing[0] in "aeiou" else "a"
        opening = f"{pick(('When', 'After'))} {first} and {second} went to the {pick(tuple(lx.PLACES))},"
        rest = f"gave {article} {thing} to"
        prompts.append(
            GivingPrompt(
                prompt=f"{opening} {wrong} {rest}",
                answer=f" {answer}",
                wrong=f" {wrong}",
                corrupt=f"{opening} {answer} {rest}",
            )
        )
    return prompts
