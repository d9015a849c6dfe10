"""Two minutes for a first visit: train a model that learns to repeat, find the head that does it, cut it out.

The model is two layers on the `induction` task (random letters, each sequence said twice). Within a minute one head
of its second layer looks from every letter to the letter that followed it last time. The step of the tour is kept
in the address (`?guide=`), so a reload or a link goes on where it was; it can be left at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from apps import inspection, jobs, selection
from apps.i18n import t
from apps.widgets import notices
from apps.widgets.model_picker import Picked, show_run, state_line
from apps.widgets.plain import plain
from lab.corpora.examples import corpus_examples
from lab.runs import Run, RunNotFoundError, find_run, list_runs

if TYPE_CHECKING:
    from lab.training import RunConfig

STEPS = ("off", "train", "find", "cut", "more")
PAGE_OF = {"train": "train", "find": "attention", "cut": "interventions", "more": "lens"}
STEM = "first-circuit"
STORIES_STEM = "stories-circuit"
PROMPT = "|catDOG7catDOG7catDOG7"
LOOKED_AT = 15  # the first letter of the third time
_DISMISSED, _TURN = "guide_dismissed", "guide_turn"


def tour_config() -> RunConfig:
    """The model of the tour, half a minute of one core. Of two heads a layer, one alone does the induction."""
    from lab.training import build_run_config

    return build_run_config(
        "induction",
        "nano",
        "fast",
        steps=800,
        seed=0,
        model_overrides={"n_layers": 2, "d_model": 64, "n_heads": 2, "n_ctx": 64},
        training_overrides={"eval_every": 100, "sample_every": 200, "checkpoint_every": 100, "batch_size": 16},
    )


def stories_config() -> RunConfig:
    """The model to go on with: after so many steps it knows who gets the thing in a giving sentence."""
    from lab.training import build_run_config

    return build_run_config("stories", "nano", "fast", steps=1500, seed=0)


def _go(step: str) -> None:
    st.session_state["guide"] = step
    if step == "off":
        st.session_state[_DISMISSED] = True
    else:
        st.session_state[_TURN] = PAGE_OF[step]


def _start() -> None:
    try:
        show_run(jobs.start(tour_config(), STEM).run)
    except (OSError, ValueError, RuntimeError) as error:
        notices.add("error", str(error), about="start")


def _run() -> Run | None:
    """The tour's run: the newest of its name."""
    try:
        return find_run(STEM)
    except RunNotFoundError:
        return next((run for run in list_runs() if run.id.startswith(f"{STEM}-")), None)


def strongest(run: Run) -> tuple[int, int]:
    """(layer, head) of the largest induction score at the run's last checkpoint."""
    import numpy as np

    picked = Picked(run, run.status(), run.checkpoints()[-1])
    scores = inspection.scores(inspection.Checkpoint.of(picked)).induction
    layer, head = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    return int(layer), int(head)


def _show(step: str, run: Run) -> None:
    """Callback: choose what the step is about, on whatever page it is."""
    try:
        layer, head = strongest(run)
    except (OSError, ValueError, RuntimeError, IndexError) as error:
        notices.add("error", str(error), about="guide")
        return
    show_run(run)
    st.session_state.update(guide=step, prompt=PROMPT, layer=layer, head=head, token=LOOKED_AT)
    st.session_state["token_of"], st.session_state[_TURN] = None, PAGE_OF[step]
    st.session_state["do"] = f"zero,layer={layer},head={head}" if step == "cut" else ""


def _step(asked: str) -> str:
    """The step that a link asks for; off, and the reader is told, where there is none of that name."""
    if asked in STEPS:
        return asked
    notices.add("warning", t("guide.no_step", asked=asked[:80]), about="guide")
    return "off"


def guide(page: str) -> None:
    """Draw the tour's step above the page; the invitation on the Train page where nobody has declined it."""
    turn = st.session_state.pop(_TURN, page)  # a click has chosen another step, which lives on another page
    if turn != page:
        st.switch_page(f"views/{turn}.py")
    step = selection.prepare("guide", STEPS, "off", parse=_step, what=t("guide.title"))
    if step == "off":
        if page == "train" and not st.session_state.get(_DISMISSED, False):
            with st.container(horizontal=True, vertical_alignment="center", key="guide_invitation"):
                st.button(
                    t("guide.invite"), key="guide_begin", on_click=_go, args=("train",), icon=":material/explore:",
                    help=t("guide.invite_help"),
                )  # fmt: skip
                st.button(t("guide.decline"), key="guide_decline", on_click=_go, args=("off",), type="tertiary")
        return
    with st.container(border=True, key="guide_box"):
        number = STEPS.index(step)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{t('guide.title')} · {number}/{len(STEPS) - 1} · {t(f'guide.{step}_title')}**")
            st.button(t("guide.leave"), key="guide_leave", on_click=_go, args=("off",), type="tertiary")
        run = _run()
        if step != "train" and (run is None or not run.checkpoints()):
            st.markdown(t("guide.no_run"))
            st.button(t("guide.back_to_train"), key="guide_back", on_click=_go, args=("train",))
            return
        st.markdown(t(f"guide.{step}"))
        if PAGE_OF[step] != page:
            there = t("guide.there", page=t(f"{PAGE_OF[step]}.title"))
            st.button(there, key="guide_there", on_click=_go, args=(step,))
        if step == "train":
            _training(run)
        elif step == "more":
            _more()
        elif run is not None:
            _next(run, STEPS[number + 1])


def _training(run: Run | None) -> None:
    if run is None:
        st.button(t("guide.start"), key="guide_start", on_click=_start, type="primary", icon=":material/bolt:")
        return
    status = run.status()
    if status.active:
        st.caption(plain(state_line(status)))
    elif run.checkpoints() and status.state == "done":
        _next(run, "find")
    else:
        st.warning(plain(t("guide.not_done", run=run.id, state=state_line(status))))


def _next(run: Run, step: str) -> None:
    label = t(f"guide.next_{step}")
    st.button(
        label, key="guide_next", on_click=_show, args=(step, run), type="primary", icon=":material/arrow_forward:"
    )  # fmt: skip


def _use(prompt: str) -> None:
    st.session_state["prompt"] = prompt


def _start_stories() -> None:
    """Callback: train the model of the next circuit, and leave the tour for its page."""
    try:
        show_run(jobs.start(stories_config(), STORIES_STEM).run)
    except (OSError, ValueError, RuntimeError) as error:
        notices.add("error", str(error), about="start")
        return
    st.session_state.update(guide="off", **{_DISMISSED: True, _TURN: "train"})
    notices.add("info", t("guide.stories_started"), about="guide")


def _more() -> None:
    """Prompts that the tour's model reads, and a model of sentences to go on with."""
    with st.container(horizontal=True):
        for index, example in enumerate(corpus_examples("induction")):
            shown = plain(example.prompt)
            st.button(shown, key=f"guide_prompt_{index}", on_click=_use, args=(example.prompt,))
        st.button(
            t("guide.stories"),
            key="guide_stories",
            on_click=_start_stories,
            type="primary",
            icon=":material/bolt:",
            help=t("guide.stories_help"),
        )
