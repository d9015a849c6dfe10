"""Ask for probes of a picked model, and keep the answers: labels, fits, and fits at every checkpoint of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import streamlit as st

from apps.i18n import language, t
from apps.i18n.sentences import said
from apps.inspection import Checkpoint, open_checkpoint
from apps.kept import kept

if TYPE_CHECKING:
    import numpy as np

    from lab.analysis import Dynamics, LabelledTokens, Probes
    from lab.runs import Run

CONTROLS = ("shuffled", "token")
EXAMPLES = (1000, 2000, 4000, 8000, 12_000)
DEFAULT_EXAMPLES = 4000
TEXT_SOURCES = ("stories", "python")
CHARACTERS_A_LABEL = 60  # of a generated corpus, a tenth of which is read and most of whose words are labelled
CHEAP = 3_000_000  # rows x width x examples that take a few seconds on one core
MOST_CHECKPOINTS = 12

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Question:
    """What a probe is to read, where, from how much, against which control. Hashable: the key of an answer.

    seed: of the corpus. The model's own corpus is asked for with the seed it was made with, so that what is read
    here is its validation part.
    """

    labels: str
    site: str
    examples: int
    control: str
    seed: int = 0


def own_corpus(run: Run) -> tuple[str | None, int]:
    """(name, seed) of the corpus a run was trained on; (None, 0) where its config does not tell."""
    try:
        data = run.config["data"]
    except (AttributeError, KeyError, OSError, ValueError):
        return None, 0
    name, seed = data.get("corpus"), data.get("corpus_seed")
    return (name, seed if isinstance(seed, int) else 0) if isinstance(name, str) else (None, 0)


def seed_for(run: Run, spec: str) -> int:
    """The seed a corpus of labels is made with: the run's own where it is the run's own corpus, else 0."""
    corpus, seed = own_corpus(run)
    return seed if spec.partition(":")[0] == corpus else 0


def label_choices(corpus: str | None) -> list[str]:
    """Labels there may be, "stories:pos" and so on: those of the model's own corpus first, then those of texts."""
    from lab.corpora import corpus_infos

    infos = {info.name: info for info in corpus_infos() if info.label_layers}
    names = [name for name in (corpus, *TEXT_SOURCES) if name in infos]
    return [f"{name}:{layer}" for name in dict.fromkeys(names) for layer in infos[name].label_layers]


@contextmanager
def _refusals_translated() -> Iterator[None]:
    """What the floors below refuse is raised again as a ValueError with a sentence in the reader's language."""
    from lab.analysis import UnreadableLabels

    try:
        yield
    except UnreadableLabels as error:
        from apps.widgets.prompt_bar import unknown_sentence

        sentence = t("probes.unreadable", what=said(error.what), unknown=unknown_sentence(error.problem))
        raise ValueError(sentence) from error
    except ValueError as error:
        raise ValueError(said(str(error))) from error


@st.cache_resource(max_entries=12, show_spinner=False)
def labels(checkpoint: Checkpoint, spec: str, examples: int, seed: int) -> LabelledTokens:
    """Labels on the tokens of this model. Raises ValueError where its tokenizer cannot read the text."""
    from lab.analysis import corpus_labels
    from lab.corpora import open_corpus

    name, _, layer = spec.partition(":")
    tokenizer = open_checkpoint(checkpoint).tokenizer
    if tokenizer is None:
        raise ValueError(t("probes.no_tokenizer"))
    return corpus_labels(open_corpus(name, seed=seed, size=_size(name, examples)), tokenizer, layer)


def _size(corpus: str, examples: int) -> int | None:
    """How much of a corpus is made for so many labels; a corpus that is read, not made, is read whole."""
    return None if corpus == "python" else examples * CHARACTERS_A_LABEL


def _labels_for(checkpoint: Checkpoint, question: Question) -> LabelledTokens:
    with _refusals_translated():
        found: LabelledTokens = labels(checkpoint, question.labels, question.examples, question.seed)
    return found


def classes(checkpoint: Checkpoint, spec: str, examples: int, seed: int) -> tuple[tuple[str, ...], str]:
    """(the classes of these labels, "") or, where this model's tokenizer cannot read the text, ((), the reason)."""
    found: tuple[tuple[str, ...], str] = _classes(checkpoint, spec, examples, seed, language())
    return found


@st.cache_data(max_entries=64, show_spinner=False)
def _classes(checkpoint: Checkpoint, spec: str, examples: int, seed: int, reader: str) -> tuple[tuple[str, ...], str]:
    """reader: the language of the reason, so that each is kept by itself."""
    try:
        with _refusals_translated():
            return labels(checkpoint, spec, examples, seed).classes, ""
    except (OSError, ValueError) as error:
        return (), str(error)


def is_cheap(checkpoint: Checkpoint, question: Question, rows: int | None = None) -> bool:
    """Whether fitting so many layers (None: all) takes a few seconds, so that a page may do it unasked."""
    config = open_checkpoint(checkpoint).config
    width = config.d_mlp if question.site == "neuron" else config.d_model
    return (rows or config.n_layers + 1) * width * question.examples <= CHEAP


def known(checkpoint: Checkpoint, question: Question) -> Probes | None:
    """The answer, when it is there already."""
    answer: Probes | None = kept("probes", 64).get((checkpoint, question))
    return answer


def fit(checkpoint: Checkpoint, question: Question, told: Told) -> Probes:
    """The answer, fitted now. Raises ValueError, in the reader's language, for labels that cannot be fitted."""
    from lab.analysis import fit_probes

    read = _labels_for(checkpoint, question)
    with _refusals_translated():
        answer = fit_probes(
            open_checkpoint(checkpoint), read, site=question.site, examples=question.examples,
            control=question.control, progress=told,
        )  # fmt: skip
    kept("probes", 64).put((checkpoint, question), answer)
    return answer


def known_at(checkpoint: Checkpoint, question: Question, layer: int) -> Probes | None:
    """An answer that holds the probe of this layer, when there is one already; the control changes no direction."""
    point = f"blocks.{layer}.hook_{question.site}"
    asked = [question] if question.site != "resid_pre" else [replace(question, site="resid_post")]  # row "embed"
    for one in asked:
        for control in CONTROLS:
            answer = known(checkpoint, replace(one, control=control))
            if answer is not None and point in answer.points:
                return answer
    alone: Probes | None = kept("probes of one layer", 64).get((checkpoint, question, layer))
    return alone


def fit_at(checkpoint: Checkpoint, question: Question, layer: int) -> Probes:
    """The probe of one layer, fitted now. Raises ValueError as `fit` does."""
    from lab.analysis import fit_probes

    read = _labels_for(checkpoint, question)
    with _refusals_translated():
        answer = fit_probes(
            open_checkpoint(checkpoint), read, site=question.site, layers=layer, examples=question.examples,
            control=question.control, bootstrap=0,
        )  # fmt: skip
    kept("probes of one layer", 64).put((checkpoint, question, layer), answer)
    return answer


def direction(checkpoint: Checkpoint, question: Question, layer: int, label: str, versus: str) -> np.ndarray:
    """Unit vector [d_model] along which the probe of a layer tells a class from another ("": from all others).

    Fitted now unless it is known. Raises ValueError as `fit` does, and for a class the labels do not have.
    """
    answer = known_at(checkpoint, question, layer) or fit_at(checkpoint, question, layer)
    row = answer.points.index(f"blocks.{layer}.hook_{question.site}")
    with _refusals_translated():
        return answer.direction(row, label, versus or None)


def direction_as_python(question: Question, layer: int, label: str, versus: str) -> str:
    """That direction as an expression of `model`."""
    name, _, kind = question.labels.partition(":")
    corpus = f"open_corpus({name!r}, seed={question.seed}, size={_size(name, question.examples)})"
    fitted = (
        f"fit_probes(model, corpus_labels({corpus}, model.tokenizer, {kind!r}), site={question.site!r}, "
        f"layers={layer}, examples={question.examples})"
    )
    return f"{fitted}.direction('L{layer}', {label!r}, {versus or None!r})"


def as_python(reference: str, question: Question) -> str:
    """The fit as a few lines, to be run where the lab is installed."""
    name, _, layer = question.labels.partition(":")
    return "\n".join(
        (
            "from lab.analysis import corpus_labels, fit_probes",
            "from lab.corpora import open_corpus",
            "from lab.models import open_model",
            "",
            f"model = open_model({reference!r})",
            f"corpus = open_corpus({name!r}, seed={question.seed}, size={_size(name, question.examples)})",
            f"labels = corpus_labels(corpus, model.tokenizer, {layer!r})",
            f"probes = fit_probes(model, labels, site={question.site!r}, examples={question.examples}, "
            f"control={question.control!r})",
            "print(probes.to_frame())",
        )
    )


def film_steps(run: Run) -> list[int]:
    """The checkpoints at which probes are fitted: all, or so many with the first and the last among them."""
    steps = run.checkpoints()
    if len(steps) <= MOST_CHECKPOINTS:
        return steps
    places = [round(at * (len(steps) - 1) / (MOST_CHECKPOINTS - 1)) for at in range(MOST_CHECKPOINTS)]
    return [steps[place] for place in dict.fromkeys(places)]


def known_film(run: Run, question: Question) -> Dynamics | None:
    """The answer at every checkpoint, when it is there already."""
    answer: Dynamics | None = kept("probe films").get((str(run.path), tuple(film_steps(run)), question))
    return answer


def film(run: Run, checkpoint: Checkpoint, question: Question, told: Told) -> Dynamics:
    """The accuracy at every checkpoint, fitted now. Raises ValueError as `fit` does."""
    from lab.analysis import probed_film

    steps = film_steps(run)
    read = _labels_for(checkpoint, question)
    with _refusals_translated():
        answer = probed_film(run, read, site=question.site, examples=question.examples, steps=steps, progress=told)
    kept("probe films").put((str(run.path), tuple(steps), question), answer)
    return answer
