"""Studies: what is refused before the first run, tuning, resuming, and what a result says. Runs are tiny."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.runs import to_json
from lab.studies import (
    Arm,
    Claim,
    Job,
    Study,
    StudyError,
    StudyFolder,
    Tier,
    find_study,
    make_plan,
    run_study,
    study_names,
)
from lab.studies.execute import execute, prepared
from lab.studies.executors import OnChange
from lab.studies.plan import tuning_seed
from lab.studies.results import read_results
from lab.studies.run import widen

BASE = {
    "model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2, "model.n_ctx": 16, "training.batch_size": 4,
    "training.steps": 6, "training.eval_every": 3, "training.warmup_steps": 2, "data.corpus_size": 6000,
}  # fmt: skip


def tiny(**changes: Any) -> Study:
    """A study of two placements of the norm, in milliseconds a run."""
    values: dict[str, Any] = {
        "name": "tiny",
        "question": "Does it matter?",
        "hypothesis": "No.",
        "source": "of our own",
        "base": BASE,
        "arms": (Arm("pre"), Arm("post", {"model.norm_placement": "post"}, unmatched="no final norm")),
        "control": "pre",
        "claims": (Claim("placement", "It does not.", "of our own", "post", "no difference", "pre", primary=True),),
        "tiers": (Tier("smoke", 2, (1e-3, 1e-2), extensions=0),),
        "measures": ("residual_growth",),
    }
    return Study(**{**values, **changes})


class Here:
    """Runs in this process, one after another; stops after `most` of them."""

    def __init__(self, most: int = 10**6):
        self.left, self.made = most, 0

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, folder: StudyFolder, jobs: Sequence[Job], on_change: OnChange | None = None) -> None:
        folder.add(jobs)
        for job in jobs:
            if folder.outcome(job.id) is None:
                if not self.left:
                    raise KeyboardInterrupt
                self.left -= 1
                self.made += execute(folder, job)


def table(folder: StudyFolder) -> list[dict[str, Any]]:
    """What a study found, without how long it took."""
    rows = read_results(folder).to_dict()["runs"]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_a_study_runs_to_its_end_and_says_what_it_found(tmp_path: Path) -> None:
    result = run_study(tiny(), "smoke", executor=Here(), root=tmp_path)
    folder = StudyFolder(tmp_path / "tiny-smoke")
    assert result.complete
    assert len(result.rows) == 2 * (2 + 2) + 2
    assert {row.job.seed for row in result.rows if row.job.phase == "tune"} == {tuning_seed(0)}
    assert {row.job.seed for row in result.rows if row.job.phase == "confirm"} == {0, 1}
    (comparison,) = result.comparisons
    pre, post = result.arm("pre").losses, result.arm("post").losses
    assert dict(comparison.differences) == {seed: post[seed] - pre[seed] for seed in (0, 1)}
    assert comparison.verdict == "exploratory: no claim"
    assert result.noise is not None and result.noise.n == 2
    assert result.arm("pre").lr == min(result.arm("pre").by_lr, key=result.arm("pre").by_lr.__getitem__)
    assert json.loads((folder.path / "results.json").read_text())["complete"] is True
    assert (folder.path / "results.csv").read_text().count("\n") == 11


def test_a_study_that_was_cut_short_ends_with_the_same_table(tmp_path: Path) -> None:
    run_study(tiny(), "smoke", executor=Here(), root=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_study(tiny(), "smoke", executor=Here(3), root=tmp_path / "cut")
    cut = StudyFolder(tmp_path / "cut" / "tiny-smoke")
    assert not read_results(cut).complete
    again = Here()
    run_study(tiny(), "smoke", executor=again, root=tmp_path / "cut")
    assert again.made == 10 - 3
    assert table(cut) == table(StudyFolder(tmp_path / "whole" / "tiny-smoke"))


def test_another_plan_is_not_put_into_the_same_folder(tmp_path: Path) -> None:
    run_study(tiny(), "smoke", executor=Here(), root=tmp_path)
    before = table(folder := StudyFolder(tmp_path / "tiny-smoke"))
    other = tiny(margin=0.5)
    have, want = folder.registration["sha256"][:12], str(make_plan(other, "smoke").registration["sha256"])[:12]
    with pytest.raises(StudyError) as refused:
        run_study(other, "smoke", executor=Here(), root=tmp_path)
    assert have != want and str(refused.value) == (
        f"{folder.path} holds another plan (registered as {have}, this one is {want}). A plan is not changed once it "
        "is registered: choose another folder with --root, or delete this one."
    )
    assert table(folder) == before, "finished runs are kept"


def test_a_flag_that_does_nothing_stops_the_study() -> None:
    arms = (Arm("pre"), Arm("based", {"model.rotary_base": 500.0}))  # without rotary positions nothing reads it
    claims = (Claim("c", "x", "y", "based", "lower", "pre", primary=True),)
    with pytest.raises(StudyError, match=r"pre and based are the same network.*model\.rotary_base"):
        make_plan(tiny(arms=arms, claims=claims), "smoke")


def test_a_flag_of_training_alone_is_seen_to_do_something() -> None:
    arms = (Arm("pre"), Arm("cold", {"training.warmup_steps": 0}))
    claims = (Claim("c", "x", "y", "cold", "lower", "pre", primary=True),)
    assert len(make_plan(tiny(arms=arms, claims=claims), "smoke").budgets) == 2


def test_arms_of_unequal_size_say_why() -> None:
    wide = Arm("wide", {"model.d_mlp": 80})
    claims = (Claim("c", "x", "y", "wide", "lower", "pre", primary=True),)
    said = dataclasses.replace(wide, unmatched="width is the question")
    pre, more = (row.parameters for row in make_plan(tiny(arms=(Arm("pre"), said), claims=claims), "smoke").budgets)
    assert more > pre * 1.005
    with pytest.raises(StudyError) as refused:
        make_plan(tiny(arms=(Arm("pre"), wide), claims=claims), "smoke")
    assert str(refused.value) == (
        f"tiny: arm wide has {more:,} parameters, the control pre {pre:,} ({more / pre - 1:+.1%}; at most 0.5% apart "
        "is matched). Change a width (model.d_mlp), or say in the arm's `unmatched` why it may differ."
    )


def test_an_arm_differs_only_in_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny()
    plain = Study.config

    def sneaky(self: Study, arm: Arm, tier: Tier, **options: Any) -> Any:
        config = plain(self, arm, tier, **options)
        return config.replace(training=config.training.replace(weight_decay=0.3)) if arm.name == "post" else config

    monkeypatch.setattr(Study, "config", sneaky)
    with pytest.raises(StudyError) as refused:
        make_plan(study, "smoke")
    assert str(refused.value) == (
        "tiny: arms pre and post differ in training.weight_decay (0.1 and 0.3), which neither declares. Put it into an "
        "arm's overrides or into the base."
    )


def test_one_seed_makes_no_claim(tmp_path: Path) -> None:
    sentence = (
        "tiny: one seed has no spread and says nothing about its claim placement; take at least 2 seeds (--seeds 2), "
        "8 for a verdict, or run it without a claim (--exploratory)."
    )
    for study, seeds in ((tiny(), 1), (tiny(tiers=(Tier("smoke", 1, (1e-3,)),)), None)):
        with pytest.raises(StudyError) as refused:
            run_study(study, "smoke", executor=Here(), root=tmp_path, seeds=seeds)
        assert str(refused.value) == sentence and not list(tmp_path.iterdir())
    with pytest.raises(StudyError, match="0 seeds are none; take at least 2"):
        make_plan(tiny(), "smoke", seeds=0, exploratory=True)
    result = run_study(tiny(), "smoke", executor=Here(), root=tmp_path, seeds=1, exploratory=True)
    assert [comparison.verdict for comparison in result.comparisons] == ["exploratory: no claim"]
    difference = result.arm("post").losses[0] - result.arm("pre").losses[0]
    assert result.comparisons[0].sentence() == (
        f"post against pre, final_val_loss: {difference:+.4f} in one pair; exploratory: no claim."
    )
    assert result.noise is None


def clock(monkeypatch: pytest.MonkeyPatch, steps: Sequence[float]) -> None:
    """Let the steps of planning take so many seconds, one after another, over and over."""
    ticks = (t for step in itertools.cycle(steps) for t in (0.0, step))
    monkeypatch.setattr("lab.studies.plan.time", SimpleNamespace(thread_time=lambda: next(ticks)))


def test_minutes_are_of_the_fastest_step_and_of_the_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, [9.0, 0.6, 2.0])  # a cold start, a quiet moment, a busy one
    budget = make_plan(tiny(), "smoke").budgets[0]
    config = tiny().config(tiny().arm("pre"), tiny().tier("smoke"), lr=1e-3, seed=0)
    validation = len(prepared(to_json(config.data.to_dict()), 16).validation)
    assert validation > 100
    # Six steps of 4 x 16 tokens; the loss at steps 0, 3 and 6, of a forward pass, which is a third of a step.
    assert budget.minutes == pytest.approx(0.6 / 60 * (6 + 3 * validation / 64 / 3))


def test_how_long_steps_are_timed_changes_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = (Arm("pre"), Arm("based", {"model.rotary_base": 500.0}))
    claims = (Claim("c", "x", "y", "based", "lower", "pre", primary=True),)
    clock(monkeypatch, [0.2] * 3 + [0.01] * 12)  # the first arm is timed for three steps, the second for twelve
    with pytest.raises(StudyError, match="the same network"):
        make_plan(tiny(arms=arms, claims=claims), "smoke")


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"control": "past"}, "no arm 'past'"),
        ({"name": "Big Name"}, "cannot be called"),
        ({"claims": ()}, "its claims need names"),
        ({"tiers": (Tier("smoke", 0, (1e-3,)),)}, "at least 1"),
        ({"tiers": (Tier("smoke", 2, (1e-2, 1e-3)),)}, "lrs ascend"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence):
        tiny(**changes)


def test_a_claim_about_what_is_not_measured_is_refused() -> None:
    claims = (Claim("c", "x", "y", "post", "lower", "pre", outcome="induction", primary=True),)
    with pytest.raises(StudyError, match="neither a loss"):
        make_plan(tiny(claims=claims), "smoke")


def test_an_override_that_names_no_field_is_refused() -> None:
    study = tiny(arms=(Arm("pre"), Arm("post", {"norm_placement": "post"})))
    with pytest.raises(StudyError, match="'norm_placement' names no field"):
        study.config(study.arm("post"), study.tier("smoke"), lr=1e-3, seed=0)


def test_the_grid_grows_for_all_arms_where_one_has_its_best_on_the_edge(tmp_path: Path) -> None:
    study = tiny(tiers=(Tier("smoke", 1, (1e-5, 1e-4), extensions=1),))  # far too low: the best is the highest
    result = run_study(study, "smoke", executor=Here(), root=tmp_path, exploratory=True)
    assert all(sorted(arm.by_lr) == [1e-5, 1e-4, 1e-3] for arm in result.arms)
    assert all(arm.edge == "high" and arm.lr == 1e-3 for arm in result.arms)


def test_widening_keeps_the_distance_of_the_neighbours() -> None:
    assert widen([1e-3, 2e-3, 4e-3], {"low", "high"}) == [5e-4, 1e-3, 2e-3, 4e-3, 8e-3]
    assert widen([1e-3, 2e-3], {""}) == [1e-3, 2e-3]


def test_a_diverged_run_counts_with_its_initial_loss(tmp_path: Path) -> None:
    wild = {**BASE, "training.grad_clip": None, "training.warmup_steps": 0, "training.optimizer": "adamw"}
    study = tiny(base=wild, tiers=(Tier("smoke", 2, (1e-2, 1e9), extensions=0),), measures=())
    result = run_study(study, "smoke", executor=Here(), root=tmp_path)
    lost = [row for row in result.rows if row.job.lr == 1e9]
    assert lost and all(row.outcome.state == "diverged" for row in lost)
    assert all(row.loss == row.outcome.initial_loss for row in lost)
    assert all(arm.lost_by_lr[1e9] == 1.0 and arm.largest_stable_lr == 1e-2 and arm.lr == 1e-2 for arm in result.arms)


def test_a_diverged_run_counts_in_bits_too(tmp_path: Path) -> None:
    study = tiny(
        claims=(Claim("bits", "No.", "of our own", "post", "no difference", "pre", outcome="val_bpb", primary=True),),
        outcome="val_bpb",
    )
    result = run_study(study, "smoke", executor=Here(), root=tmp_path)
    folder = StudyFolder(tmp_path / "tiny-smoke")
    row = next(row for row in result.rows if row.job.arm == "post" and row.job.phase == "confirm")
    ended = row.outcome
    assert row.value("val_bpb") == pytest.approx(ended.val_bpb)
    folder.finish(dataclasses.replace(ended, state="diverged", final_val_loss=None, val_bpb=None))
    again = read_results(folder)
    assert set(again.comparisons[0].differences) == {0, 1}
    (lost,) = [row for row in again.rows if row.outcome.state == "diverged"]
    assert ended.val_bpb and ended.final_val_loss and ended.initial_loss
    assert lost.value("val_bpb") == pytest.approx(ended.initial_loss * ended.val_bpb / ended.final_val_loss)


def test_sensitivity_is_a_claims_outcome_paired_by_tuning_seed(tmp_path: Path) -> None:
    claims = (
        Claim("placement", "No.", "of our own", "post", "no difference", "pre", primary=True),
        Claim("rate", "No.", "of our own", "post", "higher", "pre", outcome="lr_sensitivity"),
    )
    study = tiny(claims=claims, tiers=(Tier("smoke", 1, (1e-3, 1e-2), 2, extensions=0),))
    result = run_study(study, "smoke", executor=Here(), root=tmp_path, exploratory=True)
    found = result.comparisons[1].differences
    assert set(found) == {tuning_seed(0), tuning_seed(1)}

    def sensitivity(arm: str, seed: int) -> float:
        tuning = [row for row in result.rows if (row.job.arm, row.job.phase, row.job.seed) == (arm, "tune", seed)]
        losses = [row.loss for row in tuning if row.loss is not None]
        assert len(losses) == 2
        return sum(losses) / 2 - min(losses)

    for seed, difference in found.items():
        assert difference == pytest.approx(sensitivity("post", seed) - sensitivity("pre", seed))
    folder = StudyFolder(tmp_path / "tiny-smoke")
    lost = next(row.job.id for row in result.rows if row.job.phase == "tune" and row.job.seed == tuning_seed(0))
    (folder.path / "done" / f"{lost}.json").unlink()  # a seed that has not tried the whole grid says nothing
    assert set(read_results(folder).comparisons[1].differences) == {tuning_seed(1)}


def test_arms_are_paired_by_seed() -> None:
    study = tiny()
    pre, post = (study.config(arm, study.tier("smoke"), lr=1e-3, seed=5) for arm in study.arms)
    assert pre.model.seed == post.model.seed == pre.training.seed == post.training.data_seed == 5


def test_a_study_is_the_same_after_json() -> None:
    study = tiny()
    assert Study.from_dict(json.loads(json.dumps(study.to_dict()))).to_dict() == study.to_dict()


def test_our_own_studies_can_be_found() -> None:
    assert set(study_names()) == {
        "norm_placement", "mlp_activation", "head_tying", "positions", "normalization", "overfitting",
    }  # fmt: skip
    for name in study_names():
        study = find_study(name)
        assert study.name == name
        assert {tier.name for tier in study.tiers} == {"smoke", "small", "full"}
        assert study.tier("small").seeds == 8
    with pytest.raises(StudyError, match="positions"):
        find_study("position")
