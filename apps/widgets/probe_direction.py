"""A probe's direction to steer along: chosen on the Interventions page, and fitted before it is needed."""

from __future__ import annotations

import streamlit as st

from apps import probing, selection
from apps.i18n import language, t
from apps.intervening import Change
from apps.widgets.inspected import Inspected
from apps.widgets.plain import plain

LABEL_WORDS = ("pos", "entity", "role", "sex", "referent", "quoted", "token", "predictable", "part")
OTHERS = ""  # away from all other classes
LONGEST_REASON = 420


def label_name(spec: str) -> str:
    """A set of labels in the reader's words: the corpus' title, and the property."""
    from lab.corpora import corpus_infos

    name, _, layer = spec.partition(":")
    title = next((info.title[language()] for info in corpus_infos() if info.name == name), name)
    read = t(f"probes.layer_{layer}") if layer in LABEL_WORDS else layer
    return f"{title}: {read}"


def shortened(text: str, most: int = LONGEST_REASON) -> str:
    """A reason that may list much, cut."""
    return text if len(text) <= most else f"{text[:most]}…"


def chosen(label: str, key: str, options: list[str], words: dict[str, str]) -> str:
    """One of the options; what another model left behind here and this one does not have gives way to the first."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = options[0]
    selection.tell(key)
    return str(st.selectbox(label, options, key=key, persist_state="session", format_func=lambda name: words[name]))


def class_pair(names: list[str], key: str) -> tuple[str, str]:
    """(the class to steer towards, the one away from; "": all others), in two columns of the caller's row."""
    first, second = st.columns(2)
    with first:
        label = chosen(t("interventions.towards"), f"{key}_class", names, {name: name for name in names})
    rest = [OTHERS, *(name for name in names if name != label)]
    with second:
        words = {name: name or t("interventions.all_others") for name in rest}
        versus = chosen(t("interventions.away"), f"{key}_versus", rest, words)
    return label, versus


def probe_choice(page: Inspected) -> tuple[str, int, str, str]:
    """(labels, seed of their corpus, class towards, class away), as the reader sets them; class "" where none is."""
    specs = probing.label_choices(probing.own_corpus(page.picked.run)[0])
    first, second = st.columns([1, 2])
    with first:
        spec = chosen(t("probes.labels"), "steer_labels", specs, {spec: label_name(spec) for spec in specs})
    seed = probing.seed_for(page.picked.run, spec)
    with second:
        with st.spinner(t("inspection.running")):
            names, reason = probing.classes(page.checkpoint, spec, probing.DEFAULT_EXAMPLES, seed)
        if not names:
            st.warning(plain(t("probes.cannot", reason=shortened(reason))))
            return spec, seed, "", OTHERS
        return spec, seed, *class_pair(list(names), "steer")


def fitted(page: Inspected, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes that can be done now: probes are fitted first, a long fit only when asked for.

    What cannot be fitted, or is not yet, is said and left out.
    """
    missing = [change for change in changes if change.probe and _known(page, change) is None]
    slow = {change for change in missing if not probing.is_cheap(page.checkpoint, change.question, rows=1)}
    if slow:
        st.info(t("probes.long"))
        if st.button(t("interventions.fit_probe", n=len(slow)), key="steer_fit", icon=":material/labs:"):
            slow = set()
    left_out = set(slow)
    for change in (change for change in missing if change not in slow):
        try:
            with st.spinner(t("interventions.fitting_probe", labels=change.probe)):
                probing.fit_at(page.checkpoint, change.question, int(change.layer or 0))
        except (OSError, ValueError) as error:
            st.warning(plain(t("probes.cannot", reason=shortened(str(error)))))
            left_out.add(change)
    return tuple(change for change in changes if change not in left_out)


def _known(page: Inspected, change: Change) -> object | None:
    return probing.known_at(page.checkpoint, change.question, int(change.layer or 0))
