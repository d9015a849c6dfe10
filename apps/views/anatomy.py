"""Anatomy: what a GPT is made of, and what it costs. Every number is a sum a student can redo by hand."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from apps import snippets
from apps.i18n import t
from apps.i18n.sentences import said
from apps.widgets import fields
from apps.widgets.export_row import export_row
from apps.widgets.page import opening, picked
from apps.widgets.plain import plain
from model.accounting import (
    OPTIMIZERS,
    PRECISIONS,
    count_parameters,
    flops,
    flops_per_token,
    format_bytes,
    format_flops,
    memory,
    parameter_ledger,
    shape_flow,
)
from model.config import PRESETS, ConfigError, GPTConfig

PREFIX = "anatomy"
VOCABULARY = {"vocabulary": (fields.Field("d_vocab", "int"),)}
GROUPS = VOCABULARY | fields.MODEL_FIELDS


def _fill_preset() -> None:
    fields.fill(PREFIX, GROUPS, GPTConfig.preset(st.session_state["anatomy_preset"]).to_dict())
    _unset_derived()


def _unset_derived() -> None:
    # Left to follow d_model and n_heads, as a config does when they are not given.
    for name in ("d_head", "d_mlp", "n_key_value_heads"):
        st.session_state[fields.key(PREFIX, name)] = None


def _typed_config() -> GPTConfig | None:
    st.session_state.setdefault("anatomy_preset", "tinygpt")
    if not fields.filled(PREFIX, GROUPS):
        _fill_preset()
    st.selectbox(
        t("form.preset"),
        list(PRESETS),
        key="anatomy_preset",
        on_change=_fill_preset,
        persist_state="session",
        width=300,
    )
    values = fields.read(PREFIX, GROUPS)
    problems = dict(GPTConfig.problems(values))
    fields.draw(PREFIX, (*VOCABULARY["vocabulary"], *fields.MODEL_FIELDS["shape"]), problems)
    hidden = [f.name for f in (*fields.MODEL_FIELDS["variant"], *fields.MODEL_FIELDS["start"])]
    with st.expander(t("form.group_variant"), expanded=bool(problems.keys() & set(hidden))):
        fields.draw(PREFIX, fields.MODEL_FIELDS["variant"], problems)
    if problems:
        for name in problems.keys() - set(GROUPS):
            st.error(plain(said(problems[name])))
        st.info(t("form.count_hidden"))
        return None
    return GPTConfig.from_dict(values)


def _source() -> GPTConfig | None:
    """The config to take apart: the picked run's, or one typed in."""
    model = picked()
    sources = ["picked", "typed"] if model is not None else ["typed"]
    if st.session_state.get("anatomy_source") not in sources:
        st.session_state["anatomy_source"] = sources[0]
    source = st.segmented_control(
        t("anatomy.source"), sources, key="anatomy_source", required=True, persist_state="session",
        format_func=lambda value: t(f"anatomy.source_{value}"),
    )  # fmt: skip
    if source == "typed" or model is None:
        return _typed_config()
    st.caption(plain(model.run.id))
    try:
        return GPTConfig.from_dict(model.run.config["model"])
    except (ConfigError, KeyError, ValueError) as error:
        st.error(plain(t("anatomy.unreadable", run=model.run.id, reason=str(error))))
        return None


def _ledger(config: GPTConfig) -> Any:
    ledger = parameter_ledger(config)
    frame = ledger.to_frame().assign(shape=lambda f: [" × ".join(map(str, s)) for s in f["shape"]])
    st.dataframe(
        frame.assign(note=frame["note"].map(said)), width="stretch", hide_index=True, key="anatomy_ledger",
        column_config={
            "name": t("anatomy.parameter"), "shape": t("anatomy.shape"), "formula": t("anatomy.formula"),
            "count": st.column_config.NumberColumn(t("anatomy.count"), format="localized"), "note": t("anatomy.note"),
        },
    )  # fmt: skip
    st.caption(plain(t("anatomy.block", formula=ledger.block) + " · " + " · ".join(map(said, ledger.notes))))
    return frame


def _flow(config: GPTConfig, batch: int, pos: int) -> Any:
    flow = shape_flow(config, batch, pos)
    frame = flow.to_frame().assign(shape=lambda f: [" × ".join(map(str, s)) or "1" for s in f["shape"]])
    shown = frame[["step", "shape", "symbolic", "note", "hook"]].assign(note=frame["note"].map(said))
    st.dataframe(
        shown, width="stretch", hide_index=True, key="anatomy_flow",
        column_config={
            "step": t("anatomy.step"), "shape": t("anatomy.shape"), "symbolic": t("anatomy.symbols"),
            "note": t("anatomy.how"), "hook": t("anatomy.hook"),
        },
    )  # fmt: skip
    st.caption(t("anatomy.symbols_meaning"))
    return frame


def _flops(config: GPTConfig, batch: int, pos: int) -> Any:
    import pandas as pd

    sums = flops(config, batch, pos)
    frame = pd.DataFrame([vars(row) for row in sums.rows])
    frame["share"] = frame["flops"] / sums.forward
    a, b, c = st.columns(3)
    a.metric(t("anatomy.forward"), format_flops(sums.forward))
    b.metric(t("anatomy.training_step"), format_flops(sums.training))
    c.metric(t("anatomy.per_token"), format_flops(flops_per_token(config, pos)))
    st.dataframe(
        frame, width="stretch", hide_index=True, key="anatomy_flops",
        column_config={
            "name": t("anatomy.product"), "formula": t("anatomy.formula"), "times": t("anatomy.times"),
            "flops": st.column_config.NumberColumn("FLOPs", format="localized"),
            "share": st.column_config.ProgressColumn(
                t("anatomy.share"), format="percent", min_value=0.0, max_value=1.0
            ),
        },
    )  # fmt: skip
    return frame


def _memory(config: GPTConfig, batch: int, pos: int) -> Any:
    import pandas as pd

    a, b = st.columns(2)
    precision = a.selectbox(
        t("anatomy.precision"), list(PRECISIONS), index=list(PRECISIONS).index("fp32"), key="anatomy_precision"
    )
    optimizer = b.selectbox(t("anatomy.optimizer"), OPTIMIZERS, key="anatomy_optimizer")
    sums = memory(config, batch, pos, str(precision), str(optimizer))
    rows = [(t(f"anatomy.memory_{name}"), value) for name, value in vars(sums).items()]
    rows += [(t("anatomy.memory_training"), sums.training), (t("anatomy.memory_generation"), sums.generation)]
    frame = pd.DataFrame(rows, columns=["part", "bytes"])
    frame["size"] = [format_bytes(value) for value in frame["bytes"]]
    st.dataframe(
        frame, width="stretch", hide_index=True, key="anatomy_memory",
        column_config={
            "part": t("anatomy.part"), "size": t("anatomy.size"),
            "bytes": st.column_config.NumberColumn(t("anatomy.bytes"), format="localized"),
        },
    )  # fmt: skip
    return frame


def _memory_kind() -> tuple[str, str]:
    """The precision and the optimizer whose memory is counted."""
    chosen = st.session_state
    return str(chosen.get("anatomy_precision", "fp32")), str(chosen.get("anatomy_optimizer", OPTIMIZERS[0]))


def render() -> None:
    """The page."""
    opening("anatomy")
    config = _source()
    if config is None:
        return
    counts = count_parameters(config)
    columns = st.columns(4)
    columns[0].metric(t("anatomy.total"), f"{counts.total:,}")
    columns[1].metric(t("anatomy.non_embedding"), f"{counts.non_embedding:,}", help=t("anatomy.non_embedding_help"))
    columns[2].metric(t("anatomy.attention"), f"{counts.attention:,}")
    columns[3].metric(t("anatomy.mlp"), f"{counts.mlp:,}")
    left, right = st.columns(2)
    batch = int(left.number_input(t("anatomy.batch"), min_value=1, max_value=4096, value=4, key="anatomy_batch"))
    pos = int(
        right.number_input(
            t("anatomy.positions"),
            min_value=1,
            max_value=config.n_ctx,
            value=config.n_ctx,
            key=f"anatomy_pos_{config.n_ctx}",
        )
    )
    batch, pos = max(1, batch), min(max(1, pos), config.n_ctx)  # the browser's limits bind only the browser
    views = {"ledger": _ledger, "flow": _flow, "flops": _flops, "memory": _memory}
    st.session_state.setdefault("anatomy_view", "ledger")
    view = st.segmented_control(
        t("anatomy.view"), list(views), key="anatomy_view", required=True, persist_state="session",
        format_func=lambda value: t(f"anatomy.view_{value}"), label_visibility="collapsed",
    )  # fmt: skip
    frame = _ledger(config) if view == "ledger" or view not in views else views[view](config, batch, pos)  # type: ignore[operator]
    export_row(
        f"anatomy-{view}",
        frame=lambda: frame,
        html=lambda: (
            f"<!doctype html><meta charset='utf-8'><title>{t('anatomy.title')}</title>{frame.to_html(index=False)}"
        ),
        json=lambda: json.dumps(
            {"config": config.to_dict(), "rows": json.loads(frame.to_json(orient="records"))}, indent=1
        ),
        python=snippets.counted(str(view), config.to_dict(), batch, pos, _memory_kind()),
    )


if __name__ == "__main__":
    render()
