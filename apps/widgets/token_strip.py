"""Tokens in reading order, coloured by one number each, with a card on hover and a click that selects.

A Streamlit component without an iframe. Tokens reach the page as data and are written with `textContent`, never as
HTML, so `<b>`, `</script>` or `$x$` show as they are. Keyboard: focus the strip, move with the arrow keys, select with
Enter.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import streamlit as st

from apps.i18n import t

Hue = Literal["blue", "orange"]


@dataclass(frozen=True)
class Card:
    """What hovering over a token shows: lines of (name, value), then a ranked list of (token, value, share 0..1)."""

    lines: tuple[tuple[str, str], ...] = ()
    ranked: tuple[tuple[str, str, float], ...] = ()


@dataclass(frozen=True)
class Strip:
    """A token strip's contents.

    Attributes:
        displays: visible form of each token, as `token_labels` gives it (not HTML).
        weights: a number in 0..1 a token for the depth of its colour; None: no colour.
        cards: one a token, or empty.
        rows: [token][token] weights in 0..1 shown while hovering over (or after selecting) a row's token; a row that
            ends early leaves the rest uncoloured; empty: none.
        marked: indices drawn with a border (the prompt's end, a generated token).
        joined: the whole characters that each token holds only parts of ("" for none), named first on its card; or
            empty.
    """

    displays: Sequence[str]
    weights: Sequence[float | None] = ()
    cards: Sequence[Card] = ()
    rows: Sequence[Sequence[float | None]] = ()
    marked: frozenset[int] = field(default_factory=frozenset)
    hue: Hue = "blue"
    joined: Sequence[str] = ()

    def shown_cards(self) -> Sequence[Card]:
        """The cards, each with the character that its token is a part of."""
        if not any(self.joined):
            return self.cards
        cards = self.cards or [Card()] * len(self.displays)
        return [
            Card(((t("strip.part_of"), whole), *card.lines), card.ranked) if whole else card
            for card, whole in zip(cards, self.joined, strict=True)
        ]


_CSS = """
.strip {
  font-family: var(--st-code-font), "Noto Sans Mono", "Noto Sans CJK SC", monospace;
  font-size: 0.95rem; line-height: 2.05; color: var(--st-text-color); outline-offset: 4px;
  max-height: 24rem; overflow-y: auto; padding: 0.25rem 0.1rem; position: relative;
}
.token {
  white-space: pre; padding: 0.18em 0.12em; margin: 0 1px 0 0; border-radius: 3px; cursor: pointer;
  border: 1px solid transparent; unicode-bidi: isolate; display: inline-block; line-height: 1.25;
  min-width: 0.5em; text-align: center;
}
.token:hover, .token.over { border-color: var(--st-text-color); }
.token.marked { border-bottom: 2px solid var(--st-orange-color, #d9730d); }
.token.chosen { outline: 2px solid var(--st-primary-color); outline-offset: 0; }
.card {
  position: absolute; z-index: 50; pointer-events: none; background: var(--st-secondary-background-color);
  color: var(--st-text-color); border: 1px solid var(--st-border-color); border-radius: 6px; padding: 0.5rem 0.7rem;
  font-size: 0.82rem; line-height: 1.45; min-width: 12rem; max-width: 22rem; box-shadow: 0 4px 14px rgba(0, 0, 0, 0.25);
}
.card[hidden] { display: none; }
.line { display: flex; justify-content: space-between; gap: 1.2rem; }
.line .name { opacity: 0.75; }
.line .value { font-variant-numeric: tabular-nums; white-space: pre; }
.line .piece { white-space: pre; overflow: hidden; text-overflow: ellipsis; unicode-bidi: isolate; }
.line.ranked { position: relative; }
.bar {
  position: absolute; left: 0; top: 2px; bottom: 2px; border-radius: 2px; opacity: 0.3;
  background: var(--st-primary-color);
}
.wrap { position: relative; padding-bottom: 0.2rem; }
"""

_HTML = """
<div class="wrap"><div class="strip" role="listbox" tabindex="0"></div><div class="card" hidden></div></div>
"""

_JS = """
export default function (component) {
  const { data, parentElement, setTriggerValue } = component
  const strip = parentElement.querySelector(".strip")
  const card = parentElement.querySelector(".card")
  if (!strip || !card || !data) return
  strip.setAttribute("aria-label", data.label)
  const colour = data.hue === "orange" ? "var(--st-orange-color, #d9730d)" : "var(--st-primary-color)"
  const paint = (node, weight) => {
    node.style.background = weight == null ? "" :
      `color-mix(in srgb, ${colour} ${Math.round(55 * Math.max(0, Math.min(1, weight)))}%, transparent)`
  }
  strip.replaceChildren()
  const nodes = data.displays.map((display, index) => {
    const node = document.createElement("span")
    node.className = "token"
    node.dir = "auto"
    node.textContent = display
    node.setAttribute("role", "option")
    node.dataset.index = index
    if (data.marked.includes(index)) node.classList.add("marked")
    if (data.chosen === index) { node.classList.add("chosen"); node.setAttribute("aria-selected", "true") }
    strip.appendChild(node)
    if (display.endsWith("\\u23CE")) strip.appendChild(document.createElement("br"))
    return node
  })
  const rest = () => {
    const row = data.rows.length && data.chosen != null ? data.rows[data.chosen] : null
    nodes.forEach((node, index) => paint(node, row ? row[index] : data.weights[index]))
  }
  const addLine = (kind, first, value, share) => {
    const line = document.createElement("div")
    line.className = "line " + kind
    if (share != null) {
      const bar = document.createElement("div")
      bar.className = "bar"
      bar.style.width = `${Math.round(100 * share)}%`
      line.appendChild(bar)
    }
    const a = document.createElement("span")
    a.className = kind === "ranked" ? "piece" : "name"
    a.textContent = first
    const b = document.createElement("span")
    b.className = "value"
    b.textContent = value
    line.append(a, b)
    card.appendChild(line)
  }
  let over = null
  const show = (index) => {
    if (over != null) nodes[over].classList.remove("over")
    over = index
    nodes[index].classList.add("over")
    if (data.rows.length) nodes.forEach((node, j) => paint(node, data.rows[index][j]))
    const content = data.cards[index]
    card.hidden = !content
    if (!content) return
    card.replaceChildren()
    content.lines.forEach(([name, value]) => addLine("plain", name, value, null))
    content.ranked.forEach(([piece, value, share]) => addLine("ranked", piece, value, share))
    const box = parentElement.querySelector(".wrap").getBoundingClientRect()
    const at = nodes[index].getBoundingClientRect()
    const room = Math.max(0, box.width - card.offsetWidth - 4)
    card.style.left = `${Math.min(room, Math.max(0, at.left - box.left))}px`
    card.style.top = `${at.bottom - box.top + 6}px`
  }
  const hide = () => {
    if (over != null) nodes[over].classList.remove("over")
    over = null
    card.hidden = true
    rest()
  }
  strip.onmouseover = (event) => {
    const node = event.target.closest(".token")
    if (node) show(Number(node.dataset.index))
  }
  strip.onmouseleave = hide
  strip.onblur = hide
  strip.onclick = (event) => {
    const node = event.target.closest(".token")
    if (node) setTriggerValue("picked", Number(node.dataset.index))
  }
  strip.onkeydown = (event) => {
    const last = nodes.length - 1
    const from = over ?? data.chosen ?? -1
    const moves = { ArrowRight: Math.min(last, from + 1), ArrowLeft: Math.max(0, from - 1), Home: 0, End: last }
    if (event.key in moves) { event.preventDefault(); show(moves[event.key]) }
    else if (event.key === "Enter" && over != null) setTriggerValue("picked", over)
    else if (event.key === "Escape") hide()
  }
  rest()
  return hide
}
"""

_component = None


def _renderer() -> Any:
    # Registered on first use: registering needs Streamlit's running server, an import should not.
    global _component
    if _component is None:
        _component = st.components.v2.component("residlab_token_strip", html=_HTML, css=_CSS, js=_JS)
    return _component


def token_strip(strip: Strip, *, key: str, selects: str | None = None, chosen: int | None = None) -> None:
    """Draw a strip. A click writes the token's index into `st.session_state[selects]` before the next run.

    Args:
        strip: what to draw.
        key: unique on the page.
        selects: session key of the selection a click sets; None: clicks do nothing.
        chosen: index drawn as selected.
    """

    def picked() -> None:
        index = getattr(st.session_state.get(key), "picked", None)
        if selects is not None and isinstance(index, int) and 0 <= index < len(strip.displays):
            st.session_state[selects] = index

    _renderer()(
        key=key,
        data={
            "label": t("strip.label"),
            "displays": list(strip.displays),
            "weights": list(strip.weights),
            "cards": [{"lines": card.lines, "ranked": card.ranked} for card in strip.shown_cards()],
            "rows": [list(row) for row in strip.rows],
            "marked": sorted(strip.marked),
            "hue": strip.hue,
            "chosen": chosen,
        },
        on_picked_change=picked,
    )


def offline_html(strip: Strip, title: str) -> str:
    """The strip as a page that stands alone: no script, no request; hover cards become tooltips."""
    colour = "31,95,168" if strip.hue == "blue" else "217,115,13"
    spans = []
    cards = strip.shown_cards()
    for index, display in enumerate(strip.displays):
        weight = strip.weights[index] if index < len(strip.weights) else None
        style = f"background:rgba({colour},{0.6 * weight:.3f})" if weight is not None else ""
        tip = ""
        if index < len(cards):
            card = cards[index]
            tip = "\n".join([f"{a}: {b}" for a, b in card.lines] + [f"{p}  {v}" for p, v, _ in card.ranked])
        spans.append(f'<span style="{style}" title="{html.escape(tip)}">{html.escape(display)}</span>')
        if display.endswith("\u23ce"):
            spans.append("<br>")
    return (
        "<!doctype html><html><head><meta charset='utf-8'>"
        f"<title>{html.escape(title)}</title><style>body{{font-family:monospace;line-height:2;margin:2rem}}"
        "span{white-space:pre;padding:.15em .1em;border-radius:3px;unicode-bidi:isolate}</style></head>"
        f"<body><h1>{html.escape(title)}</h1><p>{''.join(spans)}</p></body></html>"
    )
