"""Text as text: what a reader typed must never be read as Markdown, a formula, a colour or an emoji code."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>$:~&^=])")


def plain(text: str) -> str:
    """`text` with every character that Streamlit's Markdown would act on escaped, on one line.

    >>> plain(":red[b] $x$")
    '\\\\:red\\\\[b\\\\] \\\\$x\\\\$'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split("\n")))
