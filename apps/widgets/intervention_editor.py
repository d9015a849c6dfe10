"""Put interventions on the list, and take them off: the controls beside the map, and what a click on the map does."""

from __future__ import annotations

from typing import Any

import streamlit as st

from apps import selection
from apps.i18n import t
from apps.intervening import (
    KINDS,
    LONGEST_TEXT,
    MOST_CHANGES,
    SITES,
    STREAMS,
    Change,
    decode,
    encode,
    place_of,
    problem,
)
from apps.prompt import displays_of
from apps.widgets import notices
from apps.widgets.inspected import Inspected
from apps.widgets.patch_maps import SECOND, say_second, settle_second_prompt
from apps.widgets.plain import plain
from apps.widgets.probe_direction import label_name, probe_choice
from apps.widgets.selectors import head_choice, layer_choice, one_of
from apps.widgets.token_target import typed_token

LIST = "do"
ALL = -1
SIGNS = {"zero": "0", "mean": "μ", "scale": "×", "knockout": "✂", "patch": "⇄", "steer": "↗"}
CLICKED = ("zero", "mean", "scale", "patch")  # kinds that a place says all about
DEFAULT_STRENGTH = 4.0
REACH = ("one_head", "one_layer", "every_layer")
STEER_BY = ("tokens", "prompts", "means", "probe")


def settle_changes() -> tuple[Change, ...]:
    """The list as it stands, from the session or from a link; what a link brings and nobody can read is said."""
    text = selection.prepare_text(LIST, "")
    changes, strange = decode(text)
    if strange:
        notices.add("warning", t("interventions.strange", parts="; ".join(strange)), about="interventions")
        st.session_state[LIST] = encode(changes)
        selection.publish(LIST, encode(changes) or None)
    return changes


def _keep(changes: tuple[Change, ...]) -> None:
    st.session_state[LIST] = encode(changes)


def add(change: Change) -> None:
    """Put an intervention on the list, unless it is there; the oldest goes where there are too many."""
    changes, _ = decode(st.session_state.get(LIST, ""))
    if change not in changes:
        _keep((*changes, change)[-MOST_CHANGES:])


def _remove(index: int) -> None:
    changes, _ = decode(st.session_state.get(LIST, ""))
    _keep(changes[:index] + changes[index + 1 :])


def _clear() -> None:
    _keep(())


def pick_place(place: list[int], n_heads: int) -> None:
    """A click on the map: choose the place; for the kinds that need no more than a place, do it there or undo it."""
    layer, column = place
    site, head = place_of(column, n_heads)
    st.session_state["layer"] = layer
    st.session_state["at_site"] = site
    if head is not None:
        st.session_state["head"] = head
    kind = st.session_state.get("kind", KINDS[0])
    text = {"mean": _text("reference_text"), "patch": _text(SECOND)}.get(kind, "")
    if kind not in CLICKED or (kind == "patch" and not text):
        return
    changes, _ = decode(st.session_state.get(LIST, ""))
    here = [c for c in changes if (c.kind, c.site, c.layer, c.head) == (kind, site, layer, head)]
    if here:
        _keep(tuple(c for c in changes if c not in here))
    else:
        add(Change(kind, site, layer, head, None, None, _factor(kind), text))


def _factor(kind: str) -> float:
    return float(st.session_state.get("scale_by") or 0.0) if kind == "scale" else 1.0


def _text(key: str) -> str:
    return str(st.session_state.get(key) or "")[:LONGEST_TEXT]


def _position(page: Inspected, key: str, label: str) -> int | None:
    """A token of the prompt, or every one of them."""
    options = [ALL, *range(len(page.prompt))]
    if st.session_state.get(key, ALL) not in options:
        st.session_state[key] = ALL
    selection.tell(key)
    chosen = st.selectbox(
        label, options, key=key, persist_state="session",
        format_func=lambda i: t("interventions.every_token") if i == ALL else f"{i}: {page.prompt.displays[i]}",
    )  # fmt: skip
    return None if chosen == ALL else int(chosen)


def _second_prompt(label: str, key: str, tall: bool = False) -> str:
    keep: dict[str, Any] = {"key": key, "max_chars": LONGEST_TEXT, "persist_state": "session"}
    text = st.text_area(label, height=70, **keep) if tall else st.text_input(label, **keep)
    return str(text or "")[:LONGEST_TEXT]


def editor(page: Inspected) -> None:
    """The controls of one intervention and the button that puts it on the list."""
    kind = one_of("kind", KINDS, t("interventions.kind"), lambda k: f"{SIGNS[k]}  {t(f'interventions.kind_{k}')}")
    st.caption(t(f"interventions.about_{kind}"))
    change = {"knockout": _knockout, "steer": _steer}.get(kind, _at_site)(page, kind)
    reason = problem(change, page.config, page.tokenizer, len(page.prompt))
    st.button(
        t("interventions.add"), key="intervene", type="primary", icon=":material/add:", on_click=add, args=(change,),
        disabled=reason is not None, help=plain(reason) if reason else None,
    )  # fmt: skip


def _at_site(page: Inspected, kind: str) -> Change:
    st.session_state.setdefault("at_site", SITES[0])
    selection.tell("at_site")
    first, second, third = st.columns(3)
    with first:
        site = str(
            st.selectbox(
                t("interventions.site"), SITES, key="at_site", persist_state="session",
                format_func=lambda s: t(f"interventions.site_{s}"),
            )
        )  # fmt: skip
    with second:
        layer = layer_choice(page.config.n_layers)
    with third:
        head = head_choice(page.config.n_heads) if site == "head" else None
    first, second = st.columns([1, 2])
    with first:
        position = _position(page, "acts_at", t("interventions.at"))
    factor, text = 1.0, ""
    with second:
        if kind == "scale":
            st.session_state.setdefault("scale_by", 0.5)
            factor = float(
                st.number_input(t("interventions.factor"), -1e3, 1e3, step=0.5, key="scale_by", persist_state="session")
            )
        elif kind == "mean":
            text = _second_prompt(t("interventions.reference"), "reference_text", tall=True)
        elif kind == "patch":
            settle_second_prompt(page)
            text = _second_prompt(t("interventions.source"), SECOND)
            if text:
                _say_lengths(page, text)
                say_second(page, text)
    return Change(kind, site, layer, head, position, None, factor, text)


def _say_lengths(page: Inspected, text: str) -> None:
    """A patch acts position by position: two prompts of unlike length do not line up."""
    try:
        n = len(page.tokenizer.encode(text))
    except ValueError:
        return  # the button says why
    if n != len(page.prompt):
        st.caption(t("interventions.unlike", n=n, prompt=len(page.prompt)))


def _knockout(page: Inspected, kind: str) -> Change:
    first, second, third = st.columns(3)
    with first:
        query = _position(page, "cut_query", t("interventions.query"))
    with second:
        key = _position(page, "cut_key", t("interventions.key"))
    with third:
        reach = one_of("reach", REACH, t("interventions.reach"), lambda r: t(f"interventions.reach_{r}"))
    if reach == "every_layer":
        return Change(kind, position=query, key=key)
    first, second, _ = st.columns(3)
    with first:
        layer = layer_choice(page.config.n_layers)
    with second:
        head = head_choice(page.config.n_heads) if reach == "one_head" else None
    return Change(kind, layer=layer, head=head, position=query, key=key)


def _steer(page: Inspected, kind: str) -> Change:
    by = one_of("steer_by", STEER_BY, t("interventions.direction"), lambda b: t(f"interventions.direction_{b}"))
    direction: dict[str, Any] = {}
    if by == "probe":
        spec, seed, text, versus = probe_choice(page)
        direction = {"probe": spec, "seed": seed, "text": text, "versus": versus}
    else:
        first, second = st.columns(2)
        if by == "tokens":
            with first:
                direction["token"] = typed_token(page.tokenizer, "steer_token", t("interventions.towards"))
            with second:
                direction["against"] = typed_token(page.tokenizer, "steer_against", t("interventions.away"))
        else:
            with first:
                direction["text"] = _second_prompt(t("interventions.towards"), "steer_text")
            with second:
                direction["versus"] = _second_prompt(t("interventions.away"), "steer_versus")
            direction["read"] = "mean" if by == "means" else "last"
    first, second, third = st.columns(3)
    with first:
        layer = layer_choice(page.config.n_layers)
    with second:
        position = _position(page, "acts_at", t("interventions.at"))
    with third:
        st.session_state.setdefault("strength", DEFAULT_STRENGTH)
        strength = float(
            st.number_input(
                t("interventions.strength"), -1e3, 1e3, step=1.0, key="strength", persist_state="session",
                help=t("interventions.strength_help"),
            )
        )  # fmt: skip
    return Change(kind, STREAMS[0], layer, position=position, factor=strength, **direction)


def said(change: Change, page: Inspected) -> str:
    """One intervention in the reader's words."""

    def token(position: int | None) -> str:
        if position is None:
            return t("interventions.every_token")
        shown = page.prompt.displays[position] if position < len(page.prompt) else "?"
        return f"{position}: {shown}"

    if change.layer is None:
        place = t("interventions.reach_every_layer")
    elif change.head is not None:
        place = f"L{change.layer}H{change.head}"
    elif change.kind == "knockout":
        place = f"L{change.layer}"
    else:
        place = f"L{change.layer} " + t(f"interventions.site_{change.site}")
    parts = [t(f"interventions.kind_{change.kind}"), place]
    if change.kind == "knockout":
        parts.append(f"{token(change.position)} ✂ {token(change.key)}")
    elif change.position is not None:
        parts.append(token(change.position))
    if change.kind == "scale":
        parts.append(f"× {change.factor:g}")
    if change.kind == "steer":
        towards, away = change.text, change.versus
        if change.token is not None and max(change.token, change.against or 0) < page.config.d_vocab:
            towards = displays_of(page.tokenizer, [change.token])[0]
            away = "" if change.against is None else displays_of(page.tokenizer, [change.against])[0]
        parts.append(f"{change.factor:+g} · “{towards}”" + (f" − “{away}”" if away else ""))
        if change.probe:
            parts.append(t("interventions.by_probe", labels=label_name(change.probe)))
        elif change.read == "mean":
            parts.append(t("interventions.by_means"))
    elif change.text:
        parts.append(f"“{change.text}”")
    return " · ".join(parts)


def listed(page: Inspected, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Draw the list, each with a button that takes it off; returns those that can be done to this model."""
    possible: list[Change] = []
    if not changes:
        st.caption(t("interventions.none"))
    for index, change in enumerate(changes):
        reason = problem(change, page.config, page.tokenizer, len(page.prompt))
        if reason is None:
            possible.append(change)
        with st.container(key=f"change_{index}"):
            text, off = st.columns([10, 1], vertical_alignment="center")  # a horizontal row breaks after a long line
            line = plain(said(change, page))
            if reason is None:
                text.markdown(f"**{SIGNS[change.kind]}** {line}")
            else:
                text.warning(f"{line} — {plain(reason)}")
            off.button(
                "", key=f"remove_{index}", icon=":material/close:", on_click=_remove, args=(index,), type="tertiary",
                help=t("interventions.remove"),
            )  # fmt: skip
    if len(changes) > 1:
        st.button(t("interventions.clear"), key="remove_all", on_click=_clear, type="tertiary")
    return tuple(possible)
