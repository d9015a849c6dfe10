"""Which layer, which head, which token: the selection inside a model, the same on every page and in the address bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from apps import selection
from apps.i18n import t
from apps.prompt import Prompt


def _turn(name: str, by: int, count: int) -> None:
    st.session_state[name] = (st.session_state.get(name, 0) + by) % count


def _stepped(name: str, label: str, count: int) -> int:
    """A numbered selection with buttons to the previous and the next one, which wrap around."""
    value = selection.prepare(name, range(count), 0, parse=int, what=label)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox(label, range(count), key=name, persist_state="session")
        for by, sign, hint in ((-1, "◀", t("select.previous", what=label)), (1, "▶", t("select.next", what=label))):
            st.button(sign, key=f"{name}{by:+d}", on_click=_turn, args=(name, by, count), help=hint)
    return value


def layer_choice(n_layers: int) -> int:
    """The selected layer."""
    return _stepped("layer", t("select.layer"), n_layers)


def head_choice(n_heads: int) -> int:
    """The selected head."""
    return _stepped("head", t("select.head"), n_heads)


def settle_token(prompt: Prompt) -> int:
    """The selected position, before its widget is drawn, for pictures that stand above it.

    It is the last one until another is chosen, and again after the prompt changes.
    """
    before = st.session_state.get("token_of")
    if before is not None and before != prompt.ids:
        st.session_state.pop("token", None)
    st.session_state["token_of"] = prompt.ids
    return selection.prepare("token", range(len(prompt)), len(prompt) - 1, parse=int, what=t("select.token"))


def token_choice(prompt: Prompt, label: str | None = None) -> int:
    """The widget of the selected position."""
    value = settle_token(prompt)
    st.selectbox(
        label or t("select.token"), range(len(prompt)), key="token", persist_state="session",
        format_func=lambda index: f"{index}: {prompt.displays[index]}",
    )  # fmt: skip
    return value


def one_of(name: str, options: Sequence[str], label: str, words: Callable[[str], str], **more: Any) -> str:
    """A small choice shown whole, kept in the address bar; the first option is the default."""
    value = selection.prepare(name, options, options[0], what=label, say=words)
    st.segmented_control(label, options, key=name, required=True, format_func=words, persist_state="session", **more)
    return value
