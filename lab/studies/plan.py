"""Before the first run: what it will cost, whether the arms are fairly matched, and the plan's hash.

Every arm is built and trained for a few steps. That shows a dead flag (an arm whose network and first steps equal
another's to the bit), gives the budget table its parameters, and the estimate of the minutes its step times.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.runs import to_json
from lab.studies.definition import MATCHED_WITHIN, Arm, Budget, Study, StudyError, Tier
from lab.studies.reading import plan_digest
from lab.training import RunConfig

GUARD_STEPS = 3
TIMED_STEPS, TIMED_SECONDS = 12, 0.5  # an arm's steps are timed until either is reached, GUARD_STEPS at least
_FOLLOWS = {  # fields that change by themselves when others do
    "model.d_vocab": ("data.",),
    "model.d_mlp": ("model.gated_mlp", "model.d_model"),
    "model.d_head": ("model.d_model", "model.n_heads"),
    "model.n_key_value_heads": ("model.n_heads",),
    "training.warmup_steps": ("training.steps",),
    "training.precision": ("model.d_model",),
}


@dataclass(frozen=True)
class Plan:
    """A study at a tier, ready to be registered. runs: at least so many (the learning-rate grid may grow)."""

    study: Study
    tier: Tier
    seeds: int
    budgets: tuple[Budget, ...]
    runs: int
    minutes: float
    registration: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.study.name}-{self.tier.name}"


@dataclass(frozen=True)
class _Look:
    """An arm, built and trained for a few steps."""

    arm: Arm
    config: RunConfig
    signature: str
    budget: Budget


def make_plan(
    study: Study,
    tier: str,
    *,
    seeds: int | None = None,
    exploratory: bool = False,
    on_arm: Callable[[str], None] | None = None,
) -> Plan:
    """Plan a study. seeds: confirmation seeds in place of the tier's. exploratory: a single seed will do, and nothing
    is claimed of it.

    Raises StudyError for arms that differ in more than they declare, are not matched within 0.5 % and do not say why,
    or do nothing, and for claims that a single seed is to settle; ConfigError for fields that are wrong.
    """
    spent = study.tier(tier)
    count = spent.seeds if seeds is None else seeds
    _require_seeds(study, count, exploratory)
    looks = []
    for arm in study.arms:
        if on_arm is not None:
            on_arm(arm.name)
        looks.append(_look(study, arm, spent))
    _require_declared(study, looks)
    _require_alive(study, looks)
    _require_matched(study, looks)
    _require_measures(study)
    tried = len(spent.lrs) * spent.tuning_seeds if len(spent.lrs) > 1 else 0  # a single rate needs no tuning
    trials = tried + count
    minutes = sum(look.budget.minutes * trials for look in looks)
    control = next(look for look in looks if look.arm.name == study.control)
    minutes += control.budget.minutes * count
    plan = {
        "study": dataclasses.replace(study, tiers=(spent,)).to_dict(),
        "tier": spent.name,
        "seeds": count,
        "rules": RULES,
        "configs": {look.arm.name: look.config.to_dict() for look in looks},
        "parameters": {look.arm.name: look.budget.parameters for look in looks},
    }
    registration = {"sha256": plan_digest(plan), **plan, "budget": [asdict(look.budget) for look in looks]}
    return Plan(
        study, spent, count, tuple(look.budget for look in looks), len(looks) * trials + count, minutes, registration
    )


def _require_seeds(study: Study, count: int, exploratory: bool) -> None:
    if count < 1:
        raise StudyError(f"{study.name}: {count} seeds are none; take at least 2, and 8 for a verdict.")
    if count == 1 and not exploratory:
        claims = f"its claim {study.claims[0].name}" if len(study.claims) == 1 else f"its {len(study.claims)} claims"
        raise StudyError(
            f"{study.name}: one seed has no spread and says nothing about {claims}; take at least 2 seeds (--seeds 2), "
            "8 for a verdict, or run it without a claim (--exploratory)."
        )


RULES = (
    "The learning rate is tuned for each arm on the same grid with the same number of trials, by the mean final "
    "validation loss of the tuning seeds; a grid whose best rate lies on its edge grows, for all arms alike. "
    "Confirmation uses other seeds than tuning. Arms are paired by seed: same batches, same dropout, same initial "
    "values of every tensor they share. No run is left out: one that diverged counts with its initial loss, and runs "
    "that got stuck are counted apart as well. Each claim's margin is declared here and noise never widens it: a claim "
    "is decided where its interval lies wholly beyond the margin on one side, or wholly within. Claims beside the "
    "primary one have intervals of Holm's level. A control that differs from itself (A/A) makes the table exploratory."
)


def tuning_seed(index: int) -> int:
    """Seeds for tuning are never those of confirmation."""
    return 1000 + index


def aa_seed(index: int) -> int:
    """Seeds of the control against itself."""
    return 2000 + index


def _look(study: Study, arm: Arm, tier: Tier) -> _Look:
    import numpy as np
    import torch

    from lab.studies.execute import prepared
    from lab.training.data import Batches
    from lab.training.distributed import World
    from lab.training.optimizers import Optimizers
    from lab.training.run import resolve
    from lab.training.schedule import lr_multiplier
    from model import GPT, count_parameters
    from model.accounting import flops_per_token

    config = study.config(arm, tier, lr=tier.lrs[len(tier.lrs) // 2], seed=0)
    data = prepared(to_json(config.data.to_dict()), config.model.n_ctx)
    config = resolve(config, data, World())
    training, model = config.training, GPT(config.model)
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
    batches = Batches(data.train, config.model.n_ctx, training.batch_size, training.data_seed)
    with torch.no_grad():
        first = torch.from_numpy(batches(0)[:2, :-1])
        digest.update(np.ascontiguousarray(model.eval()(first).float().numpy()).tobytes())
    model.train()
    optimizers, threads = Optimizers(model, training), torch.get_num_threads()
    seconds: list[float] = []
    torch.set_num_threads(1)
    try:
        while len(seconds) < GUARD_STEPS or (len(seconds) < TIMED_STEPS and sum(seconds) < TIMED_SECONDS):
            step, started = len(seconds), time.thread_time()
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(step)
                windows = torch.from_numpy(batches(step))
                model(windows[:, :-1], return_type="loss", targets=windows[:, 1:]).backward()
            if training.grad_clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.grad_clip)
            optimizers.set_lr(lr_multiplier(step, training))
            optimizers.step()
            optimizers.zero_grad()
            seconds.append(time.thread_time() - started)
            if len(seconds) == GUARD_STEPS:
                for parameter in model.parameters():
                    digest.update(parameter.detach().float().numpy().tobytes())
    finally:
        torch.set_num_threads(threads)
    evaluations = 1 + -(-training.steps // training.eval_every)
    counted = count_parameters(config.model)
    per_token = flops_per_token(config.model)
    a_step = training.batch_size * config.model.n_ctx
    tokens = training.steps * a_step
    budget = Budget(
        arm.name,
        counted.total,
        counted.non_embedding,
        per_token,
        per_token * tokens,
        tokens,
        tokens / counted.total,
        tokens / len(data.train),
        config.model.d_vocab,
        min(seconds) / 60 * (training.steps + evaluations * len(data.validation) / a_step / 3),  # forward: a third
    )
    return _Look(arm, config, digest.hexdigest(), budget)


def _differences(a: RunConfig, b: RunConfig) -> set[str]:
    found = set()
    for part in ("model", "data", "training"):
        left, right = a.to_dict()[part], b.to_dict()[part]
        found |= {f"{part}.{name}" for name in left if left[name] != right.get(name)}
    return found


def _require_declared(study: Study, looks: list[_Look]) -> None:
    """Each arm differs from a plain run of the study in what it overrides, and in what follows from that alone."""
    for look in looks:
        for other in looks:
            declared = set(look.arm.overrides) | set(other.arm.overrides)
            for name in _differences(look.config, other.config) - declared:
                if not any(d.startswith(p) for p in _FOLLOWS.get(name, ()) for d in declared):
                    part, _, field = name.partition(".")
                    values = [getattr(getattr(item.config, part), field) for item in (look, other)]
                    raise StudyError(
                        f"{study.name}: arms {look.arm.name} and {other.arm.name} differ in {name} ({values[0]} and "
                        f"{values[1]}), which neither declares. Put it into an arm's overrides or into the base."
                    )


def _require_alive(study: Study, looks: list[_Look]) -> None:
    seen: dict[str, _Look] = {}
    for look in looks:
        twin = seen.setdefault(look.signature, look)
        if twin is not look:
            differing = sorted(_differences(look.config, twin.config)) or ["nothing"]
            raise StudyError(
                f"{study.name}: arms {twin.arm.name} and {look.arm.name} are the same network: equal parameters, equal "
                f"logits, equal weights after {GUARD_STEPS} steps. They differ in {', '.join(differing)}, which does "
                "nothing here."
            )


def _require_matched(study: Study, looks: list[_Look]) -> None:
    control = next(look for look in looks if look.arm.name == study.control)
    for look in looks:
        off = look.budget.parameters / control.budget.parameters - 1
        if abs(off) > MATCHED_WITHIN and not look.arm.unmatched:
            raise StudyError(
                f"{study.name}: arm {look.arm.name} has {look.budget.parameters:,} parameters, the control "
                f"{study.control} {control.budget.parameters:,} ({off:+.1%}; at most {MATCHED_WITHIN:.1%} apart is "
                "matched). Change a width (model.d_mlp), or say in the arm's `unmatched` why it may differ."
            )


def _require_measures(study: Study) -> None:
    from lab.studies.measures import resolve_measure

    for name in study.measures:
        resolve_measure(name)
    for claim in study.claims:
        if claim.outcome not in (*LOSSES, *study.measures):
            raise StudyError(
                f'{study.name}: claim "{claim.name}" is about {claim.outcome}, which is neither a loss '
                f"({', '.join(LOSSES)}) nor among the study's measures ({', '.join(study.measures) or 'none'})."
            )


LOSSES = ("final_val_loss", "val_bpb", "train_loss", "best_val_loss", "lr_sensitivity")
