"""What holds for the whole page in the browser: it is this machine's, opens by itself, and text runs in its direction.

A page around ours could lay its reader's click over our buttons. The server offers no header that forbids framing
(`frame-ancestors`), so the page looks for itself, before anything else is drawn. A frame without scripts shows nothing
either, for the explorer needs them.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import streamlit as st

from apps.i18n import t
from apps.widgets.plain import plain
from lab.commands.explore import HOSTS

DOCUMENT = """<style>
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
    """Refuse other names than this machine's, empty the page inside another one, set what all share; call it first.

    Where the server was given `allowedHosts` it refuses other names itself, before a page is drawn. A server that was
    started elsewhere than in the project's folder has not read our settings, so the page looks again.
    """
    host = st.context.headers.get("Host")
    if not st.get_option("server.allowedHosts") and is_foreign(host):
        st.error(plain(t("frame.foreign", host=str(host), hosts=", ".join(HOSTS))))
        st.stop()
    st.html(DOCUMENT, unsafe_allow_javascript=True)


def is_foreign(host: str | None) -> bool:
    """Whether a request came by another name than this machine's own: a page elsewhere may point its name here."""
    try:
        return host is not None and (urlsplit(f"//{host}").hostname or "").rstrip(".") not in HOSTS
    except ValueError:
        return True
