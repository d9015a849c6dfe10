"""python -m tests.faults [--only KIND] [--scale 0.1] [--seed N] [--case N] [--minutes 20]"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.faults.trials import Tally, kill_all

KINDS = {  # kind -> trials at scale 1
    "kills": 100,
    "damage": 150,
    "configs": 500,
    "disk": 12,
    "races": 12,
    "moved": 16,
    "strings": 1000,
    "command_lines": 500,
}


def warm_up() -> None:
    """Import what every trial needs, once: one thread each, and no network."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(name, "1")
    import torch
    import torch._dynamo  # the first optimizer of a process imports it, which takes seconds

    import lab.analysis
    import lab.cli
    import lab.commands.parsing
    import lab.commands.train
    import lab.studies.report.page
    import lab.studies.worker
    import lab.training.trainer  # noqa: F401

    torch.set_num_threads(1)


def run_kind(kind: str, n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """The trials of a kind: its `run` takes what it asks for of n, seed, folder and case."""
    module = importlib.import_module(f"tests.faults.{kind}")
    folder.mkdir(parents=True, exist_ok=True)
    given = {"n": n, "seed": seed, "folder": folder, "case": case}
    found = module.run(**{name: given[name] for name in inspect.signature(module.run).parameters if name in given})
    if isinstance(found, Tally):
        return found
    tried, _, lost = found  # in this process, all from one seed
    repeat = f"python -m tests.faults --only {kind} --seed {seed} --scale {n / KINDS[kind]:g}"
    return Tally(kind, tried, [f"{line}   [{repeat}]" for line in lost])


def _time_is_over(*_: object) -> None:
    raise TimeoutError("the time is over (--minutes)")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Break things, and see what is lost.")
    parser.add_argument("--only", choices=KINDS, action="append", help="a kind of fault; may be given again")
    parser.add_argument("--scale", type=float, default=1.0, help="trials, times this")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers")
    parser.add_argument("--case", type=int, help="a single trial of one kind")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which the suite ends, and fails")
    options = parser.parse_args(words)
    memory = Path("/dev/shm")  # files in memory: a kill loses nothing of them, and flushing them takes no time
    place = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="faults-", dir=place))
    deadline, tallies, code = time.monotonic() + 60 * options.minutes, [], 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGALRM, _time_is_over)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, 60 * options.minutes), 10.0)
    try:
        warm_up()
        print(f"{'kind':<14} {'tried':>6} {'lost':>6} {'seconds':>8}", flush=True)
        for kind in options.only or KINDS:
            if time.monotonic() > deadline:
                print(f"{kind:<14} {'not tried: the time is over':>22}")
                code = 1
                continue
            began = time.monotonic()
            n = max(1, round(KINDS[kind] * options.scale))
            try:
                tally = run_kind(kind, n, options.seed, folder / kind, options.case)
            except Exception as problem:  # the suite itself is at fault, or what it stands on
                traceback.print_exc()
                tally = Tally(kind, lost=[f"the suite could not go on: {problem}"])
            tallies.append(tally)
            row = f"{kind:<14} {tally.tried:>6} {len(tally.lost):>6} {time.monotonic() - began:>8.0f}"
            print(f"{row}   {'; '.join(tally.notes)}".rstrip(), flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        kill_all()
        from tests.faults.disk import unmount_all

        unmount_all()
        shutil.rmtree(folder, ignore_errors=True)
    for tally in tallies:
        for line in tally.lost:
            print(f"{tally.kind}: {line}")
    return code or int(any(tally.lost for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
