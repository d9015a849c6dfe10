"""Crash on purpose, so that tests can show that a crash at the worst moment loses nothing.

RESIDLAB_FAULT="PLACE:STEP" kills the process with SIGKILL when it reaches that place at that step. Places:
`step` (a step is done, nothing of it written), `checkpoint` (a checkpoint is written but not yet named),
`line` (half of a line of metrics is written).
"""

import os
import signal

VARIABLE = "RESIDLAB_FAULT"


def armed(place: str, step: int) -> bool:
    """Whether the environment asks for a crash at this place and step."""
    return os.environ.get(VARIABLE) == f"{place}:{step}"


def fault_point(place: str, step: int) -> None:
    """Die here if asked to, as the kernel's out-of-memory killer would have it: without a last word."""
    if armed(place, step):
        os.kill(os.getpid(), signal.SIGKILL)
