"""The command `residlab`: hears Ctrl-C from its first moment to its last, and loads the rest in between.

Before the command begins and after it has ended there is nothing to clear up, so Ctrl-C leaves at once there: no
import is unwound half way, and no traceback is shown.
"""

import os
import signal
import sys

INTERRUPTED = 130


def main() -> int:
    """`lab.cli.main`, with somebody to hear Ctrl-C while it loads and while Python shuts down."""
    signal.signal(signal.SIGINT, leave)
    from lab.cli import main as command

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = command()
    except KeyboardInterrupt:
        code = INTERRUPTED
    signal.signal(signal.SIGINT, leave)
    return code


def leave(number: int, frame: object) -> None:
    """End with the exit code of an interrupted command."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
