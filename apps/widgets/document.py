"""What holds for the whole page in the browser: it opens by itself alone, and text runs in its own direction.

A page around ours could lay its reader's click over our buttons. The server offers no header that forbids framing
(`frame-ancestors`), so the page looks for itself, before anything else is drawn. A frame without scripts shows nothing
either, for the explorer needs them.
"""

from __future__ import annotations

import streamlit as st

_DOCUMENT = """<style>
textarea, input[type="text"] { unicode-bidi: plaintext; text-align: start }
</style>
<script>
if (window.top !== window.self) {
  const said = document.createElement("body")
  said.textContent = "Residual Lab does not open inside another page. 本实验室不在别的页面里打开。"
  document.documentElement.replaceChildren(said)
}
</script>"""


def settle_document() -> None:
    """Empty the page where it is inside another one, and set what all pages share; call it first."""
    st.html(_DOCUMENT, unsafe_allow_javascript=True)
