"""Stories say what they mean: labels fit the text, pronouns resolve, nobody gives what they do not have."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from lab.corpora import Corpus, GoldLabels, open_corpus
from lab.corpora.stories import giving_prompts, lexicon, open_stories, story_text, story_units
from lab.corpora.stories.telling import PLOTS
from lab.corpora.stories.writer import Entity, Unit, Writer, compile_template
from lab.tokenizers import ByteTokenizer, CharTokenizer, Tokenizer, train_tokenizer

DOCUMENTS = 1500
_GIVING = re.compile(
    r"(?:When|when|After|after|While|while) (?P<first>\w+) and (?P<second>\w+) (?:went|came|were) [^.,]*, "
    r"(?P<giver>\w+) (?:gave|handed|passed|offered) [^.]*? to (?P<receiver>\w+)\."
)
_IN_TWO = re.compile(
    r"(?P<first>[A-Z]\w+) and (?P<second>[A-Z]\w+) (?:went|came) to the \w+\. "
    r"(?P<giver>[A-Z]\w+) (?:gave|handed|passed|offered) [^.]*? to (?P<receiver>[A-Z]\w+)\."
)


@pytest.fixture(scope="module")
def documents() -> list[list[Unit]]:
    return [story_units(7, i) for i in range(DOCUMENTS)]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return open_corpus("stories", seed=3, size=120_000)


def referent(unit: Unit) -> str:
    return lexicon.REFERENTS[unit.referent]


def label(unit: Unit, what: str) -> str | None:
    values = {"pos": lexicon.POS, "role": lexicon.ROLES, "entity": lexicon.ENTITIES, "sex": lexicon.SEXES}[what]
    code = getattr(unit, what)
    return None if code < 0 else values[code]


# --- text and labels ----------------------------------------------------------------------------------


def test_the_labelled_and_the_quick_way_tell_the_same_story(documents: list[list[Unit]]) -> None:
    for i in (0, 1, 2, 500):
        assert "".join(u.text for u in documents[i]) == story_text(7, i)


def test_documents_end_in_an_empty_line_and_nowhere_else(documents: list[list[Unit]]) -> None:
    for units in documents:
        text = "".join(u.text for u in units)
        assert text.endswith("\n\n") and "\n\n" not in text[:-2] and not text.startswith((" ", "\n"))


def test_spelling_and_spacing(documents: list[list[Unit]]) -> None:
    for units in documents:
        text = "".join(u.text for u in units)
        assert not re.search(r" [,.?!]|  |\s'|\.\.|,,", text), text
        assert text.count('"') % 2 == 0
        assert not re.search(r"\ba [aeiou]\w|\ban [^aeiou]", text), text
        for sentence in re.findall(r'(?:^|[.?!]"? |\n)"?(\w)', text):
            assert sentence.isupper() or re.search(r'[?!]" [a-z]+', text), text


def test_every_plot_and_every_word_of_the_lexicon_is_used(documents: list[list[Unit]]) -> None:
    words = Counter(u.text.strip().lower() for units in documents for u in units)
    assert {w.lower() for w in lexicon.WORD_CLASS} - set(words) == set()
    assert {n.lower() for n in (*lexicon.FEMALE_NAMES, *lexicon.MALE_NAMES)} <= set(words)
    assert len(words) > 350
    assert len(PLOTS) >= 15


def test_part_of_speech_is_consistent(documents: list[list[Unit]]) -> None:
    names = {*lexicon.FEMALE_NAMES, *lexicon.MALE_NAMES}
    for unit in (u for units in documents for u in units):
        word, pos = unit.text.strip(), label(unit, "pos")
        assert (pos == "SPACE") == (not word)
        assert (pos == "PUNCT") == (bool(word) and not any(c.isalpha() for c in word))
        if word in names:
            assert pos == "PROPN" and label(unit, "entity") == "person" and referent(unit) == word
        if word.lower() in ("he", "she", "it", "they", "him", "them", "i", "me", "my", "your"):
            assert pos == "PRON"
        if word in ("the", "a", "an", "some"):
            assert pos == "DET"


def test_every_role_and_kind_occurs(documents: list[list[Unit]]) -> None:
    for what, values in (("pos", lexicon.POS), ("role", lexicon.ROLES), ("entity", lexicon.ENTITIES)):
        seen = Counter(label(u, what) for units in documents for u in units)
        assert set(values) <= set(seen), what


# --- reference ----------------------------------------------------------------------------------------

SEX_OF = {"he": "male", "him": "male", "his": "male", "she": "female", "her": "female"}


def test_pronouns_have_the_sex_of_whom_they_mean(documents: list[list[Unit]]) -> None:
    checked = 0
    for units in documents:
        for unit in units:
            word = unit.text.strip().lower()
            if word in SEX_OF:
                assert label(unit, "sex") == SEX_OF[word] == lexicon.SEX[referent(unit)]
                assert unit.antecedent >= 0
                checked += 1
    assert checked > 1000


def test_an_antecedent_is_an_earlier_mention_of_the_same(documents: list[list[Unit]]) -> None:
    for units in documents:
        first_of: dict[int, str] = {}
        for i, unit in enumerate(units):
            if unit.coreference < 0:
                assert unit.antecedent < 0 and unit.referent < 0
                continue
            assert first_of.setdefault(unit.coreference, referent(unit)) == referent(unit)
            if unit.antecedent >= 0:
                assert unit.antecedent < i
                assert units[unit.antecedent].coreference == unit.coreference


def test_a_pronoun_means_the_latest_person_of_its_sex(documents: list[list[Unit]]) -> None:
    """Read without the labels' help: the last named person of that sex outside the pronoun's own phrase."""
    for units in documents:
        latest: dict[str, str] = {}
        for unit in units:
            word = unit.text.strip().lower()
            if word in SEX_OF and not unit.quoted:
                assert latest[SEX_OF[word]] == referent(unit), "".join(u.text for u in units)
            if label(unit, "entity") == "person":
                latest[lexicon.SEX[referent(unit)]] = referent(unit)


def test_speakers_say_i_and_their_listeners_are_you(documents: list[list[Unit]]) -> None:
    for units in documents:
        for i, unit in enumerate(units):
            if unit.text.strip() in ("I", "my", "me"):
                assert unit.quoted and label(unit, "entity") == "person"
                sentence = [u for u in units if u.sentence == unit.sentence and not u.quoted]
                speakers = {referent(u) for u in sentence if label(u, "role") == "subject" and u.referent >= 0}
                assert speakers == {referent(unit)}, (i, "".join(u.text for u in units))
            if unit.text.strip() in ("you", "your"):
                assert unit.quoted


def test_it_means_the_only_thing_spoken_of(documents: list[list[Unit]]) -> None:
    for units in documents:
        for i, unit in enumerate(units):
            if unit.text.strip().lower() == "it" and unit.referent >= 0:
                paragraph = max((k for k in range(i) if units[k].text == "\n"), default=0)
                near = {
                    u.coreference
                    for u in units[paragraph:i]
                    if u.sentence >= unit.sentence - 1 and label(u, "entity") in ("thing", "animal")
                }
                assert near == {unit.coreference}, "".join(u.text for u in units)


# --- the world ----------------------------------------------------------------------------------------


def test_giving_sentences_give_to_the_other_one(documents: list[list[Unit]]) -> None:
    found = 0
    for units in documents:
        for match in _GIVING.finditer("".join(u.text for u in units)):
            pair = {match["first"], match["second"]}
            assert len(pair) == 2 and {match["giver"], match["receiver"]} == pair
            assert lexicon.may_give(match["first"], match["second"])
            found += 1
    assert found > DOCUMENTS // 3


def test_both_orders_and_both_givers_occur_equally(documents: list[list[Unit]]) -> None:
    matches = [m for units in documents for m in _GIVING.finditer("".join(u.text for u in units))]
    share = np.mean([m["giver"] == m["first"] for m in matches])
    assert 0.42 < share < 0.58  # else "the second name" or "the first" would answer without reading on


def test_everybody_gets_things_by_name_in_two_sentences(documents: list[list[Unit]]) -> None:
    """Also who never stands in a giving sentence: its absence there is not a rule about the name."""
    matches = [m for units in documents for m in _IN_TWO.finditer("".join(u.text for u in units))]
    for match in matches:
        assert {match["giver"], match["receiver"]} == {match["first"], match["second"]}
    assert set(lexicon.UNSEEN_GIVERS) <= {m["receiver"] for m in matches}
    share = np.mean([lexicon.may_give(m["first"], m["second"]) for m in matches])
    assert 0.3 < share < 0.7  # nor does this form say who may stand in the other
    assert 0.4 < np.mean([m["giver"] == m["first"] for m in matches]) < 0.6


def test_nobody_gives_what_they_do_not_have(documents: list[list[Unit]]) -> None:
    """Hands followed from the labels alone: subject gives object to recipient."""
    handed_on = 0
    for units in documents:
        holder: dict[int, str] = {}
        sentences: dict[int, list[Unit]] = {}
        for unit in units:
            if not unit.quoted:
                sentences.setdefault(unit.sentence, []).append(unit)
        for sentence in sentences.values():
            verbs = {u.text.strip() for u in sentence if label(u, "role") == "verb"}
            if not verbs & {"gave", "handed", "passed", "offered", "lent", "returned"}:
                continue
            things = {u.coreference for u in sentence if label(u, "role") == "object" and label(u, "entity") == "thing"}
            receivers = {referent(u) for u in sentence if label(u, "role") == "recipient"}
            givers = [referent(u) for u in sentence if label(u, "role") == "subject" and label(u, "entity") == "person"]
            assert len(things) == len(receivers) == 1, "".join(u.text for u in units)
            (thing,), (receiver,) = things, receivers
            if thing in holder:
                assert givers[-1] == holder[thing], "".join(u.text for u in units)
                handed_on += 1
            assert givers[-1] != receiver
            holder[thing] = receiver
    assert handed_on > 100


def test_where_questions_are_answered_truly(documents: list[list[Unit]]) -> None:
    """ "It is in the box": the last place the thing was put or moved to."""
    answered = 0
    for units in documents:
        text = "".join(u.text for u in units)
        moved = re.search(r"(?:put|moved) (?:it|the \w+)(?: from the \w+)? (?:in|to) the (\w+)\.\n", text)
        answer = re.search(r'"(?:It|The \w+) is in the (\w+)[.,]"', text)
        if moved and answer:
            assert moved[1] == answer[1]
            answered += 1
    assert answered > 20


def test_names_kept_out_of_giving_sentences_still_act() -> None:
    text = "".join(story_text(0, i) for i in range(600))
    for name in lexicon.UNSEEN_GIVERS:
        assert f"{name} " in text


# --- the corpus ---------------------------------------------------------------------------------------


def test_the_split_keeps_documents_whole(corpus: Corpus) -> None:
    assert isinstance(corpus.train, str) and isinstance(corpus.validation, str)
    assert corpus.train.endswith("\n\n") and corpus.validation.endswith("\n\n")
    documents = len(corpus.text.split("\n\n")) - 1
    assert len(corpus.validation.split("\n\n")) - 1 == documents // 10
    train = set(corpus.train.split("\n\n"))
    again = [d for d in corpus.validation.split("\n\n")[:-1] if d in train]
    assert len(again) <= 0.02 * documents


def test_a_larger_corpus_starts_with_the_smaller(corpus: Corpus) -> None:
    assert isinstance(corpus.train, str)
    larger = open_stories(seed=3, size=200_000)
    assert isinstance(larger.train, str) and larger.train.startswith(corpus.train)


def test_word_tokens_are_the_labelled_units(corpus: Corpus) -> None:
    tokenizer = corpus.default_tokenizer()
    ids, on_tokens = corpus.labels_on_tokens(tokenizer, "validation")
    labels = corpus.labels("validation")
    assert labels is not None and len(ids) == len(labels)
    assert np.array_equal(on_tokens.starts, labels.starts)
    for name in labels.layers:
        assert np.array_equal(on_tokens.layer(name).codes, labels.layer(name).codes)
    for name in labels.numbers:
        assert np.array_equal(on_tokens.numbers[name], labels.numbers[name])


@pytest.mark.parametrize("spec", ["char", "byte", "bpe:400"])
def test_any_tokenizer_gets_the_labels(spec: str, corpus: Corpus) -> None:
    tokenizer = train_tokenizer(spec, corpus.text)
    labels = corpus.labels("validation")
    assert labels is not None
    ids, on_tokens = corpus.labels_on_tokens(tokenizer, "validation")
    check_alignment(tokenizer, corpus.validation, ids, labels, on_tokens)


def check_alignment(
    tokenizer: Tokenizer, text: str | np.ndarray, ids: np.ndarray, labels: GoldLabels, on_tokens: GoldLabels
) -> None:
    assert isinstance(text, str) and len(on_tokens) == len(ids)
    pos, want = on_tokens.layer("pos"), labels.layer("pos")
    unit_at = np.repeat(np.arange(len(labels)), labels.ends - labels.starts)  # [character]
    for i in range(0, len(ids), 7):
        piece = text[on_tokens.starts[i] : on_tokens.ends[i]]
        solid = len(piece.rstrip())
        at = on_tokens.starts[i] + (solid or len(piece)) - 1
        unit = unit_at[at]
        if solid or not text[labels.starts[unit] : labels.ends[unit]].strip():
            assert pos.codes[i] == want.codes[unit]
            assert on_tokens.document[i] == labels.document[unit]
        else:
            assert pos.codes[i] == -1  # the space before a word belongs to no word yet
    antecedent = on_tokens.numbers["antecedent"]
    linked = np.flatnonzero(antecedent >= 0)
    assert len(linked) > 100
    coreference = on_tokens.numbers["coreference"]
    assert np.array_equal(coreference[antecedent[linked]], coreference[linked])
    assert np.all(antecedent[linked] < linked)


def test_on_tokens_of_text_with_wide_characters() -> None:
    labels = open_stories(size=1).labels("train")
    text = open_stories(size=1).train
    assert labels is not None and isinstance(text, str)
    for tokenizer in (ByteTokenizer(), CharTokenizer.train(text)):
        _, starts, ends = tokenizer.spans(text)
        assert len(labels.on_tokens(text, starts, ends)) == len(text)


# --- prompts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["known", "new-pair", "unseen"])
def test_giving_prompts(names: str, corpus: Corpus) -> None:
    tokenizer = corpus.default_tokenizer()
    prompts = giving_prompts(200, names=names)  # type: ignore[arg-type]
    assert giving_prompts(200, names=names) == prompts  # type: ignore[arg-type]
    assert giving_prompts(200, seed=1, names=names) != prompts  # type: ignore[arg-type]
    seen_pairs = {frozenset((m["first"], m["second"])) for m in _GIVING.finditer(corpus.text)}
    giver_first = 0
    for p in prompts:
        match = _GIVING.fullmatch(f"{p.prompt}{p.answer}.")
        assert match and f" {match['giver']}" == p.wrong and f" {match['receiver']}" == p.answer
        corrupt = _GIVING.fullmatch(f"{p.corrupt}{p.wrong}.")
        assert corrupt and f" {corrupt['giver']}" == p.answer
        assert len(tokenizer.encode(p.answer)) == len(tokenizer.encode(p.wrong)) == 1
        assert len(tokenizer.encode(p.prompt)) == len(tokenizer.encode(p.corrupt))
        pair = frozenset((match["first"], match["second"]))
        if names != "known":
            assert pair not in seen_pairs
        assert (match["receiver"] in lexicon.UNSEEN_GIVERS) == (names == "unseen")
        giver_first += match["giver"] == match["first"]
    assert 60 < giver_first < 140


def test_prompts_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="new-pair"):
        giving_prompts(3, names="fresh")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0"):
        giving_prompts(0)


def test_the_textbook_sentence_is_in_the_vocabulary(corpus: Corpus) -> None:
    tokenizer = corpus.default_tokenizer()
    prompt = "When Mary and John went to the store, John gave a drink to"
    assert len(tokenizer.encode(prompt)) == 14 and len(tokenizer.encode(" Mary")) == 1


def test_a_template_with_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValueError, match="no word 'zyzzyva'"):
        compile_template("{a:s} saw zyzzyva .")


# --- the writer, sentence by sentence -----------------------------------------------------------------


def written(cast: list[Entity], props: list[Entity], *templates: str, **slots: Entity) -> str:
    writer = Writer(cast, props)
    for template in templates:
        writer.write(template, **slots)
    assert "".join(u.text for u in writer.units) == "".join(writer.texts)
    return "".join(writer.texts)


def person(name: str) -> Entity:
    return Entity("person", name, sex=lexicon.SEX[name])


def test_a_pronoun_needs_a_recent_mention_and_no_rival() -> None:
    templates = ("{a:s} saw {b:o} .", "{a:s} smiled .", "{a:s} waited .")
    mary, john, anna = person("Mary"), person("John"), person("Anna")
    assert written([mary, john], [], *templates, a=mary, b=john) == "Mary saw John. She smiled. She waited."
    mary, anna = person("Mary"), person("Anna")
    assert written([mary, anna], [], *templates, a=mary, b=anna) == "Mary saw Anna. Mary smiled. Mary waited."


def test_it_needs_a_recent_mention_and_no_rival() -> None:
    templates = ("{a:s} saw {x:o} .", "{a:s!name} took {x:o} .")
    mary, ball, kite = person("Mary"), Entity("thing", "ball"), Entity("thing", "kite", adjective="old")
    assert written([mary], [ball], *templates, a=mary, x=ball) == "Mary saw a ball. Mary took it."
    mary, ball = person("Mary"), Entity("thing", "ball")
    two = ("{a:s} saw {x:o} and {y:o} .", "{a:s!name} took {x:o} .")
    assert written([mary], [ball, kite], *two, a=mary, x=ball, y=kite) == (
        "Mary saw a ball and an old kite. Mary took the ball."
    )


def test_in_speech_the_speaker_is_i_and_the_listener_you() -> None:
    mary, john = person("Mary"), person("John")
    ball = Entity("thing", "ball", owner=john)
    said = written(
        [mary, john], [ball], "<<a>b May {a:s} have {x:o!own} ? >> asked {a:s!name} .", a=mary, b=john, x=ball
    )
    assert said == '"May I have your ball?" asked Mary.'
    told = written([person("Mary")], [], "{a:s} said , <<a {a:s} am here . >>", a=person("Mary"))
    assert told == 'Mary said, "I am here."'


def test_an_owner_is_named_unless_the_subject() -> None:
    mary, john = person("Mary"), person("John")
    ball = Entity("thing", "ball", owner=john)
    assert written([mary, john], [ball], "{a:s} took {x:o!own} .", a=mary, x=ball) == "Mary took John's ball."
    john = person("John")
    ball = Entity("thing", "ball", owner=john)
    assert written([john], [ball], "{a:s} took {x:o!own} .", a=john, x=ball) == "John took his ball."
