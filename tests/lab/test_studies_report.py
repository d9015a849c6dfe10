"""A report from a folder alone: what it says, that it is honest when early, that it opens offline in both themes."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.studies import Arm, Claim, Job, Outcome, Study, StudyFolder, Tier, make_plan
from lab.studies.plan import aa_seed, tuning_seed
from lab.studies.report import write_report
from lab.studies.report.page import figures, render
from lab.studies.run import stamped

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BASE = {
    "model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2, "model.n_ctx": 16, "training.batch_size": 4,
    "training.steps": 6, "training.eval_every": 3, "training.warmup_steps": 2, "data.corpus_size": 6000,
}  # fmt: skip
STUDY = Study(
    name="tiny",
    question="Does <post> matter?",
    hypothesis="Yes & no.",
    source="of our own",
    base=BASE,
    arms=(Arm("pre"), Arm("post", {"model.norm_placement": "post"}, unmatched="it has no final norm")),
    control="pre",
    claims=(
        Claim("placement", "Post-Norm ends above.", "a | b", "post", "higher", "pre", primary=True),
        Claim("growth", "The stream grows less.", "c", "post", "lower", "pre", outcome="residual_growth"),
    ),
    tiers=(Tier("small", 6, (1e-3, 1e-2), extensions=0),),
    measures=("residual_rms", "residual_growth", "loss_at_double"),
    fixed=("one corpus",),
)


def outcome(folder: StudyFolder, arm: str, phase: str, lr: float, seed: int, final: float | None) -> None:
    """A run as if it had been made; final: None for one that diverged."""
    config = STUDY.config(STUDY.arm(arm), STUDY.tiers[0], lr=lr, seed=seed).to_dict()
    measures = STUDY.measures if phase == "confirm" else ()
    job = Job.make(arm, phase, lr, seed, config, measures)  # type: ignore[arg-type]
    folder.add([job])
    curve = ((0, 0, 0.0, 4.0), (3, 192, 0.1, 3.0), (6, 384, 0.2, final)) if final else ((0, 0, 0.0, 4.0),)
    growth = 0.5 + 0.01 * seed - (arm == "post")
    found = {"residual_rms": [1.0, 2.0], "residual_growth": growth, "loss_at_double": None}
    state, step, error = ("done", 6, None) if final else ("diverged", 2, "diverged at step 2")
    folder.finish(
        Outcome(job.id, state, step, 4.0, final, final, 6, 1.1, 2.2, 0.2, 384, 0.5, error, curve,
                found if measures and final else {})
    )  # fmt: skip


@pytest.fixture(scope="module")
def began(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """A study whose tuning is done: one rate of post diverged."""
    folder = StudyFolder(tmp_path_factory.mktemp("studies") / "tiny-small")
    folder.register(stamped(make_plan(STUDY, "small")))
    for arm, lr, final in (("pre", 1e-3, 2.6), ("pre", 1e-2, 2.5), ("post", 1e-3, 2.7), ("post", 1e-2, None)):
        outcome(folder, arm, "tune", lr, tuning_seed(0), final)
    return folder


@pytest.fixture(scope="module")
def early(began: StudyFolder) -> str:
    write_report(began)
    return (began.path / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def done(began: StudyFolder, early: str) -> StudyFolder:
    """The same study, finished: post ends 0.2 nats above in every seed."""
    for seed in range(6):
        outcome(began, "pre", "confirm", 1e-2, seed, 2.5 + 0.001 * seed)
        outcome(began, "post", "confirm", 1e-3, seed, 2.7 + 0.002 * seed)
        outcome(began, "pre", "aa", 1e-2, aa_seed(seed), 2.503 - 0.001 * seed)
    began.event("complete")
    write_report(began)
    return began


def test_an_early_report_says_that_it_is_early(early: str) -> None:
    assert "not finished" in early
    assert "**Unfinished.**" in early and "replicates" not in early


def test_the_report_says_what_was_asked_promised_spent_and_found(done: StudyFolder) -> None:
    text = (done.path / "report.md").read_text(encoding="utf-8")
    assert "not finished" not in text
    assert text.startswith("# Does <post> matter?") and "**Replicates.** Post-Norm ends above." in text
    for part in ("Yes & no.", "of our own", done.registration["sha256"][:16], "one corpus", "it has no final norm",
                 "residlab study run tiny --tier small --seeds 6", "at this scale", "1/8"):  # fmt: skip
        assert part in text, part
    assert done.registration["registered"]["time"] in text and "torch 2" in text
    row = next(line for line in text.splitlines() if line.startswith("| **placement**"))
    assert "**replicates**" in row and "+0.2025" in row and "+22.4%" in row  # exp(0.2025) - 1
    assert re.search(r"A/A.*n = 6", text)
    assert "| loss_at_double | not possible | not possible |" in text
    assert r"a \| b" in text or "(a | b)" in text
    losses = next(line for line in text.splitlines() if line.startswith("| post | 0.001"))
    assert "2.700 2.702 2.704 2.706 2.708 2.710" in losses


def test_the_table_has_every_run(done: StudyFolder) -> None:
    with (done.path / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(done.jobs()) == 4 + 18
    assert sum(row["state"] == "diverged" for row in rows) == 1
    assert {row["phase"] for row in rows} == {"tune", "confirm", "aa"}


@pytest.mark.parametrize("template", ["light", "dark"])
def test_the_pictures_draw_the_results_numbers(done: StudyFolder, template: str) -> None:
    from lab.studies import read_results

    result = read_results(done)
    drawn = {name: figure for name, figure in figures(result, template).items() if figure is not None}
    assert set(drawn) == {"curves", "rates", "claims final_val_loss", "claims residual_growth", "measure residual_rms",
                          "measure residual_growth"}  # fmt: skip
    intervals = drawn["claims final_val_loss"]
    found = result.comparisons[0].interval
    lines = [trace for trace in intervals.data if trace.mode == "lines+markers"]
    assert [list(line.x) for line in lines] == [[found.low, found.mean, found.high],
                                                [result.noise.low, result.noise.mean, result.noise.high]]  # fmt: skip
    assert list(intervals.data[0].x) == list(result.comparisons[0].differences.values())
    margin = intervals.layout.shapes[0]
    assert (margin.x0, margin.x1) == (-result.margin, result.margin)
    band, mean = drawn["curves"].data[:2]
    assert mean.y[-1] == pytest.approx(2.5025) and band.y[2] == pytest.approx(2.505) and band.y[-1] == 4.0
    lost = next(trace for trace in drawn["rates"].data if trace.name == "post")
    assert list(lost.y) == [2.7, 4.0] and lost.marker.symbol[1] == "x"
    assert all(figure.layout.meta["alt"] for figure in drawn.values())


def test_text_is_text_in_the_page() -> None:
    html = render(
        ["a <b> **bold**", "", "| x | >n |".replace(">", ""), "|---|---:|", r"| a \| b | <i> |", "- one", "- two"]
    )
    assert "<p>a &lt;b&gt; <b>bold</b></p>" in html
    assert "<td>a | b</td><td class=right>&lt;i&gt;</td>" in html
    assert "<ul><li>one</li><li>two</li></ul>" in html


def test_the_page_opens_offline_in_both_themes(done: StudyFolder, browser: Browser) -> None:
    path = done.path / "report.html"
    html = path.read_text(encoding="utf-8")
    assert html.count("plotly.js v") <= 2 and "<title>tiny (small)</title>" in html
    assert "Does &lt;post&gt; matter?" in html
    for theme, ink in (("light", "rgb(27, 31, 36)"), ("dark", "rgb(230, 233, 238)")):
        context = browser.new_context(color_scheme=theme, offline=True)
        page, asked, problems = context.new_page(), [], []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("pageerror", lambda error, problems=problems: problems.append(str(error)))
        page.goto(path.resolve().as_uri())
        page.wait_for_function("document.querySelectorAll('figure .main-svg').length >= 6", timeout=60_000)
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert problems == []
        colour = "getComputedStyle(document.querySelector('figure .gtitle')).fill"
        assert page.evaluate(colour) == ink
        page.click("#theme")
        page.wait_for_function(f"{colour} !== '{ink}'")
        context.close()


def test_no_study_no_report(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no registration\.json"):
        write_report(tmp_path)


def finished(folder: StudyFolder, aa: float, stuck: int = 0) -> str:
    """The report of a study whose A/A differs by `aa`, with `stuck` runs of the treatment that learned nothing."""
    folder.register(stamped(make_plan(STUDY, "small")))
    for arm, lr, final in (("pre", 1e-3, 2.6), ("pre", 1e-2, 2.5), ("post", 1e-3, 2.7), ("post", 1e-2, 3.9)):
        outcome(folder, arm, "tune", lr, tuning_seed(0), final)
    for seed in range(6):
        outcome(folder, "pre", "confirm", 1e-2, seed, 2.5 + 0.001 * seed)
        outcome(folder, "post", "confirm", 1e-3, seed, 3.9 if seed < stuck else 2.7 + 0.002 * seed)
        outcome(folder, "pre", "aa", 1e-2, aa_seed(seed), 2.5025 + aa - 0.001 * seed)
    folder.event("complete")
    write_report(folder)
    return (folder.path / "report.md").read_text(encoding="utf-8")


def test_a_control_that_differs_from_itself_makes_the_table_exploratory(tmp_path: Path) -> None:
    text = finished(StudyFolder(tmp_path / "tiny-small"), aa=0.3)
    first = text.split("\n\n")[1]
    assert "exploratory" in first and "A/A +0.29" in first
    assert "**replicates**" not in text and "**opposite**" not in text
    assert "**exploratory: no claim**" in text


def test_stuck_runs_are_an_outcome_of_their_own(tmp_path: Path) -> None:
    text = finished(StudyFolder(tmp_path / "tiny-small"), aa=0.0, stuck=2)
    row = next(line for line in text.splitlines() if line.startswith("| post | 0.001"))
    assert "2/6 [4%, 78%]" in row and "2.7070" in row  # Clopper and Pearson; the mean of the four others
    beside = next(line for line in text.splitlines() if line.startswith("| placement | +"))
    assert "n = 4" in beside
    assert re.search(r"beyond 3 median absolute deviations", text)


def test_measures_that_are_missing_are_counted(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "tiny-small")
    folder.register(stamped(make_plan(STUDY, "small")))
    for arm, lr in (("pre", 1e-2), ("post", 1e-3)):
        outcome(folder, arm, "tune", lr, tuning_seed(0), 2.5)
    for seed in range(6):
        outcome(folder, "pre", "confirm", 1e-2, seed, 2.5)
        outcome(folder, "post", "confirm", 1e-3, seed, None if seed == 0 else 2.7 + 0.001 * seed)
    folder.event("complete")
    write_report(folder)
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    assert "growth: 1 of 6 pairs have no such number" in text and "n = 5 of 6" in text
    assert "n = 6 of 6" in text  # the loss of the run that diverged is known
