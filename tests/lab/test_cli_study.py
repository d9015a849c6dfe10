"""residlab study and residlab worker, as typed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli import BAD_INPUT, DONE, INTERRUPTED, main
from lab.commands.study import StudyOptions, _again, _Live
from lab.runs import read_json
from lab.studies import Progress, StudyFolder, study_names
from lab.studies.reading import plan_digest
from tests.lab.studying import SECONDS, TEXT, Starting, starts, tiny_study, wait_for

STUDY = """
from lab.studies import Arm, Claim, Study, Tier

STUDY = Study(
    name="tiny",
    question="Does the place of the norm matter on a cat?",
    hypothesis="No.",
    source="a test",
    corpus={corpus!r},
    base={{
        "model.n_ctx": 8, "model.d_model": 16, "model.n_layers": 1, "model.n_heads": 2, "model.d_mlp": 32,
        "training.batch_size": 4, "training.eval_every": 2, "training.log_every": 1, "training.warmup_steps": 0,
        "training.steps": {steps},
    }},
    arms=(
        Arm("pre", {{"model.norm_placement": "pre"}}),
        Arm("post", {{"model.norm_placement": "post"}}, unmatched="it has no final norm"),
    ),
    control="pre",
    claims=(Claim("same", "They end alike.", "a test", "post", "no difference", "pre", primary=True),),
    tiers=(Tier("smoke", 2, (1e-3,)), Tier("small", 2, (1e-3,))),
)
"""


def study_file(folder: Path, steps: int = 6) -> Path:
    corpus = folder / "cat.txt"
    corpus.write_text(TEXT, encoding="utf-8")
    path = folder / "tiny.py"
    path.write_text(STUDY.format(corpus=str(corpus), steps=steps), encoding="utf-8")
    return path


def test_a_study_from_plan_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, root = study_file(tmp_path), tmp_path / "studies"
    assert main(["study", "plan", str(path), "--tier", "smoke"]) == DONE
    planned = capsys.readouterr().out
    assert "6 runs" in planned.replace("\n", " ") and "Registration" in planned and not root.exists()
    assert "estimated from a few steps of each arm, for one core of this machine" in planned.replace("\n", " ")

    words = ["study", "run", str(path), "--tier", "smoke", "--workers", "1", "--root", str(root)]
    assert main(words) == DONE
    said = capsys.readouterr()
    assert "confirming with fresh seeds" in said.err and "Report: " in said.out
    folder = StudyFolder(root / "tiny-smoke")
    assert folder.complete and starts(folder) == [1] * 6
    assert folder.registration["sha256"].startswith(planned.split("Registration ")[1].split()[0])
    for name in ("report.html", "report.md", "results.csv"):
        assert (folder.path / name).stat().st_size > 0

    results = (folder.path / "results.csv").read_bytes()
    assert main(words) == DONE, "what is done is not done again"
    assert starts(folder) == [1] * 6 and (folder.path / "results.csv").read_bytes() == results
    capsys.readouterr()
    assert main(["study", "report", str(folder.path)]) == DONE
    assert "report.html" in capsys.readouterr().out
    assert main(["study", "list", "--root", str(root)]) == DONE
    listed = capsys.readouterr().out
    assert f"{folder.path}  complete" in listed and all(name in listed for name in study_names())
    assert main(["worker", "--root", str(root)]) == DONE, "nothing is left to do, so nothing to wait for"
    assert capsys.readouterr().out == "0 runs made here.\n"


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, starting: Starting) -> None:
    path, root = study_file(tmp_path, steps=1_000_000), tmp_path / "studies"
    words = ["study", "run", str(path), "--tier", "smoke", "--workers", "1", "--root", str(root)]
    process = starting("-m", "lab.cli", *words)
    folder = StudyFolder(root / "tiny-smoke")
    wait_for(
        lambda: folder.registered and any(folder.run(j).metrics() for j in folder.jobs() if folder.run(j).exists())
    )
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == INTERRUPTED and "Traceback" not in said
    assert said.splitlines()[-1] == f"Stopped; the runs are kept. Go on: residlab {' '.join(words)}"
    states = [folder.run(job).status().state for job in folder.jobs() if folder.run(job).exists()]
    assert states == ["stopped"]


def test_a_worker_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiny_study(tmp_path / "studies" / "some-smoke", 2, corpus=study_file(tmp_path).with_name("cat.txt"))
    assert main(["worker", "--root", str(tmp_path / "studies"), "--once"]) == DONE
    said = capsys.readouterr().out
    assert said.count("some-smoke  runs/a/confirm-0.001-") == 2 and said.endswith("2 runs made here.\n")
    assert len(folder.outcomes()) == 2
    assert {read_json(path)["state"] for path in (folder.path / "done").iterdir()} == {"done"}


def test_a_worker_without_the_corpus_does_not_begin(tmp_path: Path, refused: Callable[..., str]) -> None:
    folder = tiny_study(tmp_path / "study", 1, corpus=tmp_path / "elsewhere.txt")
    said = refused("worker", "--root", str(folder.path), "--once")
    assert said == (
        f"residlab worker: the corpus of study cannot be read on this machine: '{tmp_path / 'elsewhere.txt'}' is "
        "neither a built-in corpus (stories, shakespeare, python, induction, modular-addition, brackets) nor a file or "
        "folder."
    )
    assert not folder.outcomes()


def test_a_claim_asks_for_two_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, root = study_file(tmp_path), tmp_path / "studies"
    words = ["study", "run", str(path), "--tier", "smoke", "--workers", "1", "--root", str(root), "--seeds", "1"]
    for what in ("plan", "run"):
        capsys.readouterr()
        assert main(["study", what, *words[2:]]) == BAD_INPUT
        assert capsys.readouterr().err.splitlines()[-1] == (
            "residlab study: tiny: one seed has no spread and says nothing about its claim same; take at least 2 seeds "
            "(--seeds 2), 8 for a verdict, or run it without a claim (--exploratory)."
        )
    assert not root.exists()
    assert main([*words, "--exploratory"]) == DONE
    assert "exploratory: no claim" in capsys.readouterr().out
    folder = StudyFolder(root / "tiny-smoke")
    assert folder.complete and len(folder.outcomes()) == 3
    report = (folder.path / "report.md").read_text()
    assert "--tier smoke --seeds 1 --exploratory" in report


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("study run", "Which study? residlab study run NAME; there are "),
        ("study run norm_placment", "no study 'norm_placment'; did you mean 'norm_placement'?"),
        ("study plan norm_placement --tier smal", "no tier 'smal'; did you mean 'small'?"),
        ("study run norm_placement --tier smoke --workers 0", "workers is 0; it must be at least 1."),
        ("worker --root no/where", "There is no folder no/where."),
    ],
)
def test_refused(words: str, sentence: str, refused: Callable[..., str]) -> None:
    assert sentence in refused(*words.split())


def test_ray_where_there_is_none(monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str], tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    said = refused("study", "run", "norm_placement", "--executor", "ray", "--root", str(tmp_path))
    assert "pip install 'residlab[ray]'" in said and not list(tmp_path.iterdir())


def test_another_plan_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = study_file(tmp_path), StudyFolder(tmp_path / "studies" / "tiny-smoke")
    folder.register({"sha256": plan_digest({"configs": {}}), "configs": {}})
    assert main(["study", "run", str(path), "--tier", "smoke", "--root", str(tmp_path / "studies")]) == BAD_INPUT
    said = capsys.readouterr().err.splitlines()[-1]
    assert "holds another plan" in said


def test_the_command_that_goes_on() -> None:
    options = StudyOptions("run", "x", "full", "ray", "auto", workers=3, root=Path("my studies"))
    command = "residlab study run x --tier full --executor ray --address auto --workers 3 --root 'my studies'"
    assert _again(options) == command
    one = StudyOptions("run", "x", "smoke", seeds=1, exploratory=True)
    assert _again(one) == "residlab study run x --tier smoke --seeds 1 --exploratory"


def test_the_live_table(tmp_path: Path) -> None:
    from rich.console import Console

    folder = tiny_study(tmp_path / "study", 3, steps=200)
    first, second, third = folder.jobs()
    run = folder.run(first).create(dict(first.config))
    folder.run(second).create(dict(second.config)).write_status("done", 200, 200)
    live = _Live(folder)
    live.stage("tuning")

    def shown(step: int, now: float) -> str:
        run.write_status("running", step, 200)
        console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
        console.print(live._table(folder, Progress(5, 2, (first, second, third)), now))
        return console.export_text()

    text = shown(0, 0.0)
    assert "tuning: 2 of 5 runs" in text and "0/200" in text
    assert "done, being measured" in text and "starting" in text
    text = shown(50, 100.0)
    assert "50/200" in text and "5.0 min" in text, "150 steps at 2 s each"
