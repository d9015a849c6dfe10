"""Compare: two runs, checkpoints or models, side by side on the same prompt and on their curves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from apps import inspection, selection, snippets
from apps.i18n import t
from apps.inspection import Checkpoint, open_picked
from apps.prompt import Prompt, displays_of, tokenize
from apps.widgets.checkpoint_slider import LATEST
from apps.widgets.columns import share
from apps.widgets.export_row import export_row
from apps.widgets.inspected import Inspected, inspected, tokenizer_of
from apps.widgets.model_picker import Picked, ordered_runs
from apps.widgets.picture import Draw, on_paper, picture, template
from apps.widgets.plain import plain
from apps.widgets.prompt_bar import unknown_sentence
from apps.widgets.selectors import head_choice, layer_choice, one_of, token_choice
from model.config import GPTConfig

if TYPE_CHECKING:
    from lab.analysis import TokenPredictions
    from lab.runs import Run

SHOWS = ("loss", "attention", "scores", "norms", "curves")
MEASURES = ("induction", "previous_token", "duplicate_token", "first_token", "entropy")
AXES = ("step", "tokens", "wall_seconds")
NAMES = ("A", "B", "B − A")
TOP = 10


@dataclass(frozen=True)
class Side:
    """One of the two models on the prompt.

    ids: the prompt in its own tokens, `displays` how they read; `found`: what it expects along them.
    """

    picked: Picked
    checkpoint: Checkpoint
    config: GPTConfig
    tokenizer: Any
    ids: tuple[int, ...]
    displays: tuple[str, ...]
    found: TokenPredictions

    @property
    def mean_loss(self) -> float:
        """Nats a token; NaN for one token."""
        import numpy as np

        return float(np.mean(self.found.surprisal[1:])) if len(self.ids) > 1 else float("nan")

    @property
    def bits_a_character(self) -> float:
        """Bits a character after the first token, which compares across tokenizers; NaN for one token."""
        import numpy as np

        characters = len(self.tokenizer.decode(list(self.ids[1:]))) if len(self.ids) > 1 else 0
        if not characters:
            return float("nan")
        return float(np.sum(self.found.surprisal[1:], dtype=np.float64) / np.log(2) / characters)


def _step(text: str) -> int | str:
    return LATEST if text == LATEST else int(text)


def _same_tokens(run: Run, other: Run) -> bool:
    """Whether two runs were trained with one tokenizer, by their own word for it."""
    try:
        mine, its = (found.provenance.get("tokenizer") for found in (run, other))
    except (OSError, ValueError):  # half a file tells nothing
        return False
    return mine is not None and mine == its


def _other(page: Inspected) -> Picked | None:
    """The controls of side B: any run, any checkpoint."""
    runs = {run.id: run for run, _ in ordered_runs()}
    mine = page.picked.run.id
    # A run that cuts text as this one does can be compared token by token; failing that, the run against itself.
    default = next((name for name, run in runs.items() if name != mine and _same_tokens(run, page.picked.run)), mine)
    left, right = st.columns([3, 2])
    with left:
        name = selection.prepare("run_b", list(runs), default, what=t("compare.run_b"))
        st.selectbox(t("compare.run_b"), list(runs), key="run_b", persist_state="session", help=t("compare.run_b_help"))
    run = runs[name]
    steps = run.checkpoints()
    if not steps:
        st.info(plain(t("picker.no_checkpoint", run=run.id)))
        return None
    with right:
        options: list[int | str] = [*steps, LATEST]
        # Against itself the interesting other checkpoint is the first.
        first: int | str = steps[0] if name == mine else LATEST
        newest = t("checkpoints.latest", step=f"{steps[-1]:,}")

        def say(value: int | str) -> str:
            return newest if value == LATEST else f"{value:,}"

        step = selection.prepare(
            "step_b", options, first, parse=_step, what=t("compare.step_b"), say=say, always=name == mine
        )
        st.selectbox(
            t("compare.step_b"), options, key="step_b", persist_state="session",
            format_func=say,
        )  # fmt: skip
    return Picked(run, run.status(), steps[-1] if step == LATEST else int(step))


def _side(model: Picked, text: str, first: Prompt) -> Side | None:
    """Side B on the same text; None, with a sentence, where its tokenizer or weights cannot be read."""
    tokenizer = tokenizer_of(model.run)
    if tokenizer is None:
        return None
    try:
        prompt = tokenize(tokenizer, text)
    except ValueError as error:
        reason = unknown_sentence(error) or str(error)
        st.error(plain(t("compare.unreadable", model=model.name, reason=reason)))
        return None
    opened = open_picked(model)
    if opened is None:
        return None
    config = opened[1].config
    if prompt.ids[-len(first) :] == first.ids:
        prompt = prompt.last(len(first))  # A's context has cut the prompt
    elif not prompt.ids:
        prompt = first if max(first.ids) < config.d_vocab else prompt
    if not prompt.ids:
        st.info(t("prompt.empty"))
        return None
    return _of(model, opened[0], config, tokenizer, prompt.last(config.n_ctx))


def _of(model: Picked, checkpoint: Checkpoint, config: GPTConfig, tokenizer: Any, prompt: Prompt) -> Side:
    found = inspection.predictions(checkpoint, prompt.ids, TOP)
    return Side(model, checkpoint, config, tokenizer, prompt.ids, prompt.displays, found)


def _numbers(a: Side, b: Side, aligned: bool) -> None:
    first, second, third = st.columns(3)
    if aligned:
        pair, label = (a.mean_loss, b.mean_loss), t("compare.mean_loss")
    else:
        pair, label = (a.bits_a_character, b.bits_a_character), t("compare.bits")
    shown = [f"{value:.3f}" if value == value else "–" for value in pair]
    first.metric(f"A · {label}", shown[0])
    second.metric(f"B · {label}", shown[1])
    change = pair[1] - pair[0]
    third.metric("B − A", f"{change:+.3f}" if change == change else "–")


def _tables(a: Side, b: Side, position: int, aligned: bool) -> None:
    """The likeliest next tokens of each side after the chosen token, or after its end where tokens differ."""
    import pandas as pd

    for column, name, side in zip(st.columns(2), NAMES, (a, b), strict=False):
        at = position if aligned else len(side.ids) - 1
        with column:
            st.markdown(f"**{name}** · {plain(t('compare.after', token=f'{at}: {side.displays[at]}'))}")
            frame = pd.DataFrame(
                {
                    "token": displays_of(side.tokenizer, side.found.top_tokens[at]),
                    "probability": side.found.top_probabilities[at],
                }
            )
            st.dataframe(
                frame, hide_index=True, width="stretch", key=f"next_{name}", height=35 * (len(frame) + 1) + 3,
                column_config={
                    "token": t("interventions.token"), "probability": share(t("generate.probability"), digits=3)
                },
            )  # fmt: skip


def _pick_token(point: list[int]) -> None:
    st.session_state["token"] = point[0]


def _loss(a: Side, b: Side, position: int) -> Draw | None:
    import numpy as np

    from lab.plots import triple_strip

    if len(a.ids) < 2:
        st.info(t("interventions.one_token"))
        return None
    return lambda: triple_strip(
        a.found.surprisal, b.found.surprisal, a.displays, what=t("interventions.loss"), names=NAMES,
        masked=np.arange(len(a.ids)) == 0, chosen=position, x_title=t("interventions.axis_token"),
        title=t("compare.show_loss"), template=template(),
    )  # fmt: skip


def _attention(a: Side, b: Side) -> Draw:
    from lab.plots import triple_maps

    left, right, _ = st.columns(3)
    with left:
        layer = layer_choice(min(a.config.n_layers, b.config.n_layers))
    with right:
        head = head_choice(min(a.config.n_heads, b.config.n_heads))
    first, second = (inspection.attention(side.checkpoint, side.ids) for side in (a, b))
    return lambda: triple_maps(
        first.pattern[layer, head], second.pattern[layer, head], x_labels=a.displays, y_labels=a.displays,
        what=t("interventions.attention"), x_title=t("interventions.axis_key"), y_title=t("interventions.axis_query"),
        names=NAMES, masked=first.masked | second.masked, title=f"L{layer}H{head}", template=template(),
    )  # fmt: skip


def _scores(a: Side, b: Side) -> list[Draw]:
    import numpy as np

    from lab.plots import head_score_map, triple_maps

    measure = one_of("measure", MEASURES, t("dynamics.measure_choice"), lambda name: t(f"dynamics.{name}"))
    first, second = (inspection.scores(side.checkpoint) for side in (a, b))
    values = [getattr(scores, measure) for scores in (first, second)]
    if values[0].shape != values[1].shape:
        st.caption(t("compare.other_shape"))
        return [
            partial(lambda of: head_score_map(of, measure, template=template()), scores) for scores in (first, second)
        ]
    most = 1.0
    if measure == "entropy":
        most = float(max(np.log(scores.tokens.shape[1]) for scores in (first, second)))
    return [
        lambda: triple_maps(
            values[0], values[1], x_labels=[f"H{h}" for h in range(values[0].shape[1])],
            y_labels=[f"L{layer}" for layer in range(values[0].shape[0])], what=t(f"dynamics.{measure}"),
            x_title=t("interventions.axis_head"), y_title=t("interventions.axis_layer"), names=NAMES, most=most,
            upward=True, template=template(),
        )
    ]  # fmt: skip


def _norms(a: Side, b: Side) -> Draw:
    from lab.plots import norm_lines

    first, second = (inspection.norms(side.checkpoint, side.ids) for side in (a, b))
    return lambda: norm_lines(
        first, second, names=(f"A: {a.picked.name}", f"B: {b.picked.name}"), title=t("compare.show_norms"),
        x_title=t("compare.depth"), y_title="RMS", template=template(),
    )  # fmt: skip


def _curves(a: Picked, b: Picked) -> Draw | None:
    from lab.plots import loss_curves

    metrics = {f"A: {a.run.id}": a.run.metrics()}
    if b.run != a.run:
        metrics[f"B: {b.run.id}"] = b.run.metrics()
    if not any(metrics.values()):
        st.info(t("compare.no_curves"))
        return None
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left:
        axis = one_of("curves_x", AXES, t("compare.axis"), lambda name: t(f"compare.axis_{name}"))
    with right:
        log = st.toggle(t("compare.log"), key="curves_log", persist_state="session")
    marked = {name: [side.step] for name, side in zip(metrics, (a, b), strict=False) if side.step is not None}
    return lambda: loss_curves(metrics, x=axis, log_y=bool(log), checkpoints=marked, template=template())


def _drawn(show: str, a: Side, b: Side, aligned: bool, position: int) -> list[Draw]:
    """The main picture of the chosen kind: one figure, or one a side where the two do not lie over each other."""
    if show == "scores":
        return _scores(a, b)
    if show == "norms":
        return [_norms(a, b)]
    if show == "curves":
        curves = _curves(a.picked, b.picked)
        return [] if curves is None else [curves]
    if not aligned:
        st.info(t("compare.other_tokens", a=len(a.ids), b=len(b.ids)))
        return []
    if show == "attention":
        return [_attention(a, b)]
    loss = _loss(a, b, position)
    return [] if loss is None else [loss]


def _frame(a: Side, b: Side, aligned: bool) -> Any:
    """A row a token; two tables below each other where the tokens differ."""
    import pandas as pd

    if aligned:
        return pd.DataFrame(
            {
                "position": range(len(a.ids)), "token": a.displays, "id": a.ids, "loss_a": a.found.surprisal,
                "loss_b": b.found.surprisal, "difference": b.found.surprisal - a.found.surprisal,
            }
        )  # fmt: skip
    return pd.concat(
        [side.found.to_frame().assign(model=name) for name, side in zip(NAMES, (a, b), strict=False)],
        ignore_index=True,
    )


def render() -> None:
    """The page."""
    page = inspected("compare")
    if page is None:
        return
    other = _other(page)
    if other is None:
        return
    with st.spinner(t("inspection.running")):
        a = _of(page.picked, page.checkpoint, page.config, page.tokenizer, page.prompt)
        b = _side(other, page.prompt.text, page.prompt)
    if b is None:
        return
    if len(b.ids) < len(a.ids) and a.ids[-len(b.ids) :] == b.ids:  # B's context is the shorter one
        a = _of(page.picked, page.checkpoint, page.config, page.tokenizer, page.prompt.last(len(b.ids)))
    aligned = a.ids == b.ids and a.displays == b.displays
    st.caption(plain(t("compare.sides", a=a.picked.name, b=b.picked.name)))
    if a.picked.name == b.picked.name:
        st.info(t("compare.same"))
    _numbers(a, b, aligned)
    show = one_of("compare", SHOWS, t("interventions.show"), lambda value: t(f"compare.show_{value}"))
    position = token_choice(Prompt(page.prompt.text, a.ids, a.displays, a.displays), t("contributions.position"))
    figures = _drawn(show, a, b, aligned, position)
    for column, (name, figure) in zip(
        st.columns(max(1, len(figures))), zip(NAMES, figures, strict=False), strict=False
    ):
        with column:
            if len(figures) > 1:
                st.markdown(f"**{name}**")
            picture(figure, f"compare_{show}_{name[0]}", on_pick=_pick_token if show == "loss" else None)
    _tables(a, b, position, aligned)
    _export(page, a, b, aligned, show, figures)


def _export(page: Inspected, a: Side, b: Side, aligned: bool, show: str, draws: list[Draw]) -> None:
    frame = _frame(a, b, aligned)
    records = {"a": a.picked.name, "b": b.picked.name, "of_a": a.found.to_dict(), "of_b": b.found.to_dict()}
    note = t("compare.sides", a=a.picked.name, b=b.picked.name)
    export_row(
        f"compare-{show}-{a.picked.name}-{b.picked.name}",
        html=on_paper(draws, t("compare.title"), note) if draws else None,
        frame=lambda: frame,
        json=lambda: json.dumps(records, ensure_ascii=False, allow_nan=False),
        python=snippets.compared(a.picked.reference, b.picked.reference, list(a.ids), list(b.ids)),
    )


if __name__ == "__main__":
    render()
