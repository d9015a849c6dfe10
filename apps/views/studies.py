"""Studies: plan one, start it, follow it, read what came of it, and open any of its runs in the other pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import streamlit as st

from apps import selection, studying
from apps.i18n import t
from apps.i18n.sentences import said
from apps.widgets import notices
from apps.widgets.columns import number
from apps.widgets.export_row import export_row
from apps.widgets.model_picker import show_run
from apps.widgets.page import opening
from apps.widgets.picture import picture, template
from apps.widgets.plain import plain
from apps.widgets.published_study import published_study

if TYPE_CHECKING:
    import pandas as pd

    from lab.studies import Plan, Study, StudyFolder, StudyResult

REFRESH = 2.0  # seconds between looks at the folder of a study in progress
_PLANNED = "studies_planned"
_STANDINGS = {"running": "green", "mine": "blue", "published": "violet", "none": "gray"}
_ORDER = tuple(_STANDINGS)
_COLOURS = {"replicates": "blue", "opposite": "orange"}  # badges of the verdicts; the rest say nothing either way


def _act(name: str, tier: str, what: str) -> None:
    try:
        if what == "start":
            studying.start(name, tier)
        else:
            studying.stop(studying.folder_of(name, tier))
    except (OSError, ValueError) as error:
        notices.add("error", t("studies.cannot", reason=str(error)), about="study")
    else:
        notices.withdraw("study")


def _budget(plan: Plan) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {
            t("studies.arm"): [row.arm for row in plan.budgets],
            t("studies.parameters"): [row.parameters for row in plan.budgets],
            t("studies.tokens"): [row.tokens for row in plan.budgets],
            t("studies.per_parameter"): [round(row.tokens_per_parameter, 2) for row in plan.budgets],
            "GFLOP": [round(row.flops / 1e9, 1) for row in plan.budgets],
            t("studies.minutes"): [round(row.minutes, 2) for row in plan.budgets],
        }
    )
    st.dataframe(frame, hide_index=True, width="stretch", key="studies_budget")
    digest = str(plan.registration["sha256"])[:12]
    st.caption(t("studies.cost", runs=plan.runs, minutes=round(plan.minutes), hash=digest))


def _plan(name: str, tier: str) -> None:
    """The budget, once it was asked for: every arm is built for it."""
    written = studying.script_time(name)
    if st.button(t("studies.plan"), key="studies_plan", icon=":material/calculate:"):
        st.session_state[_PLANNED] = (name, tier, written)
    if st.session_state.get(_PLANNED) != (name, tier, written):
        return
    try:
        with st.spinner(t("studies.planning")):
            _budget(studying.plan(name, tier, written))
    except (OSError, ValueError) as error:
        st.error(plain(t("studies.cannot", reason=str(error))))


def _pick_row(folder: StudyFolder, jobs: list[str]) -> None:
    rows = st.session_state["studies_runs"].selection.rows
    if rows and rows[0] < len(jobs):
        run = folder.run(folder.job(jobs[rows[0]]))
        if run.exists():
            show_run(run)


def _runs(folder: StudyFolder, found: list[studying.RunLine]) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "arm": [line.job.arm for line in found],
            "phase": [t(f"studies.phase_{line.job.phase}") for line in found],
            "lr": [f"{line.job.lr:g}" for line in found],
            "seed": [line.job.seed for line in found],
            "state": [t(f"studies.state_{line.state}") for line in found],
            "step": pd.array([line.step for line in found], dtype="Int64"),
            "loss": [line.val_loss for line in found],
        }
    )
    st.dataframe(
        frame, hide_index=True, width="stretch", height=min(320, 35 * (len(frame) + 1) + 3), key="studies_runs",
        placeholder="–", on_select=lambda: _pick_row(folder, [line.job.id for line in found]),
        selection_mode="single-row",
        column_config={
            "arm": t("studies.arm"), "phase": t("studies.phase"), "lr": t("studies.lr"), "seed": t("studies.seed"),
            "state": t("studies.state"), "step": t("studies.step"), "loss": number(t("studies.loss")),
        },
    )  # fmt: skip
    st.caption(t("studies.runs_help"))


def _progress(folder: StudyFolder, active: bool) -> list[studying.RunLine]:
    """How far it is; returns its runs."""
    if not folder.registered:
        words = studying.last_words(folder)
        if active:
            st.info(t("studies.starting"))
        elif words:
            st.error(plain(t("studies.ended", reason=words)))
        else:
            st.caption(t("studies.not_begun"))
        return []
    found = studying.lines(folder)
    done = sum(line.state in ("done", "diverged", "failed") for line in found)
    if folder.complete and not active:
        st.caption(t("studies.complete", total=len(found)))
        return found
    if not active and (words := studying.last_words(folder)):
        st.warning(plain(t("studies.ended", reason=words)))
    parts = [t("studies.progress", done=done, total=len(found))]
    since = studying.seconds_since_update(folder)
    if since is not None:
        parts.append(t("studies.updated", seconds=round(since)))
    st.progress(done / max(1, len(found)), text=" · ".join(parts))
    return found


def _named(figure: str) -> str:
    kind, _, name = figure.partition(" ")
    if kind == "measure":
        return t("studies.measure", name=name)
    return t("studies.claims", name=name) if kind == "claims" else t(f"studies.{kind}")


def _report(result: StudyResult) -> None:
    """The verdicts, and one figure of the report at a time."""
    from lab.studies.measures import MEASURES
    from lab.studies.report.page import figures

    st.subheader(t("studies.report"), anchor=False)
    if not result.complete:
        st.info(t("studies.unfinished"))
    for comparison in result.comparisons:
        claim, word = comparison.claim, comparison.verdict.partition(":")[0].replace(" ", "_")
        verdict = f":{_COLOURS.get(word, 'gray')}-badge[{t(f'studies.verdict_{word}')}]"
        st.markdown(
            f"**{plain(claim.name)}** {verdict} {plain(said(claim.text))}  \n"
            f":small[:gray[{plain(said(comparison.sentence()))}]]"
        )
    drawn = {name: figure for name, figure in figures(result, template()).items() if figure is not None}
    if drawn:
        options = list(drawn)
        chosen = selection.prepare("figure", options, options[0], what=t("studies.figure"))
        st.selectbox(t("studies.figure"), options, key="figure", format_func=_named, persist_state="session")
        picture(lambda: drawn[chosen], "studies_figure")
        kind, _, name = chosen.partition(" ")
        if kind == "measure" and name in MEASURES:
            st.caption(plain(said(MEASURES[name].description)))


def _exports(folder: StudyFolder) -> None:
    from lab.studies.report.page import page

    def frame() -> pd.DataFrame:
        return studying.result(folder).to_frame()

    export_row(
        f"study-{folder.path.name}",
        html=lambda: page(studying.result(folder)),
        frame=frame,
        json=lambda: json.dumps(studying.result(folder).to_dict(), allow_nan=False, ensure_ascii=False),
    )


def _badge(standing: str) -> str:
    return f":{_STANDINGS[standing]}-badge[{t(f'studies.standing_{standing}')}]"


def _choice() -> tuple[str, str, Study]:
    names = studying.names()
    standings = {name: studying.standing(name) for name in names}
    st.markdown(" · ".join(f"{plain(name)} {_badge(standing)}" for name, standing in standings.items()))
    best = min(names, key=lambda name: _ORDER.index(standings[name]))
    first, second = st.columns([3, 2], vertical_alignment="bottom")
    with first:
        name = selection.prepare("study", names, best, what=t("studies.study"))
        st.selectbox(t("studies.study"), names, key="study", persist_state="session")
    study = studying.study(name, studying.script_time(name))
    tiers = [tier.name for tier in study.tiers]
    begun = [tier for tier in tiers if studying.folder_of(name, tier).registered]
    known = [*begun, *(tier for tier in tiers if tier in studying.published(name)), *tiers]
    with second:
        selection.follow("tier", known[0])
        tier = selection.prepare("tier", tiers, known[0], what=t("studies.tier"))
        st.selectbox(
            t("studies.tier"), tiers, key="tier", persist_state="session", help=t("studies.tier_help")
        )  # fmt: skip
    return name, tier, study


def render() -> None:
    """The page."""
    opening("studies")
    name, tier, study = _choice()
    st.markdown(f"**{plain(said(study.question))}**")
    st.markdown(plain(t("studies.hypothesis", text=said(study.hypothesis))))
    st.caption(plain(t("studies.source", text=study.source)))
    folder = studying.folder_of(name, tier)
    active = studying.started(folder) is not None
    moving = active or (folder.registered and not folder.complete and studying.is_fresh(folder))
    with st.container(horizontal=True):
        st.button(
            t("studies.go_on" if folder.registered else "studies.start"), key="studies_start", type="primary",
            icon=":material/play_arrow:", on_click=_act, args=(name, tier, "start"),
            disabled=active or folder.complete, help=t("studies.start_help"),
        )  # fmt: skip
        st.button(
            t("studies.stop"), key="studies_stop", icon=":material/stop:", on_click=_act, args=(name, tier, "stop"),
            disabled=not active, help=t("studies.stop_help"),
        )  # fmt: skip
    _plan(name, tier)
    if not folder.registered and (theirs := studying.published(name).get(tier)) is not None and not active:
        published_study(theirs)
        return
    if folder.registered:
        try:
            studying.result(folder)
        except (OSError, ValueError) as error:  # changed after the fact, or damaged: none of it is shown
            st.error(plain(t("studies.unreadable", reason=said(str(error)))))
            return

    def live() -> None:
        if (active and studying.started(folder) is None) or (moving and folder.complete):
            st.rerun()  # it ended: the buttons must follow
        found = _progress(folder, active)
        if found:
            _runs(folder, found)
            _report(studying.result(folder))

    (st.fragment(run_every=REFRESH)(live) if moving else live)()
    if folder.registered:
        _exports(folder)


if __name__ == "__main__":
    render()
