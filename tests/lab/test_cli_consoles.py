"""What the command line writes, on any console and into any file; and how it ends when it is interrupted."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.cli import BAD_INPUT, DONE, INTERRUPTED, main
from lab.runs import Run

if TYPE_CHECKING:
    from tests.lab.conftest import TrainedFolder

ROOT = Path(__file__).resolve().parents[2]


def call(*words: str, shell: str = "{}", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """`residlab words` in a process of its own, in a shell line where `{}` stands for it."""
    command = " ".join([sys.executable, "-m", "lab.cli", *(f"'{word}'" for word in words)])
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    line = "set -o pipefail; " + shell.format(command)
    return subprocess.run(["bash", "-c", line], env=variables, capture_output=True, timeout=120, check=False)


def commands(trained: TrainedFolder) -> dict[str, list[str]]:
    run = str(trained.run("a"))
    prompts = ["--clean", "the cat sat", "--corrupt", "the dog sat", "--answer", "a", "--wrong", "o"]
    return {
        "runs": ["runs", "--root", str(trained.path / "runs")],
        "inspect": ["inspect", run, "--prompt", "the cat"],
        "sample": ["sample", run, "--prompt", "the cat", "--tokens", "20"],
        "heads": ["heads", run],
        "patch": ["patch", run, *prompts],
        "dynamics": ["dynamics", run],
    }


COMMANDS = ("runs", "inspect", "sample", "heads", "patch", "dynamics")


class Console(io.TextIOWrapper):
    """A stdout of some encoding, strict as Python's own, whose bytes are kept."""

    def __init__(self, encoding: str):
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding=encoding, write_through=True)


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "latin-1", "utf-8", "cp932"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_console_cuts_anything_off(
    name: str, encoding: str, trained: TrainedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*commands(trained)[name], *(["--seed", "1"] if name == "sample" else [])]
    said = {}
    for each in ("utf-8", encoding):
        console = Console(each)
        monkeypatch.setattr(sys, "stdout", console)
        assert main(words) == DONE
        said[each] = console.kept.getvalue().decode(each)
    assert said[encoding].count("\n") == said["utf-8"].count("\n") > 0
    for line, other in zip(said[encoding].splitlines(), said["utf-8"].splitlines(), strict=True):
        first, same = ([word for word in text.split() if word != "|"][:1] for text in (line, other))
        assert first == same or not other.isascii()  # a plain box has walls where the other has none


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "utf-8"])
@pytest.mark.parametrize("name", ["runs", "sample"])
def test_json_is_json_on_every_console(
    name: str, encoding: str, trained: TrainedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for odd in ("春", "é", "😀"):
        Run(tmp_path / odd).create({"training": {"steps": 3}}).write_status("done", 3, 3)
    words = ["runs", "--root", str(tmp_path)] if name == "runs" else commands(trained)["sample"]
    monkeypatch.setattr(sys, "stdout", console := Console(encoding))
    assert main([*words, "--json"]) == DONE
    found = json.loads(console.kept.getvalue().decode(encoding))
    if name == "runs":
        assert {Path(row["run"]).name for row in found} == {"春", "é", "😀"}


def test_what_an_encoding_lacks_is_written_as_its_number(tmp_path: Path) -> None:
    Run(tmp_path / "春█").create({"training": {"steps": 3}}).write_status("done", 3, 3)
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for variables, name in (({"PYTHONIOENCODING": "cp1252"}, rb"\u6625#"), (locale, rb"\xe6\x98\xa5\xe2\x96\x88")):
        found = call("runs", "--root", str(tmp_path), **variables)
        assert found.returncode == DONE
        assert name in found.stdout and b"3/3" in found.stdout


@pytest.mark.parametrize("name", ["runs", "inspect", "sample"])
def test_a_reader_that_leaves_is_no_error(name: str, trained: TrainedFolder) -> None:
    shell = "{} | true" if name == "runs" else "{} | head -n 1"
    found = call(*commands(trained)[name], shell=shell)
    assert (found.returncode, found.stderr) == (DONE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("name", ["runs", "inspect"])
def test_a_full_disk_behind_stdout_is_told_of(name: str, unbuffered: str, trained: TrainedFolder) -> None:
    found = call(*commands(trained)[name], shell="{} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert found.returncode == BAD_INPUT
    assert found.stderr.decode().count("\n") == 1
    assert b"the output could not be written: No space left on device" in found.stderr


def test_a_piped_table_has_a_row_a_line(tmp_path: Path) -> None:
    run = Run(tmp_path / ("x" * 200) / ("y" * 200)).create({"training": {"steps": 3}})
    run.write_status("done", 3, 3)
    lines = call("runs", "--root", str(tmp_path)).stdout.decode().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(f"{run.path}  done")


FILES = [("inspect", "--json"), ("inspect", "--html"), ("heads", "--json"), ("dynamics", "--html"), ("patch", "--json")]


@pytest.mark.parametrize(("name", "option"), FILES)
def test_output_files_are_replaced_whole_or_not_at_all(
    name: str, option: str, trained: TrainedFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    target.write_text("before")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    assert main([*commands(trained)[name], option, str(link)]) == DONE
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o640
    assert len(target.read_text()) > 100
    assert sorted(os.listdir(tmp_path)) == ["link", "out"]
    if Path("/dev/full").exists():
        assert main([*commands(trained)[name], option, "/dev/full"]) == BAD_INPUT
        assert capsys.readouterr().err.endswith("/dev/full: No space left on device\n")


def test_a_disk_that_fills_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.commands.writing import write_output

    target = tmp_path / "out.json"
    target.write_text("before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", lambda *names: full(0))
    with pytest.raises(OSError, match="No space left on device") as refused:
        write_output(target, "after")
    assert refused.value.filename == str(target)
    assert target.read_text() == "before" and os.listdir(tmp_path) == ["out.json"]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
@pytest.mark.parametrize("shell", ["{} | cat", "{} >> {{0}}; cat {{0}}"])
def test_stdout_is_a_file_too(shell: str, trained: TrainedFolder, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    line = shell.replace("{{0}}", str(tmp_path / "log"))
    found = call(*commands(trained)["inspect"], "--json", "/dev/stdout", shell=line)
    assert json.loads(found.stdout)["tokens"]
    assert (found.returncode, found.stderr) == (DONE, b"")


@pytest.mark.parametrize(
    ("place", "hint"),
    [("", "it is a folder"), ("no/such/x.json", "there is no folder"), ("file/x.json", "there is no folder")],
)
@pytest.mark.parametrize("name", ["inspect", "heads", "patch", "dynamics"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    name: str, place: str, hint: str, trained: TrainedFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    words = [word.replace(str(trained.run("a")), "runs/nowhere") for word in commands(trained)[name]]
    assert main([*words, "--json", str(tmp_path / place)]) == BAD_INPUT
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "--out no/such/x.json", "--out .", "--threads 0", "--threads 99999999999999999999", "--rounds 0", "--steps 0",
        "--seed -1", "--eval-every 0", "training --corpus nowhere.txt", "training --preset nan", "training --steps -5",
        "training --folder taken", "--corpus nowhere.txt",
    ],
)  # fmt: skip
def test_bench_refuses_before_it_measures(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken" / "fast-s0").mkdir(parents=True)
    assert main(["bench", *words.split()]) == BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1, said.err
    assert "measuring" not in said.err


def test_words_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")
    found = call("train", "--run", odd, "--steps", "1")
    assert (found.returncode, found.stdout) == (BAD_INPUT, b"")
    assert rb"bad\xff' is not UTF-8" in found.stderr and found.stderr.count(b"\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("module", ["lab.cli", "lab.entry"])
def test_an_interrupt_at_any_moment_ends_without_a_traceback(module: str, tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    heard = 0
    for number in range(20):
        command = [sys.executable, "-m", module, "runs", "--root", str(tmp_path)]
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.06 + 0.01 * number)  # Python itself, which we cannot speak for, has begun by then
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert b"Traceback" not in err, (number, err)
        assert process.returncode in (DONE, INTERRUPTED, -signal.SIGINT), (number, err)
        heard += process.returncode == INTERRUPTED
    assert heard
