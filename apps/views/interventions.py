"""Interventions: change a part of the network while it runs, and see what depended on it."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import streamlit as st

from apps import inspection, intervening, patching, snippets
from apps.i18n import t
from apps.intervening import Change
from apps.prompt import displays_of
from apps.widgets.columns import probability
from apps.widgets.export_row import export_row
from apps.widgets.inspected import Inspected, inspected
from apps.widgets.intervention_editor import SIGNS, editor, listed, pick_place, said, settle_changes
from apps.widgets.patch_maps import SECOND, baselines, direction_choice, patch_details, second_ids
from apps.widgets.picture import Draw, on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.probe_direction import fitted
from apps.widgets.selectors import head_choice, layer_choice, one_of, settle_token
from apps.widgets.token_target import token_target

if TYPE_CHECKING:
    from lab.analysis import InterventionEffect

COLOURS = ("logit", "loss", "induction", "previous_token")
SHOWS = ("loss", "logit", "attention")
LISTED = 12  # likeliest tokens of each side in the table
CHEAP = 60_000_000  # parts x tokens x weights that a sweep does in a few seconds on one core
LONGEST = 300

Target = tuple[int, int, int | None]


def _names() -> tuple[str, str, str]:
    return t("interventions.before"), t("interventions.after"), t("interventions.difference")


def _target_name(page: Inspected, target: Target) -> str:
    _, token, versus = target
    shown = displays_of(page.tokenizer, [token] if versus is None else [token, versus])
    if versus is None:
        return t("interventions.logit_of", token=shown[0])
    return t("interventions.difference_of", token=shown[0], versus=shown[1])


def _map(page: Inspected, changes: tuple[Change, ...], target: Target, second: tuple[int, ...] | None) -> Draw | None:
    """The map of heads with what is done to them; None while a long sweep has not been asked for.

    second: ids of a second prompt to patch from; the map then shows what each patch moves.
    """
    from lab.plots import intervention_map

    colour = "patch" if second is not None else _colour()
    heads = page.config.n_heads
    signs: dict[tuple[int, int], str] = {}
    for change in changes:
        column = intervening.column_of(change, heads)
        if change.layer is not None and column is not None:
            signs[change.layer, column] = signs.get((change.layer, column), "") + SIGNS[change.kind]
    words: dict[str, Any] = {
        "x_title": t("interventions.axis_head"), "y_title": t("interventions.axis_layer"),
    }  # fmt: skip

    def map_of(values: Any, **more: Any) -> Draw:
        return lambda: intervention_map(values, signs, **more, **words, template=template())

    if second is not None:
        if not _asked(page, colour):
            return None
        with st.spinner(t("inspection.running")):
            shares = patching.every_part(page.checkpoint, page.ids, second, target, st.session_state["patch_way"])
        what, title = t("interventions.share"), t("interventions.map_patch")
        return map_of(shares, what=what, title=title, signed=True, most=1.0)
    if colour in ("induction", "previous_token"):
        values = getattr(inspection.scores(page.checkpoint), colour)
        what = t(f"interventions.colour_{colour}")
        return map_of(values, what=what, title=t("interventions.map_score", what=what), most=1.0)
    if colour == "loss" and len(page.prompt) < 2:
        st.info(t("interventions.one_token"))
        return None
    if not _asked(page, colour):
        return None
    with st.spinner(t("inspection.running")):
        found = intervening.each_part(page.checkpoint, page.ids, colour, target)
    what = t(f"interventions.colour_{colour}")
    title = t("interventions.map_effect_loss") if colour == "loss" else t("interventions.map_effect_logit")
    return map_of(found, what=what, title=title, signed=True)


def _colour() -> str:
    return one_of("map_colour", COLOURS, t("interventions.colour"), lambda c: t(f"interventions.colour_{c}"))


def _asked(page: Inspected, colour: str) -> bool:
    """Whether a sweep over every part is cheap, or the reader asked for it; draws the button that asks."""
    parts = page.config.n_layers * (page.config.n_heads + 2)
    weights = page.config.n_layers * 12 * page.config.d_model**2 + page.config.d_model * page.config.d_vocab
    asked = (page.picked.name, colour)
    if parts * len(page.prompt) * weights > CHEAP * 1000 and st.session_state.get("swept") != asked:
        if not st.button(t("interventions.sweep", n=parts), key="sweep", help=t("interventions.sweep_help")):
            return False
        st.session_state["swept"] = asked
    return True


def _numbers(page: Inspected, effect: InterventionEffect, target: Target) -> None:
    """The effect in four numbers."""
    import numpy as np

    position, token, versus = target
    loss, logit, chance, far = st.columns(4)
    if len(page.prompt) > 1:
        before, after = (float(np.mean(x[:-1])) for x in (effect.loss_before, effect.loss_after))
        loss.metric(
            t("interventions.mean_loss"), f"{after:.3f}", _change(before, after), delta_color="off",
            help=t("interventions.mean_loss_help"),
        )  # fmt: skip
    else:
        loss.caption(t("interventions.one_token"))
    before, after = (_logit(x[position], token, versus) for x in (effect.logits_before, effect.logits_after))
    logit.metric(plain(_target_name(page, target)), f"{after:.3f}", _change(before, after), delta_color="off")
    p_before, p_after = (float(_softmax(x[position])[token]) for x in (effect.logits_before, effect.logits_after))
    chance.metric(t("interventions.probability"), f"{p_after:.3f}", _change(p_before, p_after), delta_color="off")
    far.metric(t("interventions.kl"), f"{float(effect.kl[position]):.3f}", help=t("interventions.kl_help"))


def _change(before: float, after: float) -> str | None:
    """What to show beside a number; nothing where nothing changed, for an arrow beside zero points nowhere."""
    change = after - before
    return None if change == 0 else f"{change:+.3f}" if abs(change) >= 0.0005 else f"{change:+.0e}"


def _logit(logits: Any, token: int, versus: int | None) -> float:
    return float(logits[token] - (logits[versus] if versus is not None else 0.0))


def _softmax(logits: Any) -> Any:
    import numpy as np

    raised = np.exp(logits.astype(np.float64) - logits.max())
    return raised / raised.sum()


def _pick_token(point: list[int]) -> None:
    st.session_state["token"] = point[0]


def _main_picture(
    page: Inspected, changes: tuple[Change, ...], effect: InterventionEffect, target: Target
) -> Draw | None:
    """Before, after and difference of the chosen quantity."""
    import numpy as np

    from lab.plots import triple_maps, triple_strip

    show = one_of("show", SHOWS, t("interventions.show"), lambda s: t(f"interventions.show_{s}"))
    displays = page.prompt.displays
    if show == "attention":
        first, second, _ = st.columns(3)
        with first:
            layer = layer_choice(page.config.n_layers) if "layer+1" not in _drawn() else st.session_state["layer"]
        with second:
            head = head_choice(page.config.n_heads) if "head+1" not in _drawn() else st.session_state["head"]
        before, after = intervening.patterns(page.checkpoint, page.ids, changes, layer)
        return lambda: triple_maps(
            before.pattern[0, head], after.pattern[0, head], x_labels=displays, y_labels=displays,
            what=t("interventions.attention"), x_title=t("interventions.axis_key"),
            y_title=t("interventions.axis_query"), names=_names(), masked=before.masked, title=f"L{layer}H{head}",
            template=template(),
        )  # fmt: skip
    position, token, versus = target
    if show == "logit":
        rows = [
            x[:, token] - (x[:, versus] if versus is not None else 0.0)
            for x in (effect.logits_before, effect.logits_after)
        ]
        what, masked = "logit", None
        title = _target_name(page, target)
    else:
        if len(page.prompt) < 2:
            st.info(t("interventions.one_token"))
            return None
        # The loss of a token stands under the token itself; nothing predicts the first.
        rows = [np.concatenate([[np.nan], x[:-1]]) for x in (effect.loss_before, effect.loss_after)]
        what, masked = t("interventions.loss"), np.arange(len(displays)) == 0
        title = t("interventions.show_loss")
    from lab.plots.theme import escaped

    return lambda: triple_strip(
        rows[0], rows[1], displays, what=what, names=_names(), signed=show == "logit", masked=masked, chosen=position,
        x_title=t("interventions.axis_token"), title=escaped(title), template=template(),
    )  # fmt: skip


def _drawn() -> tuple[str, ...]:
    """Which of the layer and head choices the editor has drawn already."""
    kind, site = st.session_state.get("kind"), st.session_state.get("at_site")
    reach = st.session_state.get("reach")
    if kind == "knockout":
        return {"one_head": ("layer+1", "head+1"), "one_layer": ("layer+1",)}.get(str(reach), ())
    if kind == "steer" or site != "head":
        return ("layer+1",)
    return ("layer+1", "head+1")


def _table(page: Inspected, effect: InterventionEffect, position: int) -> None:
    """The likeliest next tokens of either side, and what became of each."""
    import numpy as np
    import pandas as pd

    p = [_softmax(x[position]) for x in (effect.logits_before, effect.logits_after)]
    order = [np.argsort(-x, kind="stable") for x in p]
    ids = list(dict.fromkeys(int(i) for pair in zip(order[0][:LISTED], order[1][:LISTED], strict=True) for i in pair))
    ranks = [np.empty(len(x), dtype=int) for x in p]
    for rank, ordered in zip(ranks, order, strict=True):
        rank[ordered] = np.arange(1, len(ordered) + 1)
    frame = pd.DataFrame(
        {
            "token": displays_of(page.tokenizer, ids),
            "before": p[0][ids],
            "after": p[1][ids],
            "change": p[1][ids] - p[0][ids],
            "moved": [
                f"{ranks[0][i]} {'→' if ranks[0][i] == ranks[1][i] else '↑' if ranks[1][i] < ranks[0][i] else '↓'} "
                f"{ranks[1][i]}"
                for i in ids
            ],
        }
    )
    frame = frame.loc[np.argsort(-np.maximum(p[0][ids], p[1][ids]), kind="stable")]
    st.markdown(f"**{plain(t('interventions.table', token=f'{position}: {page.prompt.displays[position]}'))}**")
    st.dataframe(
        frame, hide_index=True, width="stretch", height=35 * min(13, len(frame) + 1) + 3, key="next_tokens",
        column_config={
            "token": t("interventions.token"),
            "before": probability(t("interventions.p_before")),
            "after": probability(t("interventions.p_after")),
            "change": probability(t("interventions.p_change")),
            "moved": t("interventions.rank"),
        },
    )  # fmt: skip


def _writing(page: Inspected, changes: tuple[Change, ...]) -> None:
    """Both continuations, side by side."""
    st.markdown(f"**{t('interventions.write')}**", help=t("interventions.write_help"))
    for name, value in (("write_length", 40), ("write_temperature", 0.0), ("write_seed", 0)):
        st.session_state.setdefault(name, value)
    a, b, c, d = st.columns([1, 1, 1, 1], vertical_alignment="bottom")
    length = a.number_input(t("interventions.length"), 1, LONGEST, step=10, key="write_length", persist_state="session")
    temperature = b.number_input(
        t("interventions.temperature"), 0.0, 10.0, step=0.1, key="write_temperature", persist_state="session"
    )
    seed = c.number_input(t("interventions.seed"), 0, step=1, key="write_seed", persist_state="session")
    settings = {"max_new_tokens": int(length), "temperature": float(temperature), "seed": int(seed)}
    asked = (page.picked.name, page.ids, changes, tuple(settings.items()))
    if d.button(t("generate.go"), key="write", icon=":material/edit_note:", disabled=not changes, width="stretch"):
        try:
            with st.spinner(t("inspection.running")):
                st.session_state["both_texts"] = (
                    asked, intervening.written(page.checkpoint, page.ids, changes, settings)
                )  # fmt: skip
        except ValueError as error:
            st.error(plain(t("generate.refused", reason=str(error))))
    kept, texts = st.session_state.get("both_texts", (None, None))
    if kept != asked or texts is None:
        return
    for column, name, ids in zip(st.columns(2), _names()[:2], texts, strict=True):
        with column.container(border=True):
            st.caption(name)
            st.text(str(page.tokenizer.decode(list(ids))))
    same = next((n for n, (x, y) in enumerate(zip(*texts, strict=False)) if x != y), min(map(len, texts)))
    if texts[0] == texts[1]:
        st.caption(t("interventions.same_text"))
    else:
        st.caption(t("interventions.parts_from", n=same))


def _as_json(effect: InterventionEffect, changes: tuple[Change, ...], target: Target) -> str:
    record = {
        "changes": [dataclasses.asdict(change) for change in changes],
        "position": target[0], "token": target[1], "versus": target[2], "effect": effect.to_dict(),
    }  # fmt: skip
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def _second(page: Inspected) -> tuple[int, ...] | None:
    """The second prompt's ids while a patch is being chosen and both prompts line up."""
    if st.session_state.get("kind") != "patch":
        return None
    return second_ids(page, str(st.session_state.get(SECOND) or ""))


def render() -> None:
    """The page."""
    page = inspected("interventions")
    if page is None:
        return
    changes = settle_changes()
    settle_token(page.prompt)
    editor(page)
    left, right = st.columns([6, 5])
    with right:
        possible = fitted(page, listed(page, changes))
    target = token_target(page)
    second, patched = _second(page), None
    with left:
        if second is not None:
            direction_choice()
            patched = baselines(page, second, target, _target_name(page, target))
        figure = _map(page, possible, target, second if patched is not None else None)
        if figure is not None:
            picture(figure, "intervention_map", on_pick=lambda place: pick_place(place, page.config.n_heads))
            st.caption(t("interventions.map_help"))
    try:
        with st.spinner(t("inspection.running")):
            effect = intervening.effect(page.checkpoint, page.ids, possible)
    except (ValueError, MemoryError) as error:
        st.error(plain(t("interventions.cannot", reason=str(error))))
        return
    if not inspection.finite(effect, "logits_before"):
        st.error(t("inspection.not_finite"))
        return
    _numbers(page, effect, target)
    if possible and bool((effect.logits_before == effect.logits_after).all()):
        st.info(t("interventions.unchanged"))
    main = _main_picture(page, possible, effect, target)
    if main is not None:
        strip = st.session_state.get("show") != "attention"
        picture(main, "before_after", on_pick=_pick_token if strip else None)
        if strip:
            st.caption(t("interventions.strip_help"))
    if second is not None and patched is not None:
        patch_details(page, second, target, patched)
    table, writing = st.columns([5, 6])
    with table:
        _table(page, effect, target[0])
    with writing:
        _writing(page, possible)
    _export(page, possible, effect, target, [x for x in (main, figure) if x is not None])


def _export(
    page: Inspected,
    changes: tuple[Change, ...],
    effect: InterventionEffect,
    target: Target,
    draws: list[Draw],
) -> None:
    note = f"{page.picked.name}: " + ("; ".join(said(change, page) for change in changes) or t("interventions.none"))
    export_row(
        f"interventions-{page.picked.name}",
        html=on_paper(draws, t("interventions.title"), note),
        frame=effect.to_frame,
        json=lambda: _as_json(effect, changes, target),
        python=snippets.intervened(page, [intervening.code(change) for change in changes]),
    )


if __name__ == "__main__":
    render()
