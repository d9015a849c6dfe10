"""Take a run up again: the newest whole checkpoint, and what was written after it set aside until it is passed again.

Nothing goes for good before what replaces it is complete. Where a run has begun and no checkpoint can be read, that is
an error that touches nothing, never a beginning at step 0.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from lab.runs import Run, keep_lines, read_lines, strict, to_json, write_text
from lab.runs.checkpoints import (
    LINE_FILES,
    has_begun,
    line_step,
    missing,
    read_state,
    refusal,
    step_folders,
)
from lab.training.checkpoint import SETTINGS, Progress, fixed_settings, load_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.training.config import RunConfig
    from lab.training.optimizers import Optimizers
    from model import GPT

SET_BACK = "set_back.jsonl"


def newest_whole(run: Run, model: GPT, optimizers: Optimizers, last_step: int) -> tuple[Progress | None, list[str]]:
    """Load the newest checkpoint that can be read; returns its progress, and what is wrong with newer ones.

    None where the run has not begun. Raises ValueError where it has, and no checkpoint can be read.
    """
    problems: list[str] = []
    for step, folder in step_folders(run).items():
        lacking = missing(folder)
        if lacking:
            problems.append(f"{folder.name} lacks {' and '.join(lacking)}")
            continue
        try:
            progress = load_checkpoint(folder, model, optimizers, step, last_step)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(
                f"{run.path} goes on from step {step}: {problems[0]}. What came after is trained again.", stacklevel=2
            )
        return progress, problems
    if has_begun(run):
        raise ValueError(refusal(run, problems))
    return None, problems


def require_same_training(run: Run, config: RunConfig, hashes: Mapping[str, str]) -> None:
    """Raise ValueError where the tokenizer, the corpus, the model or the way of training is another than a run's newest
    checkpoint was trained with. What an older checkpoint did not note is not compared.
    """
    for step, folder in step_folders(run).items():
        try:
            state = read_state(folder, step, config.training.steps)
        except (OSError, ValueError):
            continue
        for name, found in hashes.items():
            if state.get(name) not in (None, found):
                what = name.removesuffix("_sha256")
                raise ValueError(
                    f"the {what} is no longer the one {run.path} was trained with "
                    f"(sha256 {found[:12]}..., then {str(state[name])[:12]}...); put the old one back"
                )
        _require_same_settings(run, step, config, state.get(SETTINGS))
        return


def _require_same_settings(run: Run, step: int, config: RunConfig, then: Any) -> None:
    """Raise ValueError naming the fields of config.json that were changed since `step`, as far as it notes them."""
    changed = [
        f"{part}.{name} is {value!r}, and was {then[part][name]!r}"
        for part, values in strict(fixed_settings(config)).items()
        for name, value in values.items()
        if isinstance(then, dict) and isinstance(then.get(part), dict) and then[part].get(name, value) != value
    ]
    if changed:
        raise ValueError(
            f"{run.path / 'config.json'} was changed after step {step} was trained: {'; '.join(changed)}. Put the old "
            f"values back, or start a new run from its weights (residlab train --from-weights {run.path}@{step})"
        )


def set_back(run: Run, step: int) -> int:
    """Take the lines after `step` out of metrics, samples and dynamics, for training to write them again.

    They stay in set_back.jsonl until then. Returns the last step set back (`step` where nothing was).
    """
    aside = run.path / SET_BACK
    later: dict[tuple[str, int], dict[str, Any]] = {}
    kept = [(str(row.get("file")), row["line"]) for row in read_lines(aside) if isinstance(row.get("line"), dict)]
    cut = [(name, line) for name in LINE_FILES for line in read_lines(run.path / f"{name}.jsonl")]
    for name, line in [*kept, *cut]:
        if line_step(line) > step:
            later[name, line_step(line)] = line
    if later:
        rows = ({"file": name, "line": line} for (name, _), line in later.items())
        write_text(aside, "".join(to_json(row) + "\n" for row in rows))
    for name in LINE_FILES:
        keep_lines(run.path / f"{name}.jsonl", lambda line: line_step(line) <= step)
    return max((at for _, at in later), default=step)
