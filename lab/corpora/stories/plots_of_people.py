"""Plots about people: hunger, birthdays, rain, sickness, games, and what they do for each other."""

from __future__ import annotations

from lab.corpora.stories import lexicon as lx
from lab.corpora.stories.scenes import agree, be_glad, enjoy, open_alone, open_together, weather
from lab.corpora.stories.world import Story


def share_a_meal(s: Story) -> None:
    p = s.location()
    open_together(s, p)
    thirsty = s.chance(0.4)
    x = s.thing(lx.DRINKS if thirsty else lx.FOODS, owner=s.b, holder=s.b)
    need, taken = ("thirsty", "drunk") if thirsty else ("hungry", "eaten")
    s.say(
        f"{{a:s}} was {need} because {{a:s!pro}} had/AUX not {taken}/VERB anything/PRON@object .",
        f"{{a:s}} was very {need} .",
    )
    s.say("{b:s} had {x:o!new} in {b!poss} bag/NOUN .", "{b:s} had {x:o!new} .", x=x)
    if s.chance(0.5):
        s.speech(s.a, s.b, f"{{A:s}} am so {need}")
    s.speech(s.a, s.b, s.pick(("May {A:s} have {x:o}", "Can {A:s} have {x:o!own}")), "?", x=x)
    if s.chance(0.8):
        agree(s, s.b, s.a)
    s.give(s.b, x, s.a, so=True)
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
    s.say("Now {n:s!the} was safe .", "{n:s!the} was safe and happy .", n=n)
    s.speech(s.a, s.b, s.pick(("Thank {B:o} for {B!poss} help/NOUN", "Thank {B:o} , {b:v!name}")))
    if s.chance(0.5):
        be_glad(s, s.b)


def rain(s: Story) -> None:
    p = s.location(lx.OUTDOORS)
    open_together(s, p)
    y = s.thing(("umbrella", "coat", "scarf", "hat"), looks=lx.COLOURS, owner=s.b, holder=s.b)
    s.say(
        "Then it began to/PART rain/VERB .", "Soon it was raining .", "Then the/DET@subject rain/NOUN@subject began ."
    )
    s.say(
        "{a:s} was wet and cold .",
        "{a:s} was cold and sad .",
        *(() if y.noun == "coat" else ("{a:s} was cold because {a:s!pro} had no/DET@object coat/NOUN@object .",)),
    )
    s.say("{b:s} had {y:o!new} .", "But {b:s} had {y:o!new} with {b:c!pro} .", y=y)
    if s.chance(0.5):
        s.speech(s.b, s.a, s.pick(("{B:s} can have {y:o!own}", "Take {y:o!own}")), y=y)
    s.give(s.b, y, s.a, so=True)
    s.say(
        "Then {a:s} was not so cold anymore/ADV .",
        "{a:s} was glad to/PART have {y:o!the} .",
        *(() if y.noun == "umbrella" else ("{a:s} was glad because {y:s!the} was warm .",)),
        y=y,
    )
    if s.chance(0.5):
        s.thanks(s.a, s.b)
    s.say("{ab:s} ran home/ADV@place together .", "{ab:s} ran home/ADV@place through/ADP the/DET rain/NOUN .")
    s.at_home = True


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


def sick_friend(s: Story) -> None:
    p = s.location({"bedroom": "in", "hospital": "in"})
    x = s.thing((*lx.DRINKS, *lx.FOODS), holder=s.b)
    time = s.time()
    if s.chance(0.5):
        s.say(f"{time} , {{a:s}} stayed {{p:p!at}} because {{a:s!pro}} was sick .", p=p)
    else:
        s.say(f"{time} , {{a:s}} was sick .", f"{time} , {{a:s}} was sick and tired .")
        s.say("So {a:s} stayed {p:p!at} .", p=p)
    s.at_home = True
    s.be_at(p, s.a)
    s.say("{b:s} came to/PART see {a:o!name} .", "{b:s} wanted to/PART help {a:o!name} .")
    s.say("{b:s} brought {x:o!new} .", "{b:s} had {x:o!new} with {b:c!pro} .", x=x)
    s.be_at(p, s.b)
    if s.chance(0.7):
        s.speech(s.b, s.a, "How/ADV are {B:s}", "?")
        s.speech(s.a, s.b, s.pick(("{A:s} am sick", "{A:s} am not well/ADJ", "{A:s} am very tired")))
    s.give(s.b, x, s.a)
    if s.chance(0.6):
        s.thanks(s.a, s.b)
    s.say("{a:s} drank {x:o} ." if x.noun in lx.DRINKS else "{a:s} ate {x:o} .", x=x)
    x.holder = None
    s.say("[t The next day] , {a:s} was well/ADJ again .", "Soon {a:s} was better .", "Then {a:s} slept .")


def baking(s: Story) -> None:
    """Two make something for a third."""
    c = s.cast[2]
    p = s.location({"kitchen": "in", "bakery": "in"})
    q = s.location(lx.OUTDOORS)
    x = s.thing(("cake", "pie", "cookie", "sandwich"), looks=("big", "small", "sweet"))
    open_together(s, p)
    s.say("{ab:s} made {x:o!new} for {c:r} .", "{ab:s} wanted to/PART make something/PRON@object for {c:r} .", x=x, c=c)
    if x.number < 0:
        s.say("So {ab:s} made {x:o!new} .", "{ab:s} made {x:o!new} together .", x=x)
    baker, helper = (s.a, s.b) if s.chance(0.5) else (s.b, s.a)
    s.say(
        "{h:s!name} washed/VERB the/DET@object dishes/NOUN@object , and {k:s!name} took {x:o!the} to {q:p} .",
        "Then {k:s!name} took {x:o!the} to {q:p} , but {h:s!name} stayed {p:p!at} .",
        x=x,
        h=helper,
        k=baker,
        q=q,
        p=p,
    )
    s.be_at(q, baker)
    x.holder = baker
    s.say("{c:s} was {q:p!at} .", "{c:s} was waiting/VERB there .", c=c, q=q)
    s.be_at(q, c)
    s.give(baker, x, c)
    s.say("{c:s} ate {x:o} .", "{c:s} liked {x:o} very much/ADV .", c=c, x=x)
    s.thanks(c, baker)
