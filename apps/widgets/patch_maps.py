"""Two prompts on the Interventions page: the second one, what it says, a map of every patch, a few heads kept alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from apps import inspection, patching, selection, snippets
from apps.i18n import t
from apps.intervening import LONGEST_TEXT
from apps.prompt import displays_of
from apps.widgets.export_row import export_row
from apps.widgets.inspected import Inspected
from apps.widgets.picture import on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.selectors import one_of
from lab.corpora.examples import second_prompt

if TYPE_CHECKING:
    import numpy as np
    import plotly.graph_objects as go

    from lab.analysis import PatchingGrid

SECOND = "second_prompt"
ENOUGH = 0.1  # share of the difference from which a head is among those first kept alone
MOST_HEADS = 4


def settle_second_prompt(page: Inspected) -> str:
    """The second prompt before its field is drawn: what was typed, else the example's, else names exchanged."""
    default = page.example.corrupt if page.example is not None else ""
    default = default or second_prompt(page.prompt.text)[:LONGEST_TEXT]
    selection.follow(SECOND, default)
    return selection.prepare_text(SECOND, default)[:LONGEST_TEXT]


def second_ids(page: Inspected, text: str) -> tuple[int, ...] | None:
    """The second prompt's ids where both prompts can be patched position by position; else None."""
    try:
        ids = tuple(int(i) for i in page.tokenizer.encode(text)) if text else ()
    except ValueError:
        return None
    return ids if len(ids) == len(page.ids) and ids != page.ids else None


def say_second(page: Inspected, text: str) -> None:
    """What the model expects after the second prompt, beside what it expects after the one shown."""
    ids = second_ids(page, text)
    if ids is None:
        return
    said = []
    for prompt in (page.ids, ids):
        found = inspection.predictions(page.checkpoint, prompt, 1)
        token, share = int(found.top_tokens[-1, 0]), float(found.top_probabilities[-1, 0])
        said.append(f"{displays_of(page.tokenizer, [token])[0]} ({share:.2f})")
    st.caption(plain(t("interventions.both_say", first=said[0], second=said[1])))


def direction_choice() -> str:
    """Which way activations are put."""
    return one_of("patch_way", patching.DIRECTIONS, t("interventions.patch_way"), lambda d: t(f"interventions.way_{d}"))


def baselines(page: Inspected, ids: tuple[int, ...], target: patching.Target, name: str) -> PatchingGrid | None:
    """The two numbers that every share is read against, drawn; None where a patch cannot be read, with the reason."""
    try:
        found = patching.grid(page.checkpoint, page.ids, ids, target, "head", st.session_state["patch_way"])
    except (ValueError, MemoryError) as error:
        st.error(plain(t("interventions.cannot", reason=str(error))))
        return None
    clean, corrupt = st.columns(2)
    clean.metric(t("interventions.on_this"), f"{found.clean:+.3f}", help=plain(name))
    corrupt.metric(t("interventions.on_second"), f"{found.corrupt:+.3f}", help=plain(name))
    return found


def patch_details(page: Inspected, ids: tuple[int, ...], target: patching.Target, heads: PatchingGrid) -> None:
    """Layer by position, and the heads kept alone."""
    from lab.plots import patching_grid

    st.markdown(f"**{t('interventions.patch_positions')}**")
    site = one_of("patch_stream", patching.STREAMS, t("interventions.patch_stream"), lambda s: t(f"interventions.{s}"))
    with st.spinner(t("inspection.running")):
        found = patching.grid(page.checkpoint, page.ids, ids, target, site, heads.direction)

    def positions() -> go.Figure:
        return patching_grid(found, template=template())

    picture(positions, "patching_positions")
    _kept_alone(page, ids, target, heads)
    position, token, versus = target
    metric = f"Logit({token}, {position})" if versus is None else f"LogitDifference({token}, {versus}, {position})"
    title = t("interventions.patch_positions")
    export_row(
        f"patching-{page.picked.name}-{site}",
        html=on_paper(positions, title, page.picked.name),
        frame=found.to_frame,
        json=found.to_json,
        python=snippets.patched(page, ids, metric, site=site, direction=heads.direction),
        what=title,
    )


def _kept_alone(page: Inspected, ids: tuple[int, ...], target: patching.Target, heads: PatchingGrid) -> None:
    """Choose heads; all others write what they wrote on the second prompt."""
    n = page.config.n_heads
    names = [f"L{layer}H{head}" for layer in range(page.config.n_layers) for head in range(n)]
    key = "kept_heads"
    strongest = _strongest(heads.recovered, names)
    selection.follow(key, strongest)
    if not set(st.session_state.setdefault(key, strongest)) <= set(names):
        st.session_state[key] = strongest
    selection.tell(key)
    chosen: list[str] = st.multiselect(
        t("interventions.keep_heads"), names, key=key, persist_state="session", help=t("interventions.keep_heads_help")
    )
    if not chosen:
        return
    at = tuple(divmod(names.index(name), n) for name in chosen)
    try:
        with st.spinner(t("inspection.running")):
            left = patching.kept_alone(page.checkpoint, page.ids, ids, target, at)
    except (ValueError, MemoryError) as error:
        st.error(plain(t("interventions.cannot", reason=str(error))))
        return
    shown: list[tuple[str, float]] = [("whole", left.clean), ("alone", left.circuit), ("without", left.without)]
    columns = st.columns(len(shown) + 2)
    for column, (name, value) in zip(columns, shown, strict=False):
        column.metric(t(f"interventions.kept_{name}"), f"{value:+.3f}")
    for column, name in zip(columns[len(shown) :], ("faithfulness", "completeness"), strict=True):
        value = getattr(left, name)
        column.metric(
            t(f"interventions.{name}"), "–" if value != value else f"{value:.2f}", help=t(f"interventions.{name}_help")
        )


def _strongest(recovered: np.ndarray, names: list[str]) -> list[str]:
    """The heads that alone move most of the difference, the strongest first; at least one."""
    import numpy as np

    shares = np.abs(np.nan_to_num(recovered)).ravel()
    order: Any = np.argsort(-shares, kind="stable")[:MOST_HEADS]
    return [names[i] for rank, i in enumerate(order) if rank == 0 or shares[i] >= ENOUGH]
