"""The explorer's server, which ends with the process that started it, however that one ends.

python -m lab.commands.serving SCRIPT [FLAGS OF STREAMLIT]     with a pipe for stdin that the other process keeps open
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

PATIENCE = 5.0  # seconds in which the server may end by itself


def end_with(pipe: int) -> None:
    """End this process when the other end of a pipe is closed, as the system does for a process that is killed."""

    def wait() -> None:
        while os.read(pipe, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """`streamlit run` with the words of this process."""
    pipe = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the server asks nothing: nobody would see the question
    os.close(null)
    end_with(pipe)
    from streamlit.web.cli import main as streamlit

    sys.argv[:1] = ["streamlit", "run"]
    streamlit(prog_name="streamlit")


if __name__ == "__main__":
    main()
