"""Scenes that the plots share: how a story opens, who arrives, what becomes of a gift, how it ends."""

from __future__ import annotations

from lab.corpora.stories import lexicon as lx
from lab.corpora.stories.world import Story
from lab.corpora.stories.writer import Entity

_IN_ONE_SENTENCE = 0.75
"""Share of the giving scenes of two people who may stand in a giving sentence that are told in one."""


def open_alone(s: Story, place: Entity) -> None:
    """The first character is somewhere."""
    time = s.time()
    s.say(
        f"{time} , {{a:s}} was {{p:p!at}} .", f"{time} , {{a:s}} went to {{p:p}} .",
        f"{time} , {{a:s}} walked to {{p:p}} .", *(() if s.chapter else ("{a:s} was {p:p!at} .",)), p=place,
    )  # fmt: skip
    s.be_at(place, s.a)
    weather(s, place)


def open_together(s: Story, place: Entity) -> None:
    """Both main characters are somewhere."""
    time = s.time()
    s.say(
        f"{time} , {{ab:s}} were {{p:p!at}} .", f"{time} , {{ab:s}} went to {{p:p}} .",
        *(() if s.chapter else ("{ab:s} were {p:p!at} .", "{ab:s} were good friends/NOUN .")), p=place,
    )  # fmt: skip
    if place.number < 0:  # only their friendship was told
        s.say(f"{time} , {{ab:s}} went to {{p:p}} .", p=place)
    s.be_at(place, s.a, s.b)
    weather(s, place)


def weather(s: Story, place: Entity) -> None:
    if not s.chance(0.35):
        return
    if place.noun in lx.OUTDOORS:
        s.say(
            "The/DET@subject sun/NOUN@subject was shining .", "The/DET@subject sky/NOUN@subject was blue .",
            "It was warm and sunny .", "It was cold and windy .", "It was a/DET lovely day/NOUN .",
        )  # fmt: skip
    elif place.noun in lx.INDOORS:
        s.say("It was quiet there .", "It was busy there .", "It was warm inside .")
    else:
        s.say("It was quiet there .", "It was warm there .")


def arrive(s: Story, person: Entity, place: Entity) -> None:
    s.say("Then {x:s} came to {p:p} .", "Soon {x:s} came to {p:p} .", "{x:s} came to {p:p} too .", x=person, p=place)
    person.place = place


def agree(s: Story, speaker: Entity, other: Entity) -> None:
    body = s.pick(("Yes , of course/NOUN", "Yes , {B:s} may", "Yes , please do/VERB", "Of course/NOUN"))
    s.speech(speaker, other, body)


def enjoy(s: Story, person: Entity, thing: Entity) -> None:
    """The one who got a thing uses it up or keeps it."""
    if thing.noun in lx.FOODS:
        s.say(
            "{x:s} ate {y:o} .",
            "{x:s} ate {y:o} slowly .",
            "{x:s} was hungry , so {x:s!pro} ate {y:o} .",
            x=person,
            y=thing,
        )
        thing.holder = None
    elif thing.noun in lx.DRINKS:
        s.say(
            "{x:s} drank {y:o} .",
            "{x:s} drank {y:o} quickly .",
            "{x:s} was thirsty , so {x:s!pro} drank {y:o} .",
            x=person,
            y=thing,
        )
        thing.holder = None
    else:
        s.say("{x:s} liked {y:o} very much/ADV .", "{x:s} put {y:o} in {x!poss} bag/NOUN .",
              "{x:s} held {y:o} carefully .", x=person, y=thing)  # fmt: skip


def be_glad(s: Story, person: Entity) -> None:
    s.say("{x:s} was happy .", "{x:s} was very happy .", x=person)
    s.told_glad = True


def close(s: Story) -> None:
    """An end, or none."""
    kind = int(s.random.random() * 5)
    together = s.a.place is s.b.place and not s.at_home
    if kind == 0 and together:
        s.say("Then {ab:s} went home/ADV@place .", "[t In the evening] , {ab:s} went home/ADV@place .",
              "{ab:s} went home/ADV@place together .")  # fmt: skip
    elif kind == 1:
        s.say("It was a/DET good day/NOUN .", "It was a/DET very good day/NOUN for {ab:o} .")
    elif kind == 2 and together and not s.told_glad:
        s.say("{ab:s} were happy .", "{ab:s} laughed .")
    elif kind == 3 and together:
        s.say("After that/PRON , {ab:s} played together .", "Then {ab:s} talked and laughed .")


def giving_scene(s: Story) -> None:
    """The two go somewhere and one gives the other something: the sentence that patching studies.

    Some scenes tell it in two sentences, and all of those about people kept out of giving sentences. Else a model
    would learn, besides who gets the thing, that these people never get anything by name right after coming somewhere.
    """
    place = s.location()
    nouns = s.pick((lx.DRINKS, lx.DRINKS, lx.FOODS, lx.FOODS, lx.TOYS, lx.BELONGINGS, lx.BELONGINGS))
    thing = s.thing(nouns)
    if s.may_have_giving_sentence() and s.chance(_IN_ONE_SENTENCE):
        s.giving_sentence(thing, place)
    else:
        s.giving_in_two_sentences(thing, place)
    receiver, giver = (s.a, s.b) if thing.holder is s.a else (s.b, s.a)
    if s.chance(0.6):
        s.thanks(receiver, giver)
    if s.chance(0.7):
        enjoy(s, receiver, thing)
