"""The prompts of this session: back to one of them with a click, or beside the one shown now.

They live in the session alone: nobody else sees them, and they are gone with the tab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from apps.i18n import t
from apps.prompt import tokenize
from apps.widgets.plain import plain

if TYPE_CHECKING:
    from apps.inspection import Checkpoint

MOST = 12
SHOWN = 48  # characters of a prompt on its button
LIKELIEST = 5
_KEY, _BESIDE = "prompt_history", "prompt_beside"


def remember(text: str) -> None:
    """Put a prompt first in the history."""
    if not text.strip():
        return
    kept: list[str] = st.session_state.get(_KEY, [])
    if not kept or kept[0] != text:
        st.session_state[_KEY] = [text, *(old for old in kept if old != text)][:MOST]


def _back(text: str) -> None:
    st.session_state["prompt"] = text


def _beside(text: str | None) -> None:
    st.session_state[_BESIDE] = text


def _short(text: str) -> str:
    line = text.replace("\n", "⏎")
    return plain(line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…")


def history(now: str) -> None:
    """Draw the list of earlier prompts; nothing while there is only one."""
    earlier = [text for text in st.session_state.get(_KEY, []) if text != now]
    if not earlier:
        return
    with st.popover(t("prompt.history"), icon=":material/history:", width="stretch"):
        for index, text in enumerate(earlier):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button(_short(text), key=f"history_{index}", on_click=_back, args=(text,), help=t("prompt.back"))
                st.button(
                    "", key=f"beside_{index}", on_click=_beside, args=(text,), icon=":material/compare_arrows:",
                    type="tertiary", help=t("prompt.beside"),
                )  # fmt: skip


def compared(checkpoint: Checkpoint, tokenizer: Any, now: Any, n_ctx: int) -> None:
    """What the model expects after the prompt shown and after the one put beside it."""
    text = st.session_state.get(_BESIDE)
    if text is None or text == now.text:
        return
    import pandas as pd

    from apps import inspection

    with st.container(border=True, key="prompt_compare"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{t('prompt.beside_title')}**")
            st.button(t("prompt.beside_end"), key="beside_end", on_click=_beside, args=(None,), type="tertiary")
        try:
            other = tokenize(tokenizer, text, "skip").last(n_ctx)
        except ValueError as error:
            st.error(plain(str(error)))
            return
        if not other.ids:
            st.caption(t("prompt.beside_empty"))
            return
        for column, prompt in zip(st.columns(2), (now.last(n_ctx), other), strict=True):
            found = inspection.predictions(checkpoint, prompt.ids, LIKELIEST)
            column.caption(_short(prompt.text))
            rows = {
                "token": [str(x) for x in found.top_texts[-1]],
                "probability": [float(x) for x in found.top_probabilities[-1]],
            }
            column.dataframe(
                pd.DataFrame(rows), hide_index=True, width="stretch",
                column_config={
                    "token": t("prompt.expected"),
                    "probability": st.column_config.ProgressColumn(
                        t("prompt.probability"), format="%.3f", min_value=0.0, max_value=1.0
                    ),
                },
            )  # fmt: skip
            loss = "–" if len(prompt) < 2 else f"{found.loss:.3f}"
            column.caption(t("prompt.loss_of", loss=loss))
