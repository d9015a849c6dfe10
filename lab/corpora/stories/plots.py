"""The plots. Each tells a small story about the state of its world: a loss, a gift, a mistake about a place."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from lab.corpora.stories import lexicon as lx
from lab.corpora.stories.world import Story
from lab.corpora.stories.writer import Entity

# --- pieces that plots share --------------------------------------------------------------------------


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
            "The/DET@subject sun/NOUN@subject was shining .", "It was warm and sunny .", "It was a/DET lovely day/NOUN .",
            "The/DET@subject sky/NOUN@subject was blue .", "It was cold and windy .",
        )  # fmt: skip
    else:
        s.say("It was quiet there .", "It was busy there .", "It was warm inside .")


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
    s.say("{x:s} was happy .", "{x:s} was very happy .", "Now {x:s} was happy again .", x=person)


def close(s: Story) -> None:
    """An end, or none."""
    kind = int(s.random.random() * 5)
    if kind == 0 and not s.at_home:
        s.say("Then {ab:s} went home/ADV@place .", "[t In the evening] , {ab:s} went home/ADV@place .",
              "{ab:s} went home/ADV@place together .")  # fmt: skip
    elif kind == 1:
        s.say("It was a/DET good day/NOUN .", "It was a/DET very good day/NOUN for {ab:o} .")
    elif kind == 2:
        s.say("{ab:s} were happy .", "{ab:s} laughed .", "{ab:s} smiled .")
    elif kind == 3 and not s.at_home:
        s.say("After that/PRON , {ab:s} played together .", "Then {ab:s} talked and laughed .")


def giving_scene(s: Story) -> None:
    """The two go somewhere and one gives the other something: the sentence that patching studies."""
    place = s.location()
    nouns = s.pick((lx.DRINKS, lx.DRINKS, lx.FOODS, lx.FOODS, lx.TOYS, lx.BELONGINGS, lx.BELONGINGS))
    thing = s.thing(nouns)
    s.giving_sentence(thing, place)
    receiver, giver = (s.a, s.b) if thing.holder is s.a else (s.b, s.a)
    if s.chance(0.6):
        s.thanks(receiver, giver)
    if s.chance(0.7):
        enjoy(s, receiver, thing)


# --- plots --------------------------------------------------------------------------------------------


def lost_and_found(s: Story) -> None:
    p = s.location()
    x = s.thing((*lx.TOYS, *lx.BELONGINGS), owner=s.a, holder=s.a)
    s.say("{a:s} had {x:o!new} and loved {x:o} very much/ADV .", "{a:s} had {x:o!new} .", x=x)
    s.say(f"{s.time()} , {{a:s}} took {{x:o}} to {{p:p}} .", x=x, p=p)
    s.be_at(p, s.a)
    weather(s, p)
    x.holder, x.place = None, p
    s.say(
        "[t In the afternoon] , {a:s} could not find {x:o} .",
        "[t Later] , {a:s} could not find {x:o} anywhere/ADV .",
        x=x,
    )
    s.say("{a:s} was sad because {a:s!pro} had/AUX lost {x:o!own} .", "{a:s} cried because {x:s!own} was gone .",
          "{a:s} was sad because {x:s!own} was lost .", x=x)  # fmt: skip
    s.paragraph()
    arrive(s, s.b, p)
    s.speech(s.b, s.a, "Why are {B:s} sad", "?")
    s.speech(
        s.a, s.b, s.pick(("{A:s} have/AUX lost {x:o!own}", "{A:s} can not find {x:o!own}", "{x:s!own} is gone")), x=x
    )
    s.speech(s.b, s.a, s.pick(("{A:s} will help {B:o}", "Let {ab:o} look for {x:o}", "{A:s} will look for {x:o}")), x=x)
    wrong, right = s.spot(p), s.spot(p)
    s.say(
        "{ab:s} looked {k:p!at} , but {x:s} was not there .",
        "First/ADV {b:s} looked {k:p!at} , but {x:s!the} was not there .",
        x=x,
        k=wrong,
    )
    s.say("Then {b:s} looked {k:p!at} and found {x:o} .", "Then {b:s} found {x:o} {k:p!at} .", x=x, k=right)
    x.holder = s.b
    if s.chance(0.5):
        s.speech(s.b, s.a, "Here is {x:s!own}", s.pick((".", "!")), x=x)
    s.give(s.b, x, s.a)
    s.thanks(s.a, s.b)
    be_glad(s, s.a)


def share_a_meal(s: Story) -> None:
    p = s.location()
    open_together(s, p)
    thirsty = s.chance(0.4)
    x = s.thing(lx.DRINKS if thirsty else lx.FOODS, owner=s.b, holder=s.b)
    need = "thirsty" if thirsty else "hungry"
    s.say(
        f"{{a:s}} was {need} because {{a:s!pro}} had/AUX not {'drunk/VERB' if thirsty else 'eaten/VERB'} anything/PRON@object .",
        f"{{a:s}} was very {need} .",
    )
    s.say("{b:s} had {x:o!new} in {b!poss} bag/NOUN .", "{b:s} had {x:o!new} .", x=x)
    if s.chance(0.5):
        s.speech(s.a, s.b, f"{{A:s}} am so {need}")
    s.speech(s.a, s.b, s.pick(("May {A:s} have {x:o}", "Can {A:s} have {x:o!own}")), "?", x=x)
    if s.chance(0.8):
        agree(s, s.b, s.a)
    s.give(s.b, x, s.a)
    if s.chance(0.6):
        s.thanks(s.a, s.b)
    s.say("{a:s} drank {x:o} ." if thirsty else "{a:s} ate {x:o} .", x=x)
    x.holder = None
    s.say(
        f"Now {{a:s}} was not {need} anymore/ADV .",
        f"{{a:s}} was happy because {{a:s!pro}} was not {need} anymore/ADV .",
    )


def shopping(s: Story) -> None:
    p = s.location({n: lx.PLACES[n] for n in lx.SHOPS})
    x = s.thing((*lx.FOODS, *lx.DRINKS, *lx.BELONGINGS))
    s.say(f"{s.time()} , {{ab:s}} wanted to/PART go out .", "{ab:s} needed some things/NOUN@object from {p:f} .", p=p)
    if s.may_have_giving_sentence():
        s.giving_sentence(x, p)
    else:
        s.go_together(p)
        s.say("{a:s} bought {x:o!new} .", x=x)
        x.holder = s.a
        s.give(s.a, x, s.b)
    receiver, giver = (s.a, s.b) if x.holder is s.a else (s.b, s.a)
    if s.chance(0.6):
        s.thanks(receiver, giver)
    enjoy(s, receiver, x)
    y = s.thing(lx.FOODS if x.noun in lx.DRINKS else lx.BELONGINGS)
    s.say("Then {r:s} bought {y:o!new} for {g:r} .", "{r:s} bought {y:o!new} too .", r=receiver, g=giver, y=y)
    y.holder = receiver
    s.give(receiver, y, giver)
    s.thanks(giver, receiver)


def birthday(s: Story) -> None:
    shop = s.location({n: lx.PLACES[n] for n in lx.SHOPS})
    p = s.location({n: lx.PLACES[n] for n in ("park", "garden", "kitchen", "farm", "school", "restaurant")})
    x = s.thing((*lx.TOYS, *lx.BELONGINGS))
    s.say(
        "It was {b!poss} birthday/NOUN .",
        "[t On Sunday] , it was {b!poss} birthday/NOUN .",
        "[t Today] was {b!poss} birthday/NOUN .",
    )
    s.say(
        "{a:s} wanted to/PART give {b:r!name} a/DET present/NOUN .",
        "{a:s} wanted to/PART buy a/DET present/NOUN for {b:r!name} .",
    )
    s.say("So {a:s} went to {p:p} and bought {x:o!new} .", "{a:s} went to {p:p} and found {x:o!new} .", x=x, p=shop)
    s.be_at(shop, s.a)
    x.holder = s.a
    s.paragraph()
    s.say("{b:s} was {p:p!at} .", "[t In the afternoon] , {b:s} was {p:p!at} .", p=p)
    s.be_at(p, s.b)
    s.say("{a:s} took {x:o} to {p:p} .", "{a:s} came to {p:p} with {x:o!the} .", x=x, p=p)
    s.be_at(p, s.a)
    if s.chance(0.7):
        s.speech(s.a, s.b, "Happy birthday/NOUN , {b:v!name}", "!")
    s.give(s.a, x, s.b)
    s.say("{b:s} loved {x:o} .", "{b:s} was very happy .", "{b:s} was surprised and happy .", x=x)
    s.thanks(s.b, s.a)


def moved_thing(s: Story) -> None:
    """The second character moves a thing while the first is away and believes it where it was."""
    p = s.location(lx.HOME_ROOMS)
    q = s.location(lx.OUTDOORS)
    x = s.thing((*lx.TOYS, *lx.BELONGINGS), owner=s.a, holder=s.a)
    old = Entity("place", s._fresh(lx.CONTAINERS), preposition="in", place=p)
    new = Entity("place", s._fresh(lx.CONTAINERS), preposition="in", place=p)
    open_together(s, p)
    s.say("{a:s} had {x:o!new} .", x=x)
    s.say("{a:s} put {x:o} {k:p!at} .", x=x, k=old)
    s.say("Then {a:s} went to {q:p} .", "After that/PRON , {a:s} went to {q:p} .", q=q)
    s.be_at(q, s.a)
    if s.chance(0.6):
        s.say("{b:s!name} stayed {p:p!at} .", p=p)
    s.say(
        "{b:s!name} took {x:o!the} from {k:f} and put {x:o} {n:p!at} .",
        "While {a:s!name} was away , {b:s!name} moved {x:o!the} from {k:f} to {n:p} .",
        x=x, k=old, n=new,
    )  # fmt: skip
    s.paragraph()
    s.say("[t Later] , {a:s} came back/ADV .", "[t In the evening] , {a:s} came back/ADV to {p:p} .", p=p)
    s.be_at(p, s.a)
    s.say("{a:s} looked {k:p!at} because {a:s!pro} thought that {x:s!the} was there .",
          "{a:s} thought that {x:s!the} was {k:p!at} .", x=x, k=old)  # fmt: skip
    s.say("But {x:s} was not there .", "But {k:s} was empty .", x=x, k=old)
    s.speech(s.a, s.b, "Where is {x:s!own}", "?", x=x)
    s.speech(s.b, s.a, "{x:s} is {n:p!at}", x=x, n=new)
    s.say("{a:s} looked {n:p!at} and found {x:o} .", "So {a:s} took {x:o} from {n:f} .", x=x, n=new)
    x.holder = s.a
    be_glad(s, s.a)


def animal_rescue(s: Story) -> None:
    p = s.location(lx.OUTDOORS)
    open_alone(s, p)
    n = s.animal()
    k = s.spot(p)
    y = s.thing(lx.TOOLS, looks=("long", "old", "big"), owner=s.b, holder=s.b)
    s.say("{a:s} saw {n:o!new} {k:p!at} .", "{a:s} heard {n:o!new} {k:p!at} .", n=n, k=k)
    s.say(
        "{n:s} was hurt/ADJ and could not move .", "{n:s} was stuck/ADJ and afraid .", "{n:s} could not get away .", n=n
    )
    s.say("{a:s} wanted to/PART help {n:o} , but {a:s!pro} could not do/VERB it/PRON alone/ADV .",
          "{a:s} was sad because {a:s!pro} could not help {n:o!the} .", n=n)  # fmt: skip
    s.say("So {a:s} called {b:o} .", "So {a:s} went home/ADV@place and called {b:o} .")
    s.speech(s.a, s.b, s.pick(("Please help {n:o!the}", "Please come and help {A:o}")), s.pick((".", "!")), n=n)
    s.say("{b:s} came and brought {y:o!new} .", "{b:s} brought {y:o!new} and came quickly .", y=y)
    s.be_at(p, s.a, s.b)
    s.say("With {y:o!the} , {ab:s} freed {n:o!the} .", "{ab:s} freed {n:o!the} with {y:o!the} .", y=y, n=n)
    s.say("Now {n:s!the} was safe .", "{n:s!the} was safe and ran home/ADV@place .", n=n)
    s.speech(s.a, s.b, s.pick(("Thank {B:o} for {B!poss} help/NOUN", "Thank {B:o} , {b:v!name}")))
    if s.chance(0.5):
        be_glad(s, s.b)


_REASONS = {
    "lamp": ("it was dark", "{a:s!pro} wanted to read"),
    "umbrella": ("it was raining",),
    "pen": ("{a:s!pro} wanted to/PART write/VERB a/DET@object letter/NOUN@object",),
    "coat": ("{a:s!pro} was cold", "it was cold outside"),
    "scarf": ("{a:s!pro} was cold",),
    "bike": ("{a:s!pro} was late", "{a:s!pro} was too tired to/PART walk/VERB"),
    "ladder": ("{a:s!pro} wanted to/PART climb a/DET@object tree/NOUN@object",),
    "map": ("{a:s!pro} was lost", "{a:s!pro} did not know the/DET@object way/NOUN@object"),
    "book": ("{a:s!pro} wanted to read",),
    "basket": ("{a:s!pro} had many things/NOUN@object to carry",),
}


def borrow_and_return(s: Story) -> None:
    p = s.location()
    open_together(s, p)
    noun = s._fresh([n for n in _REASONS if n != "basket"])
    s._nouns.discard(noun)
    y = s.thing((noun,), looks=lx.COLOURS, owner=s.b, holder=s.b)
    s.say("{b:s} had {y:o!new} with {b:c!pro} .", "{b:s} had {y:o!new} .", y=y)
    s.say(f"{{a:s}} wanted to/PART borrow {{y:o!the}} because {s.pick(_REASONS[noun])} .",
          f"{{a:s}} needed {{y:o!the}} because {s.pick(_REASONS[noun])} .", y=y)  # fmt: skip
    s.speech(s.a, s.b, s.pick(("May {A:s} borrow {y:o!own}", "Can {A:s} borrow {y:o!own}")), "?", y=y)
    agree(s, s.b, s.a)
    s.say("{b:s} lent {y:o} to {a:r} .", "{b:s} lent {a:r} {y:o!the} .", "So {b:s} gave {y:o} to {a:r} .", y=y)
    y.holder = s.a
    s.thanks(s.a, s.b)
    s.paragraph()
    s.say("[t The next day] , {a:s} met {b:o} again .", "[t In the evening] , {a:s} went to see {b:o} .")
    s.say("{a:s} gave {y:o} back to {b:r} .", "{a:s} returned {y:o} to {b:r} .", y=y)
    y.holder = s.b
    s.say("{b:s} was glad because {a:s!name} had/AUX been careful .", "{b:s} was glad to/PART have {y:o} again .", y=y)


def trade(s: Story) -> None:
    p = s.location()
    open_together(s, p)
    x = s.thing((*lx.TOYS, *lx.FOODS), owner=s.a, holder=s.a)
    y = s.thing(lx.BELONGINGS, owner=s.b, holder=s.b)
    s.say("{a:s!name} had {x:o!new} , and {b:s!name} had {y:o!new} .", x=x, y=y)
    s.say("{a:s} wanted {y:o!the} .", "{a:s} liked {y:o!the} better than/ADP {x:o!the} .", x=x, y=y)
    s.speech(s.a, s.b, s.pick((
        "If {B:s} give {A:r} {y:o!own} , {A:s} will give {B:r} {x:o!own}", "{A:s} will trade {x:o!own} for {y:o!own}",
    )), x=x, y=y)  # fmt: skip
    s.say("{b:s} agreed .", "{b:s} thought about it/PRON and agreed .")
    s.give(s.a, x, s.b)
    s.give(s.b, y, s.a)
    x.owner, y.owner = s.b, s.a
    s.say("Now {a:s!name} had {y:o!the} , and {b:s!name} had {x:o!the} .", x=x, y=y)
    if x.noun in lx.FOODS and s.chance(0.7):
        s.say("{b:s} ate {x:o!the} .", x=x)


def rain(s: Story) -> None:
    p = s.location(lx.OUTDOORS)
    open_together(s, p)
    y = s.thing(("umbrella", "coat", "scarf", "hat"), looks=lx.COLOURS, owner=s.b, holder=s.b)
    s.say(
        "Then it began to/PART rain/VERB .", "Soon it was raining .", "Then the/DET@subject rain/NOUN@subject began ."
    )
    s.say("{a:s} was wet and cold .", "{a:s} was cold because {a:s!pro} had no/DET@object coat/NOUN@object ." if y.noun != "coat"
          else "{a:s} was cold and sad .")  # fmt: skip
    s.say("{b:s} had {y:o!new} .", "But {b:s} had {y:o!new} with {b:c!pro} .", y=y)
    if s.chance(0.5):
        s.speech(s.b, s.a, s.pick(("{B:s} can have {y:o!own}", "Take {y:o!own}")), y=y)
    s.give(s.b, y, s.a)
    s.say("Then {a:s} was not so cold anymore/ADV .", "{a:s} was glad because {y:s!the} was warm ." if y.noun != "umbrella"
          else "{a:s} was glad to/PART have {y:o!the} .", y=y)  # fmt: skip
    if s.chance(0.5):
        s.thanks(s.a, s.b)
    s.say("{ab:s} ran home/ADV@place together .", "{ab:s} ran home/ADV@place through/ADP the/DET rain/NOUN .")
    s.at_home = True


def pass_it_on(s: Story) -> None:
    """A thing goes from hand to hand; the last question asks where it is now."""
    c = s.cast[2]
    p, q = s.location(), s.location()
    x = s.thing((*lx.TOYS, *lx.BELONGINGS), owner=s.a, holder=s.a)
    open_together(s, p)
    s.say("{a:s} had {x:o!new} .", "{a:s} showed {b:r} {x:o!new} .", x=x)
    s.give(s.a, x, s.b)
    if s.chance(0.5):
        s.thanks(s.b, s.a)
    s.say("Then {b:s!name} took {x:o!the} to {q:p} .", x=x, q=q)
    s.be_at(q, s.b)
    s.say("{c:s} was {q:p!at} too .", "{c:s} was there .", c=c, q=q)
    s.be_at(q, c)
    if s.chance(0.5):
        s.speech(c, s.b, s.pick(("May {A:s} have {x:o!the}", "Can {A:s} borrow {x:o!the}")), "?", x=x)
    s.give(s.b, x, c)
    s.paragraph()
    s.say("[t Later] , {b:s} met {a:o} again .", "[t In the evening] , {a:s} met {b:o} again .")
    s.speech(s.a, s.b, s.pick(("Where is {x:s!own}", "Who has {x:o!own}")), "?", x=x)
    s.speech(s.b, s.a, s.pick(("{c:s} has {x:o}", "{A:s} gave {x:o} to {c:r}")), x=x, c=c)
    s.say(
        "Then {a:s!name} asked {c:r!name} for {x:o!the} .",
        "Then {a:s!name} went to {c:o!name} and asked for {x:o!the} .",
        x=x,
        c=c,
    )
    s.give(c, x, s.a)


def picnic(s: Story) -> None:
    p = s.location(lx.OUTDOORS)
    x = s.thing(lx.FOODS, holder=s.a, owner=s.a)
    y = s.thing(lx.DRINKS, holder=s.b, owner=s.b)
    s.say(
        f"{s.time()} , {{ab:s}} went to {{p:p}} for a/DET picnic/NOUN .",
        "{ab:s} wanted to/PART have a/DET picnic/NOUN {p:p!at} .",
        p=p,
    )
    s.be_at(p, s.a, s.b)
    weather(s, p)
    s.say("{a:s!name} brought {x:o!new} , and {b:s!name} brought {y:o!new} .", x=x, y=y)
    k = s.spot(p)
    s.say("{ab:s} sat {k:p!at} .", "{ab:s} found a/DET good place/NOUN {k:p!at} .", k=k)
    if s.chance(0.6):
        s.speech(s.b, s.a, s.pick(("May {A:s} have {x:o!own}", "{A:s} am hungry . May {A:s} have {x:o!own}")), "?", x=x)
    s.give(s.a, x, s.b)
    s.say("{b:s} ate {x:o!the} .", "{b:s} ate {x:o!the} and smiled .", x=x)
    x.holder = None
    if s.chance(0.6):
        s.speech(s.a, s.b, "{A:s} am thirsty")
    s.give(s.b, y, s.a)
    s.say("{a:s} drank {y:o!the} .", "{a:s} drank {y:o!the} and was happy .", y=y)
    y.holder = None


def quarrel(s: Story) -> None:
    p = s.location()
    open_together(s, p)
    x = s.thing(lx.TOYS, place=p)
    k = s.spot(p)
    s.say("{ab:s} saw {x:o!new} {k:p!at} .", "{ab:s} found {x:o!new} {k:p!at} .", x=x, k=k)
    s.say("Both wanted {x:o!the} .", "{ab:s} wanted to/PART play with {x:o!the} .", x=x)
    s.say("{a:s} took {x:o} first/ADV .", "{a:s} was faster/ADJ and took {x:o!the} .", x=x)
    x.holder, x.place = s.a, None
    s.say("{b:s} was angry .", "{b:s} was angry because {b:s!pro} wanted {x:o!the} too .", x=x)
    s.speech(
        s.b, s.a, s.pick(("{A:s} saw {x:o!the} first/ADV", "Give {x:o!the} to {A:r}", "{B:s} are not kind")), "!", x=x
    )
    s.say("{a:s} was sorry .", "{a:s} was sorry because {b:s!name} was angry .", "{a:s} thought about it/PRON .")
    s.speech(s.a, s.b, s.pick(("{A:s} am sorry", "{A:s} am sorry , {b:v!name}", "{B:s} can have {x:o}")), x=x)
    s.give(s.a, x, s.b)
    s.say("Then {ab:s} played with {x:o} together .", "After that/PRON , {ab:s} were friends/NOUN again .", x=x)


def hide_and_seek(s: Story) -> None:
    p = s.location({**lx.HOME_ROOMS, **lx.OUTDOORS})
    open_together(s, p)
    s.say("{ab:s} wanted to/PART play a/DET@object game/NOUN@object .", "{ab:s} played a/DET@object game/NOUN@object .")
    wrong, right = s.spot(p), s.spot(p)
    s.say("{a:s!name} hid {k:p!at} .", "{a:s!name} ran away and hid {k:p!at} .", k=right)
    s.say(
        "{b:s!name} closed {b!poss} eyes/NOUN@object and waited .",
        "{b:s!name} waited a/DET minute/NOUN and then went to/PART look for {a:o!name} .",
    )
    s.speech(s.b, s.a, "Where are {B:s}", "?")
    s.say("{b:s} looked {k:p!at} , but {a:s!name} was not there .", k=wrong)
    s.say("Then {b:s} looked {k:p!at} and found {a:o!name} .", "Then {b:s} looked {k:p!at} .", k=right)
    s.speech(s.b, s.a, s.pick(("There {B:s} are", "Now {A:s} see {B:o}")), "!")
    s.say("{a:s} laughed .", "{ab:s} laughed .", "{a:s} came out and laughed .")


PLOTS: tuple[tuple[Callable[[Story], None], int], ...] = (
    (lost_and_found, 2), (share_a_meal, 2), (shopping, 2), (birthday, 2), (moved_thing, 2), (animal_rescue, 2),
    (borrow_and_return, 2), (trade, 2), (rain, 2), (pass_it_on, 3), (picnic, 2), (quarrel, 2), (hide_and_seek, 2),
)  # fmt: skip


def tell(random: Random) -> Story:
    """A whole document: one plot, most often a giving scene before or after it, an end."""
    wheel = [plot for plot, weight in PLOTS for _ in range(weight)]
    plot = wheel[int(random.random() * len(wheel))]
    s = Story(random, cast_size=3 if plot is pass_it_on else 2)
    scenes = [plot]
    if s.may_have_giving_sentence() and s.chance(0.7):
        scenes.insert(1 if s.chance(0.7) else 0, giving_scene)
    for number, scene in enumerate(scenes):
        if number:
            s.paragraph()
        s.chapter, s.at_home = number, False
        scene(s)
    close(s)
    s.writer.line_break("\n\n")
    return s
