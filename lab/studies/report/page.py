"""The report as one HTML page that opens offline: the Markdown's tables, and the pictures between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from lab.studies.measures import FROM_EMBED, MEASURES
from lab.studies.report import markdown as words
from lab.studies.results import StudyResult

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.plots.studies import Band

INK = "--ink:#1b1f24;--page:#fff;--rule:#d5dae1;--soft:#f4f6f9"
NIGHT = "--ink:#e6e9ee;--page:#14171c;--rule:#3a414c;--soft:#1d222a"
STYLE = f"""
:root{{color-scheme:light dark;{INK}}}
@media (prefers-color-scheme:dark){{:root{{{NIGHT}}}}}
:root[data-theme=light]{{color-scheme:light;{INK}}}:root[data-theme=dark]{{color-scheme:dark;{NIGHT}}}
body{{font:15px/1.55 system-ui,"Noto Sans CJK SC",sans-serif;color:var(--ink);background:var(--page);
max-width:1080px;margin:2rem auto;padding:0 1rem}}
h1{{font-size:1.6rem;line-height:1.25;padding-right:9rem}}
h2{{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--rule)}}
.scroll{{overflow-x:auto}}table{{border-collapse:collapse;font-size:13px;margin:.4rem 0}}
th,td{{padding:.25rem .6rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}}
th{{background:var(--soft)}}.right{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
figure{{margin:1rem 0}}
pre{{background:var(--soft);padding:.6rem;border-radius:6px;overflow-x:auto}}
.verdict{{font-size:1.1rem;background:var(--soft);padding:.8rem 1rem;border-radius:6px}}
#theme{{position:absolute;right:max(1rem,calc(50vw - 540px));font:inherit;font-size:13px;color:var(--ink);
background:var(--soft);border:1px solid var(--rule);border-radius:6px;padding:.2rem .7rem;cursor:pointer}}
@media print{{#theme{{display:none}}}}
"""
# Each figure comes twice, for light and dark; the one that fits the page is drawn.
SCRIPT = """
const root = document.documentElement, night = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : night.matches);
const specs = [...document.querySelectorAll("figure")].map((figure) =>
  [figure.querySelector("div"), JSON.parse(figure.querySelector("script").textContent)]);
const draw = () => specs.forEach(([place, both]) => {
  const one = both[isDark() ? "dark" : "light"];
  Plotly.react(place, one.data, one.layout, both.config);
});
document.getElementById("theme").onclick = () => { root.dataset.theme = isDark() ? "light" : "dark"; draw(); };
night.addEventListener("change", draw);
draw();
"""


def page(result: StudyResult) -> str:
    """The whole report, in the reader's own theme, which a button changes."""
    from lab.plots.export import offline_page

    parts = ['<button id="theme" type="button">Light or dark</button>', f"<h1>{escape(result.study.question)}</h1>"]
    parts.append(f'<div class="verdict">{render(words.summary(result))}</div>')
    pictures = {name: figure for name, figure in figures(result).items() if figure is not None}
    dark = figures(result, "dark")
    sections = (
        ("Prediction and registration", words.registration(result), ()),
        ("Budget", words.budget(result), ()),
        ("Arms", words.arms(result), ("curves",)),
        ("Claims", words.claims(result), tuple(name for name in pictures if name.startswith("claims"))),
        ("Learning rates", words.rates(result), ("rates",)),
        ("Mechanism", words.mechanism(result), tuple(name for name in pictures if name.startswith("measure"))),
        ("Read this with care", words.caveats(result), ()),
        ("Again", words.again(result), ()),
    )
    for title, lines, shown in sections:
        if lines:
            parts.append(f"<h2>{escape(title)}</h2>")
            parts += [_figure(pictures[name], dark[name]) for name in shown if name in pictures]
            parts.append(render(lines))
    parts.append(f"<script>{SCRIPT}</script>")
    return offline_page(f"{result.study.name} ({result.tier})", "\n".join(parts), STYLE)


def _figure(light: go.Figure, dark: go.Figure | None) -> str:
    """A figure of both themes, to be drawn by SCRIPT, with its words for those who cannot see it."""
    from plotly.io.json import to_json_plotly

    from lab.plots import CONFIG

    both = {"light": light.to_plotly_json(), "dark": (dark or light).to_plotly_json(), "config": CONFIG}
    text = to_json_plotly(both).replace("<", "\\u003c")  # no end tag within a script
    alt = escape(str(light.layout.meta["alt"]), quote=True)
    return (
        f'<figure role="img" aria-label="{alt}"><div style="height:{light.layout.height}px"></div>'
        f'<script type="application/json">{text}</script></figure>'
    )


def figures(result: StudyResult, template: str = "light") -> dict[str, go.Figure | None]:
    """Every picture of a report by name; None where nothing is known yet."""
    from lab.plots.studies import Difference, interval_plot, measure_figure, rate_curves, study_curves

    bands = curve_bands(result)
    tuned = {arm.name: arm.by_lr for arm in result.arms if len(arm.by_lr) > 1}
    chosen = {arm.name: arm.lr for arm in result.arms if arm.lr is not None}
    lost = {arm.name: arm.lost_by_lr for arm in result.arms}
    drawn: dict[str, go.Figure | None] = {
        "curves": study_curves(bands, template) if bands else None,
        "rates": rate_curves(tuned, chosen, lost, template) if tuned else None,
    }
    outcomes = dict.fromkeys(c.claim.outcome for c in result.comparisons)
    for outcome in outcomes:
        rows = []
        for c in result.comparisons:
            if c.claim.outcome == outcome:
                mean, low, high = (c.interval.mean, c.interval.low, c.interval.high) if c.interval else (None,) * 3
                rows.append(
                    Difference(c.claim.name, mean, low, high, list(c.differences.values()), c.verdict, 1 - c.alpha)
                )
        margins = {c.margin for c in result.comparisons if c.claim.outcome == outcome}
        margin = margins.pop() or None if len(margins) == 1 else None
        if outcome == result.study.outcome and (noise := result.noise) is not None:
            rows.append(Difference("A/A", noise.mean, noise.low, noise.high, (), "noise"))
        unit = MEASURES[outcome].unit if outcome in MEASURES else "bits/byte" if outcome == "val_bpb" else "nats"
        drawn[f"claims {outcome}"] = interval_plot(
            rows, unit=unit or outcome, margin=margin, title=f"{outcome}, by claim", template=template
        )
    for name in result.study.measures:
        values = {arm.name: arm.measures.get(name) for arm in result.arms}
        if any(value is not None for value in values.values()):
            drawn[f"measure {name}"] = measure_figure(
                name, values, MEASURES[name].unit, template, from_embed=name in FROM_EMBED
            )
    return drawn


def curve_bands(result: StudyResult) -> dict[str, Band]:
    """Arm -> mean, lowest and highest validation loss of the confirmation seeds at each evaluation."""
    from lab.plots.studies import Band

    bands: dict[str, Band] = {}
    for arm in result.arms:
        at: dict[int, list[float]] = {}
        for row in result.rows:
            if row.job.arm == arm.name and row.job.phase == "confirm":
                for step, _, _, loss in row.outcome.curve:
                    if loss is not None:
                        at.setdefault(step, []).append(loss)
        full = max((len(losses) for losses in at.values()), default=0)
        steps = [step for step, losses in sorted(at.items()) if len(losses) == full]
        if steps:
            losses = [at[step] for step in steps]
            means = [sum(row) / len(row) for row in losses]
            bands[arm.name] = Band(steps, means, [min(row) for row in losses], [max(row) for row in losses])
    return bands


def render(lines: Sequence[str]) -> str:
    """The few kinds of Markdown that the report uses, as HTML: tables, lists, code, paragraphs, bold."""
    parts: list[str] = []
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        if line.startswith("|"):
            block = [line]
            while rest and rest[0].startswith("|"):
                block.append(rest.pop(0))
            parts.append(_table(block))
        elif line.startswith("- "):
            items = [line]
            while rest and rest[0].startswith("- "):
                items.append(rest.pop(0))
            parts.append("<ul>" + "".join(f"<li>{_inline(item[2:])}</li>" for item in items) + "</ul>")
        elif line.startswith("```"):
            code = []
            while rest and not rest[0].startswith("```"):
                code.append(rest.pop(0))
            rest[:1] = []
            parts.append(f"<pre>{escape(chr(10).join(code))}</pre>")
        elif line:
            parts.append(f"<p>{_inline(line)}</p>")
    return "\n".join(parts)


def _table(block: Sequence[str]) -> str:
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block]
    right = [cell.endswith(":") for cell in cells[1]]
    rows = []
    for index, row in enumerate([cells[0], *cells[2:]]):
        tag = "th" if index == 0 else "td"
        rows.append(
            "<tr>"
            + "".join(
                f"<{tag}{' class=right' if at_right else ''}>{_inline(cell)}</{tag}>"
                for cell, at_right in zip(row, right, strict=True)
            )
            + "</tr>"
        )
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _inline(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text))
