"""The report as Markdown: everything but the pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from lab.studies.definition import MATCHED_WITHIN
from lab.studies.measures import MEASURES
from lab.studies.results import StudyResult
from lab.studies.statistics import detectable_effect, perplexity_change
from lab.studies.tables import UNFINISHED


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; a heading that begins with ">" stands to the right. Pipes in cells are escaped."""
    lines = [
        "| " + " | ".join(heading.removeprefix(">") for heading in headings) + " |",
        "|" + "|".join("---:" if heading.startswith(">") else "---" for heading in headings) + "|",
    ]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def markdown(result: StudyResult) -> str:
    """The whole report."""
    study = result.study
    lines = [f"# {study.question}", "", *summary(result), ""]
    for title, part in (
        ("Prediction and registration", registration(result)),
        ("Budget", budget(result)),
        ("Arms", arms(result)),
        ("Claims", claims(result)),
        ("Learning rates", rates(result)),
        ("Mechanism", mechanism(result)),
        ("Read this with care", caveats(result)),
        ("Again", again(result)),
    ):
        if part:
            lines += [f"## {title}", "", *part, ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(result: StudyResult) -> list[str]:
    """The primary claim's verdict, and whether there is more to come."""
    primary = next(c for c in result.comparisons if c.claim.primary)
    lines = [] if result.complete else [f"**{UNFINISHED}**", ""]
    return [*lines, f"**{primary.verdict.capitalize()}.** {primary.claim.text} {primary.sentence()}"]


def registration(result: StudyResult) -> list[str]:
    """What was predicted, and when that was written down."""
    found = result.registration
    registered = found.get("registered") or {}
    git = registered.get("git") or {}
    where = f", at commit {git['commit'][:12]}{' (changed)' if git.get('dirty') else ''}" if git.get("commit") else ""
    return [
        f"- Hypothesis: {result.study.hypothesis}",
        f"- Source: {result.study.source}",
        f"- Primary outcome: {result.study.outcome}, margin {result.margin:.4f} "
        f"(declared {result.study.margin:g}, or twice the noise floor)",
        f"- Registered before the first run: {registered.get('time', 'unknown')}{where}, sha256 {found['sha256'][:16]}",
        f"- Tier {result.tier}: {result.seeds} paired seeds"
        + (
            f", which find an effect of {detectable_effect(result.seeds):.2f} sd with power 0.8"
            if result.seeds > 1
            else ""
        ),
        f"- {found['rules']}",
    ]


def budget(result: StudyResult) -> list[str]:
    """What a run of each arm costs."""
    rows = [
        (
            row["arm"], f"{row['parameters']:,}", f"{row['non_embedding']:,}", f"{row['flops_per_token']:,}",
            f"{row['flops'] / 1e9:,.0f}", f"{row['tokens']:,}", f"{row['tokens_per_parameter']:.2f}",
            f"{row['epochs']:.2f}", f"{row['d_vocab']:,}",
        )
        for row in result.registration["budget"]
    ]  # fmt: skip
    heads = ("arm", ">parameters", ">without embeddings", ">FLOPs/token", ">GFLOPs", ">tokens", ">tokens/parameter",
             ">epochs", ">vocabulary")  # fmt: skip
    loose = [f"- {arm.name} is not matched within {MATCHED_WITHIN:.1%}: {arm.unmatched}" for arm in result.study.arms
             if arm.unmatched]  # fmt: skip
    return [*table(heads, rows), *([""] if loose else []), *loose]


def arms(result: StudyResult) -> list[str]:
    """Each arm's losses over the confirmation seeds."""
    rows = []
    for arm in result.arms:
        seeds = " ".join(f"{loss:.3f}" for _, loss in sorted(arm.losses.items()))
        speed = "" if arm.seconds_per_step is None else f"{1000 * arm.seconds_per_step:.0f}"
        lr = "" if arm.lr is None else f"{arm.lr:g}{' (edge)' if arm.edge else ''}"
        rows.append((arm.name, lr, _number(arm.mean), _number(arm.sd), _number(arm.area), str(len(arm.losses)),
                     f"{arm.diverged}/{arm.runs}", speed, seeds))  # fmt: skip
    heads = ("arm", ">learning rate", ">mean loss", ">sd", ">area under curve", ">n", ">diverged", ">ms/step",
             "each seed")  # fmt: skip
    return table(heads, rows)


def claims(result: StudyResult) -> list[str]:
    """Each claim with its interval and verdict, and the noise beside it."""
    rows = []
    for found in result.comparisons:
        claim, interval = found.claim, found.interval
        span = "" if interval is None else f"{interval.mean:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"
        more = (
            "" if interval is None or claim.outcome != "final_val_loss" else f"{perplexity_change(interval.mean):+.1%}"
        )
        size = "" if interval is None or not math.isfinite(interval.d_z) else f"{interval.d_z:+.2f}"
        wins = "" if interval is None else f"{interval.wins:.0%}"
        p = "" if found.holm_p is None else f"{found.holm_p:.2g}"
        rows.append((("**" + claim.name + "**") if claim.primary else claim.name, f"**{found.verdict}**",
                     f"{claim.treatment} - {claim.control or '0'}", claim.predicted, span, more, size, wins,
                     p))  # fmt: skip
    heads = ("claim", "verdict", "difference", "predicted", ">mean [95 %]", ">perplexity", ">d_z", ">below 0",
             ">p (Holm)")  # fmt: skip
    lines = table(heads, rows)
    if result.noise is not None:
        noise = result.noise
        lines += [
            "",
            f"A/A, the control against itself under other seeds, {result.study.outcome}: {noise.mean:+.4f} "
            f"[{noise.low:+.4f}, {noise.high:+.4f}], n = {noise.n}.",
        ]
    texts = [f"- **{c.claim.name}**, of {c.claim.outcome}: {c.claim.text} ({c.claim.source}) {c.sentence()}"
             for c in result.comparisons]  # fmt: skip
    return [*lines, "", *texts]


def rates(result: StudyResult) -> list[str]:
    """How each arm took the learning rates."""
    grid = sorted({lr for arm in result.arms for lr in arm.by_lr})
    if not grid:
        return []
    rows = []
    for arm in result.arms:
        cells = []
        for lr in grid:
            share = arm.lost_by_lr.get(lr, 0.0)
            cells.append(f"{_number(arm.by_lr.get(lr))}{f' ({share:.0%} lost)' if share else ''}")
        stable = "" if arm.largest_stable_lr is None else f"{arm.largest_stable_lr:g}"
        rows.append((arm.name, *cells, stable, _number(arm.sensitivity)))
    heads = ("arm", *(f">{lr:g}" for lr in grid), ">largest stable", ">sensitivity")
    legend = (
        "Mean final loss of the tuning seeds, nats; a diverged run counts with its initial loss. Sensitivity: mean "
        "over the rates of min(final, initial) less the best. Lost: diverged, or left with less than half of what the "
        "best rate gains; largest stable: the largest rate up to which no tuning run was lost."
    )
    return [*table(heads, rows), "", legend]


def mechanism(result: StudyResult) -> list[str]:
    """What was measured besides the loss."""
    names = [name for name in result.study.measures if any(name in arm.measures for arm in result.arms)]
    if not names:
        return []
    rows = [(name, *(_value(arm.measures.get(name)) for arm in result.arms)) for name in names]
    legend = [f"- {name}: {MEASURES[name].description}" + (f" ({MEASURES[name].unit})" if MEASURES[name].unit else "")
              for name in names]  # fmt: skip
    return [*table(("measure", *(f">{arm.name}" for arm in result.arms)), rows), "", *legend]


def caveats(result: StudyResult) -> list[str]:
    """What was held fixed: the answer is for that."""
    edges = [arm.name for arm in result.arms if arm.edge]
    failed = sum(arm.failed for arm in result.arms)
    lines = ["- All of this is at this scale, this budget and this corpus."]
    lines += [f"- Held fixed: {text}." for text in result.study.fixed]
    if edges:
        lines.append(f"- The best learning rate lies on the edge of the grid for {', '.join(edges)}.")
    if failed:
        lines.append(f"- {failed} runs failed and are missing.")
    return lines


def again(result: StudyResult) -> list[str]:
    """The command and the versions."""
    registered = result.registration.get("registered") or {}
    versions = ", ".join(f"{name} {version}" for name, version in (registered.get("packages") or {}).items() if version)
    command = f"residlab study run {result.study.name} --tier {result.tier} --seeds {result.seeds}"
    command += " --exploratory" * (result.seeds == 1)
    lines = ["```sh", command, "```", ""]
    return [*lines, f"Python {registered.get('python', '?')}, {versions}, {registered.get('platform', '')}."]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _value(value: Any) -> str:
    if value is None:
        return "not possible"
    return " ".join(f"{item:.3g}" for item in value) if isinstance(value, list) else f"{value:.4g}"
