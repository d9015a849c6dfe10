"""Columns of numbers in tables."""

from __future__ import annotations

from typing import Any

import streamlit as st


def share(label: str, *, most: float = 1.0, digits: int = 4) -> Any:
    """A column of numbers from 0 to `most`, each with a bar."""
    return st.column_config.ProgressColumn(label, format=f"%.{digits}f", min_value=0.0, max_value=most)


def probability(label: str) -> Any:
    """A column of probabilities or their changes in three figures: a small one is not 0."""
    return st.column_config.NumberColumn(label, format="%.3g")


def number(label: str, *, digits: int = 4) -> Any:
    """A column of numbers with so many digits after the point."""
    return st.column_config.NumberColumn(label, format=f"%.{digits}f")
