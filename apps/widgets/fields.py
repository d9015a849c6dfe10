"""The fields of a model and of a training run as form widgets: one table says what there is, one function draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import streamlit as st

from apps.i18n import t
from apps.i18n.sentences import said
from apps.widgets.plain import plain
from lab.training.config import Optimizer, Precision, Schedule
from model.config import ACTIVATIONS, INITS, NORM_PLACEMENTS, NORMALIZATION_TYPES, POSITIONAL_EMBEDDINGS

Kind = Literal["int", "optional int", "float", "optional float", "bool", "choice"]


@dataclass(frozen=True)
class Field:
    """A field of a config: its name there, how it is typed in, and the step of its spinner."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()
    step: float | int = 1


MODEL_FIELDS: dict[str, tuple[Field, ...]] = {
    "shape": (
        Field("n_layers", "int"),
        Field("d_model", "int", step=16),
        Field("n_heads", "int"),
        Field("n_ctx", "int", step=16),
        Field("d_mlp", "optional int", step=16),
        Field("d_head", "optional int"),
        Field("n_key_value_heads", "optional int"),
        Field("attention_window", "optional int"),
    ),
    "variant": (
        Field("norm_placement", "choice", NORM_PLACEMENTS),
        Field("normalization_type", "choice", NORMALIZATION_TYPES),
        Field("positional_embedding_type", "choice", POSITIONAL_EMBEDDINGS),
        Field("act_fn", "choice", ACTIVATIONS),
        Field("gated_mlp", "bool"),
        Field("tie_word_embeddings", "bool"),
        Field("qk_norm", "bool"),
        Field("use_bias", "bool"),
        Field("rotary_base", "float", step=1000.0),
        Field("logit_soft_cap", "optional float", step=1.0),
    ),
    "start": (
        Field("embed_dropout", "float", step=0.05),
        Field("attn_dropout", "float", step=0.05),
        Field("resid_dropout", "float", step=0.05),
        Field("init", "choice", INITS),
        Field("init_std", "float", step=0.005),
        Field("scaled_residual_init", "bool"),
        Field("zero_projection_init", "bool"),
        Field("seed", "int"),
    ),
}

TRAINING_FIELDS: dict[str, tuple[Field, ...]] = {
    "pace": (
        Field("steps", "int", step=100),
        Field("batch_size", "int"),
        Field("threads", "int"),
        Field("precision", "choice", get_args(Precision)),
    ),
    "optimizer": (
        Field("optimizer", "choice", get_args(Optimizer)),
        Field("lr", "float", step=0.001),
        Field("muon_lr", "float", step=0.005),
        Field("weight_decay", "float", step=0.05),
        Field("schedule", "choice", get_args(Schedule)),
        Field("warmup_steps", "int", step=10),
        Field("min_lr_fraction", "float", step=0.05),
        Field("grad_clip", "optional float", step=0.5),
    ),
    "record": (
        Field("eval_every", "int", step=50),
        Field("checkpoint_every", "int", step=50),
        Field("sample_every", "int", step=50),
        Field("sample_tokens", "int", step=16),
        Field("log_every", "int"),
        Field("data_seed", "int"),
    ),
}


def key(prefix: str, name: str) -> str:
    """Session key of a field's widget."""
    return f"{prefix}.{name}"


def fill(prefix: str, groups: Mapping[str, tuple[Field, ...]], values: Mapping[str, Any]) -> None:
    """Put a config's values into the form; call before the widgets are drawn or from a callback."""
    for group in groups.values():
        for field in group:
            if field.name in values:
                value = values[field.name]
                st.session_state[key(prefix, field.name)] = (
                    float(value) if "float" in field.kind and value is not None else value
                )


def filled(prefix: str, groups: Mapping[str, tuple[Field, ...]]) -> bool:
    """Whether this form has been given its values in this session."""
    return all(key(prefix, field.name) in st.session_state for group in groups.values() for field in group)


def read(prefix: str, groups: Mapping[str, tuple[Field, ...]]) -> dict[str, Any]:
    """What the form says now, by field name."""
    return {field.name: st.session_state[key(prefix, field.name)] for group in groups.values() for field in group}


def _draw(prefix: str, field: Field) -> None:
    label = f"{t(f'field.{field.name}')} `{field.name}`"
    common: dict[str, Any] = {"key": key(prefix, field.name), "persist_state": "session"}
    if field.kind == "bool":
        st.toggle(label, **common)
    elif field.kind == "choice":
        st.selectbox(label, field.choices, **common)
    elif field.kind in ("int", "optional int"):
        optional = field.kind == "optional int"
        st.number_input(
            label, value=None if optional else "min", step=int(field.step), placeholder=t("field.auto"), **common
        )
    else:
        optional = field.kind == "optional float"
        st.number_input(
            label,
            value=None if optional else "min",
            step=float(field.step),
            format="%g",
            placeholder=t("field.none"),
            **common,
        )


def draw(prefix: str, fields: tuple[Field, ...], problems: Mapping[str, str], *, columns: int = 4) -> None:
    """The fields in columns, each with its own error under it."""
    places = st.columns(columns)
    for index, field in enumerate(fields):
        with places[index % columns]:
            _draw(prefix, field)
            if field.name in problems:
                st.error(plain(said(problems[field.name])))
