"""Probes: at which layer can a property of a token be read off its activations, and by how much more than chance?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from apps import probing, selection
from apps.i18n import language, t
from apps.inspection import Checkpoint, open_picked
from apps.probing import Question
from apps.widgets.columns import number, share
from apps.widgets.export_row import export_row
from apps.widgets.model_picker import Picked
from apps.widgets.page import opening, picked_with_weights
from apps.widgets.picture import picture, template
from apps.widgets.plain import plain
from apps.widgets.progress import progress_bar
from apps.widgets.selectors import one_of

if TYPE_CHECKING:
    from lab.analysis import Probes

SITES = ("resid_post", "resid_mid", "attn_out", "mlp_out", "neuron")
CONTROLS = ("shuffled", "token")
EXAMPLES = (1000, 2000, 4000, 8000, 12_000)
DEFAULT_EXAMPLES = 4000
LABEL_WORDS = ("pos", "entity", "role", "sex", "referent", "quoted", "token", "predictable", "part")


def _own_corpus(model: Picked) -> tuple[str | None, int]:
    """(name, seed) of the built-in corpus the model was trained on; (None, 0) for any other."""
    try:
        data = model.run.config["data"]
    except (AttributeError, KeyError, OSError, ValueError):
        return None, 0
    name, seed = data.get("corpus"), data.get("corpus_seed")
    return (name, seed if isinstance(seed, int) else 0) if isinstance(name, str) else (None, 0)


def _label_name(spec: str) -> str:
    """A set of labels in the reader's words: the corpus' title, and the property."""
    from lab.corpora import corpus_infos

    name, _, layer = spec.partition(":")
    title = next((info.title[language()] for info in corpus_infos() if info.name == name), name)
    read = t(f"probes.layer_{layer}") if layer in LABEL_WORDS else layer
    return f"{title}: {read}"


def _question(model: Picked) -> Question:
    """The row of controls."""
    corpus, seed = _own_corpus(model)
    choices = probing.label_choices(corpus)
    names = {spec: _label_name(spec) for spec in choices}
    sites = {name: t(f"probes.site_{name}") for name in SITES}
    first, second, third = st.columns([3, 2, 2], vertical_alignment="bottom")
    with first:
        spec = selection.prepare("labels", choices, choices[0], what=t("probes.labels"))
        st.selectbox(
            t("probes.labels"), choices, key="labels", persist_state="session", format_func=names.__getitem__,
            help=t("probes.labels_help"),
        )  # fmt: skip
    with second:
        site = selection.prepare("site", SITES, SITES[0], what=t("probes.site"))
        st.selectbox(
            t("probes.site"), SITES, key="site", persist_state="session",
            format_func=sites.__getitem__,
        )  # fmt: skip
    with third:
        examples = selection.prepare("examples", EXAMPLES, DEFAULT_EXAMPLES, parse=int, what=t("probes.examples"))
        st.select_slider(
            t("probes.examples"), EXAMPLES, key="examples", persist_state="session",
            format_func=lambda count: f"{count:,}", help=t("probes.examples_help"),
        )  # fmt: skip
    control = one_of("control", CONTROLS, t("probes.control"), lambda name: t(f"probes.control_{name}"))
    return Question(spec, site, examples, control, seed if spec.partition(":")[0] == corpus else 0)


def _answer(checkpoint: Checkpoint, question: Question) -> Probes | None:
    """The fit: kept from before, made unasked where it is quick, else when the button is pressed."""
    found = probing.known(checkpoint, question)
    if found is not None:
        return found
    if not probing.is_cheap(checkpoint, question):
        st.info(t("probes.long"))
        if not st.button(t("probes.fit"), key="probes_fit", type="primary", icon=":material/labs:"):
            return None
    try:
        with progress_bar(lambda done, n: t("probes.fitting", done=done, n=n)) as told:
            return probing.fit(checkpoint, question, told)
    except (OSError, ValueError) as error:
        st.warning(plain(t("probes.cannot", reason=_shortened(str(error)))))
        return None


def _shortened(text: str, most: int = 420) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _table(found: Probes) -> None:
    frame = found.to_frame()[["row", "accuracy", "low", "high", "control", "selectivity", "validation", "strength"]]
    st.dataframe(
        frame, hide_index=True, width="stretch", key="probes_table", placeholder="–",
        column_config={
            "row": t("probes.row"),
            "accuracy": share(t("probes.accuracy"), digits=3),
            "low": number(t("probes.low"), digits=3),
            "high": number(t("probes.high"), digits=3),
            "control": share(t("probes.control"), digits=3),
            "selectivity": number(t("probes.selectivity"), digits=3),
            "validation": number(t("probes.validation"), digits=3),
            "strength": st.column_config.NumberColumn(t("probes.strength"), help=t("probes.strength_help")),
        },
    )  # fmt: skip


def _classes(found: Probes, row: int) -> Any:
    """How each class fares with one probe: a frame of a row a class."""
    import numpy as np
    import pandas as pd

    counts = found.confusion[row]
    right, truly, said = counts.diagonal(), counts.sum(1), counts.sum(0)
    return pd.DataFrame(
        {
            "class": list(found.classes),
            "tokens": truly,
            "found": np.where(truly > 0, right / np.maximum(truly, 1), np.nan),
            "trusted": np.where(said > 0, right / np.maximum(said, 1), np.nan),
        }
    )


def _detail(found: Probes) -> Any:
    """One layer's probe: what it takes for what. Returns the figure."""
    from lab.plots import confusion_map

    rows = list(found.rows)
    chosen = selection.prepare("probe_row", rows, rows[found.best], what=t("probes.row"))
    st.selectbox(t("probes.detail_row"), rows, key="probe_row", persist_state="session", width=300)
    at = rows.index(chosen)
    figure = confusion_map(found, at, template=template())
    left, right = st.columns([3, 2])
    with left:
        picture(figure, "probes_confusion")
    with right:
        st.dataframe(
            _classes(found, at), hide_index=True, width="stretch", key="probes_classes", placeholder="–",
            column_config={
                "class": t("probes.class"), "tokens": t("probes.test_tokens"),
                "found": number(t("probes.found"), digits=2), "trusted": number(t("probes.trusted"), digits=2),
            },
        )  # fmt: skip
        st.caption(t("probes.classes_help"))
    return figure


def _through_training(model: Picked, checkpoint: Checkpoint, question: Question) -> Any | None:
    """The same at every checkpoint, when asked for. Returns the figure."""
    steps = probing.film_steps(model.run)
    if len(steps) < 2:
        return None
    st.markdown(f"**{t('probes.training')}**")
    series = probing.known_film(model.run, question)
    if series is None:
        st.caption(t("probes.training_help", n=len(steps)))
        if not st.button(t("probes.training_fit", n=len(steps)), key="probes_film", icon=":material/timeline:"):
            return None
        try:
            with progress_bar(lambda done, n: t("probes.training_fitting", done=done, n=n)) as told:
                series = probing.film(model.run, checkpoint, question, told)
        except (OSError, ValueError) as error:
            st.warning(plain(t("probes.cannot", reason=_shortened(str(error)))))
            return None
    from lab.plots import dynamics_curves

    figure = dynamics_curves(series, top=None, template=template())
    picture(figure, "probes_dynamics")
    return figure


def render() -> None:
    """The page."""
    opening("probes")
    model = picked_with_weights()
    if model is None:
        return
    question = _question(model)
    opened = open_picked(model)
    if opened is None:
        return
    checkpoint = opened[0]
    found = _answer(checkpoint, question)
    if found is None:
        return
    from lab.plots import probe_curve, to_offline_html

    curve = probe_curve(found, template=template())
    picture(curve, "probes_curve")
    train, valid, test = found.examples
    st.caption(
        t(
            "probes.counts", classes=len(found.classes), train=f"{train:,}", validation=f"{valid:,}", test=f"{test:,}",
            documents=found.documents[2], majority=f"{found.majority:.2f}",
        )
    )  # fmt: skip
    _table(found)
    confusion = _detail(found)
    figures = {t("probes.title"): curve, found.rows[found.best]: confusion}
    film = _through_training(model, checkpoint, question)
    if film is not None:
        figures[t("probes.training")] = film
    export_row(
        f"probes-{model.name}-{question.labels}",
        html=lambda: to_offline_html(figures, t("probes.title"), note=model.name, template=template()),
        frame=found.to_frame,
        json=found.to_json,
        python=probing.as_python(model.reference, question),
    )


if __name__ == "__main__":
    render()
