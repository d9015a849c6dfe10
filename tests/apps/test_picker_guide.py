"""The tour of a first visit: offered, declined, trained, found, cut out; its step is in the address."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.widgets.guide import LOOKED_AT, PROMPT, STEM, strongest, tour_config
from tests.apps.opening import checked, open_page, said, unescaped


@pytest.fixture
def circuit(runs_folder: Path) -> Path:
    """The tour's run, with so few steps that it learns nothing; what it learns is another test's."""
    from lab.training import train

    config = tour_config()
    short = config.replace(training=config.training.replace(steps=2, warmup_steps=0))
    train(short, run=runs_folder / STEM)
    return runs_folder


def test_the_tour_is_offered_and_can_be_declined(runs_folder: Path) -> None:
    at = open_page("train")
    at.button(key="guide_decline").click()
    checked(at.run())
    assert not [b for b in at.button if (b.key or "").startswith("guide")]
    assert "guide" not in at.query_params


def test_the_tour_is_in_the_address_and_can_be_left(runs_folder: Path) -> None:
    at = open_page("train")
    at.button(key="guide_begin").click()
    checked(at.run())
    assert at.query_params["guide"] == "train"
    assert at.button(key="guide_start")
    at = open_page("lens", guide="cut")  # a link into the middle, without the model
    assert at.button(key="guide_back")
    at.button(key="guide_leave").click()
    checked(at.run())
    assert "guide" not in at.query_params


def test_each_step_shows_what_it_speaks_of(circuit: Path) -> None:
    at = open_page("train", guide="train", run=STEM)
    at.button(key="guide_next").click()
    checked(at.run())
    assert at.query_params["guide"] == "find"
    from lab.runs import Run

    layer, head = strongest(Run(circuit / STEM))
    assert at.title[0].value == "Attention", (at.title[0].value, said(at))
    assert (at.selectbox(key="layer").value, at.selectbox(key="head").value) == (layer, head)
    assert at.text_area(key="prompt").value == PROMPT and at.selectbox(key="token").value == LOOKED_AT
    at.button(key="guide_next").click()
    checked(at.run())
    assert at.query_params["do"] == f"zero,layer={layer},head={head}"
    at.button(key="guide_next").click()
    checked(at.run())
    prompts = [b for b in at.button if (b.key or "").startswith("guide_prompt")]
    assert len(prompts) == 3
    for number in range(len(prompts)):  # the tour's own model reads each of them
        at.button(key=f"guide_prompt_{number}").click()
        checked(at.run())
        assert not at.error and at.text_area(key="prompt").value in unescaped(prompts[number].label)


def test_the_tour_ends_with_a_model_of_stories_in_training(circuit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps import jobs
    from apps.widgets.guide import STORIES_STEM, stories_config
    from lab.runs import Run

    asked = []

    def start(config: object, stem: str) -> jobs.Started:
        asked.append((config, stem))
        return jobs.Started(Run(circuit / STEM), new=True)

    monkeypatch.setattr(jobs, "start", start)
    at = open_page("lens", guide="more")
    at.button(key="guide_stories").click()
    checked(at.run())
    assert asked == [(stories_config(), STORIES_STEM)]
    assert at.title[0].value == "Train" and "Patch" in said(at, "info")


@pytest.mark.slow
def test_cutting_the_head_out_makes_the_loss_of_the_repetition_jump(runs_folder: Path) -> None:
    import torch

    from lab.models import open_model
    from lab.training import train

    run = train(tour_config(), run=runs_folder / STEM)
    layer, head = strongest(run)
    model = open_model(run.path)

    def repetition() -> float:
        tokens = model.to_tokens(PROMPT)
        losses = torch.log_softmax(model(tokens)[0, :-1], -1).gather(1, tokens[0, 1:, None])
        return -float(losses[10:].mean().detach())  # from the second time on

    def cut(z: torch.Tensor, hook: object) -> torch.Tensor:
        z = z.clone()
        z[:, :, head] = 0
        return z

    before = repetition()
    with model.hooks(fwd_hooks=[(f"blocks.{layer}.attn.hook_z", cut)]):
        after = repetition()
    assert before < 0.7 and after > before + 0.8


def test_earlier_prompts_come_back_and_stand_beside_the_one_shown(runs: Path) -> None:
    at = open_page("lens", run="tiny", prompt="the cat")
    at.text_area(key="prompt").set_value("lily gave")
    checked(at.run())
    assert at.button(key="history_0").label == "the cat"
    at.button(key="beside_0").click()
    checked(at.run())
    tables = [frame.value for frame in at.dataframe if "probability" in frame.value.columns]
    assert len([table for table in tables if len(table) == 5]) >= 2
    at.button(key="beside_end").click()
    checked(at.run())
    assert "beside_end" not in {button.key for button in at.button}
    at.button(key="history_0").click()
    checked(at.run())
    assert at.text_area(key="prompt").value == "the cat"
