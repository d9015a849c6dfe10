"""python -m lab.training RUN: train an existing run folder, from where it is. What a detached trainer runs.

Exit codes: 0 done or stopped, 2 bad input, 3 diverged, 1 anything else.
"""

import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m lab.training RUN\n")
        return 2
    from lab.runs import Run, RunBusyError, RunNotFoundError

    run = Run(words[0])
    if not run.exists():
        sys.stderr.write(f"{RunNotFoundError.at(run.path)}\n")
        return 2
    try:
        with run.lock() as lock:
            status = run.status()
            # torch takes seconds to import: say first that somebody is here
            run.write_status("queued", status.step, status.max_steps)
            state = _train(run, lock)
    except RunBusyError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (ValueError, OSError) as error:
        traceback.print_exc()
        sys.stderr.write(f"{error}\n")
        return 2
    except Exception:
        traceback.print_exc()
        return 1
    return 3 if state == "diverged" else 0


def _train(run: Any, lock: Any) -> str:
    from lab.training.distributed import world
    from lab.training.run import execute

    with world(run.config.get("training", {}).get("device", "auto")) as here:
        return execute(run, here=here, lock=lock, on_step=_log)


def _log(row: Mapping[str, Any]) -> None:
    losses = [
        f"{short} {row[name]:.4f}" for short, name in (("train", "train_loss"), ("val", "val_loss")) if row.get(name)
    ]
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} step {row['step']}  {'  '.join(losses)}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
