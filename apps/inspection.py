"""Ask `lab.analysis` about a picked model, and remember the answers.

Weights are shared by all sessions of the server and never changed. Hooks are not shared: whoever opens a checkpoint
gets modules of its own over the same weights, so that no analysis hears or changes what another session runs at the
same moment. Answers are plain results, kept by (checkpoint, prompt) within a bound. torch is imported where a model is
first opened.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from apps.i18n import t
from apps.widgets.model_picker import Picked
from apps.widgets.plain import plain

if TYPE_CHECKING:
    from lab.analysis import (
        AttentionPatterns,
        HeadScores,
        LogitContributions,
        LogitLens,
        ResidualNorms,
        TokenPredictions,
    )
    from model import GPT

MODELS_KEPT = 4
ANSWERS_KEPT = 64


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk as a cache key: where it is, and when its weights were written."""

    reference: str
    written: int

    @staticmethod
    def of(picked: Picked) -> Checkpoint:
        """The picked checkpoint. Raises FileNotFoundError when it has gone since it was picked."""
        weights = picked.run.checkpoint_path(picked.step) / "model.safetensors"
        return Checkpoint(picked.reference, weights.stat().st_mtime_ns)


@st.cache_resource(max_entries=MODELS_KEPT, show_spinner=False)
def _shared(checkpoint: Checkpoint) -> GPT:
    from lab.models import open_model

    return open_model(checkpoint.reference)


def twin(model: GPT) -> GPT:
    """A model of its own modules and hooks over the same weights, buffers and tokenizer: no memory, a few milliseconds.

    Even reading needs one: a cache is filled by hooks, and on one shared model it would be filled by whichever session
    runs last.
    """
    shared = [*model.parameters(), *model.buffers(), model.tokenizer]
    return copy.deepcopy(model, {id(one): one for one in shared if one is not None})


def open_checkpoint(checkpoint: Checkpoint) -> GPT:
    """The model in eval mode: its weights are everybody's and read-only, its hooks the caller's alone."""
    return twin(_shared(checkpoint))


def open_picked(picked: Picked) -> tuple[Checkpoint, GPT] | None:
    """The picked model opened; None, with a sentence on the page, when its files cannot be read."""
    try:
        with st.spinner(t("inspection.opening")):
            checkpoint = Checkpoint.of(picked)
            return checkpoint, open_checkpoint(checkpoint)
    except (OSError, ValueError, RuntimeError) as error:
        st.error(plain(t("inspection.cannot_open", model=picked.name, reason=str(error))))
        return None


@st.cache_data(max_entries=ANSWERS_KEPT, show_spinner=False)
def predictions(checkpoint: Checkpoint, ids: tuple[int, ...], top_k: int) -> TokenPredictions:
    """What the model expects at each position."""
    from lab.analysis import token_predictions

    return token_predictions(open_checkpoint(checkpoint), list(ids), top_k)


@st.cache_data(max_entries=ANSWERS_KEPT, show_spinner=False)
def lens(checkpoint: Checkpoint, ids: tuple[int, ...], top_k: int, include_mid: bool) -> LogitLens:
    """The raw logit lens."""
    from lab.analysis import logit_lens

    return logit_lens(open_checkpoint(checkpoint), list(ids), top_k, include_mid=include_mid)


@st.cache_resource(max_entries=4, show_spinner=False)
def attention(checkpoint: Checkpoint, ids: tuple[int, ...]) -> AttentionPatterns:
    """Every head's pattern, shared and read-only: large, so few are kept and none is copied on use."""
    from lab.analysis import attention_patterns

    return attention_patterns(open_checkpoint(checkpoint), list(ids))


@st.cache_data(max_entries=ANSWERS_KEPT, show_spinner=False)
def scores(checkpoint: Checkpoint) -> HeadScores:
    """What kind of head each one is, on repeated random tokens."""
    from lab.analysis import head_scores

    return head_scores(open_checkpoint(checkpoint))


@st.cache_data(max_entries=ANSWERS_KEPT, show_spinner=False)
def contributions(
    checkpoint: Checkpoint,
    ids: tuple[int, ...],
    position: int,
    token: int | None,
    versus: int | None,
    by: str,
    layer: int | None,
) -> LogitContributions:
    """What each part adds to a logit or to a difference."""
    from lab.analysis import logit_contributions

    return logit_contributions(
        open_checkpoint(checkpoint), list(ids), position=position, token=token, versus=versus, by=by, layer=layer
    )


@st.cache_data(max_entries=ANSWERS_KEPT, show_spinner=False)
def norms(checkpoint: Checkpoint, ids: tuple[int, ...]) -> ResidualNorms:
    """How the residual stream grows."""
    from lab.analysis import residual_norms

    return residual_norms(open_checkpoint(checkpoint), list(ids))


def finite(result: Any, *names: str) -> bool:
    """Whether the named arrays of a result hold no NaN where a working model would give numbers."""
    import numpy as np

    return all(bool(np.isfinite(getattr(result, name)).all()) for name in names)
