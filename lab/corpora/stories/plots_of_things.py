"""Plots about things: lost, moved, lent, traded, handed on. Where a thing is follows from what was told."""

from __future__ import annotations

from lab.corpora.stories import lexicon as lx
from lab.corpora.stories.scenes import agree, arrive, be_glad, open_alone, open_together, weather
from lab.corpora.stories.world import Story
from lab.corpora.stories.writer import Entity


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


def moved_thing(s: Story) -> None:
    """The second character moves a thing while the first is away and believes it where it was."""
    p = s.location(lx.HOME_ROOMS)
    q = s.location(lx.OUTDOORS)
    x = s.thing((*lx.TOYS, *lx.BELONGINGS), owner=s.a, holder=s.a)
    old = Entity("place", s.fresh(lx.CONTAINERS), preposition="in", place=p)
    new = Entity("place", s.fresh(lx.CONTAINERS), preposition="in", place=p)
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
}


_OUTSIDE = ("bike", "ladder", "map")  # not needed in a library


def borrow_and_return(s: Story) -> None:
    p = s.location()
    open_together(s, p)
    noun = s.pick([n for n in _REASONS if n not in s.used and (n not in _OUTSIDE or p.noun in lx.OUTDOORS)])
    y = s.thing((noun,), looks=lx.COLOURS, owner=s.b, holder=s.b)
    s.say("{b:s} had {y:o!new} with {b:c!pro} .", "{b:s} had {y:o!new} .", y=y)
    s.say(f"{{a:s}} wanted to/PART borrow {{y:o!the}} because {s.pick(_REASONS[noun])} .",
          f"{{a:s}} needed {{y:o!the}} because {s.pick(_REASONS[noun])} .", y=y)  # fmt: skip
    s.speech(s.a, s.b, s.pick(("May {A:s} borrow {y:o!own}", "Can {A:s} borrow {y:o!own}")), "?", y=y)
    agree(s, s.b, s.a)
    s.lend(s.b, y, s.a)
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


def pass_it_on(s: Story) -> None:
    """A thing goes from hand to hand; the last question asks where it is now."""
    c = s.cast[2]
    p, q = s.location(), s.location()
    x = s.thing((*lx.TOYS, *lx.BELONGINGS), owner=s.a, holder=s.a)
    open_together(s, p)
    s.say("{a:s} had {x:o!new} .", "{a:s} showed {b:r} {x:o!new} .", x=x)
    s.lend(s.a, x, s.b)
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
    s.a.place = s.b.place = None
    s.speech(s.a, s.b, s.pick(("Where is {x:s!own}", "Who has {x:o!own}")), "?", x=x)
    s.speech(s.b, s.a, s.pick(("{c:s} has {x:o}", "{A:s} gave {x:o} to {c:r}", "{A:s} lent {x:o} to {c:r}")), x=x, c=c)
    s.say(
        "Then {a:s!name} asked {c:r!name} for {x:o!the} .",
        "Then {a:s!name} went to {c:o!name} and asked for {x:o!the} .",
        x=x,
        c=c,
    )
    s.give(c, x, s.a)


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
    s.give(s.a, x, s.b, so=True)
    s.say("Then {ab:s} played with {x:o} together .", "After that/PRON , {ab:s} were friends/NOUN again .", x=x)


def choice(s: Story) -> None:
    """What is asked for is what is given."""
    p = s.location()
    open_together(s, p)
    x, y = (s.thing((*lx.TOYS, *lx.BELONGINGS), owner=s.b, holder=s.b) for _ in range(2))
    s.say(
        "{b:s!name} had {x:o!new} and {y:o!new} .", "{b:s!name} showed {a:r!name} {x:o!new} and {y:o!new} .", x=x, y=y
    )
    s.speech(
        s.b,
        s.a,
        s.pick(("Do {B:s} want/VERB {x:o!the} or {y:o!the}", "Would {B:s} like {x:o!the} or {y:o!the}")),
        "?",
        x=x,
        y=y,
    )
    chosen = s.pick((x, y))
    s.speech(s.a, s.b, s.pick(("{A:s} like {z:o!the} better", "{A:s} would like {z:o!the} , please")), z=chosen)
    s.say(
        "So {b:s} gave {z:o!the} to {a:r} .",
        "{b:s} gave {z:o!the} to {a:r} .",
        "{b:s} gave {a:r} {z:o!the} .",
        z=chosen,
    )
    chosen.holder = chosen.owner = s.a
    if s.chance(0.6):
        s.thanks(s.a, s.b)
    if s.chance(0.5):
        s.say("Now {a:s!name} had {z:o!the} , and {b:s!name} had {w:o!the} .", z=chosen, w=y if chosen is x else x)


def found_on_the_way(s: Story) -> None:
    """Somebody finds a thing and gives it back to the one who lost it."""
    p = s.location()
    open_alone(s, p)
    x = s.thing(lx.BELONGINGS, owner=s.b, place=p)
    k = s.spot(p)
    s.say("{a:s} found {x:o!new} {k:p!at} .", "{a:s} saw {x:o!new} {k:p!at} and took {x:o} .", x=x, k=k)
    x.holder, x.place = s.a, None
    arrive(s, s.b, p)
    s.say("{b:s!name} was looking for something/PRON@object .", "{b:s!name} looked sad .")
    s.speech(s.a, s.b, s.pick(("Is {x:s!the} yours/PRON@predicate", "Have/AUX {B:s} lost {x:o!the}")), "?", x=x)
    s.speech(
        s.b, s.a, s.pick(("Yes , that/PRON@subject is {x:m!own}", "Yes , {A:s} lost {x:o!the} yesterday/ADV@time")), x=x
    )
    s.give(s.a, x, s.b)
    s.thanks(s.b, s.a)
    if s.chance(0.6):
        s.say(
            "{b:s!name} was glad to/PART have {x:o!the} again .",
            "{b:s!name} was glad because {x:s!own} was safe .",
            x=x,
        )
