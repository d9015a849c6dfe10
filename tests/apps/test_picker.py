"""Models trained elsewhere: asked for by name, what they take said first, brought in whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from apps import elsewhere
from tests.apps.opening import PAGES, checked, open_page, said

FOLDERS = {"gpt2": "gpt2-arch-mgm", "llama": "llama-arch-glassllm"}


@pytest.fixture(scope="module")
def brought(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with both folders brought in as runs."""
    from lab.models import open_model
    from lab.runs import list_runs

    runs = tmp_path_factory.mktemp("brought") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESIDLAB_RUNS", str(runs))
        patch.setenv("RESIDLAB_MODELS", str(shared / "models"))
        for name in FOLDERS.values():
            told: list[tuple[int, int]] = []
            run = elsewhere.bring_in(
                elsewhere.asked_for(name),
                lambda done, n, told=told: told.append((done, n)),
                lambda *_: pytest.fail("a folder is not downloaded"),
            )
            assert told and told[-1][0] == told[-1][1]
            assert open_model(run.path).tokenizer is not None
    assert {run.id for run in list_runs(runs)} == set(FOLDERS.values())
    return runs


@pytest.fixture
def elsewhere_runs(brought: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RESIDLAB_RUNS", str(brought))
    return brought


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_renders_for_models_of_other_makers(page: str, kind: str, elsewhere_runs: Path) -> None:
    # Compare's other model: itself, for the two folders' tokenizers cannot read each other's prompts.
    other = {"run_b": FOLDERS[kind]} if page == "compare" else {}
    at = open_page(page, run=FOLDERS[kind], **other)
    assert not at.error
    assert "not trained here" in said(at, "caption")


def test_what_the_page_shows_is_what_the_source_computes(elsewhere_runs: Path, shared: Path) -> None:
    import torch

    from lab.models import open_model

    ours = open_model(elsewhere_runs / "gpt2-arch-mgm")
    tokens = torch.tensor([[2, 964, 17]])
    theirs = open_model(shared / "models" / "gpt2-arch-mgm")
    assert torch.equal(ours(tokens), theirs(tokens))
    at = open_page("lens", run="gpt2-arch-mgm", prompt="<bos> g__Bacteroides")
    assert "g__Parabacteroides" in at.get_by_key("lens_grid").proto.spec


def test_a_model_without_a_tokenizer_is_read_by_ids(elsewhere_runs: Path) -> None:
    at = open_page("lens", run="llama-arch-glassllm", prompt="1 17 300")
    assert "3 tokens" in said(at, "caption") and not at.error
    at = open_page("lens", run="llama-arch-glassllm", prompt="1 17 hello")
    assert "hello" in said(at, "error")
    for choice, outcome in (("skip", "unknown parts are left out"), ("replace", "cannot be read")):
        at.get_by_key("unknown").set_value(choice)
        checked(at.run())
        assert outcome in said(at)


def field(**link: str) -> AppTest:
    at = open_page("anatomy", **link)
    at.session_state["elsewhere_open"] = True
    return checked(at.run())


def test_the_field_says_what_a_model_takes_then_loads_and_shows_it(
    shared: Path, runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs_folder / "models").mkdir()
    shutil.copytree(shared / "models" / "llama-arch-glassllm", runs_folder / "models" / "small-llama")
    at = field()
    at.selectbox(key="elsewhere_offer").set_value("small-llama")
    checked(at.run())
    captions = said(at, "caption")
    assert "llama, 852,608 parameters" in captions and "Free now" in captions
    assert not (runs_folder / "small-llama").exists(), "said first, loaded when asked"
    at.button(key="elsewhere_go").click()
    checked(at.run())
    assert at.selectbox(key="run").value == "small-llama"
    assert at.query_params["run"] == "small-llama"
    assert "as the run small-llama" in said(at, "caption")  # a second time there is nothing to load
    assert "elsewhere_go" not in {button.key for button in at.button}
    assert not list((runs_folder / ".arriving").iterdir())


@pytest.mark.parametrize(
    "typed", ["/etc", "../models", "~", "apps", "runs/models", "a/b/c", "-x", "tests/e2e", "model.py", "<b>", "C:\\x"]
)
def test_a_path_is_never_opened(typed: str, runs_folder: Path) -> None:
    at = field()
    at.text_input(key="elsewhere").set_value(typed)
    checked(at.run())
    problem = said(at, "error")
    assert "cannot be opened from the browser" in problem or "is no folder here" in problem
    assert "elsewhere_go" not in {button.key for button in at.button}


def test_a_name_on_the_hub_offline_is_one_sentence(runs_folder: Path) -> None:
    at = field()
    at.text_input(key="elsewhere").set_value("someone/some-model")
    checked(at.run())
    assert "someone/some-model" in said(at, "error") and "HF_HUB_OFFLINE is set" in said(at, "error")


def _truncated(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])


def _text(folder: Path) -> None:
    (folder / "model.safetensors").write_text("weights? what weights?")


def _other_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert", "architectures": ["BertModel"]}))


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("damage", [_truncated, _text, _other_architecture, _no_weights])
def test_a_broken_folder_is_one_sentence_and_leaves_nothing(damage: object, shared: Path, runs_folder: Path) -> None:
    folder = runs_folder / "models" / "broken"
    shutil.copytree(shared / "models" / "llama-arch-glassllm", folder)
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    damage(folder)  # type: ignore[operator]
    at = field()
    at.text_input(key="elsewhere").set_value("broken")
    checked(at.run())
    if "elsewhere_go" in {button.key for button in at.button}:
        at.button(key="elsewhere_go").click()
        checked(at.run())
    (problem,) = (error for error in said(at, "error").split("\n") if error)
    assert "broken" in problem and "Traceback" not in problem
    from lab.runs import list_runs

    assert list_runs() == []


def test_folders_of_the_servers_owner_are_offered_and_hidden_ones_are_not(
    tmp_path: Path, runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", ".three"):
        (tmp_path / "owned" / name).mkdir(parents=True)
        (tmp_path / "owned" / name / "config.json").write_text("{}")
    single = tmp_path / "owned" / "one"
    monkeypatch.setenv("RESIDLAB_MODELS", f"{single}{os.pathsep}{tmp_path / 'owned'}{os.pathsep}{tmp_path / 'no'}")
    assert set(elsewhere.offered()) == {"one", "two", "owned/one"}
