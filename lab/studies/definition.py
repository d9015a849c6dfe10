"""What a study is: a question, the arms that are compared, what is claimed of them, and how much is spent. No torch.

Everything here is written down before the first run and hashed: see `lab.studies.plan`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lab.training import RunConfig, build_run_config
from model.config import nearest

Sign = Literal["lower", "higher", "no difference"]
SEEDS_FOR_A_CLAIM = 6  # below it no sign test can reach p < .05; a study of fewer seeds is exploratory
MATCHED_WITHIN = 0.005  # of the control's parameters
_NAME = re.compile(r"[a-z0-9][a-z0-9_\-]{0,60}")


class StudyError(ValueError):
    """A study that cannot be run as it stands; the sentence names the arms, the values and the fix."""


@dataclass(frozen=True)
class Arm:
    """One of the things compared.

    overrides: what differs from the study's base, by dotted name: {"model.norm_placement": "post"}.
    unmatched: why this arm may have another number of parameters than the control; empty: it may not.
    """

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    unmatched: str = ""


@dataclass(frozen=True)
class Claim:
    """A prediction that the study puts to the test.

    text, source: what is claimed, by whom. treatment, control: names of arms; without a control the treatment's
    outcome is compared with zero. outcome: "final_val_loss" (nats), "val_bpb", "lr_sensitivity" (of the tuning runs,
    paired by tuning seed), or a scalar measure of `lab.studies.measures`. predicted: where treatment - control is
    expected to lie. margin: differences within it count as none, in the outcome's unit; None: the study's own for the
    study's outcome, and 0 for any other (every difference matters, and no equivalence can be claimed). why: what makes
    this margin the right one. primary: the one claim that is not corrected for the number of claims.
    """

    name: str
    text: str
    source: str
    treatment: str
    predicted: Sign
    control: str | None = None
    outcome: str = "final_val_loss"
    margin: float | None = None
    why: str = ""
    primary: bool = False


@dataclass(frozen=True)
class Tier:
    """How much is spent on a study: the steps and shape of a run, the seeds, the learning rates tried.

    lrs: the grid, ascending. tuning_seeds: runs a grid point; of other seeds than the confirmation.
    """

    name: str
    seeds: int
    lrs: tuple[float, ...]
    tuning_seeds: int = 1
    overrides: Mapping[str, Any] = field(default_factory=dict)
    extensions: int = 2  # how often the grid may grow when the best learning rate lies on its edge


@dataclass(frozen=True)
class Study:
    """A question and everything needed to answer it. See the module and `studies/` for examples.

    base: overrides that all arms share, by dotted name. fixed: what is held fixed, printed as caveats.
    measures: names of `lab.studies.measures` that are taken of every confirmation run.
    margin: nats; a difference within it is none. Noise never widens it.
    """

    name: str
    question: str
    hypothesis: str
    source: str
    arms: tuple[Arm, ...]
    control: str
    claims: tuple[Claim, ...]
    tiers: tuple[Tier, ...]
    corpus: str = "stories"
    preset: str = "nano"
    recipe: str = "textbook"
    base: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    outcome: str = "final_val_loss"
    margin: float = 0.01

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise StudyError(f'A study cannot be called "{self.name}": use small letters, digits, _ and -.')
        for what, names in (
            ("arms", [arm.name for arm in self.arms]),
            ("claims", [claim.name for claim in self.claims]),
            ("tiers", [tier.name for tier in self.tiers]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            bad = [name for name in names if not _NAME.fullmatch(name)]
            if twice or bad or not names:
                raise StudyError(f"{self.name}: its {what} need names, each once, of small letters: {names}.")
        self.arm(self.control)
        for claim in self.claims:
            self.arm(claim.treatment)
            if claim.control is not None:
                self.arm(claim.control)
            if claim.treatment == claim.control:
                raise StudyError(f'{self.name}: claim "{claim.name}" compares {claim.treatment} with itself.')
        if sum(claim.primary for claim in self.claims) != 1:
            raise StudyError(f"{self.name}: exactly one claim is primary, not {sum(c.primary for c in self.claims)}.")
        for tier in self.tiers:
            if tier.seeds < 1 or tier.tuning_seeds < 1 or not tier.lrs or list(tier.lrs) != sorted(set(tier.lrs)):
                raise StudyError(
                    f"{self.name}, tier {tier.name}: seeds and tuning_seeds are at least 1, lrs ascend; "
                    f"they are {tier.seeds}, {tier.tuning_seeds}, {tier.lrs}."
                )

    def arm(self, name: str) -> Arm:
        """The arm called `name`; StudyError with the nearest name where there is none."""
        found = {arm.name: arm for arm in self.arms}
        if name not in found:
            raise StudyError(f"{self.name} has no arm {name!r}{nearest(name, found)}")
        return found[name]

    def tier(self, name: str) -> Tier:
        """The tier called `name`; StudyError with the nearest name where there is none."""
        found = {tier.name: tier for tier in self.tiers}
        if name not in found:
            raise StudyError(f"{self.name} has no tier {name!r}{nearest(name, found)}")
        return found[name]

    def config(self, arm: Arm, tier: Tier, *, lr: float, seed: int) -> RunConfig:
        """The run of an arm at a learning rate and a seed. Arms share weights, batches and dropout of a seed as far
        as they share tensors. One thread: runs stand side by side. Raises ConfigError for an unknown field."""
        parts: dict[str, dict[str, Any]] = {"model": {}, "data": {}, "training": {}}
        own: Mapping[str, Any] = {"training.lr": lr}
        for overrides in (_QUIET, self.base, tier.overrides, arm.overrides, own):
            for dotted, value in overrides.items():
                part, _, name = dotted.partition(".")
                if part not in parts or not name:
                    raise StudyError(
                        f"{self.name}, arm {arm.name}: {dotted!r} names no field; write model.NAME, data.NAME or "
                        "training.NAME."
                    )
                parts[part][name] = value
        data = parts["data"]
        return build_run_config(
            str(data.get("corpus", self.corpus)),
            self.preset,
            self.recipe,
            seed=seed,
            tokenizer=data.get("tokenizer", "auto"),
            corpus_seed=data.get("corpus_seed", 0),
            corpus_size=data.get("corpus_size"),
            model_overrides=parts["model"],
            training_overrides=parts["training"],
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON; `from_dict` reads them back to an equal study."""
        return _plain(dataclasses.asdict(self))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Study:
        rest = {k: v for k, v in values.items() if k not in ("arms", "claims", "tiers", "measures", "fixed")}
        return Study(
            **rest,
            arms=tuple(Arm(**arm) for arm in values["arms"]),
            claims=tuple(Claim(**claim) for claim in values["claims"]),
            tiers=tuple(Tier(**{**tier, "lrs": tuple(tier["lrs"])}) for tier in values["tiers"]),
            measures=tuple(values["measures"]),
            fixed=tuple(values["fixed"]),
        )


@dataclass(frozen=True)
class Budget:
    """What one run of an arm costs. flops are of training; minutes are of one core of this machine, estimated: the
    processor time of the fastest of a few steps, so that other work on the machine does not count, and evaluations."""

    arm: str
    parameters: int
    non_embedding: int
    flops_per_token: int
    flops: int
    tokens: int
    tokens_per_parameter: float
    epochs: float
    d_vocab: int
    minutes: float


# Nothing a study does not read is written: no samples, no dynamics, one checkpoint at the end.
_QUIET: Mapping[str, Any] = {
    "training.threads": 1,
    "training.sample_every": 0,
    "training.dynamics": False,
    "training.checkpoint_early": False,
    "training.checkpoint_every": 1_000_000,
}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
