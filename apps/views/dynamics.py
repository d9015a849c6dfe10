"""Dynamics: when in training does each head become what it is?"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import streamlit as st

from apps import selection
from apps.i18n import t
from apps.kept import kept
from apps.widgets.checkpoint_slider import show_step
from apps.widgets.columns import number
from apps.widgets.export_row import export_row
from apps.widgets.guarded import guarded
from apps.widgets.model_picker import Picked
from apps.widgets.page import opening, picked_with_weights
from apps.widgets.picture import Draw, on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.progress import progress_bar
from apps.widgets.selectors import head_choice, layer_choice, one_of
from lab.runs import Run

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.analysis import Dynamics

MEASURES = ("induction", "previous_token", "duplicate_token", "first_token", "entropy")
KINDS = MEASURES[:4]  # shares of attention: 0 to 1
LAYER_PANELS = ("residual_rms", "grad_norm")
VIEWS = ("curves", "grid")
THRESHOLDS = tuple(round(0.05 * n, 2) for n in range(1, 20))
DEFAULT_THRESHOLD = 0.3
REFRESH = 2.0  # seconds between looks at the folder of a run in training
_PICKED = "dynamics_picked"

Film = dict[str, "Dynamics"]


def _pick(layer: int, head: int, step: int) -> None:
    _show_head(layer, head)
    show_step(step)


def _strongest(series: Dynamics) -> tuple[int, int]:
    """(layer, head) of the largest value at the last checkpoint; of the smallest for entropy."""
    import numpy as np

    last = series.values[-1]
    last = np.where(np.isfinite(last), last if series.measure in KINDS else -last, -np.inf)
    layer, head = np.unravel_index(int(last.argmax()), last.shape)
    return int(layer), int(head)


def _show_head(layer: int, head: int) -> None:
    st.session_state["layer"], st.session_state["head"] = layer, head
    st.session_state[_PICKED] = True


def _pick_point(point: list[int]) -> None:
    _pick(point[0], point[1], point[2])


def _key(run: Run) -> tuple[object, ...]:
    return ("film", str(run.path), tuple(run.checkpoints()))


def _film(run: Run) -> Film:
    """What training wrote down; else what was measured here."""
    from lab.analysis import recorded_film

    film = recorded_film(run)
    if any(name in film for name in MEASURES):
        return film
    measured: Film | None = kept("film").get(_key(run))
    return {**film, **(measured or {})}


def _measure(run: Run) -> None:
    """Offer to take the head scores at every checkpoint, for a run that wrote none down."""
    count = len(run.checkpoints())
    st.info(plain(t("dynamics.none_recorded", run=run.id)))
    if not st.button(t("dynamics.measure", n=count), key="dynamics_measure", icon=":material/timeline:"):
        return
    from lab.analysis import measured_film

    try:
        with progress_bar(lambda done, n: t("dynamics.measuring", done=done, n=n)) as told:
            film = measured_film(run, progress=told)
    except (OSError, ValueError) as error:
        st.error(plain(t("dynamics.cannot_measure", run=run.id, reason=str(error))))
        return
    kept("film").put(_key(run), film)
    st.rerun()


def _table(film: Film, measure: str, threshold: float) -> None:
    """A row a head: since when it is of each kind, and when the chosen measure changed most."""
    import pandas as pd

    from lab.analysis import formation

    chosen = formation(film[measure], threshold)
    columns: dict[str, object] = {"head": list(chosen.labels)}
    for kind in KINDS:
        if kind in film:
            columns[kind] = [None if step < 0 else int(step) for step in formation(film[kind], threshold).reached]
    columns["final"] = chosen.final
    columns["change"] = chosen.change
    columns["between"] = [f"{low:,} → {high:,}" for low, high in chosen.between.tolist()]
    frame = pd.DataFrame(columns).astype({kind: "Int64" for kind in KINDS if kind in film})
    what = t(f"dynamics.{measure}")
    st.dataframe(
        frame, hide_index=True, width="stretch", height=min(420, 35 * (len(frame) + 1) + 3), key="dynamics_table",
        placeholder="–",
        column_config={
            "head": t("select.head"),
            **{
                kind: st.column_config.NumberColumn(
                    t("dynamics.since", what=t(f"dynamics.{kind}")), format="localized",
                    help=t("dynamics.since_help", threshold=f"{threshold:.2f}"),
                )
                for kind in KINDS
            },
            "final": number(t("dynamics.final", what=what), digits=3),
            "change": number(t("dynamics.change"), digits=3),
            "between": t("dynamics.between"),
        },
    )  # fmt: skip
    st.caption(t("dynamics.table_help", threshold=f"{threshold:.2f}", what=what))


def _head_line(film: Film, layer: int, head: int, threshold: float, measure: str) -> tuple[int, int] | None:
    """One sentence about the chosen head; returns the two steps between which it changed most."""
    from lab.analysis import formation

    found = formation(film[measure], threshold)
    at = layer * film[measure].values.shape[2] + head
    name, what = found.labels[at], t(f"dynamics.{measure}")
    if math.isnan(found.change[at]):  # one checkpoint, or no number
        st.markdown(plain(t("dynamics.no_change", head=name, what=what)))
        return None
    low, high = (int(step) for step in found.between[at])
    words = {"head": name, "what": what, "change": f"{found.change[at]:+.3f}", "low": f"{low:,}", "high": f"{high:,}"}
    sentence = t("dynamics.sentence", **words)
    if measure in KINDS:
        reached = int(found.reached[at])
        key = "dynamics.never" if reached < 0 else "dynamics.reached"
        sentence += " " + t(key, threshold=f"{threshold:.2f}", step=f"{max(reached, 0):,}")
    st.markdown(plain(sentence))
    return low, high


def _draw(model: Picked, measure: str, view: str, threshold: float, layer: int, head: int) -> None:
    """The pictures and the table, from what is on disk now."""
    from lab.plots import film_curves, film_grid, layer_curves

    film = _film(model.run)
    if measure not in film:
        st.caption(t("dynamics.not_yet"))
        return
    series = film[measure]
    layer, head = min(layer, series.values.shape[1] - 1), min(head, series.values.shape[2] - 1)
    with st.container(horizontal=True, vertical_alignment="center"):
        between = _head_line(film, layer, head, threshold, measure)
        st.button(
            t("dynamics.strongest" if measure in KINDS else "dynamics.sharpest"), key="dynamics_strongest",
            on_click=_show_head, args=_strongest(series), icon=":material/my_location:", width="content",
        )  # fmt: skip
    level = threshold if measure in KINDS else None
    metrics = model.run.metrics()

    def curves() -> go.Figure:
        return film_curves(
            series, metrics, chosen=(layer, head), step=model.step, threshold=level, between=between,
            template=template(),
        )  # fmt: skip

    figures: dict[str, Draw] = {t("dynamics.view_curves"): curves}
    if view == "curves":
        picture(curves, "dynamics_curves", on_pick=_pick_point)
        st.caption(t("dynamics.curves_help"))
    else:

        def grid() -> go.Figure:
            return film_grid(series, chosen=(layer, head), threshold=level, template=template())

        figures[t("dynamics.view_grid")] = grid
        heads, steps = series.values.shape[2], series.steps

        def pick_cell(cell: list[int]) -> None:
            _pick(cell[0] // heads, cell[0] % heads, int(steps[cell[1]]))

        picture(grid, "dynamics_grid", on_pick=pick_cell)
        st.caption(t("dynamics.grid_help"))
    _table(film, measure, threshold)
    panels = {name: film[name] for name in LAYER_PANELS if name in film}
    if panels:

        def layers() -> go.Figure:
            return layer_curves(panels, step=model.step, template=template())

        figures[t("dynamics.layers")] = layers
        picture(layers, "dynamics_layers")
        st.caption(t("dynamics.layers_help"))
    export_row(
        f"dynamics-{model.run.id}-{measure}",
        html=on_paper(figures, t("dynamics.title"), model.run.id),
        frame=series.to_frame,
        python=_python(model.run, measure, threshold),
        json=lambda: json.dumps(
            {name: one.to_dict() for name, one in film.items()}, allow_nan=False, ensure_ascii=False
        ),
    )


def _python(run: Run, measure: str, threshold: float) -> str:
    """The page's table as a few lines."""
    from lab.analysis import recorded_film

    maker = "recorded_film" if measure in recorded_film(run) else "measured_film"
    return "\n".join(
        (
            f"from lab.analysis import formation, {maker}",
            "",
            f"films = {maker}({run.path.as_posix()!r})",
            f"print(films[{measure!r}].to_frame())",
            f"print(formation(films[{measure!r}], {threshold}).to_frame())",
        )
    )


def render() -> None:
    """The page."""
    opening("dynamics")
    model = picked_with_weights()
    if model is None:
        return
    run, active = model.run, model.status.active
    film = _film(run)
    measures = [name for name in MEASURES if name in film]
    if not measures and not active:
        _measure(run)
        return
    if not measures:
        measures = list(MEASURES)  # the run's first line is still to come
    first, second = st.columns([3, 2], vertical_alignment="bottom")
    with first:
        measure = one_of("measure", measures, t("dynamics.measure_choice"), lambda name: t(f"dynamics.{name}"))
    with second:
        view = one_of("dynamics_view", VIEWS, t("dynamics.view"), lambda name: t(f"dynamics.view_{name}"))
    shape = film[measure].values.shape[1:] if measure in film else (1, 1)
    first, second, third = st.columns(3)
    with first:
        layer = layer_choice(shape[0])
    with second:
        head = head_choice(shape[1])
    with third:
        threshold = _threshold(measure)

    def live() -> None:
        with guarded("dynamics"):
            draw()

    def draw() -> None:
        if st.session_state.pop(_PICKED, False) and active:
            st.rerun()  # a click inside the live part: the choices outside it must follow
        if active and not run.status().active:
            st.rerun()  # it ended: no timer any more
        _draw(model, measure, view, threshold, layer, head)

    (st.fragment(run_every=REFRESH)(live) if active else live)()


def _threshold(measure: str) -> float:
    value = selection.prepare("threshold", THRESHOLDS, DEFAULT_THRESHOLD, parse=float, what=t("dynamics.threshold"))
    st.select_slider(
        t("dynamics.threshold"), THRESHOLDS, key="threshold", persist_state="session", disabled=measure not in KINDS,
        format_func=lambda level: f"{level:.2f}", help=t("dynamics.threshold_help"),
    )  # fmt: skip
    return value


if __name__ == "__main__":
    render()
