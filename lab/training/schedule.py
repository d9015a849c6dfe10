"""The learning rate as a pure function of the step, so a resumed run needs no memory of it."""

import math

from lab.training.config import TrainingConfig


def lr_multiplier(step: int, config: TrainingConfig) -> float:
    """The part of the peak learning rate that update number `step` (from 0) uses; `config.min_lr_fraction`
    from the end on.

    Linear warm-up over `warmup_steps`, above 0 already at step 0. Then constant; or a fall to
    `min_lr_fraction`, reached at step == steps: half a cosine (Loshchilov & Hutter 2017, arXiv 1608.03983),
    a straight line, or flat for `flat_fraction` of all steps and a straight line after that ("warm-up,
    stable, decay": Hu et al. 2024, 2404.06395).
    """
    steps, warmup, least = config.steps, config.warmup_steps, config.min_lr_fraction
    if config.schedule == "constant":
        return (step + 1) / (warmup + 1) if step < warmup else 1.0
    if step >= steps:
        return least
    if step < warmup:
        return (step + 1) / (warmup + 1)
    start = max(warmup, round(config.flat_fraction * steps)) if config.schedule == "flat_linear" else warmup
    if step < start:
        return 1.0
    remaining = 1 - (step - start) / (steps - start)  # 1 at the start, 0 at `steps`; steps > step >= start here
    if config.schedule == "cosine":
        remaining = (1 - math.cos(math.pi * remaining)) / 2
    return least + (1 - least) * remaining
