"""The state a story runs on: who is where, who has what. Every step that is told changes it or follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

from lab.corpora.stories import lexicon as lx
from lab.corpora.stories.writer import Entity, Writer

T = TypeVar("T")

TIMES = (
    "[t One morning]", "[t One afternoon]", "[t One day]", "[t One evening]", "[t Early one morning]",
    "[t One summer day]", "[t One winter day]", *(f"[t On {day}]" for day in lx.DAYS),
)  # fmt: skip
LATER = ("[t The next day]", "[t The next morning]", "[t Two days later]", "[t Some days later]", "[t A week later]")


class Story:
    """A cast, its things and places, and the sentences so far.

    The methods that tell an event check that it can happen (nobody gives what they do not have) and
    record what is true after it. A plot that breaks this is a bug here, hence RuntimeError.
    """

    def __init__(self, random: Random, cast_size: int, labelled: bool = True) -> None:
        self.random = random
        self.cast = self._choose_cast(cast_size)
        self.writer = Writer(self.cast, labelled=labelled)
        self.used: set[str] = set()  # nouns: one names one thing per story, so "the ball" is never in doubt
        self.a, self.b = self.cast[0], self.cast[1]
        self.ab = Entity("group", "group", members=(self.a, self.b))
        self.at_home = False  # the main characters have gone home: no story sends them there again
        self.told_glad = False  # the last sentence said that somebody was happy
        self.chapter = 0  # scenes told before this one

    # --- chance ---------------------------------------------------------------------------------------
    # Random.random is the one method whose stream Python promises to keep, so everything is drawn from it.

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random.random() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _choose_cast(self, size: int) -> list[Entity]:
        names: list[str] = []
        while len(names) < size:
            name = self.pick(lx.FEMALE_NAMES if self.chance(0.5) else lx.MALE_NAMES)
            if name not in names:
                names.append(name)
        return [Entity("person", n, sex=lx.SEX[n]) for n in names]

    # --- making things --------------------------------------------------------------------------------

    def fresh(self, nouns: Iterable[str]) -> str:
        """One of the nouns that names nothing yet in this story."""
        chosen = self.pick([noun for noun in nouns if noun not in self.used])
        self.used.add(chosen)
        return chosen

    def thing(self, nouns: Sequence[str], looks: Sequence[str] | None = None, **state: Entity | None) -> Entity:
        """A new thing, often with an adjective; `state` may give its owner, holder or place."""
        noun = self.fresh(nouns)
        if looks is None:
            looks = lx.FOOD_LOOKS if noun in lx.FOODS else () if noun in lx.DRINKS else (*lx.COLOURS, *lx.LOOKS)
        adjective = self.pick(looks) if looks and noun not in lx.MASS_NOUNS and self.chance(0.6) else None
        thing = Entity("thing", noun, adjective=adjective, **state)  # type: ignore[arg-type]
        self.writer.props.append(thing)
        return thing

    def animal(self, owner: Entity | None = None) -> Entity:
        noun = self.fresh(lx.ANIMALS)
        looks = [a for a in lx.ANIMAL_LOOKS if not (noun in ("puppy", "kitten", "lamb") and a in ("old", "young"))]
        adjective = self.pick(looks) if self.chance(0.6) else None
        animal = Entity("animal", noun, adjective=adjective, owner=owner)
        self.writer.props.append(animal)
        return animal

    def location(self, places: dict[str, str] | None = None) -> Entity:
        places = lx.PLACES if places is None else places
        noun = self.fresh(places)
        return Entity("place", noun, preposition=places[noun])

    def spot(self, place: Entity) -> Entity:
        """A spot inside `place`: "under the tree", "behind the door"."""
        inside = place.noun in lx.INDOORS or place.noun in ("bedroom", "hall", "attic")
        spots = lx.INDOOR_SPOTS if inside else lx.OUTDOOR_SPOTS
        noun = self.fresh(spots)
        return Entity("place", noun, preposition=spots[noun], place=place)

    # --- telling --------------------------------------------------------------------------------------

    def say(self, *variants: str, **slots: Entity) -> None:
        """Write one of the variants; slots a, b and ab are the main characters unless given."""
        self.writer.write(self.pick(variants), **{"a": self.a, "b": self.b, "ab": self.ab, **slots})

    def time(self) -> str:
        """A time to begin a scene with: any for the first, a later one afterwards."""
        return self.pick(LATER if self.chapter else TIMES)

    def paragraph(self) -> None:
        """A new paragraph: the next mention of everyone is by name."""
        self.writer.line_break("\n")
        for entity in (*self.cast, *self.writer.props, self.ab):
            if entity.number >= 0:
                entity.last = min(entity.last, self.writer.sentence - 2)

    def speech(self, speaker: Entity, addressee: Entity, body: str, end: str = ".", **slots: Entity) -> None:
        """`body` as direct speech, with a tag that says who speaks, now and then to whom."""
        slots = {"A": speaker, "B": addressee, **slots}
        tags: tuple[str, ...]
        if end == ".":
            tags = (
                f"<<A>B {body} , >> said {{A:s!name}} .",
                f"<<A>B {body} , >> said {{A:s!name}} .",
                f"{{A:s}} said , <<A>B {body} . >>",
                f"{{A:s}} said to {{B:r}} , <<A>B {body} . >>",
                f"<<A>B {body} , >> {{A:s}} said .",
            )
        elif end == "?":
            tags = (
                f"<<A>B {body} ? >> asked {{A:s!name}} .",
                f"<<A>B {body} ? >> {{A:s}} asked .",
                f"{{A:s}} asked , <<A>B {body} ? >>",
                f"{{A:s}} asked {{B:r}} , <<A>B {body} ? >>",
            )
        else:
            tags = (
                f"<<A>B {body} ! >> said {{A:s!name}} .",
                f"<<A>B {body} ! >> cried {{A:s!name}} .",
                f"<<A>B {body} ! >> {{A:s}} said .",
            )
        self.say(*tags, **slots)

    # --- events ---------------------------------------------------------------------------------------

    def need(self, fact: bool, what: str) -> None:
        if not fact:
            raise RuntimeError(f"the story contradicts itself: {what}")

    def be_at(self, place: Entity, *people: Entity) -> None:
        """Record where people are (the sentence has been or will be written)."""
        for person in people:
            person.place = place

    def go(self, person: Entity, place: Entity) -> None:
        self.need(person.place is not place, f"{person.noun} goes to the {place.noun} from there")
        self.say(
            "{x:s} went to {p:p} .", "{x:s} walked to {p:p} .", "Then {x:s} went to {p:p} .", "{x:s} ran to {p:p} .",
            x=person, p=place,
        )  # fmt: skip
        person.place = place

    def go_together(self, place: Entity) -> None:
        self.say(
            "{ab:s} went to {p:p} .", "{ab:s} went to {p:p} together .", "{ab:s} walked to {p:p} .", p=place,
        )  # fmt: skip
        self.be_at(place, self.a, self.b)

    def give(self, giver: Entity, thing: Entity, receiver: Entity, so: bool = False) -> None:
        """The giver hands over what they hold, in one of the ways English has; `so` where a reason was told."""
        self.need(thing.holder is giver, f"{giver.noun} gives the {thing.noun} without having it")
        self.need(giver is not receiver, f"{giver.noun} gives to themselves")
        self.say(
            "{g:s} gave {x:o} to {r:r} .", "{g:s} gave {x:o} to {r:r} .", "{g:s} gave {r:r} {x:o!the} .",
            "{g:s} handed {x:o} to {r:r} .", *(("So {g:s} gave {x:o} to {r:r} .",) if so else ()),
            g=giver, x=thing, r=receiver,
        )  # fmt: skip
        thing.holder = receiver

    def lend(self, owner: Entity, thing: Entity, borrower: Entity) -> None:
        """The owner hands over a thing that stays theirs."""
        self.need(thing.holder is owner, f"{owner.noun} lends the {thing.noun} without having it")
        self.say(
            "{g:s} lent {x:o} to {r:r} .", "{g:s} lent {r:r} {x:o!the} .", "{g:s} let/VERB {r:o} borrow {x:o!the} .",
            g=owner, x=thing, r=borrower,
        )  # fmt: skip
        thing.holder = borrower

    def may_have_giving_sentence(self) -> bool:
        """Whether this pair may stand in one; some names and some pairs never do (see the lexicon)."""
        return lx.may_give(self.a.noun, self.b.noun)

    def giving_sentence(self, thing: Entity, place: Entity, giver: Entity | None = None) -> None:
        """When A and B went to P, one of them gave X to the other: both named, either order, either giver."""
        self.need(self.may_have_giving_sentence(), "a giving sentence about a name kept out of them")
        first, second, giver, receiver = self._who_gives(thing, giver)
        if first.place is place and second.place is place:
            openings: tuple[str, ...] = (
                "When {f:s!name} and {n:s!name} were {p:p!at} ,", "While {f:s!name} and {n:s!name} were {p:p!at} ,",
            )  # fmt: skip
        else:
            openings = (
                "When {f:s!name} and {n:s!name} went to {p:p} ,", "When {f:s!name} and {n:s!name} went to {p:p} ,",
                "After {f:s!name} and {n:s!name} went to {p:p} ,", "When {f:s!name} and {n:s!name} came to {p:p} ,",
            )  # fmt: skip
        opening = self.pick(openings)
        if self.chapter and self.chance(0.3):
            opening = f"{self.pick(LATER)} , {opening[0].lower()}{opening[1:]}"
        self.say(f"{opening} {self._handing_over(thing)}", f=first, n=second, g=giver, r=receiver, x=thing, p=place)
        self.be_at(place, self.a, self.b)
        thing.holder, thing.place = receiver, None

    def giving_in_two_sentences(self, thing: Entity, place: Entity) -> None:
        """A and B went to P. One of them gave X to the other: the same event, told of any two people."""
        first, second, giver, receiver = self._who_gives(thing)
        opening = f"{{f:s!name}} and {{n:s!name}} {self.pick(('went', 'went', 'came'))} to {{p:p}} ."
        if self.chapter and self.chance(0.3):
            opening = f"{self.pick(LATER)} , {opening}"
        self.say(opening, f=first, n=second, p=place)
        self.be_at(place, self.a, self.b)
        self.say(self._handing_over(thing), g=giver, r=receiver, x=thing)
        thing.holder, thing.place = receiver, None

    def _who_gives(self, thing: Entity, giver: Entity | None = None) -> tuple[Entity, Entity, Entity, Entity]:
        """(the one named first, the other, the giver, the receiver)"""
        first, second = (self.a, self.b) if self.chance(0.5) else (self.b, self.a)
        giver = giver or self.pick((first, second))
        self.need(thing.holder in (None, giver), f"{giver.noun} gives the {thing.noun} of somebody else")
        return first, second, giver, second if giver is first else first

    def _handing_over(self, thing: Entity) -> str:
        verb = self.pick(("gave", "gave", "gave", "handed", "passed", "offered"))
        return f"{{g:s!name}} {verb} {{x:o!{'the' if thing.number >= 0 else 'new'}}} to {{r:r!name}} ."

    def thanks(self, receiver: Entity, giver: Entity) -> None:
        kind = int(self.random.random() * 4)
        if kind == 0:
            self.say("{r:s} thanked {g:o} .", "{r:s} smiled and thanked {g:o} .", r=receiver, g=giver)
        elif kind == 1:
            self.speech(receiver, giver, "Thank {B:o} , {g:v!name}", self.pick((".", "!")), g=giver)
        elif kind == 2:
            self.speech(receiver, giver, "Thank {B:o}", self.pick((".", "!")))
        else:
            self.speech(receiver, giver, "Thank {B:o} very much", ".")
