"""Which token is to be explained, and against which: the same choice, and the same link, on every page that asks."""

from __future__ import annotations

from typing import Any

import streamlit as st

from apps import inspection, selection
from apps.i18n import t
from apps.prompt import displays_of, one_token
from apps.widgets import notices
from apps.widgets.inspected import Inspected
from apps.widgets.plain import plain
from apps.widgets.prompt_bar import unknown_sentence
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
    """What the model expects there, the likeliest first, then the other tokens of the prompt."""
    found = inspection.predictions(page.checkpoint, page.ids, CANDIDATES)
    return list(dict.fromkeys([*(int(i) for i in found.top_tokens[position]), *page.ids]))


def accept_typed(name: str, tokenizer: Any) -> None:
    """Callback: turn what was typed into the select `name` into a token id; refuse, and go back, what is no token."""
    text = st.session_state.get(name)
    if not isinstance(text, str):
        return
    plainly = text.replace("␣", " ").replace("⏎", "\n")  # as the tokens are shown
    found = one_token(tokenizer, text)
    if found is None:
        found = one_token(tokenizer, plainly)
    if found is not None:
        st.session_state[name] = found
        return
    st.session_state[name] = st.session_state.get(f"{name}_before")
    try:
        ids = list(tokenizer.encode(text))
    except ValueError as error:
        notices.add("error", unknown_sentence(error) or str(error), about=name)
        return
    shown = " ".join(displays_of(tokenizer, ids[:12]))
    notices.add("error", t("contributions.not_one", text=text, n=len(ids), shown=shown), about=name)


def token_from(name: str, options: list[int], default: int, page: Inspected, label: str) -> int:
    """A choice among token ids, to which any token can be typed; a link may bring any id of the vocabulary.

    While nobody chose another one it is the default, which changes with the prompt.
    """
    selection.follow(name, default)
    for asked in (default, st.query_params.get(name), st.session_state.get(name)):
        number = _whole(asked)
        if number is not None and (0 <= number < page.config.d_vocab) and number not in options:
            options = [*options, number]
    known = [i for i in options if i != NONE]
    words = {NONE: t("contributions.no_versus")} | dict(zip(known, displays_of(page.tokenizer, known), strict=True))
    value = selection.prepare(name, options, default, parse=int, what=label, say=words.__getitem__)
    st.session_state[f"{name}_before"] = value
    st.selectbox(
        label, options, key=name, format_func=lambda i: words.get(i, str(i)), persist_state="session",
        accept_new_options=True, on_change=accept_typed, args=(name, page.tokenizer), help=t("contributions.typed"),
    )  # fmt: skip
    return value


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def token_target(page: Inspected) -> tuple[int, int, int | None]:
    """(position, token, versus): a row of three controls. An example explains its answer against the other one."""
    a, b, c = st.columns(3)
    with a:
        position = token_choice(page.prompt, t("contributions.position"))
    options = _candidates(page, position)
    answer, wrong = options[0], NONE
    if page.example is not None and position == len(page.prompt) - 1:
        right, other = (one_token(page.tokenizer, text) for text in (page.example.answer, page.example.wrong))
        if right is not None and other is not None:
            answer, wrong = right, other
    with b:
        token = token_from("target", options, answer, page, t("contributions.token"))
    with c:
        versus = token_from("versus", [NONE, *options], wrong, page, t("contributions.versus"))
    if versus == token:
        st.warning(t("contributions.same"))
        return position, token, None
    return position, token, None if versus == NONE else versus
