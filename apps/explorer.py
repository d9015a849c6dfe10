"""The explorer's entry: `streamlit run apps/explorer.py` from the project's folder, installed or not.

Nothing here, and nothing the first page needs, imports torch; a background thread brings it in after the first paint.
"""

import sys
from pathlib import Path

_PROJECT = str(Path(__file__).resolve().parent.parent)
# First, so that apps, lab and model are found without installing anything; once, for this runs at every drawing.
sys.path[:] = [_PROJECT, *(folder for folder in sys.path if folder != _PROJECT)]

import streamlit as st  # noqa: E402

from apps import jobs, selection, warm  # noqa: E402
from apps.i18n import t  # noqa: E402
from apps.widgets import notices  # noqa: E402
from apps.widgets.checkpoint_slider import film_timer  # noqa: E402
from apps.widgets.document import settle_document  # noqa: E402
from apps.widgets.guarded import guarded  # noqa: E402
from apps.widgets.language_choice import language_choice, settle_language  # noqa: E402
from apps.widgets.model_picker import model_picker  # noqa: E402
from apps.widgets.train_form import reads_soon  # noqa: E402

# (file in apps/views, icon, section)
PAGES = (
    ("train", ":material/model_training:", "make"),
    ("generate", ":material/edit_note:", "make"),
    ("runs", ":material/list_alt:", "make"),
    ("studies", ":material/science:", "make"),
    ("lens", ":material/search:", "look"),
    ("attention", ":material/grid_on:", "look"),
    ("contributions", ":material/bar_chart:", "look"),
    ("interventions", ":material/content_cut:", "look"),
    ("probes", ":material/labs:", "look"),
    ("compare", ":material/compare_arrows:", "look"),
    ("dynamics", ":material/timeline:", "look"),
    ("anatomy", ":material/account_tree:", "look"),
)


# A stream and what is added to it; the blue reads on light and on dark.
_STREAM = """<g fill="none" stroke="#4f8fd0" stroke-width="3" stroke-linecap="round">
<path d="M4 16H34"/><path d="M9 16C13 4 21 4 25 16" stroke="#d9730d"/><circle cx="28.5" cy="16" r="3.5" fill="#4f8fd0"/>
</g>"""
# Drawn here, for an icon by name would be fetched from a server of Google's.
ICON = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="2 -6 34 34">{_STREAM}</svg>'
LOGO = f"""
<svg xmlns="http://www.w3.org/2000/svg" width="190" height="32" viewBox="0 0 190 32">
{_STREAM}
<text x="44" y="22.5" font-family="system-ui, sans-serif" font-size="19" font-weight="600" fill="#4f8fd0"
>Residual Lab</text>
</svg>
"""


def main() -> None:
    """Settle the language, draw the sidebar, run the page."""
    st.set_page_config(page_title="Residual Lab", page_icon=ICON, layout="wide")
    settle_document()
    with selection.one_address():
        _draw()
    if not reads_soon():
        warm.start()


def _first_page() -> None:
    st.switch_page(f"views/{PAGES[0][0]}.py", query_params=st.query_params.to_dict())


def _draw() -> None:
    settle_language()
    jobs.wake_queue()
    sections: dict[str, list[st.Page]] = {}
    for name, icon, section in PAGES:
        page = st.Page(
            f"views/{name}.py",
            title=t(f"{name}.title"),
            icon=icon,
            url_path="start" if name == PAGES[0][0] else name,  # of the first page nobody sees it: it is at "/"
            default=name == PAGES[0][0],
            help=t(f"{name}.question"),
        )
        sections.setdefault(t(f"section.{section}"), []).append(page)
    # The first page is the one at "/"; its name leads there as well.
    first = PAGES[0][0]
    alias = st.Page(_first_page, title=t(f"{first}.title"), url_path=first, visibility="hidden")
    current = st.navigation({**sections, "": [alias]}, expanded=True)
    st.session_state["page"] = current.url_path or first
    st.logo(LOGO, size="large")
    st.session_state["picked"] = None
    with st.sidebar:
        with guarded("picker"):
            st.session_state["picked"] = model_picker()
        language_choice()
    place = st.container()
    with guarded("page"):
        current.run()
    selection.refuse_unknown()
    with place:
        notices.show()  # drawn on top, but last: the page itself may add some
    with st.sidebar:
        film_timer()


main()
