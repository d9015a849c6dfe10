"""The prompt all inspection pages share, and what the tokenizer makes of it: every character accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from apps import selection
from apps.i18n import t
from apps.prompt import Prompt, tokenize, tokenize_ids
from apps.widgets.plain import plain
from apps.widgets.prompt_history import history, remember

LONGEST_PROMPT = 20_000  # characters
UNKNOWN_CHOICES = ("error", "skip", "replace")


def _use_example() -> None:
    chosen = st.session_state.get("prompt_example")
    if chosen is not None:
        st.session_state["prompt"] = chosen
        for name in ("target", "versus"):  # an example brings its own answer
            st.session_state.pop(name, None)
    st.session_state["prompt_example"] = None


def _trim() -> None:
    st.session_state["prompt"] = st.session_state["prompt"].rstrip()


def unknown_sentence(error: ValueError) -> str:
    """What of a text its tokenizer does not know, in the reader's language; "" where the error is another one."""
    from lab.tokenizers import UnknownCharacters

    if not isinstance(error, UnknownCharacters):
        return ""
    characters = error.characters
    shown = ", ".join(f"{c!r} (U+{ord(c):04X})" if len(c) == 1 else repr(c) for c in characters[:8])
    more = t("prompt.and_more", n=len(characters) - 8) if len(characters) > 8 else ""
    return t(f"prompt.unknown_{error.unit}", n=len(characters), shown=shown + more)


def _unknown_offer(error: ValueError) -> str:
    """Name what the tokenizer does not know and let the reader choose; returns the choice."""
    chosen = st.session_state.get("unknown", "error")
    (st.error if chosen == "error" else st.warning)(plain(unknown_sentence(error)))
    st.session_state.setdefault("unknown", "error")
    choice = st.segmented_control(
        t("prompt.unknown_choice"), UNKNOWN_CHOICES, key="unknown", required=True, persist_state="session",
        format_func=lambda value: t(f"prompt.unknown_{value}"),
    )  # fmt: skip
    return choice if choice in UNKNOWN_CHOICES else "error"


def prompt_bar(tokenizer: Any, default: str, examples: Sequence[str], *, n_ctx: int | None = None) -> Prompt | None:
    """Draw the prompt bar; None while there is nothing to show, with the reason on the page.

    Args:
        tokenizer: the picked model's.
        default: prompt when the reader has not typed one.
        examples: prompts that this model can read, to choose from.
        n_ctx: the model's context. A longer prompt is cut to its last n_ctx tokens, and the page says so;
            None: no cut (generation slides its window).
    """
    from lab.tokenizers import UnknownCharacters

    selection.follow("prompt", default)
    selection.prepare_text("prompt", default)
    left, right = st.columns([5, 1.4], vertical_alignment="bottom")
    left.text_area(
        t("prompt.label"),
        key="prompt",
        height=80,
        max_chars=LONGEST_PROMPT,
        persist_state="session",
        help=t("prompt.help"),
    )
    right.selectbox(
        t("prompt.examples"), examples, index=None, key="prompt_example", on_change=_use_example,
        placeholder=t("prompt.choose"), format_func=lambda text: text.replace("\n", "⏎"),
    )  # fmt: skip
    text = str(st.session_state["prompt"] or "")
    with right:
        history(text)
    if len(text) > LONGEST_PROMPT:  # max_chars holds in the browser only; a link can bring more
        st.error(t("prompt.too_many_characters", n=f"{len(text):,}", most=f"{LONGEST_PROMPT:,}"))
        return None
    unknown = "error"
    try:
        try:
            prompt = tokenize(tokenizer, text)
        except UnknownCharacters as error:
            unknown = _unknown_offer(error)
            if unknown == "error":
                return None
            prompt = tokenize(tokenizer, text, unknown)
    except ValueError as error:  # nothing to replace them with, or text that this tokenizer cannot read at all
        st.error(plain(t("prompt.unreadable", reason=str(error))))
        return None
    if not prompt.ids and tokenizer.bos_id is not None:
        prompt = tokenize_ids(tokenizer, text, [tokenizer.bos_id])
        st.caption(t("prompt.from_bos"))
    if not prompt.ids:
        st.info(t("prompt.empty"))
        return None
    remember(text)
    notes = [t("prompt.tokens_one") if len(prompt) == 1 else t("prompt.tokens", n=len(prompt))]
    if unknown != "error":
        notes.append(t(f"prompt.did_{unknown}"))
    if n_ctx is not None and len(prompt) > n_ctx:
        notes.append(t("prompt.cut", n=len(prompt), n_ctx=n_ctx))
        prompt = prompt.last(n_ctx)
    trailing = text != text.rstrip() and bool(text.strip())
    if trailing:
        notes.append(t("prompt.trailing"))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(" · ".join(notes), width="content")
        if trailing:
            st.button(t("prompt.trim"), key="prompt_trim", on_click=_trim, type="tertiary")
    return prompt
