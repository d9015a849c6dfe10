"""From a template to words with labels: noun phrases, pronouns that resolve, direct speech.

A template is a line of words separated by spaces:
  word            its class comes from the lexicon; word/POS and word/POS@role say otherwise
  {x:s}           a mention of slot x in a role (s subject, o object, r recipient, p place, c companion,
                  f source, m predicate, v address); the form is chosen so that it can only mean x
  {x:s!form}      name, pro, poss ("her", "Mary's"), the, new ("a red ball"), own ("her ball"),
                  at ("in the park")
  [t One day]     words with the role time
  <<a>b ... >>    direct speech of a to b: mentions of a become I, of b you
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from lab.corpora.stories.lexicon import ENTITIES, MASS_NOUNS, POS, REFERENTS, ROLES, SEXES, WORD_CLASS

POS_CODE = {p: i for i, p in enumerate(POS)}
ROLE_CODE = {r: i for i, r in enumerate(ROLES)}
ENTITY_CODE = {e: i for i, e in enumerate(ENTITIES)}
SEX_CODE = {s: i for i, s in enumerate(SEXES)}
REFERENT_CODE = {r: i for i, r in enumerate(REFERENTS)}
_ROLE_LETTERS = {
    "s": "subject", "o": "object", "r": "recipient", "p": "place", "c": "companion", "f": "source",
    "m": "predicate", "v": "address",
}  # fmt: skip
_NEVER = -99  # the sentence number of an entity that has not been mentioned


@dataclass(eq=False)
class Entity:
    """Something that can be mentioned. `last` is the sentence of its latest mention, `unit` that mention's
    last word, `number` its coreference number (given at the first mention)."""

    kind: str
    noun: str
    sex: str | None = None
    adjective: str | None = None
    preposition: str = "in"
    owner: Entity | None = None
    members: tuple[Entity, ...] = ()
    last: int = _NEVER
    unit: int = -1
    number: int = -1
    # state of the world
    place: Entity | None = None
    holder: Entity | None = None


class Unit(NamedTuple):
    """One word or mark with its labels; codes as in the lexicon's tuples, -1 for none."""

    text: str
    pos: int
    role: int = -1
    entity: int = -1
    sex: int = -1
    referent: int = -1
    coreference: int = -1
    antecedent: int = -1
    sentence: int = 0
    quoted: int = 0


class _Word(NamedTuple):
    text: str
    pos: int
    role: int
    glued: bool  # no space before it


class _Mention(NamedTuple):
    slot: str
    role: int
    form: str


class _Speech(NamedTuple):
    speaker: str  # "" closes the speech
    addressee: str


_SLOT = re.compile(r"\{(\w+)(?::(\w))?(?:!(\w+))?\}")
_OPEN = re.compile(r"<<(\w+)(?:>(\w+))?")


@cache
def compile_template(template: str) -> tuple[_Word | _Mention | _Speech, ...]:
    """The steps of a template; ValueError for a word that the lexicon lacks."""
    steps: list[_Word | _Mention | _Speech] = []
    time = False
    for token in template.split():
        if token == "[t":
            time = True
            continue
        closes = token.endswith("]")
        token = token.removesuffix("]")
        if match := _SLOT.fullmatch(token):
            slot, letter, form = match.groups()
            role = ROLE_CODE[_ROLE_LETTERS[letter]] if letter else -1
            steps.append(_Mention(slot, role, form or "auto"))
        elif match := _OPEN.fullmatch(token):
            steps.append(_Speech(match[1], match[2] or ""))
        elif token == ">>":
            steps.append(_Speech("", ""))
        else:
            steps.append(_compile_word(token, template, time))
        time = time and not closes
    return tuple(steps)


def _compile_word(token: str, template: str, time: bool) -> _Word:
    word, _, tag = token.partition("/")
    pos, _, role = tag.partition("@")
    pos = pos or WORD_CLASS.get(word) or WORD_CLASS.get(word.lower(), "")
    if not pos:
        raise ValueError(f"the lexicon has no word {word!r} (template {template!r})")
    if time:
        role = "time"
    elif not role:
        role = "verb" if pos in ("VERB", "AUX") else "predicate" if pos == "ADJ" else ""
    return _Word(word, POS_CODE[pos], ROLE_CODE[role] if role else -1, pos == "PUNCT" or word == "'s")


_PRONOUNS = {
    "female": ("she", "her", "her"),
    "male": ("he", "him", "his"),
    "group": ("they", "them", "their"),
    "thing": ("it", "it", "its"),
}


@dataclass
class Writer:
    """Writes one document as units. `cast` and `props` are the entities that pronouns could confuse."""

    cast: list[Entity]
    props: list[Entity] = field(default_factory=list)
    labelled: bool = True
    texts: list[str] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)  # as `texts`, with labels; empty unless `labelled`
    sentence: int = 0
    numbers: int = 0

    def __post_init__(self) -> None:
        self._space = False
        self._capital = True
        self._speaker: Entity | None = None
        self._addressee: Entity | None = None
        self._subject: Entity | None = None
        self._quoted = 0

    def write(self, template: str, **slots: Entity) -> None:
        """Append one sentence (with any direct speech in it)."""
        self._subject = None
        for step in compile_template(template):
            if isinstance(step, _Word):
                self._word(step.text, step.pos, step.role, glued=step.glued)
            elif isinstance(step, _Mention):
                self._mention(slots[step.slot], step.role, step.form)
            elif step.speaker:
                self._word('"', _PUNCT, -1)
                self._speaker = slots[step.speaker]
                self._addressee = slots[step.addressee] if step.addressee else None
                self._space, self._capital, self._quoted = False, True, 1
            else:
                self._speaker = self._addressee = None
                self._capital, self._quoted = False, 0
                self._word('"', _PUNCT, -1, glued=True)
        self._capital = True
        self.sentence += 1

    def line_break(self, text: str) -> None:
        """End the paragraph ("\\n") or the document ("\\n\\n")."""
        self.texts.append(text)
        if self.labelled:
            self.units.append(Unit(text, _SPACE, sentence=self.sentence))
        self._space, self._capital = False, True

    def _word(self, text: str, pos: int, role: int, *, glued: bool = False, of: Entity | None = None) -> None:
        if self._capital:
            if text != '"':
                text = text[0].upper() + text[1:]
                self._capital = False
        elif text == "i":
            text = "I"
        space = " " if self._space and not glued else ""
        self._space = True
        if text in _ENDS and self._quoted:
            self._capital = True
        self.texts.append(space + text)
        if not self.labelled:
            return
        if of is None:
            self.units.append(Unit(space + text, pos, role, sentence=self.sentence, quoted=self._quoted))
        else:
            self.units.append(
                Unit(
                    space + text, pos, role, ENTITY_CODE[of.kind], SEX_CODE[of.sex] if of.sex else -1,
                    REFERENT_CODE[of.noun], of.number, of.unit, self.sentence, self._quoted,
                )
            )  # fmt: skip

    # --- noun phrases ---------------------------------------------------------------------------------

    def _mention(self, entity: Entity, role: int, form: str) -> None:
        if entity.kind == "group":
            self._group(entity, role)
        else:
            self._numbered(entity)
            if entity.kind == "person":
                self._person(entity, role, form)
            elif entity.kind == "place":
                self._place(entity, role, form)
            else:
                self._thing(entity, role, form)
        if role == _SUBJECT:
            self._subject = entity

    def _done(self, entity: Entity) -> None:
        entity.last, entity.unit = self.sentence, len(self.texts) - 1

    def _person(self, person: Entity, role: int, form: str) -> None:
        case = 2 if form == "poss" else 0 if role == _SUBJECT else 1
        if form == "poss":
            role = _POSSESSOR
        if form != "name" and person is self._speaker:
            self._word(("i", "me", "my")[case], _PRON, role, of=person)
        elif form != "name" and person is self._addressee:
            self._word(("you", "you", "your")[case], _PRON, role, of=person)
        elif (
            form == "pro"
            or (form == "poss" and person is self._subject)
            or (form in ("auto", "poss") and self.pronoun_is_clear(person))
        ):
            self._word(_PRONOUNS[person.sex or ""][case], _PRON, role, of=person)
        else:
            self._word(person.noun, _PROPN, role, of=person)
            if form == "poss":
                self._done(person)
                self._word("'s", _PART, role, glued=True)
                return
        self._done(person)

    def pronoun_is_clear(self, person: Entity) -> bool:
        """Whether he or she can only mean this person here: mentioned lately, no rival of that sex nearby."""
        if self._quoted or person.last < self.sentence - 1:
            return False
        return all(other is person or other.sex != person.sex or other.last < self.sentence - 2 for other in self.cast)

    def _group(self, group: Entity, role: int) -> None:
        if self._speaker in group.members:
            self._word("we" if role == _SUBJECT else "us", _PRON, role, of=self._numbered(group))
        elif group.last >= self.sentence - 1 and not self._quoted:
            self._word("they" if role == _SUBJECT else "them", _PRON, role, of=group)
        else:
            first, second = group.members
            self._mention(first, role, "name")
            self._word("and", _CCONJ, role, of=self._numbered(group))
            at = len(self.texts) - 1
            self._mention(second, role, "name")
            group.last, group.unit = self.sentence, at  # "and" stands for the two of them
            return
        self._done(group)

    def _numbered(self, entity: Entity) -> Entity:
        """The entity, which has its coreference number from now on."""
        if entity.number < 0:
            entity.number, self.numbers = self.numbers, self.numbers + 1
        return entity

    def _place(self, place: Entity, role: int, form: str) -> None:
        if form == "at":
            self._word(place.preposition, _ADP, -1)
        self._word("the", _DET, role, of=place)
        self._word(place.noun, _NOUN, role, of=place)
        self._done(place)

    def _thing(self, thing: Entity, role: int, form: str) -> None:
        first = thing.last == _NEVER
        if form == "own" and thing.owner is not None:
            self._mention(thing.owner, _POSSESSOR, "poss")
        elif form == "new" or (form == "auto" and first):
            self._article(thing, role)
        elif form == "auto" and self.it_is_clear(thing):
            self._word("it", _PRON, role, of=thing)
            self._done(thing)
            return
        else:
            self._word("the", _DET, role, of=thing)
        if thing.adjective and (form == "new" or (form in ("auto", "own") and first)):
            self._word(thing.adjective, _ADJ, role, of=thing)
        self._word(thing.noun, _NOUN, role, of=thing)
        self._done(thing)

    def it_is_clear(self, thing: Entity) -> bool:
        """Whether "it" can only mean this thing here."""
        if thing.last < self.sentence - 1:
            return False
        return all(other is thing or other.last < self.sentence - 1 for other in self.props)

    def _article(self, thing: Entity, role: int) -> None:
        follows = thing.adjective or thing.noun
        article = "some" if thing.noun in MASS_NOUNS else "an" if follows[0] in "aeiou" else "a"
        self._word(article, _DET, role, of=thing)


_PUNCT, _SPACE, _PRON, _PROPN, _PART, _CCONJ, _ADP, _DET, _ADJ, _NOUN = (
    POS_CODE[p] for p in ("PUNCT", "SPACE", "PRON", "PROPN", "PART", "CCONJ", "ADP", "DET", "ADJ", "NOUN")
)
_SUBJECT, _POSSESSOR = ROLE_CODE["subject"], ROLE_CODE["possessor"]
_ENDS = frozenset(".?!")
