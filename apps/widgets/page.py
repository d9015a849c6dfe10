"""What every page begins with: its title, the question it answers, and how to read it."""

from __future__ import annotations

import streamlit as st

from apps.i18n import t
from apps.widgets.guide import guide
from apps.widgets.model_picker import Picked, offer_tiny
from apps.widgets.plain import plain


def opening(name: str) -> None:
    """Title, question, the "what am I looking at" popover and, while it is on, the tour's step."""
    left, right = st.columns([5, 1.4], vertical_alignment="bottom")
    left.title(t(f"{name}.title"), anchor=False)
    left.caption(t(f"{name}.question"))
    with right.popover(t("caveat.open"), icon=":material/help:", width="stretch"):
        st.markdown(t(f"{name}.caveat"))
    guide(name)


def picked() -> Picked | None:
    """The model the sidebar picked."""
    value: Picked | None = st.session_state.get("picked")
    return value


def picked_with_weights() -> Picked | None:
    """The picked model when it has a checkpoint; else None, with the way out on the page."""
    model = picked()
    if model is None:
        st.info(t("picker.nothing_yet"))
        offer_tiny("tiny_page")
        return None
    if model.step is None:
        st.info(plain(t("picker.no_checkpoint", run=model.run.id)))
        return None
    return model
