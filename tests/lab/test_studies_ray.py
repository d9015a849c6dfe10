"""Studies on Ray: the table of the local executor, though workers, nodes and the cluster itself are lost."""

from __future__ import annotations

import csv
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.studies import StudyFolder
from lab.studies.worker import work
from tests.lab.studying import SECONDS, Starting, columns, starts, table, tiny_study, wait_for
from tests.lab.test_cli_study import study_file
from tests.lab.test_studies_executors import study_of, workers_of

ray: Any = pytest.importorskip("ray", reason="needs Ray: pip install 'residlab[ray]'")
pytestmark = pytest.mark.slow

ON_CLUSTER = """
import sys
from lab.studies import ExecutorError, StudyFolder, make_executor
folder = StudyFolder(sys.argv[1])
try:
    with make_executor("ray", address=sys.argv[2]) as executor:
        executor.run(folder, folder.jobs())
except ExecutorError as error:
    sys.exit(f"ExecutorError: {error}")
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))  # for the nodes, which inherit it
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 of its own accord: on a busy machine nothing would come


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    made.shutdown()


def plain_table(path: Path, count: int, steps: int) -> Any:
    plain = tiny_study(path, count, steps=steps)
    assert work(lambda: [plain], wait=lambda: False) == count
    return table(plain)


def test_ray_makes_the_table_of_the_local_executor_to_the_byte(tmp_path: Path, starting: Starting) -> None:
    path = study_file(tmp_path)
    folders, tables = {}, {}
    for executor in ("local", "ray"):
        root = tmp_path / executor
        words = ["study", "run", str(path), "--tier", "smoke", "--workers", "2", "--executor", executor]
        study = starting("-m", "lab.cli", *words, "--root", str(root))
        _, said = study.communicate(timeout=SECONDS)
        assert study.returncode == 0, said
        folders[executor] = folder = StudyFolder(root / "tiny-smoke")
        assert folder.complete and starts(folder) == [1] * 6
        rows = csv.DictReader(io.StringIO((folder.path / "results.csv").read_text()))
        tables[executor] = [{name: text for name, text in row.items() if name != "seconds"} for row in rows]
    assert len(tables["ray"]) == 6 and tables["ray"] == tables["local"]
    assert columns(folders["ray"]) == columns(folders["local"])
    assert all(len(lines) > 3 for lines in columns(folders["ray"]).values())


def test_ray_makes_the_table_of_one_machine_though_a_worker_is_killed(tmp_path: Path, starting: Starting) -> None:
    folder = tiny_study(tmp_path / "study", 4, steps=400)
    study = starting(*study_of(folder, "ray"))
    first = wait_for(lambda: workers_of(folder))
    os.kill(min(first), signal.SIGKILL)
    _, said = study.communicate(timeout=SECONDS)
    assert study.returncode == 0, said
    assert table(folder) == plain_table(tmp_path / "plain", 4, 400)
    assert starts(folder) == [1] * 4


@pytest.mark.parametrize("study_dies", [False, True])
def test_a_lost_node_costs_no_run(study_dies: bool, tmp_path: Path, starting: Starting, cluster: Any) -> None:
    folder = tiny_study(tmp_path / "study", 3, steps=200)
    node = cluster.add_node(num_cpus=1)
    study = starting("-c", ON_CLUSTER, str(folder.path), cluster.address)
    runs = [folder.run(job) for job in folder.jobs()]
    wait_for(lambda: any(run.exists() and len(run.metrics()) > 10 for run in runs))
    cluster.remove_node(node, allow_graceful=False)  # kill -9 of the node and everything on it
    assert len(folder.outcomes()) < 3, "in the middle"
    if study_dies:
        study.kill()
        study.communicate()
        study = starting("-c", ON_CLUSTER, str(folder.path), cluster.address)  # the same command again
    cluster.add_node(num_cpus=1)
    _, said = study.communicate(timeout=SECONDS)
    assert study.returncode == 0, said
    assert table(folder) == plain_table(tmp_path / "plain", 3, 200)
    assert columns(folder) == columns(StudyFolder(tmp_path / "plain"))
    assert starts(folder) == [1] * 3


def test_a_cluster_that_is_gone_is_one_sentence(tmp_path: Path, starting: Starting, cluster: Any) -> None:
    folder = tiny_study(tmp_path / "study", 2, steps=1_000_000)
    folder.add(tiny_study(tmp_path / "other", 1).jobs())
    cluster.add_node(num_cpus=3)
    study = starting("-c", ON_CLUSTER, str(folder.path), cluster.address)
    wait_for(lambda: folder.outcomes() and len(workers_of(folder)) == 2)
    cluster.shutdown()
    _, said = study.communicate(timeout=SECONDS)
    assert study.returncode == 1 and said.splitlines()[-1].startswith("ExecutorError: "), said
    assert "Finished runs are kept" in said.splitlines()[-1]
    assert len(folder.outcomes()) == 1
    assert not said.count("Traceback"), said


def test_no_cluster_at_the_address(tmp_path: Path, starting: Starting) -> None:
    study = starting("-c", ON_CLUSTER, str(tiny_study(tmp_path / "study", 1).path), "127.0.0.1:6399")
    _, said = study.communicate(timeout=SECONDS)
    assert study.returncode == 1 and "No Ray cluster answers at 127.0.0.1:6399" in said.splitlines()[-1], said


def test_the_corpus_is_missing_on_the_cluster(tmp_path: Path, starting: Starting) -> None:
    folder = tiny_study(tmp_path / "study", 1, corpus=tmp_path / "elsewhere.txt")
    study = starting(*study_of(folder, "ray"))
    _, said = study.communicate(timeout=SECONDS)
    assert "Ray gave up: the corpus of study cannot be read on this machine" in said.splitlines()[-1], said
    assert not folder.outcomes()


def test_ctrl_c_lets_the_tasks_save(tmp_path: Path, starting: Starting) -> None:
    folder = tiny_study(tmp_path / "study", 3, steps=1_000_000)
    runs = [folder.run(job) for job in folder.jobs()]
    study = starting(*study_of(folder, "ray"))
    wait_for(lambda: sum(run.exists() and len(run.metrics()) > 3 for run in runs) == 2)
    study.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in study.communicate(timeout=SECONDS)[1]
    states = sorted(run.status().state if run.exists() else "none" for run in runs)
    assert states == ["none", "stopped", "stopped"]
    assert not folder.outcomes()
