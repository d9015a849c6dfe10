"""Through training with one control: which checkpoint of the picked run every page looks at.

A slider over the run's checkpoints, which early on are spaced by powers of two: a head that forms between steps 200
and 400 forms over several places of the slider. The arrow keys move it, and so do the buttons; Play moves it by
itself. The end of the slider follows the newest checkpoint of a run in training.

How the film plays. A timer in the browser, set when a page is drawn to its end, asks for the next one. What it sends
holds every widget as the browser shows it, and a browser that lags still shows the slider at the place before. So what
a tick brings is never taken for the reader's move, and it tells how far the browser is: the film turns only where the
slider stands at the film's place, and otherwise draws the same place again. Either way a tick ends in a page drawn
anew, and that sets the timer anew: no tick is without a next one until the film halts. Whatever else moves the step,
the slider, the browser's back button, another run or page, is the reader's doing and halts the film.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from apps import selection
from apps.i18n import t

LATEST = "latest"
PACE = 1.0  # seconds a checkpoint stays on the screen, once its page is drawn, while the film plays
_FILM, _TICK, _OPTIONS = "film", "film_tick", "film_options"

Place = int | str


@dataclass(frozen=True)
class _Film:
    """A film that plays: the run and the page it was begun on, and the place it is at."""

    scene: tuple[object, object]
    place: Place


def _scene() -> tuple[object, object]:
    return st.session_state.get("run"), st.session_state.get("page")


def _places(steps: Sequence[int]) -> list[Place]:
    """Where the buttons and the film stop: every checkpoint once, the newest as `latest`."""
    return [*steps[:-1], LATEST]


def _next(steps: Sequence[int], now: Place, by: int) -> Place:
    """The place `by` stops away from `now`, no further than the ends."""
    places = _places(steps)
    at = places.index(now) if now in places else len(places) - 1
    return places[min(max(at + by, 0), len(places) - 1)]


def _halt() -> None:
    st.session_state.pop(_FILM, None)


def _move(steps: Sequence[int], by: int) -> None:
    _halt()
    st.session_state["step"] = _next(steps, st.session_state.get("step", LATEST), by)


def _play(steps: Sequence[int]) -> None:
    if _FILM in st.session_state:
        _halt()
        return
    place = st.session_state.get("step", LATEST)
    if _next(steps, place, 1) == place:
        place = st.session_state["step"] = steps[0]  # from the end the film begins anew
    st.session_state[_FILM] = _Film(_scene(), place)


def _turn(steps: Sequence[int]) -> None:
    """Settle where the film is, where its timer asked for this drawing of the page; before the slider is drawn."""
    tick, film = st.session_state.pop(_TICK, None), st.session_state.get(_FILM)
    if film is None:
        return
    if film.scene != _scene():
        _halt()
    elif tick is not None and tick == st.session_state.get("step", LATEST):  # else the reader moved since the tick
        place = _next(steps, film.place, 1) if tick == film.place else film.place
        st.session_state["step"], st.session_state[_FILM] = place, replace(film, place=place)
        # The tick's address may be older than the film's place, and must not be taken for a link.
        selection.publish("step", None if place == LATEST else place)


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
    _turn(steps)
    newest = t("checkpoints.latest", step=f"{steps[-1]:,}") if steps else ""

    def say(place: Place) -> str:
        return newest if place == LATEST else f"{place:,}"

    chosen = selection.prepare("step", options, LATEST, parse=_parse, what=t("checkpoints.label"), say=say)
    film = st.session_state.get(_FILM)
    if film is not None and (film.place != chosen or _next(steps, chosen, 1) == chosen):
        _halt()  # the reader moved, or this is the end
    if not steps:
        return chosen
    if st.session_state.get(_OPTIONS) != (options, newest):
        # The browser remembers a place by its number: with other options the same number is another checkpoint.
        st.session_state[_OPTIONS], st.session_state["step"] = (options, newest), chosen
    st.select_slider(
        t("checkpoints.label"), options, key="step", persist_state="session",
        format_func=say, help=t("checkpoints.help"),
    )  # fmt: skip
    if len(steps) > 1:
        _buttons(steps, chosen)
    return chosen


def _buttons(steps: Sequence[int], chosen: Place) -> None:
    playing = _FILM in st.session_state
    at_start, at_end = _next(steps, chosen, -1) == chosen, _next(steps, chosen, 1) == chosen
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


def film_timer() -> None:
    """While the film plays, let the browser ask for the next page; call it when this one is drawn to its end."""
    if _FILM not in st.session_state:
        return
    drawn = False

    @st.fragment(run_every=PACE)
    def tick() -> None:
        nonlocal drawn
        if not drawn:  # called with the page itself, not by the timer
            drawn = True
            return
        st.session_state[_TICK] = st.session_state.get("step", LATEST)  # where the browser's slider stands
        st.rerun()

    tick()


def _parse(text: str) -> Place:
    return LATEST if text == LATEST else int(text)
