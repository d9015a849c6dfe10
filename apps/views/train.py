"""Train: start a small GPT on a text, watch it learn, steer it, and find it again after a reload."""

from __future__ import annotations

import streamlit as st

from apps import selection
from apps.i18n import t
from apps.widgets.model_picker import offer_tiny
from apps.widgets.page import opening, picked
from apps.widgets.plain import plain
from apps.widgets.run_monitor import run_monitor
from apps.widgets.train_form import OPEN, train_form


def render() -> None:
    """The page."""
    opening("train")
    model = picked()
    if model is None:
        with st.container(border=True):
            st.markdown(t("train.first_visit"))
            offer_tiny("tiny_train")
    else:
        st.subheader(plain(model.run.id), anchor=False)
        run_monitor(model.run)
    active = model is not None and model.status.active
    st.session_state.setdefault(OPEN, not active)
    selection.tell(OPEN)
    with st.expander(t("train.new"), key=OPEN, on_change="rerun", icon=":material/add:") as form:
        if form.open:
            train_form()


if __name__ == "__main__":
    render()
