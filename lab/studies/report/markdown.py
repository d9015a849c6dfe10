"""The report as Markdown: everything but the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from lab.studies.definition import MATCHED_WITHIN
from lab.studies.measures import MEASURES
from lab.studies.results import StudyResult
from lab.studies.statistics import (
    Interval,
    detectable_effect,
    outlying,
    perplexity_change,
    seeds_needed,
    sign_flip_p,
)
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
    if (noise := result.noise) is not None and not result.trusted:
        lines += [
            f"**This table is exploratory: the control differs from itself under other seeds (A/A {_span(noise)}), so "
            "no claim has a verdict.**",
            "",
        ]
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
        f"- Primary outcome: {result.study.outcome}, margin {result.margin:g}",
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
        stuck = "" if (found := arm.stuck) is None else f"{found.k}/{found.n} [{found.low:.0%}, {found.high:.0%}]"
        gain = "" if arm.optimism is None else f"{arm.optimism:+.4f}"
        rows.append((arm.name, lr, _number(arm.mean), _number(arm.sd), stuck, _number(arm.mean_not_stuck), gain,
                     _number(arm.area), str(len(arm.losses)), f"{arm.diverged}/{arm.runs}", speed, seeds))  # fmt: skip
    heads = ("arm", ">learning rate", ">mean loss", ">sd", ">stuck [95 %]", ">mean, not stuck", ">optimism",
             ">area under curve", ">n", ">diverged", ">ms/step", "each seed")  # fmt: skip
    legend = (
        "Stuck: confirmation runs that diverged or kept less than half of what the best rate gains, with the exact "
        "interval of that share. Optimism: mean confirmation loss minus the tuning loss that chose the rate; far above "
        "0 the choice was luck."
    )
    return [*table(heads, rows), "", legend]


def claims(result: StudyResult) -> list[str]:
    """Each claim with its interval and verdict, what stands beside the interval, and the noise."""
    rows = []
    for found in result.comparisons:
        claim, interval = found.claim, found.interval
        more = (
            "" if interval is None or claim.outcome != "final_val_loss" else f"{perplexity_change(interval.mean):+.1%}"
        )
        level = "" if interval is None else f"{100 * (1 - found.alpha):.3g} %"
        wins = "" if interval is None else f"{interval.wins:.0%}"
        p = "" if found.p is None else f"{found.p:.2g}"
        rows.append((("**" + claim.name + "**") if claim.primary else claim.name, f"**{found.verdict}**",
                     f"{claim.treatment} - {claim.control or '0'}", claim.predicted, _span(interval), level,
                     f"{found.margin:g}", more, wins, p, f"{len(found.differences)} of {found.planned}"))  # fmt: skip
    heads = ("claim", "verdict", "difference", "predicted", ">mean [interval]", ">level", ">margin", ">perplexity",
             ">below 0", ">p", ">pairs")  # fmt: skip
    lines = table(heads, rows)
    if any(found.interval for found in result.comparisons):
        lines += ["", READING]
    if result.noise is not None:
        lines += [
            "",
            f"A/A, the control against itself under other seeds, {result.study.outcome}: {_span(result.noise)}, "
            f"n = {result.noise.n}.",
        ]
    beside = _beside(result)
    texts = [f"- **{c.claim.name}**, of {c.claim.outcome}: {c.claim.text} ({c.claim.source}) {c.sentence()}"
             + (f" Margin: {c.claim.why}." if c.claim.why else "") for c in result.comparisons]  # fmt: skip
    return [*lines, *(["", *beside] if beside else []), "", *texts]


READING = (
    "The interval decides: beyond the margin on one side it replicates or is opposite, within it there is no "
    "detectable difference, and one that straddles a bound is inconclusive. Its level is Holm's for the number of "
    "claims. p: the smallest 1 - level at which the interval straddles no bound."
)


def _span(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.mean:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"


def _beside(result: StudyResult) -> list[str]:
    """What else to read for each claim: the median, a permutation test, the pairs not stuck, the seeds it takes."""
    rows = []
    for found in result.comparisons:
        if found.interval is None:
            continue
        values = list(found.differences.values())
        away, needed = outlying(values), seeds_needed(found.interval.sd, found.margin)
        rows.append(
            (found.claim.name, f"{median(values):+.4f}", f"{sign_flip_p(values):.2g}", str(away) if away else "",
             "" if found.not_stuck is None else f"{_span(found.not_stuck)}, n = {found.not_stuck.n}",
             "" if needed is None else f"{needed:,}")
        )  # fmt: skip
    if not rows:
        return []
    heads = ("claim", ">median", ">p by sign flips", ">outlying", ">mean [interval] of pairs not stuck",
             ">seeds for this margin")  # fmt: skip
    legend = (
        "Where differences are outlying (beyond 3 median absolute deviations) the t interval covers less than it says: "
        "read the median, the sign flips and the pairs in which neither run was stuck. Seeds for this margin: how many "
        "pairs of this spread it takes to find a true zero within it with power 0.8."
    )
    return [*table(heads, rows), "", legend]


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
    lines += [
        f"- {c.claim.name}: {c.missing} of {c.planned} pairs have no such number."
        for c in result.comparisons
        if result.complete and c.missing
    ]
    if (noise := result.noise) is not None and not result.trusted:
        lines.append(f"- A/A excludes 0 ({_span(noise)}): nothing here is a verdict.")
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
