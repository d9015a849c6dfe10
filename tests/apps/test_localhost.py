"""The explorer is for the person at this machine: however it is started, it listens on the loopback address alone."""

from __future__ import annotations

import http.client
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
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
    assert set(server["allowedHosts"]) == {"localhost", "127.0.0.1", "::1"}
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


HERE = ("localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}", "localhost")
REBOUND = (
    "evil.example:{port}", "evil.example", "localhost.evil.example:{port}", "127.0.0.1.evil.example:{port}",
    "evillocalhost:{port}", "10.0.0.7:{port}", "0.0.0.0:{port}", "localhost@evil.example:{port}",
)  # fmt: skip


def upgraded(port: int, host: str, origin: str | None) -> int:
    """The status of the answer to a browser that wants the page's WebSocket: 101, or a refusal."""
    lines = [
        "GET /_stcore/stream HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *([] if origin is None else [f"Origin: {origin}"]), "", "",
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", port), timeout=30) as asked:
        asked.sendall("\r\n".join(lines).encode())
        return int(asked.recv(64).split()[1])


@pytest.fixture(scope="module", params=WAYS)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A port on which the explorer answers, started in each way."""
    chosen = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT_")}
    environment = {**kept, "RESIDLAB_RUNS": str(tmp_path_factory.mktemp("runs")), "OMP_NUM_THREADS": "1"}
    process = psutil.Popen(
        [sys.executable, "-m", *WAYS[request.param], str(chosen)], cwd=PROJECT, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until_it_answers(chosen, process)
        yield chosen
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.mark.parametrize("host", HERE)
@pytest.mark.parametrize("with_origin", [True, False])
def test_the_names_of_this_machine_are_answered(host: str, with_origin: bool, port: int) -> None:
    host = host.format(port=port)
    assert upgraded(port, host, f"http://{host}" if with_origin else None) == 101


@pytest.mark.parametrize("host", REBOUND)
@pytest.mark.parametrize("origin", ["http://{host}", None, "http://localhost:{port}"])
def test_a_name_that_was_pointed_at_this_machine_is_refused(host: str, origin: str | None, port: int) -> None:
    host = host.format(port=port)
    asked = None if origin is None else origin.format(host=host, port=port)
    assert upgraded(port, host, asked) in (400, 403)


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost.evil.example", "null", "file://"])
def test_a_page_of_another_site_is_refused(origin: str, port: int) -> None:
    assert upgraded(port, f"localhost:{port}", origin) in (400, 403)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/_stcore/upload_file/none/none", "/_stcore/host-config", "/media/none.html"])
def test_no_answer_may_be_read_by_another_site(method: str, path: str, port: int) -> None:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    asked.request(method, path, headers={"Origin": "http://evil.example"})
    answer = asked.getresponse()
    answer.read()
    asked.close()
    assert answer.getheader("Access-Control-Allow-Origin") in (None, f"http://localhost:{port}")
    assert method == "GET" or answer.status >= 400
