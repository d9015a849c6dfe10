"""The explorer is for the person at this machine: however it is started, it listens on the loopback address alone."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.e2e.serving import PATIENCE, PROJECT, free_port

WAYS = {
    "explore": ["lab.cli", "explore", "--no-browser", "--port"],
    "streamlit": ["streamlit", "run", "apps/explorer.py", "--server.port"],  # .streamlit/config.toml says where
}


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """(address, port) of every socket on which a process or a child of it accepts connections."""
    return {
        (found.laddr.ip, found.laddr.port)
        for one in (process, *process.children(recursive=True))
        for found in one.net_connections(kind="tcp")
        if found.status == psutil.CONN_LISTEN
    }


def wait_until_it_answers(port: int, process: psutil.Popen) -> None:
    deadline = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < deadline:
        assert process.poll() is None, f"it ended with {process.returncode}"
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"no answer on port {port}")


@pytest.mark.parametrize("way", WAYS)
def test_the_server_listens_on_loopback_only(way: str, tmp_path: Path) -> None:
    port = free_port()
    # A variable of the reader's shell is the one thing that could say otherwise.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT_")}
    environment = {**kept, "RESIDLAB_RUNS": str(tmp_path), "OMP_NUM_THREADS": "1"}
    process = psutil.Popen(
        [sys.executable, "-m", *WAYS[way], str(port)], cwd=PROJECT, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until_it_answers(port, process)
        found = listening(process)
        assert port in {number for _, number in found}
        assert all(ipaddress.ip_address(address).is_loopback for address, _ in found), found
    finally:
        process.terminate()  # `explore` ends the server that it started
        process.wait(timeout=30)


def test_the_config_that_a_plain_streamlit_run_reads_names_localhost() -> None:
    server = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["server"]
    assert server["address"] == "localhost"
    assert server.get("enableCORS", True) and server.get("enableXsrfProtection", True)


def gone(port: int) -> bool:
    """Whether nobody listens on a port any more, after a while."""
    deadline = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_with_the_command_however_that_ends(how: signal.Signals, tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "RESIDLAB_RUNS": str(tmp_path)}
    command = [sys.executable, "-m", *WAYS["explore"], str(port)]
    process = psutil.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until_it_answers(port, process)
    servers = process.children(recursive=True)
    process.send_signal(how)
    _, said = process.communicate(timeout=30)
    assert process.returncode == (-how if how == signal.SIGKILL else 130)
    assert b"Traceback" not in said
    assert gone(port)
    psutil.wait_procs(servers, timeout=30)
    assert not any(server.is_running() and server.status() != psutil.STATUS_ZOMBIE for server in servers)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_a_server_that_is_killed_is_explained(how: signal.Signals, tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "RESIDLAB_RUNS": str(tmp_path)}
    command = [sys.executable, "-m", *WAYS["explore"], str(port)]
    process = psutil.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until_it_answers(port, process)
    for server in process.children(recursive=True):
        server.send_signal(how)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"The explorer's server was killed ({how.name})" in said.decode()
