"""A model that anyone trains in minutes: it knows parts of speech, answers giving sentences, and patching says how."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lab.analysis import LogitDifference, activation_patching, circuit_faithfulness, fit_probes, read_labels
from lab.corpora.stories import giving_prompts
from lab.models import open_model
from lab.training import build_run_config, train
from model import GPT

pytestmark = [pytest.mark.slow, pytest.mark.acceptance]

STEPS = 1500
MINUTES = 5


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GPT:
    """The nano preset by the fast recipe; its seconds are those of training alone, on one thread."""
    path: Path = tmp_path_factory.mktemp("stories") / "run"
    run = train(build_run_config("stories", "nano", "fast", steps=STEPS), run=path)
    assert run.metrics()[-1]["seconds"] < 60 * MINUTES
    return open_model(path)


def test_part_of_speech_is_there_to_be_read_and_chance_is_not(model: GPT) -> None:
    probes = fit_probes(model, read_labels("stories:pos", model.tokenizer))
    assert probes.accuracy[probes.best] >= 0.95  # on stories that it never saw
    assert probes.control[probes.best] < 0.35


@pytest.mark.parametrize("names", ["known", "new-pair", "unseen"])
def test_the_giving_sentence_is_answered_with_the_right_name(model: GPT, names) -> None:
    """Also two people whom no giving sentence joins, and an answer that no giving sentence names."""
    right = 0
    for giving in giving_prompts(100, seed=3, names=names):
        with torch.no_grad():
            first = model(giving.prompt)[0, -1].argmax()
        right += int(first) == model.to_single_token(giving.answer)
    assert right >= 90


def test_patching_names_the_heads_that_do_it(model: GPT) -> None:
    recovered = np.mean(
        [
            activation_patching(
                model, giving.prompt, giving.corrupt, LogitDifference(giving.answer, giving.wrong), site="head"
            ).recovered
            for giving in giving_prompts(20, seed=3)
        ],
        axis=0,
    )
    n_heads = recovered.shape[1]
    order = np.argsort(-recovered, axis=None)
    chosen = [divmod(int(index), n_heads) for index in order[:3]]
    idle = [divmod(int(index), n_heads) for index in order[-3:]]
    assert recovered[chosen[0]] > 0.25

    def without(heads: list[tuple[int, int]]) -> float:
        """The share of the answer's lead over the other name, over all prompts, that is left when these heads write
        what they write on the corrupt prompt."""
        left, whole = 0.0, 0.0
        for giving in giving_prompts(20, seed=4):  # other prompts than those the heads were found on
            metric = LogitDifference(giving.answer, giving.wrong)
            found = circuit_faithfulness(model, giving.prompt, giving.corrupt, metric, heads)
            left, whole = left + found.without, whole + found.clean
        return left / whole

    assert without(chosen) < 0  # the other name wins
    assert without(idle) > 0.9
