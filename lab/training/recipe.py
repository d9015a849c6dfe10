"""Recipes: a way of training that was measured, as values over a preset. No torch here.

Precedence: preset < recipe < what is asked for explicitly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.training.config import DataConfig, RunConfig, TrainingConfig
from model.config import PRESETS, ConfigError, GPTConfig, nearest


@dataclass(frozen=True)
class Recipe:
    """A description in one sentence, what it changes in the model, and how it trains.

    `by_preset` holds training values, `model_by_preset` model values, that belong to one size of model.
    """

    description: str
    training: TrainingConfig
    model_overrides: Mapping[str, Any] = field(default_factory=dict)
    by_preset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model_by_preset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


RECIPES: dict[str, Recipe] = {
    "nanogpt": Recipe(
        "nanoGPT's CPU recipe for tiny-shakespeare, to compare with: AdamW, cosine from 1e-3 to 1e-4",
        TrainingConfig(
            steps=2000,
            batch_size=12,
            optimizer="adamw",
            lr=1e-3,
            betas=(0.9, 0.99),
            weight_decay=0.1,
            grad_clip=1.0,
            schedule="cosine",
            warmup_steps=100,
            min_lr_fraction=0.1,
            precision="fp32",
        ),
    ),
    "textbook": Recipe(
        "what textbooks teach, its learning rate tuned for small models: AdamW, warm-up, cosine",
        TrainingConfig(
            steps=2000,
            batch_size=16,
            optimizer="adamw",
            lr=3e-3,
            betas=(0.9, 0.99),
            weight_decay=0.1,
            grad_clip=1.0,
            schedule="cosine",
            warmup_steps=100,
            min_lr_fraction=0.1,
        ),
        by_preset={"small": {"batch_size": 32}, "tinygpt": {"batch_size": 32}, "minigpt": {"batch_size": 8}},
    ),
    "fast": Recipe(
        "the lowest loss for the time: Muon, rotary, RMSNorm, ReLU^2, QK-norm, untied, flat then linear to 0",
        TrainingConfig(
            steps=2000,
            batch_size=12,
            optimizer="muon",
            lr=6e-3,
            muon_lr=0.012,
            muon_momentum=0.9,
            betas=(0.9, 0.95),
            weight_decay=0.0,
            grad_clip=None,
            schedule="flat_linear",
            warmup_steps=0,
            min_lr_fraction=0.0,
            flat_fraction=0.2,
        ),
        model_overrides={
            "positional_embedding_type": "rotary",
            "normalization_type": "RMS",
            "act_fn": "relu2",
            "qk_norm": True,
            "zero_projection_init": True,
            "tie_word_embeddings": False,
            "use_bias": False,
        },
        # As low as RMSNorm's and a tenth less time at this width, where torch has a fused kernel for it on CPU.
        model_by_preset={"small": {"normalization_type": "LN"}},
        by_preset={
            # Two threads take 0.7 of one's time at this width, where the products are large enough.
            "small": {"batch_size": 32, "steps": 1500, "weight_decay": 0.1, "betas": (0.9, 0.99), "threads": 2},
            "tinygpt": {"batch_size": 32, "steps": 1250},
            "minigpt": {"batch_size": 8, "steps": 1250},
        },
    ),
}


def build_run_config(
    corpus: str,
    preset: str = "nano",
    recipe: str = "fast",
    *,
    steps: int | None = None,
    seed: int = 0,
    tokenizer: str = "auto",
    corpus_seed: int = 0,
    corpus_size: int | None = None,
    model_overrides: Mapping[str, Any] | None = None,
    training_overrides: Mapping[str, Any] | None = None,
) -> RunConfig:
    """A whole run from a preset and a recipe. `seed` sets weights, dropout and data order unless one is
    overridden.

    A recipe's warm-up is shortened to a tenth of the steps when the run is shorter than it was made for; one
    that is asked for explicitly is kept, or refused. Raises ConfigError naming the fields, with the nearest
    known name.
    """
    model_overrides, training_overrides = dict(model_overrides or {}), dict(training_overrides or {})
    if preset not in PRESETS:
        raise ConfigError([("preset", f"Unknown preset {preset!r}{nearest(preset, PRESETS)}")])
    if recipe not in RECIPES:
        raise ConfigError([("recipe", f"Unknown recipe {recipe!r}{nearest(recipe, RECIPES)}")])
    if "d_vocab" in model_overrides:
        raise ConfigError([("d_vocab", "d_vocab follows the tokenizer; choose data.tokenizer instead of setting it.")])
    if corpus.strip() and (path := Path(corpus).expanduser()).exists() and corpus not in _built_in_corpora():
        corpus = str(path.resolve())  # so that the run can be taken up from another folder
    chosen = RECIPES[recipe]
    recommended = {**chosen.model_overrides, **chosen.model_by_preset.get(preset, {})}
    model = GPTConfig.preset(preset, **{**recommended, "seed": seed, **model_overrides})
    training = {
        **chosen.training.to_dict(),
        **chosen.by_preset.get(preset, {}),
        "seed": seed,
        "data_seed": seed,
    }
    if steps is not None:
        training_overrides.setdefault("steps", steps)
    training |= training_overrides
    if "warmup_steps" not in training_overrides and isinstance(training["steps"], int):
        training["warmup_steps"] = max(0, min(training["warmup_steps"], training["steps"] // 10))
    if isinstance(first := training.get("from_weights"), str):
        name, at, step = first.partition("@")
        if Path(name).expanduser().exists():  # as the corpus: from any folder
            training["from_weights"] = f"{Path(name).expanduser().resolve()}{at}{step}"
    return RunConfig(
        model=model,
        data=DataConfig(corpus, tokenizer, corpus_seed, corpus_size),
        training=TrainingConfig.from_dict(training),
        preset=preset,
        recipe=recipe,
    )


def _built_in_corpora() -> tuple[str, ...]:
    from lab.corpora import corpus_names  # numpy comes with it

    return corpus_names()
