"""Which token is to be explained, and against which: the same choice, and the same link, on every page that asks."""

from __future__ import annotations

from typing import Any

import streamlit as st

from apps import inspection, selection
from apps.i18n import t
from apps.prompt import displays_of
from apps.widgets.inspected import Inspected
from apps.widgets.plain import plain
from apps.widgets.selectors import token_choice

CANDIDATES = 24
NONE = -1


def typed_token(tokenizer: Any, key: str, label: str) -> int | None:
    """A token the reader types in; None, with a sentence, unless it is exactly one token."""
    text = st.text_input(label, key=key, max_chars=200, persist_state="session")
    if not text:
        return None
    try:
        ids = list(tokenizer.encode(text))
    except ValueError as error:
        st.error(plain(str(error)))
        return None
    if len(ids) != 1:
        shown = " ".join(displays_of(tokenizer, ids[:12]))
        st.error(plain(t("contributions.not_one", text=text, n=len(ids), shown=shown)))
        return None
    return int(ids[0])


def _candidates(page: Inspected, position: int) -> list[int]:
    found = inspection.predictions(page.checkpoint, page.ids, CANDIDATES)
    return [int(i) for i in found.top_tokens[position]]


def token_from(name: str, options: list[int], page: Inspected, label: str) -> int:
    """A choice among token ids; a link may bring any id of the vocabulary."""
    for asked in (st.query_params.get(name), st.session_state.get(name)):
        number = _whole(asked)
        if number is not None and 0 <= number < page.config.d_vocab and number not in options:
            options = [*options, number]
    value = selection.prepare(name, options, options[0], parse=int, what=label)
    words = dict(zip(options, displays_of(page.tokenizer, [i for i in options if i != NONE]), strict=False))
    if options[0] == NONE:
        words = {NONE: t("contributions.no_versus")} | dict(
            zip(options[1:], displays_of(page.tokenizer, options[1:]), strict=True)
        )
    st.selectbox(label, options, key=name, format_func=lambda i: words[i], persist_state="session")
    return value


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def token_target(page: Inspected) -> tuple[int, int, int | None]:
    """(position, token, versus): a row of four controls."""
    a, b, c, d = st.columns([2, 2, 2, 2])
    with a:
        position = token_choice(page.prompt, t("contributions.position"))
    options = _candidates(page, position)
    with b:
        token = token_from("target", options, page, t("contributions.token"))
    with c:
        versus = token_from("versus", [NONE, *options], page, t("contributions.versus"))
    with d:
        typed = typed_token(page.tokenizer, "target_typed", t("contributions.typed"))
    if typed is not None:
        token = typed
    if versus == token:
        st.warning(t("contributions.same"))
        return position, token, None
    return position, token, None if versus == NONE else versus
