"""What a checkpoint on disk has to hold, and what still can be done with one that lacks something. No torch here.

A checkpoint's state.json keeps the sha256 of the files beside it, so a byte that changed on the disk is found when the
file is read, by whoever reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab.runs.files import has_kind, read_json, read_lines, require_regular, to_json
from lab.runs.folder import Run, folder_step

WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
LINE_FILES = ("metrics", "samples", "dynamics")
"""What a resumed run cuts off after its checkpoint, and writes again."""
SCHEMA_VERSION = 1
DIGESTS, OWN_DIGEST = "sha256", "state_sha256"


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes. Raises OSError naming what is no file."""
    require_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_digest(path: Path) -> None:
    """Raise ValueError where the state.json beside `path` knows another sha256 of it.

    A folder without a state.json that can be read (a model alone, an old run) has none to compare with.
    """
    try:
        digests = read_json(path.with_name(STATE)).get(DIGESTS)
    except (OSError, ValueError):
        return
    expected = digests.get(path.name) if isinstance(digests, dict) else None
    if expected is not None and file_digest(path) != expected:
        raise ValueError(
            f"{path} is damaged or was replaced: it is not the file that was written with this checkpoint "
            f"(its sha256 is another than {STATE} beside it notes)"
        )


# --- state.json ---------------------------------------------------------------------------------------------


def is_step(value: Any) -> bool:
    """Whether a value of a JSON file is a number of steps: whole, from 0."""
    return has_kind(value, int) and bool(value >= 0)


def _number(value: Any) -> bool:
    return has_kind(value, float)


def _maybe(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


_WHOLE, _TIME = "a whole number from 0", "a number of seconds"
STATE_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "step": (is_step, _WHOLE),
    "tokens": (is_step, _WHOLE),
    "seconds": (lambda value: _number(value) and value >= 0, _TIME),
    "wall_seconds": (lambda value: _number(value) and value >= 0, _TIME),
    "losses": (_numbers, "a list of numbers"),
    "clipped": (is_step, _WHOLE),
    "grad_norm": (_maybe(_number), "a number or null"),
    "first_loss": (_maybe(_number), "a number or null"),
    "exploded": (is_step, _WHOLE),
    "best_step": (_maybe(is_step), f"{_WHOLE}, or null"),
    "best_loss": (_maybe(_number), "a number or null"),
}


def signed_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state with its own sha256, which `read_state` compares."""
    return {**state, OWN_DIGEST: _digest_of(state)}


def _digest_of(state: Mapping[str, Any]) -> str:
    kept = {name: state[name] for name in sorted(state) if name != OWN_DIGEST}
    return hashlib.sha256(to_json(kept).encode()).hexdigest()


def read_state(folder: Path, step: int, last_step: int) -> dict[str, Any]:
    """state.json of the checkpoint of `step`, every value checked.

    Raises OSError or ValueError naming the file and the value.
    """
    path = folder / STATE
    state = read_json(path)
    version = state.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(f"{path} has schema_version {version!r}; this program reads {SCHEMA_VERSION}")
    for name, (holds, rule) in STATE_VALUES.items():
        if name not in state:
            raise ValueError(f"{path} lacks {name!r}")
        if not holds(state[name]):
            raise ValueError(f"{path}: {name} is {repr(state[name])[:60]}; it must be {rule}")
    if state["step"] != step or step > last_step:
        raise ValueError(f"{path} is of step {state['step']}, in the folder of step {step} of {last_step}")
    if OWN_DIGEST in state and state[OWN_DIGEST] != _digest_of(state):
        raise ValueError(f"{path} was changed after it was written (its sha256 is another than it notes)")
    return state


# --- whether a run can go on --------------------------------------------------------------------------------


def problem(folder: Path, step: int, last_step: int) -> str | None:
    """Why training cannot go on from a checkpoint; None where every file is there and is what was written.

    Reads all of it once. Whether the tensors fit the configuration is seen when they are loaded.
    """
    lacking = missing(folder)
    if lacking:
        return f"{folder.name} lacks {' and '.join(lacking)}"
    try:
        read_state(folder, step, last_step)
        for name in (WEIGHTS, OPTIMIZER):
            require_digest(folder / name)
    except (OSError, ValueError) as error:
        return str(error)
    return None


def missing(folder: Path) -> list[str]:
    """Which of a checkpoint's files are not there (or are no files)."""
    return [name for name in (WEIGHTS, OPTIMIZER, STATE) if not (folder / name).is_file()]


def step_folders(run: Run) -> dict[int, Path]:
    """Every folder that has the name of a checkpoint, whatever is left in it, the newest first."""
    parent = run.path / "checkpoints"
    found = parent.glob("step_*") if parent.is_dir() else ()
    steps = ((folder_step(path.name), path) for path in found if path.is_dir())
    return dict(sorted(((step, path) for step, path in steps if step is not None), reverse=True))


def has_begun(run: Run) -> bool:
    """Whether anything is left of steps that a run has made, so that to begin at step 0 would lose it."""
    lines = (line for name in (*LINE_FILES, "events") for line in read_lines(run.path / f"{name}.jsonl"))
    return bool(step_folders(run)) or run.status().step > 0 or any(line_step(line) > 0 for line in lines)


def line_step(line: Mapping[str, Any]) -> int:
    """The step that a line of metrics, samples or dynamics is of; 0 where it does not say."""
    step = line.get("step")
    return step if isinstance(step, int) and is_step(step) else 0


def require_checkpoint(run: Run, *, thorough: bool = False) -> None:
    """Raise ValueError where a run has begun and no checkpoint is there to go on from; nothing is touched.

    thorough: also read the files, instead of only looking whether they are there.
    """
    last_step = run.status().max_steps
    problems = []
    for step, folder in step_folders(run).items():
        if thorough:
            said = problem(folder, step, last_step)
        else:
            lacking = missing(folder)
            said = f"{folder.name} lacks {' and '.join(lacking)}" if lacking else None
        if said is None:
            return
        problems.append(said)
    if has_begun(run):
        raise ValueError(refusal(run, problems))


def refusal(run: Run, problems: list[str]) -> str:
    """Why a run cannot go on (what is wrong with each checkpoint, the newest first), and what can still be done."""
    newest = "; ".join(problems[:2]) or "there is none left"
    more = f", and {len(problems) - 2} older ones are no better" if len(problems) > 2 else ""
    if run.config.get("training", {}).get("optimizer_history") == 0:
        newest, more = "with optimizer_history 0 none keeps the optimizer's state", ""
    with_weights = next((step for step, folder in step_folders(run).items() if _holds_weights(folder)), None)
    said = f"no checkpoint of {run.path} can be read to go on from: {newest}{more}. Nothing was changed."
    if with_weights is None:
        return f"{said} Put the files back, or start a new run."
    name = f"{run.path}@{with_weights}"
    return (
        f"{said} Put the files back, go on from its weights as a new run (residlab train --from-weights {name}), or "
        f"look at them as they are (residlab sample {name}, residlab inspect {name})."
    )


def _holds_weights(folder: Path) -> bool:
    """Whether a checkpoint has weights that are whole: a safetensors file as long as its header says."""
    path = folder / WEIGHTS
    if not path.is_file():
        return False
    from safetensors import SafetensorError, safe_open

    try:
        require_digest(path)
        with safe_open(path, framework="np"):
            return True
    except (OSError, ValueError, SafetensorError):
        return False
