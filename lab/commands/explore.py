"""residlab explore: serve the explorer on this machine."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from lab.runs import runs_root

FAILED = 2
FIRST_PORT, LAST_PORT = 8501, 8599
# Any other name in a request is that of a page elsewhere whose name was pointed at this machine (DNS rebinding).
HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Explore:
    """Serve the explorer on this machine and open it in the browser. Ctrl-C ends it; training runs go on."""

    port: int | None = None
    """The port to serve on; by default the first free one from 8501."""
    runs: Path | None = None
    """The folder of runs to show; by default RESIDLAB_RUNS, or ./runs."""
    browser: bool = True
    """Open the page in the default browser."""


def explore(options: Explore) -> int:
    """Run streamlit until it ends; returns 0, 2 where the server failed or was killed, 130 after Ctrl-C."""
    port = options.port if options.port is not None else _first_free_port()
    if not 1 <= port <= 65535:
        raise ValueError(f"--port is {port}; a port is between 1 and 65535.")
    if not _is_free(port):
        raise ValueError(f"Port {port} is in use; leave --port out to take a free one, or name another.")
    script = _explorer()
    runs = options.runs.expanduser() if options.runs is not None else runs_root()
    words = [str(script), *_flags(port, options.browser)]
    command = [sys.executable, "-m", "lab.commands.serving", *words]
    print(f"Residual Lab explorer: http://localhost:{port}   (Ctrl-C ends it)", flush=True)
    # From the project's folder, whose .streamlit/config.toml holds the themes; the runs stay where they were meant.
    environment = {**os.environ, "RESIDLAB_RUNS": str(runs.resolve())}
    # The pipe is never written to: the server ends when it closes, which it does even where this process is killed.
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    server = subprocess.Popen(command, cwd=script.parents[1], env=environment, stdin=pipe, stdout=null)
    signal.signal(signal.SIGTERM, _interrupt)  # whoever ends this process ends the server with it
    try:
        code = server.wait()
        if not code:
            return 0
        by_hand = shlex.join([sys.executable, "-m", "streamlit", "run", *words])
        by_hand = f"cd {shlex.quote(str(script.parents[1]))} && {by_hand}"
        print(f"The explorer's server {_ended(code)}. What it says: {by_hand}", file=sys.stderr)
        return FAILED
    finally:
        if server.poll() is None:
            server.terminate()
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _ended(code: int) -> str:
    """How a process ended, by its exit code."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed (signal {-code})"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _explorer() -> Path:
    spec = find_spec("apps.explorer")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("apps/explorer.py is not in this installation; install residlab whole.")
    return Path(spec.origin)


def _flags(port: int, browser: bool) -> list[str]:
    return [
        f"--server.port={port}",
        "--server.address=localhost",
        *(f"--server.allowedHosts={host}" for host in HOSTS),
        f"--server.headless={'false' if browser else 'true'}",
        "--server.showEmailPrompt=false",
        "--browser.gatherUsageStats=false",
    ]


def _first_free_port() -> int:
    for port in range(FIRST_PORT, LAST_PORT + 1):
        if _is_free(port):
            return port
    raise ValueError(f"Every port from {FIRST_PORT} to {LAST_PORT} is in use; name another with --port.")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
