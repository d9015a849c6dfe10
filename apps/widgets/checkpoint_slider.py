"""Through training with one control: which checkpoint of the picked run every page looks at.

A slider over the run's checkpoints, which early on are spaced by powers of two: a head that forms between steps 200
and 400 forms over several places of the slider. The arrow keys move it, and so do the buttons; Play moves it by
itself. The end of the slider follows the newest checkpoint of a run in training.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from apps import selection
from apps.i18n import t

LATEST = "latest"
PACE = 1.0  # seconds a checkpoint stays on the screen while the film plays, longer where a page takes longer
_PLAYING, _WANTED, _DRAWN, _OPTIONS = "film_playing", "film_wanted", "film_drawn", "film_options"

Place = int | str


def _places(steps: Sequence[int]) -> list[Place]:
    """Where the buttons and the film stop: every checkpoint once, the newest as `latest`."""
    return [*steps[:-1], LATEST]


def _next(steps: Sequence[int], now: Place, by: int) -> Place:
    """The place `by` stops away from `now`, no further than the ends."""
    places = _places(steps)
    at = places.index(now) if now in places else len(places) - 1
    return places[min(max(at + by, 0), len(places) - 1)]


def _halt() -> None:
    st.session_state[_PLAYING] = False


def _move(steps: Sequence[int], by: int) -> None:
    _halt()
    st.session_state["step"] = _next(steps, st.session_state.get("step", LATEST), by)


def _play(steps: Sequence[int]) -> None:
    playing = not st.session_state.get(_PLAYING, False)
    st.session_state[_PLAYING] = playing
    if playing and _next(steps, st.session_state.get("step", LATEST), 1) == st.session_state.get("step", LATEST):
        st.session_state["step"] = steps[0]  # from the end the film begins anew


def show_step(step: int) -> None:
    """Make `step` the checkpoint every page looks at; for callbacks, which run before the widgets are drawn."""
    _halt()
    st.session_state["step"] = step


def checkpoint_slider(steps: Sequence[int]) -> Place:
    """Draw the slider over a run's checkpoints; the chosen one, or LATEST.

    `step` in the session and in the address is the choice; a step that a link asks for and that is not there becomes
    the nearest, with a notice.
    """
    options: list[Place] = [*steps, LATEST]
    wanted = st.session_state.pop(_WANTED, None)
    if wanted in options:
        st.session_state["step"] = wanted
    chosen = selection.prepare("step", options, LATEST, parse=_parse, what=t("checkpoints.label"))
    if not steps:
        return chosen
    newest = t("checkpoints.latest", step=f"{steps[-1]:,}")
    if st.session_state.get(_OPTIONS) != (options, newest):
        # The browser remembers a place by its number: with other options the same number is another checkpoint.
        st.session_state[_OPTIONS], st.session_state["step"] = (options, newest), chosen
    st.select_slider(
        t("checkpoints.label"), options, key="step", on_change=_halt, persist_state="session",
        format_func=lambda value: newest if value == LATEST else f"{value:,}", help=t("checkpoints.help"),
    )  # fmt: skip
    if len(steps) > 1:
        _buttons(steps, chosen)
    return chosen


def _buttons(steps: Sequence[int], chosen: Place) -> None:
    playing = st.session_state.get(_PLAYING, False)
    at_start, at_end = _next(steps, chosen, -1) == chosen, _next(steps, chosen, 1) == chosen
    if playing and at_end:
        _halt()
        playing = False
    with st.container(horizontal=True, gap="small", key="film"):
        st.button(
            "", key="film_back", icon=":material/skip_previous:", on_click=_move, args=(steps, -1),
            disabled=at_start, help=t("checkpoints.back"),
        )  # fmt: skip
        st.button(
            t("checkpoints.stop") if playing else t("checkpoints.play"), key="film_play", on_click=_play, args=(steps,),
            icon=":material/pause:" if playing else ":material/play_arrow:", help=t("checkpoints.play_help"),
        )  # fmt: skip
        st.button(
            "", key="film_on", icon=":material/skip_next:", on_click=_move, args=(steps, 1),
            disabled=at_end, help=t("checkpoints.on"),
        )  # fmt: skip
    if playing:
        st.session_state[_DRAWN] = False
        _film(list(steps))


@st.fragment(run_every=PACE)
def _film(steps: list[int]) -> None:
    """Turn to the next checkpoint. The timer is the browser's: it ticks only once the page before it is drawn."""
    if not st.session_state.get(_DRAWN, False):  # called with the page itself, not by the timer
        st.session_state[_DRAWN] = True
        return
    if st.session_state.get(_PLAYING, False):
        st.session_state[_WANTED] = _next(steps, st.session_state.get("step", LATEST), 1)
        st.rerun()


def _parse(text: str) -> Place:
    return LATEST if text == LATEST else int(text)
