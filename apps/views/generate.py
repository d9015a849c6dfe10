"""Generate: let the model write, one token after another, and see how likely each one was."""

from __future__ import annotations

import html
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st

from apps import snippets
from apps.i18n import t
from apps.i18n.sentences import said
from apps.inspection import open_checkpoint
from apps.prompt import displays_of, tokenize_ids
from apps.widgets.columns import number, share
from apps.widgets.export_row import export_row
from apps.widgets.inspected import Inspected, inspected
from apps.widgets.plain import plain
from apps.widgets.token_strip import Card, Strip, offline_html, token_strip

if TYPE_CHECKING:
    from model.generation import Step

LONGEST = 2000  # new tokens
ALTERNATIVES = 8
REDRAW = 0.1  # seconds between two drawings of the growing text
ESCAPES = {"\\n": "\n", "\\t": "\t", "\\s": " "}


@dataclass
class Generated:
    """One continuation as it grows: what was asked, the steps so far, and why it ended, if it ended badly."""

    run: str
    model: str
    reference: str
    ids: tuple[int, ...]
    displays: tuple[str, ...]
    text: str
    settings: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    problem: str | None = None


def _settings(page: Inspected) -> dict[str, Any] | None:
    """The sampling settings; None while one of them is impossible, with the reason on the page."""
    keep: dict[str, Any] = {"persist_state": "session"}
    for name, value in (("temperature", 0.8), ("length", 100), ("seed", 0), ("penalty", 1.0)):
        st.session_state.setdefault(f"generate.{name}", value)
    a, b, c, d = st.columns(4)
    greedy = d.toggle(t("generate.greedy"), key="generate.greedy", help=t("generate.greedy_help"), **keep)
    fixed = d.toggle(t("generate.fixed_seed"), value=True, key="generate.fixed", **keep)
    temperature = a.number_input(
        t("generate.temperature"), step=0.1, format="%g", key="generate.temperature",
        disabled=greedy, help=t("generate.temperature_help"), **keep,
    )  # fmt: skip
    length = a.number_input(
        t("generate.length"), min_value=1, max_value=LONGEST, step=10, key="generate.length", **keep
    )
    top_k = b.number_input(
        "top-k", value=None, step=1, key="generate.top_k", placeholder=t("field.none"), disabled=greedy,
        help=t("generate.top_k_help"), **keep,
    )  # fmt: skip
    top_p = b.number_input(
        "top-p", value=None, step=0.05, format="%g", key="generate.top_p",
        placeholder=t("field.none"), disabled=greedy, help=t("generate.top_p_help"), **keep,
    )  # fmt: skip
    min_p = c.number_input(
        "min-p", value=None, step=0.05, format="%g", key="generate.min_p",
        placeholder=t("field.none"), disabled=greedy, help=t("generate.min_p_help"), **keep,
    )  # fmt: skip
    penalty = c.number_input(
        t("generate.penalty"), step=0.05, format="%g", key="generate.penalty",
        help=t("generate.penalty_help"), **keep,
    )  # fmt: skip
    seed = d.number_input(
        t("generate.seed"), min_value=0, step=1, key="generate.seed", disabled=not fixed or bool(greedy), **keep
    )
    stop_text = st.columns(4)[0].text_input(
        t("generate.stop"), key="generate.stop", max_chars=50, help=t("generate.stop_help"), **keep
    )
    stops = _stops(page, stop_text or "")
    sampling = {
        "temperature": 0.0 if greedy else float(temperature),
        "top_k": None if greedy or top_k is None else int(top_k),
        "top_p": None if greedy or top_p is None else float(top_p),
        "min_p": None if greedy or min_p is None else float(min_p),
        "repetition_penalty": float(penalty),
    }
    if not _possible(sampling) or stops is None:
        return None
    return sampling | {
        "max_new_tokens": max(1, min(LONGEST, int(length))),
        "seed": int(seed) if fixed else None,
        "stop_tokens": stops,
    }


def _possible(sampling: dict[str, Any]) -> bool:
    """Whether one can sample like this; else a sentence for each setting at fault."""
    from model.sampling import SamplingConfig

    problems = SamplingConfig.problems(sampling)
    for _, sentence in problems:
        st.error(plain(said(sentence)))
    return not problems


def _stops(page: Inspected, text: str) -> tuple[int, ...] | None:
    stops = [] if page.tokenizer.eos_id is None else [int(page.tokenizer.eos_id)]
    if text:
        for written, meant in ESCAPES.items():
            text = text.replace(written, meant)
        try:
            ids = list(page.tokenizer.encode(text))
        except ValueError as error:
            st.error(plain(t("generate.bad_stop", reason=str(error))))
            return None
        if len(ids) != 1:
            st.error(
                plain(t("generate.stop_not_one", n=len(ids), shown=" ".join(displays_of(page.tokenizer, ids[:12]))))
            )
            return None
        stops.append(int(ids[0]))
    return tuple(stops)


def _draw_text(place: Any, prompt: str, written: str) -> None:
    # Escaped: what a model writes is data, never markup.
    place.html(
        '<div style="white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext;line-height:1.6;'
        'font-family:var(--st-code-font,monospace)">'
        f'<span style="opacity:.6">{html.escape(prompt)}</span>{html.escape(written)}</div>'
    )


def _write(page: Inspected, settings: dict[str, Any]) -> None:
    made = Generated(
        page.picked.run.id,
        page.picked.name,
        page.picked.reference,
        page.ids,
        page.prompt.displays,
        page.prompt.text,
        settings,
    )
    st.session_state["generated"] = made  # kept while it grows: an interruption loses nothing
    place, written, drawn = st.empty(), "", 0.0
    try:
        for step in open_checkpoint(page.checkpoint).stream(list(page.ids), n_top=ALTERNATIVES, **settings):
            made.steps.append(step)
            written += step.text
            if step.is_last or time.monotonic() - drawn > REDRAW:
                _draw_text(place, made.text, written)
                drawn = time.monotonic()
    except ValueError as error:
        made.problem = str(error)
    place.empty()


def _strip(made: Generated, tokenizer: Any) -> Strip:
    whole = tokenize_ids(tokenizer, "", [*made.ids, *(step.token for step in made.steps)])
    written = whole.displays[len(made.ids) :]
    cards: list[Card] = [Card(((t("generate.of_prompt"), ""),)) for _ in made.displays]
    for step, _display in zip(made.steps, written, strict=True):
        names = displays_of(tokenizer, [i for i, _ in step.top])
        lines = (
            (t("generate.probability"), f"{step.probability:.4f}"),
            (t("generate.sampled_probability"), f"{step.sampled_probability:.4f}"),
            (t("generate.entropy"), f"{step.entropy:.2f}"),
        )
        ranked = tuple((name, f"{p:.3f}", float(p)) for name, (_, p) in zip(names, step.top, strict=True))
        cards.append(Card(lines, ranked))
    weights: list[float | None] = [None] * len(made.displays) + [step.probability for step in made.steps]
    return Strip((*made.displays, *written), weights, cards, joined=whole.joined)


def _table(made: Generated, tokenizer: Any) -> Any:
    import pandas as pd

    rows = []
    for step in made.steps:
        names = displays_of(tokenizer, [step.token, *(i for i, _ in step.top)])
        rows.append(
            {
                "index": step.index,
                "token": names[0],
                "id": step.token,
                "probability": step.probability,
                "sampled_probability": step.sampled_probability,
                "entropy": step.entropy,
                "alternatives": "   ".join(f"{n} {p:.3f}" for n, (_, p) in zip(names[1:], step.top, strict=True)),
            }
        )
    return pd.DataFrame(rows)


def _as_json(made: Generated) -> str:
    steps = [
        {
            "token": s.token,
            "text": s.text,
            "probability": s.probability,
            "sampled_probability": s.sampled_probability,
            "entropy": s.entropy,
            "top": [{"id": i, "probability": p} for i, p in s.top],
        }
        for s in made.steps
    ]
    record = {
        "model": made.model,
        "prompt": made.text,
        "prompt_ids": made.ids,
        "settings": made.settings,
        "steps": steps,
    }
    return json.dumps(record, ensure_ascii=False, indent=1)


def _show(made: Generated, tokenizer: Any) -> None:
    if made.problem:
        st.error(plain(t("generate.refused", reason=made.problem)))
    if not made.steps:
        return
    _draw_text(st.container(border=True), made.text, "".join(step.text for step in made.steps))
    if made.settings["seed"] is None and made.settings["temperature"] > 0:
        st.caption(t("generate.unseeded"))
    st.caption(t("generate.strip_help"))
    strip = _strip(made, tokenizer)
    token_strip(strip, key="generated_strip")
    frame = _table(made, tokenizer)
    with st.expander(t("generate.table"), expanded=False, icon=":material/table_rows:"):
        st.dataframe(
            frame, hide_index=True, width="stretch", key="generated_table",
            column_config={
                "index": t("generate.index"),
                "token": t("generate.token"),
                "probability": share(t("generate.probability")),
                "sampled_probability": number(t("generate.sampled_probability")),
                "entropy": number(t("generate.entropy"), digits=2),
                "alternatives": t("generate.alternatives"),
            },
        )  # fmt: skip
    export_row(
        f"generated-{made.model}",
        html=lambda: offline_html(strip, t("generate.title")),
        frame=lambda: frame,
        json=lambda: _as_json(made),
        python=snippets.generated(made.reference, made.ids, made.settings),
    )


def render() -> None:
    """The page."""
    page = inspected("generate", cut=False)
    if page is None:
        return
    if len(page.prompt) > page.config.n_ctx:
        st.caption(t("generate.slides", n=len(page.prompt), n_ctx=page.config.n_ctx))
    settings = _settings(page)
    asked = st.button(
        t("generate.go"), key="generate.go", type="primary", icon=":material/edit_note:", disabled=settings is None
    )
    if asked and settings is not None:
        _write(page, settings)
    made: Generated | None = st.session_state.get("generated")
    if made is None:
        st.caption(t("generate.nothing_yet"))
    else:
        if made.model != page.picked.name:
            st.caption(plain(t("generate.other_model", model=made.model)))
        if made.run == page.picked.run.id:
            _show(made, page.tokenizer)


if __name__ == "__main__":
    render()
