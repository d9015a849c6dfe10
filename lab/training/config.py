"""What a training run is made of, as frozen, checked values: the model, the data, and how it is trained. No
torch here.

A mistake raises `model.config.ConfigError` with one sentence a field, so a form can show them beside the
fields.
"""

import dataclasses
import sys
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from model.checks import plain
from model.config import ConfigError, GPTConfig, Problem, nearest

SCHEMA_VERSION = 1

Optimizer = Literal["adamw", "muon"]
Schedule = Literal["constant", "cosine", "linear", "flat_linear"]
Precision = Literal["auto", "fp32", "bf16"]
Device = Literal["auto", "cpu", "cuda", "mps"]

_Config = TypeVar("_Config", "DataConfig", "TrainingConfig")


LARGEST = 2**63 - 1  # of a number that is counted
LARGEST_NUMBER = 1e30  # of one that weights are multiplied by, which are float32
MOST_THREADS = 4096
MOST_OF_A_CORPUS = 1_000_000_000


@dataclass(frozen=True)
class DataConfig:
    """What is learned from."""

    corpus: str  # a built-in corpus, a text file, or a folder of text files
    tokenizer: str = "auto"  # auto (the corpus' own), char, byte, bpe:SIZE or gpt2:FOLDER
    corpus_seed: int = 0  # seed of a generated corpus
    corpus_size: int | None = None  # size of a generated corpus, in its own unit; None: the corpus' default

    def __post_init__(self) -> None:
        _make_plain(self)
        problems: list[Problem] = []
        if not isinstance(self.corpus, str) or not self.corpus.strip():
            problems.append(("corpus", "A corpus is needed: the name of a built-in one, a file or a folder."))
        if not isinstance(self.tokenizer, str) or not self.tokenizer.strip():
            problems.append(("tokenizer", f"tokenizer is {self.tokenizer!r}; write auto, char, byte or bpe:SIZE."))
        if not _whole(self.corpus_seed, 0):
            problems.append(("corpus_seed", f"corpus_seed is {self.corpus_seed!r}; it must be a whole number from 0."))
        if self.corpus_size is not None and not _whole(self.corpus_size, 1):
            problems.append(("corpus_size", f"corpus_size is {self.corpus_size!r}; it must be a whole number from 1."))
        elif self.corpus_size is not None and self.corpus_size > MOST_OF_A_CORPUS:
            rule = f"at most {MOST_OF_A_CORPUS}"
            problems.append(("corpus_size", f"corpus_size is {self.corpus_size!r}; it must be {rule}."))
        if problems:
            raise ConfigError(problems)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "DataConfig":
        return _read(DataConfig, values, "data")


@dataclass(frozen=True)
class TrainingConfig:
    """How it is trained. Losses are in nats per token; a step is one update of the weights."""

    steps: int = 2000  # updates of the weights
    batch_size: int = 12  # windows of n_ctx tokens a step, over all devices together
    optimizer: Optimizer = "adamw"  # muon: Muon for the hidden matrices, AdamW for the rest
    lr: float = 1e-3  # AdamW's peak learning rate
    muon_lr: float = 0.02  # Muon's peak learning rate
    betas: tuple[float, float] = (0.9, 0.99)  # AdamW's averaging of gradients and of their squares
    adam_eps: float = 1e-8  # added to AdamW's denominator
    muon_momentum: float = 0.95  # Muon's averaging of gradients (Nesterov)
    muon_split_qkv: bool = True  # orthogonalise the update of queries, keys and values apart
    weight_decay: float = 0.1  # decoupled, on tensors of two dimensions or more
    grad_clip: float | None = 1.0  # largest gradient norm; None: no clipping
    schedule: Schedule = "cosine"  # constant, cosine, linear, or flat_linear (flat, then linear)
    warmup_steps: int = 100  # steps over which the learning rate rises linearly
    min_lr_fraction: float = 0.1  # the learning rate at the end, as a part of the peak
    flat_fraction: float = 0.5  # of the steps, before flat_linear begins to fall
    seed: int = 0  # dropout and samples; the weights have model.seed
    data_seed: int = 0  # which windows make which batch
    precision: Precision = "auto"  # auto: bf16 where the hardware multiplies it natively and it pays
    device: Device = "auto"  # auto: cuda where there is one, else cpu
    threads: int = 1  # CPU threads over all processes; two runs of one thread each beat one run of two
    compile: bool = False  # torch.compile the forward pass
    log_every: int = 10  # steps between lines of metrics
    eval_every: int = 250  # steps between evaluations of the whole validation split
    eval_tokens: int | None = 1_000_000  # validation tokens that are scored, from its beginning; None: all
    checkpoint_every: int = 500  # steps between checkpoints, after the early ones
    checkpoint_early: bool = True  # also at 0, 1, 2, 4, ... 512: circuits form early
    optimizer_history: int = 2  # newest checkpoints that keep the optimizer's state; older ones keep the weights
    sample_every: int = 250  # steps between samples; 0: none
    sample_tokens: int = 128  # tokens of a sample
    sample_prompt: str | None = None  # None: the beginning of the validation split
    sample_temperature: float = 0.8  # of the samples: below 1 safer, above 1 wilder
    from_weights: str | None = None  # begin with the weights of this run, RUN@STEP or model; None: fresh ones
    dynamics: bool = True  # record norms and head scores at checkpoints
    divergence_factor: float = 3.0  # a loss this many times that of a uniform guess counts as exploded
    divergence_patience: int = 10  # exploded steps in a row that end the run; 0: only a non-finite loss does

    def __post_init__(self) -> None:
        _make_plain(self)
        if isinstance(self.betas, list):
            object.__setattr__(self, "betas", tuple(self.betas))
        problems = _training_problems(self)
        if problems:
            raise ConfigError(problems)

    def replace(self, **changes: Any) -> "TrainingConfig":
        return TrainingConfig.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON; `from_dict` reads them back to an equal config."""
        return {**dataclasses.asdict(self), "betas": list(self.betas)}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "TrainingConfig":
        """Unknown keys are errors that offer the nearest known one."""
        return _read(TrainingConfig, values, "training")

    @staticmethod
    def problems(values: dict[str, Any]) -> list[Problem]:
        """Everything wrong with these values at once, for a form; empty when a config can be made of them."""
        try:
            TrainingConfig.from_dict(values)
        except ConfigError as error:
            return error.problems
        return []


@dataclass(frozen=True)
class RunConfig:
    """A whole run.

    `model.d_vocab` always follows the tokenizer, which is known when the data has been read.
    """

    model: GPTConfig
    data: DataConfig
    training: TrainingConfig = field(default_factory=TrainingConfig)
    preset: str | None = None  # the preset and the recipe the values were built from, for the record
    recipe: str | None = None

    def replace(self, **changes: Any) -> "RunConfig":
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "preset": self.preset,
            "recipe": self.recipe,
            "model": self.model.to_dict(),
            "data": self.data.to_dict(),
            "training": self.training.to_dict(),
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "RunConfig":
        """Read what `to_dict` wrote. Raises ConfigError for unknown keys and for a newer schema."""
        version = values.get("schema_version", SCHEMA_VERSION)
        if not _whole(version, 1) or version > SCHEMA_VERSION:
            raise ConfigError(
                [
                    (
                        "schema_version",
                        f"This run has schema_version {version!r}; this program reads {SCHEMA_VERSION}.",
                    )
                ]
            )
        known = ("schema_version", "preset", "recipe", "model", "data", "training")
        unknown = [
            (name, f"Unknown key {name!r} in a run config{nearest(name, known)}")
            for name in values
            if name not in known
        ]
        if unknown:
            raise ConfigError(unknown)
        for part in ("model", "data"):
            if not isinstance(values.get(part), dict):
                raise ConfigError([(part, f"A run config needs an object under {part!r}.")])
        return RunConfig(
            model=GPTConfig.from_dict(values["model"]),
            data=DataConfig.from_dict(values["data"]),
            training=TrainingConfig.from_dict(values.get("training", {})),
            preset=values.get("preset"),
            recipe=values.get("recipe"),
        )


def _read(kind: type[_Config], values: dict[str, Any], where: str) -> _Config:
    known = [f.name for f in dataclasses.fields(kind)]
    unknown = [(n, f"Unknown {where} field {n!r}{nearest(n, known)}") for n in values if n not in known]
    if unknown:
        raise ConfigError(unknown)
    missing = [f.name for f in dataclasses.fields(kind) if _required(f) and f.name not in values]
    if missing:
        raise ConfigError([(n, f"The {where} field {n!r} is missing.") for n in missing])
    return kind(**values)


def _required(f: "dataclasses.Field[Any]") -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _make_plain(config: Any) -> None:
    """Numbers of numpy's become Python's: a config is written as JSON."""
    for one in dataclasses.fields(config):
        object.__setattr__(config, one.name, plain(getattr(config, one.name)))


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


_COUNTS = (
    "steps", "batch_size", "threads", "log_every", "eval_every", "checkpoint_every", "sample_tokens", "warmup_steps",
    "optimizer_history", "sample_every", "divergence_patience",
)  # fmt: skip


def _training_problems(config: TrainingConfig) -> list[Problem]:
    """One sentence a field: ranges first, then the fields that only make sense together."""
    found: dict[str, str] = {}

    def require(name: str, holds: bool, rule: str) -> None:
        if not holds:
            found.setdefault(name, f"{name} is {getattr(config, name)!r}; it must be {rule}.")

    for name in (
        "steps",
        "batch_size",
        "threads",
        "log_every",
        "eval_every",
        "checkpoint_every",
        "sample_tokens",
    ):
        require(name, _whole(getattr(config, name), 1), "a whole number of at least 1")
    for name in (
        "warmup_steps",
        "optimizer_history",
        "sample_every",
        "divergence_patience",
    ):
        require(name, _whole(getattr(config, name), 0), "a whole number of at least 0")
    for name in _COUNTS:
        value = getattr(config, name)
        most = MOST_THREADS if name == "threads" else LARGEST
        require(name, not _whole(value, 0) or value <= most, f"at most {most}")
    for name in ("seed", "data_seed"):
        value = getattr(config, name)
        require(name, _whole(value, 0) and value < 2**63, "a whole number from 0 to 2^63 - 1")
    for name in ("lr", "muon_lr", "adam_eps", "divergence_factor"):
        value = getattr(config, name)
        require(name, _number(value) and value > 0, "a finite number above 0")
    for name in ("weight_decay", "sample_temperature"):
        value = getattr(config, name)
        require(name, _number(value) and value >= 0, "a finite number of at least 0")
    for name in ("lr", "muon_lr", "adam_eps", "divergence_factor", "weight_decay", "sample_temperature"):
        value = getattr(config, name)  # beyond it a product with a weight is no float32 any more
        require(name, not _number(value) or value <= LARGEST_NUMBER, f"at most {LARGEST_NUMBER:g}")
    for name in ("min_lr_fraction", "flat_fraction"):
        value = getattr(config, name)
        require(name, _number(value) and 0 <= value <= 1, "between 0 and 1")
    require(
        "muon_momentum",
        _number(config.muon_momentum) and 0 <= config.muon_momentum < 1,
        "at least 0 and below 1",
    )
    betas = config.betas
    fine = isinstance(betas, tuple) and len(betas) == 2 and all(_number(b) and 0 <= b < 1 for b in betas)
    require("betas", fine, "two numbers of at least 0 and below 1")
    clip = config.grad_clip
    require("grad_clip", clip is None or (_number(clip) and clip > 0), "None or a finite number above 0")
    prompt = config.sample_prompt
    require("sample_prompt", prompt is None or (isinstance(prompt, str) and prompt != ""), "None or a text")
    scored = config.eval_tokens
    require("eval_tokens", scored is None or (_whole(scored, 1)), "None or a whole number from 1")
    first = config.from_weights
    require("from_weights", first is None or (isinstance(first, str) and first.strip() != ""), "None or a model")
    hints = get_type_hints(TrainingConfig)
    for name in ("optimizer", "schedule", "precision", "device"):
        choices = get_args(hints[name])
        if getattr(config, name) not in choices:
            found[name] = f"{name} is {getattr(config, name)!r}{nearest(str(getattr(config, name)), choices)}"
    for name in ("muon_split_qkv", "compile", "checkpoint_early", "dynamics"):
        require(name, isinstance(getattr(config, name), bool), "true or false")
    if not found.keys() & {"steps", "warmup_steps"} and config.warmup_steps > config.steps:
        found["warmup_steps"] = (
            f"warmup_steps {config.warmup_steps} is more than steps {config.steps}: the learning "
            f"rate would never reach its peak. Warm up for at most {config.steps} steps, or train longer."
        )
    return list(found.items())
