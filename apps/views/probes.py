"""Probes: at which layer can a property of a token be read off its activations, and by how much more than chance?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import streamlit as st

from apps import probing, selection
from apps.i18n import t
from apps.inspection import Checkpoint, open_picked
from apps.intervening import Change
from apps.probing import Question
from apps.widgets.columns import number, share
from apps.widgets.export_row import export_row
from apps.widgets.intervention_editor import DEFAULT_STRENGTH, add
from apps.widgets.model_picker import Picked
from apps.widgets.page import opening, picked_with_weights
from apps.widgets.picture import Draw, on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.probe_direction import class_pair, label_name, shortened
from apps.widgets.progress import progress_bar
from apps.widgets.selectors import one_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import Probes

SITES = ("resid_post", "resid_mid", "attn_out", "mlp_out", "neuron")


def _question(model: Picked) -> Question:
    """The row of controls."""
    choices = probing.label_choices(probing.own_corpus(model.run)[0])
    names = {spec: label_name(spec) for spec in choices}
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
        examples = selection.prepare(
            "examples", probing.EXAMPLES, probing.DEFAULT_EXAMPLES, parse=int, what=t("probes.examples")
        )
        st.select_slider(
            t("probes.examples"), probing.EXAMPLES, key="examples", persist_state="session",
            format_func=lambda count: f"{count:,}", help=t("probes.examples_help"),
        )  # fmt: skip
    control = one_of("control", probing.CONTROLS, t("probes.control"), lambda name: t(f"probes.control_{name}"))
    return Question(spec, site, examples, control, probing.seed_for(model.run, spec))


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
        st.warning(plain(t("probes.cannot", reason=shortened(str(error)))))
        return None


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


def _detail(found: Probes, question: Question) -> Draw:
    """One layer's probe: what it takes for what, and a way to steer along it. Returns the figure."""
    from lab.plots import confusion_map

    rows = list(found.rows)
    chosen = selection.prepare("probe_row", rows, rows[found.best], what=t("probes.row"))
    st.selectbox(t("probes.detail_row"), rows, key="probe_row", persist_state="session", width=300)
    at = rows.index(chosen)

    def confusion() -> go.Figure:
        return confusion_map(found, at, template=template())

    left, right = st.columns([3, 2])
    with left:
        picture(confusion, "probes_confusion")
    with right:
        st.dataframe(
            _classes(found, at), hide_index=True, width="stretch", key="probes_classes", placeholder="–",
            column_config={
                "class": t("probes.class"), "tokens": t("probes.test_tokens"),
                "found": number(t("probes.found"), digits=2), "trusted": number(t("probes.trusted"), digits=2),
            },
        )  # fmt: skip
        st.caption(t("probes.classes_help"))
        if question.site != "neuron":  # neurons are no stream: there is nothing to add a direction to
            _steering(found, at, question)
    return confusion


def _steering(found: Probes, row: int, question: Question) -> None:
    """Two classes, and a button that steers along what tells them apart, on the Interventions page."""
    st.markdown(f"**{t('probes.used')}**", help=t("probes.used_help"))
    order = (-found.confusion[row].sum(1)).argsort(kind="stable")  # the commonest of the test tokens first
    fitted = [found.classes[at] for at in order if math.isfinite(found.bias[row, at])]
    label, versus = class_pair(fitted, "steer_from")
    if not st.button(t("probes.steer"), key="probes_steer", icon=":material/content_cut:"):
        return
    layer = int(found.layer[row])
    add(
        Change(
            "steer", "resid_pre" if layer < 0 else question.site, max(layer, 0), factor=DEFAULT_STRENGTH, text=label,
            versus=versus, probe=question.labels, examples=question.examples, seed=question.seed,
        )
    )  # fmt: skip
    st.session_state.update(kind="steer", steer_by="probe", layer=max(layer, 0))
    st.switch_page("views/interventions.py")


def _through_training(model: Picked, checkpoint: Checkpoint, question: Question) -> Draw | None:
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
            st.warning(plain(t("probes.cannot", reason=shortened(str(error)))))
            return None
    from lab.plots import dynamics_curves

    def curves() -> go.Figure:
        return dynamics_curves(series, top=None, template=template())

    picture(curves, "probes_dynamics")
    return curves


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
    from lab.plots import probe_curve

    def curve() -> go.Figure:
        return probe_curve(found, template=template())

    picture(curve, "probes_curve")
    train, valid, test = found.examples
    st.caption(
        t(
            "probes.counts", classes=len(found.classes), train=f"{train:,}", validation=f"{valid:,}", test=f"{test:,}",
            documents=found.documents[2], majority=f"{found.majority:.2f}",
        )
    )  # fmt: skip
    _table(found)
    confusion = _detail(found, question)
    figures = {t("probes.title"): curve, found.rows[found.best]: confusion}
    film = _through_training(model, checkpoint, question)
    if film is not None:
        figures[t("probes.training")] = film
    export_row(
        f"probes-{model.name}-{question.labels}",
        html=on_paper(figures, t("probes.title"), model.name),
        frame=found.to_frame,
        json=found.to_json,
        python=probing.as_python(model.reference, question),
    )


if __name__ == "__main__":
    render()
