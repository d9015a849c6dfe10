"""Patch every part between two prompts, and keep a few heads alone: answers of `lab.analysis`, remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from apps.inspection import Checkpoint, open_checkpoint

if TYPE_CHECKING:
    import numpy as np

    from lab.analysis import Faithfulness, PatchingGrid

DIRECTIONS = ("noise", "denoise")  # the second prompt's activations into the one shown, as Patch does; or back
STREAMS = ("resid_pre", "attn_out", "mlp_out")

Ids = tuple[int, ...]
Target = tuple[int, int, int | None]


def _metric(target: Target) -> Any:
    from lab.analysis import Logit, LogitDifference

    position, token, versus = target
    return Logit(token, position) if versus is None else LogitDifference(token, versus, position)


@st.cache_data(max_entries=16, show_spinner=False)
def grid(checkpoint: Checkpoint, ids: Ids, other: Ids, target: Target, site: str, direction: str) -> PatchingGrid:
    """The target's logit (or difference) after each single patch; streams at each position, heads at all of them.

    Raises ValueError for prompts of unlike length.
    """
    from lab.analysis import activation_patching

    return activation_patching(
        open_checkpoint(checkpoint), list(ids), list(other), _metric(target), site=site, direction=direction
    )


@st.cache_data(max_entries=16, show_spinner=False)
def every_part(checkpoint: Checkpoint, ids: Ids, other: Ids, target: Target, direction: str) -> np.ndarray:
    """[layer, head + 3] share of the whole difference that each part alone moves, patched at all positions.

    The last three columns are attention, MLP and the stream after the layer. NaN where both prompts score alike.
    """
    import numpy as np

    from lab.analysis import activation_patching

    model, columns = open_checkpoint(checkpoint), []
    for site in ("head", "attn_out", "mlp_out", "resid_post"):
        found = activation_patching(
            model, list(ids), list(other), _metric(target), site=site, each_position=False, direction=direction
        )
        columns.append(found.recovered if site == "head" else found.recovered[:, None])
    return np.concatenate(columns, axis=1)


@st.cache_data(max_entries=16, show_spinner=False)
def kept_alone(
    checkpoint: Checkpoint, ids: Ids, other: Ids, target: Target, heads: tuple[tuple[int, int], ...]
) -> Faithfulness:
    """What is left when all other heads write what they wrote on the second prompt."""
    from lab.analysis import circuit_faithfulness

    return circuit_faithfulness(open_checkpoint(checkpoint), list(ids), list(other), _metric(target), heads)
