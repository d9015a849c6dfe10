"""The one selection that all pages share: run, checkpoint, prompt, layer, head, token; in session and address bar.

A value arrives from three places: the widget (the reader's click), the address bar (a link), and a default. The
widget's key in the session *is* the parameter's name, so any page reads `st.session_state["layer"]`. A link is trusted
with nothing: a value that is not among the options is replaced by the nearest one and the reader is told.

Streamlit's own `bind="query-params"` writes the option's *label* into the address and drops a bad value in silence; the
labels here are translated and a bad value deserves a sentence, hence this small module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from apps.i18n import t
from apps.widgets import notices

T = TypeVar("T")

LONGEST_PROMPT_IN_LINK = 2000  # characters; browsers and proxies cut addresses that are much longer
LAG = 3.0  # seconds in which a click may still carry the address of before the click before it
# Everything an address may say. Whatever else a link brings is named to the reader, never passed over.
PARAMETERS = frozenset(
    "by colour compare control curves_x do drill dynamics_view examples figure guide head kind labels lang layer "
    "map_colour measure patch_stream patch_way probe_row prompt reach run run_b second_prompt show site statistic "
    "steer_by step step_b study target threshold tier token versus weighting".split()
)
_BOOK = "address_book"
_PENDING = "address_pending"


@dataclass
class _Entry:
    """What this session last wrote into the address for one parameter, what stood there before, and when."""

    written: str | None = None
    before: str | None = None
    at: float = 0.0
    settled: Any = None
    known: bool = False  # whether `settled` holds a value yet
    shown_in: tuple[str | None, str | None] | None = None  # page and language whose browser widget has been told it


def _entry(name: str) -> _Entry:
    book: dict[str, _Entry] = st.session_state.setdefault(_BOOK, {})
    return book.setdefault(name, _Entry())


def _arrived(name: str) -> str | None:
    """The parameter's text when the address brings something new: a link, or the browser's back button.

    Not new is what this session wrote itself, nor anything in the moment in which the reader changed the widget:
    a quick second click is sent before the browser has taken over the address of the first.
    """
    raw, entry = st.query_params.get(name), _entry(name)
    if raw is None or raw == entry.written:
        return None
    if entry.known and name in st.session_state and st.session_state[name] != entry.settled:
        return None
    if raw == entry.before and time.monotonic() - entry.at < LAG:
        return None
    return raw


def publish(name: str, value: object | None) -> None:
    """Write a value into the address bar; None takes the parameter away."""
    text, entry = None if value is None else str(value), _entry(name)
    if text != entry.written:
        entry.written, entry.before, entry.at = text, st.query_params.get(name), time.monotonic()
    pending: dict[str, str | None] | None = st.session_state.get(_PENDING)
    if pending is None:
        _write({name: text})
    else:
        pending[name] = text


@contextmanager
def one_address() -> Iterator[None]:
    """Gather what is published meanwhile and write it at the end, for every writing is a stop of the Back button."""
    pending: dict[str, str | None] = {}
    st.session_state[_PENDING] = pending
    try:
        yield
    finally:
        st.session_state[_PENDING] = None
        _write(pending)


def _write(changes: Mapping[str, str | None]) -> None:
    now = {name: st.query_params.get_all(name) for name in st.query_params}
    kept = {name: values for name, values in now.items() if name not in changes}
    wanted = kept | {name: [text] for name, text in changes.items() if text is not None}
    if wanted != now:
        st.query_params.from_dict(wanted)


def tell(name: str) -> None:
    """Name the value in `st.session_state[name]` to the browser again where its widget is new; before it is drawn.

    On another page the browser starts a widget that its reader never touched empty. In another language a select keeps
    the label it had, and sends that back. Naming a value at every drawing would undo what the reader does meanwhile.
    """
    entry = _entry(name)
    where = (st.session_state.get("page"), st.session_state.get("lang"))
    if name in st.session_state and entry.shown_in != where:
        st.session_state[name] = st.session_state[name]
    entry.shown_in = where


def _settle(name: str, value: Any) -> None:
    if name not in st.session_state or st.session_state[name] != value:
        st.session_state[name] = value
    tell(name)
    entry = _entry(name)
    entry.settled, entry.known = value, True


def _nearest(value: object, options: Sequence[T], default: T) -> T:
    numbers = [option for option in options if isinstance(option, int)]
    if isinstance(value, int) and numbers:
        return min(numbers, key=lambda option: abs(option - value))
    return default


def prepare(
    name: str,
    options: Sequence[T],
    default: T,
    *,
    parse: Callable[[str], T] | None = None,
    what: str | None = None,
    say: Callable[[T], str] = str,
    always: bool = False,
) -> T:
    """Settle `st.session_state[name]` on one of `options` before the widget with that key is made, and publish it.

    Args:
        name: parameter in the address bar and key of the widget.
        options: every value allowed now; must not be empty.
        default: value when nothing else was asked for; not shown in the address bar.
        parse: turns the text of a link into a value (ValueError: not one).
        what: the selection's name for a reader, used in the notice about a value that is not available.
        say: a value in the reader's words, for the same notice.
        always: show the value in the address bar also when it is the default.
    """
    asked: object | None = None
    raw = _arrived(name)
    if raw is not None:
        try:
            asked = parse(raw) if parse is not None else raw
        except ValueError:
            asked = raw
    elif name in st.session_state:
        asked = st.session_state[name]
    if asked is None:
        value = default
    elif asked in options:
        value = asked  # type: ignore[assignment]
    else:
        value = _nearest(asked, options, default)
        notices.add(
            "warning",
            t("selection.unavailable", what=what or name, asked=str(asked)[:80], shown=say(value)),
            about=name,
        )
    _settle(name, value)
    publish(name, value if always or value != default else None)
    return value


def refuse_unknown() -> None:
    """Name what the address says that no page reads, once; call it when the page is drawn."""
    strange = sorted(name for name in st.query_params if name not in PARAMETERS and not name.startswith("embed"))
    said: set[str] = st.session_state.setdefault("address_refused", set())
    if new := [name for name in strange if name not in said]:
        said.update(new)
        shown = ", ".join(f"{name}={st.query_params[name]}"[:80] for name in new[:6])
        notices.add("warning", t("selection.unknown", shown=shown), about="address")


def follow(name: str, default: Any) -> None:
    """Let a value that nobody chose follow its default, which changes with the model or the prompt.

    Called before the value is settled: what equals the default of last time is taken back.
    """
    before = f"{name}_default"
    if before in st.session_state and st.session_state.get(name) == st.session_state[before] != default:
        st.session_state.pop(name, None)
    st.session_state[before] = default


def prepare_text(name: str, default: str) -> str:
    """Settle a free text (the prompt) the same way; a long one stays out of the address bar."""
    raw = _arrived(name)
    text = str(raw if raw is not None else st.session_state.get(name, default))
    _settle(name, text)
    publish(name, text if text != default and len(text) <= LONGEST_PROMPT_IN_LINK else None)
    return text
