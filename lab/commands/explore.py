"""residlab explore: serve the explorer on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FIRST_PORT, LAST_PORT = 8501, 8599


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
    """Run streamlit until it ends; returns its exit code, or 130 after Ctrl-C."""
    port = options.port if options.port is not None else _first_free_port()
    if not 1 <= port <= 65535:
        raise ValueError(f"--port is {port}; a port is between 1 and 65535.")
    if not _is_free(port):
        raise ValueError(f"Port {port} is in use; leave --port out to take a free one, or name another.")
    script = _explorer()
    environment = dict(os.environ)
    if options.runs is not None:
        environment["RESIDLAB_RUNS"] = str(options.runs.expanduser().resolve())
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(script),
        *_settings(script, port, options.browser),
    ]
    print(f"Residual Lab explorer: http://localhost:{port}   (Ctrl-C ends it)", flush=True)
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        return server.wait()
    except KeyboardInterrupt:
        # The terminal sends Ctrl-C to the server as well: let it close its sockets.
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.terminate()
            server.wait(timeout=5)
        raise


def _explorer() -> Path:
    spec = find_spec("apps.explorer")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("apps/explorer.py is not in this installation; install residlab whole.")
    return Path(spec.origin)


def _settings(script: Path, port: int, browser: bool) -> list[str]:
    """Flags for streamlit. The project's config file counts from whatever folder the command was called in."""
    import tomllib

    config = script.parents[1] / ".streamlit" / "config.toml"
    sections: dict[str, Any] = tomllib.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    settings = _flat(sections)
    settings.update(
        {
            "server.address": "localhost",
            "server.port": port,
            "server.headless": not browser,
            "browser.gatherUsageStats": False,
        }
    )
    return [f"--{name}={_flag(value)}" for name, value in settings.items()]


def _flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"theme": {"light": {"x": 1}}}`` as ``{"theme.light.x": 1}``; tables of tables stay with the file."""
    flat: dict[str, Any] = {}
    for name, value in section.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list):
            flat[prefix + name] = value
    return flat


def _flag(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
