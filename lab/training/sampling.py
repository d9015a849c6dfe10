"""The text a model in training writes, for samples.jsonl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab.training.config import TrainingConfig
from lab.training.data import TrainingData

if TYPE_CHECKING:
    from model import GPT

DEFAULT_PROMPT_TOKENS = 16


def sample(model: GPT, data: TrainingData, training: TrainingConfig, step: int) -> dict[str, Any]:
    """{"step", "prompt", "text"}: what follows the prompt. Its draws are a function of (seed, step) alone.

    The prompt is `training.sample_prompt`, or the beginning of the validation split. A model whose logits
    are not finite gives text None and the reason under "error": samples must not end a training that may
    recover.
    """
    ids = prompt_ids(data, training, model.config.n_ctx)
    seed = int(np.random.SeedSequence([training.seed, step]).generate_state(1)[0])
    record: dict[str, Any] = {"step": step, "prompt": data.tokenizer.decode(ids)}
    try:
        tokens = model.generate(
            torch.tensor([ids], device=model.device),
            max_new_tokens=training.sample_tokens,
            temperature=training.sample_temperature,
            seed=seed,
        )
    except ValueError as error:
        return {**record, "text": None, "error": str(error)}
    return {**record, "text": data.tokenizer.decode(tokens[0, len(ids) :].tolist())}


def prompt_ids(data: TrainingData, training: TrainingConfig, n_ctx: int) -> list[int]:
    """Token ids of the prompt. Raises UnknownCharacters (a ValueError) for one the tokenizer cannot read."""
    if training.sample_prompt is not None:
        return data.tokenizer.encode(training.sample_prompt)
    return data.validation[: max(1, min(DEFAULT_PROMPT_TOKENS, n_ctx // 2))].tolist()
