"""The tuned lens: it reads better than the raw one, the last row is the model, and no other weights are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lab import plots
from lab.analysis import TunedLens, logit_contributions, logit_lens, train_tuned_lens
from lab.analysis.tuned_lens import unembedding_hash
from tests.model.variants import tiny

IDS = [3, 1, 4, 1, 5, 9]


def text(length: int = 1200, seed: int = 0) -> np.ndarray:
    """Tokens that follow one another by a fixed table most of the time."""
    rng = np.random.default_rng(seed)
    follows, ids = rng.permutation(23), [0]
    while len(ids) < length:
        ids.append(int(follows[ids[-1]]) if rng.random() < 0.8 else int(rng.integers(23)))
    return np.array(ids)


@pytest.fixture(scope="module", params=["pre", "post"])
def trained(request):
    model = tiny(norm_placement=request.param, n_layers=3, init_std=0.2)
    return model, train_tuned_lens(model, text(), steps=120, lr=1e-2)


def test_it_reads_every_layer_better_than_the_raw_lens(trained):
    _, lens = trained
    record = lens.training_record
    assert record.rows == ("embed", "L0", "L1")
    assert all(tuned < 0.7 * raw for tuned, raw in zip(record.tuned, record.raw, strict=True))
    assert list(record.tuned) == sorted(record.tuned, reverse=True)  # later layers know more


def test_untrained_it_is_the_raw_lens(trained):
    model, _ = trained
    raw, read = logit_lens(model, IDS), TunedLens(model).read(model, IDS)
    assert np.array_equal(raw.kl, read.kl)
    assert read.kind == "tuned"
    assert raw.kind == "raw"


def test_the_last_row_is_the_models_own_output(trained):
    model, lens = trained
    read, raw = lens.read(model, IDS), logit_lens(model, IDS)
    assert read.final_error < 1e-5
    assert np.array_equal(read.kl[-1], raw.kl[-1])
    assert read.kl[:-1].mean() < raw.kl[:-1].mean()
    json.loads(read.to_json(), parse_constant=pytest.fail)
    assert "Tuned logit lens" in plots.lens_grid(read).layout.title.text


def test_training_leaves_the_model_alone_and_repeats():
    model = tiny(resid_dropout=0.3).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    first = train_tuned_lens(model, text(400), steps=3)
    second = train_tuned_lens(model, text(400), steps=3)
    assert torch.equal(first.maps, second.maps)
    assert not torch.equal(first.maps, train_tuned_lens(model, text(400), steps=3, seed=1).maps)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(module.training for module in model.modules())
    assert torch.equal(torch.get_rng_state(), random)


def test_it_is_saved_and_refused_for_other_weights(trained, tmp_path):
    model, lens = trained
    path = tmp_path / "lens.safetensors"
    lens.save(path)
    again = TunedLens.load(path, model)
    assert torch.equal(again.maps, lens.maps)
    assert again.read(model, IDS).to_json() == lens.read(model, IDS).to_json()

    assert again.training_record == lens.training_record is not None
    TunedLens(model).save(path)
    assert TunedLens.load(path, model).training_record is None
    lens.save(path)

    other = tiny(seed=5, norm_placement=model.config.norm_placement, n_layers=3)
    for refused in (lambda: TunedLens.load(path, other), lambda: lens.read(other, IDS)):
        with pytest.raises(ValueError, match="was trained for other weights"):
            refused()
    with pytest.raises(ValueError, match="There is no tuned lens at"):
        TunedLens.load(tmp_path / "none.safetensors", model)
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is no tuned lens"):
        TunedLens.load(tmp_path / "bad.safetensors", model)


def test_a_damaged_record_and_another_depth_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    model = tiny(n_layers=3)
    path = tmp_path / "lens.safetensors"
    train_tuned_lens(model, text(), steps=1).save(path)
    deeper = tiny(n_layers=4)
    deeper.load_state_dict({**deeper.state_dict(), **model.state_dict()})
    with pytest.raises(ValueError, match=r"of another model: its maps are \[3, 16, 16\]"):
        TunedLens.load(path, deeper)
    metadata = {"format": "residlab tuned lens 1", "unembedding_sha256": unembedding_hash(model)}
    for record in ("[", "{}", "[1]", '{"rows": 3, "raw": 1}', "null", "[" * 9000):
        save_file(load_file(path), path, metadata={**metadata, "training": record})
        with pytest.raises(ValueError, match="has a damaged record"):
            TunedLens.load(path, model)


@pytest.mark.parametrize("options, words", [
    ({"held_out": 0}, "held_out is 0; it must be between 0 and 1"), ({"held_out": 1.0}, "between 0 and 1"),
    ({"steps": -1}, "steps is -1"), ({"windows": 0}, "windows is 0"), ({"seed": 0.5}, "seed is 0.5"),
])  # fmt: skip
def test_settings_that_cannot_train_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        train_tuned_lens(tiny(), text(), **options)
    with pytest.raises(ValueError, match="Token id 23 is outside the vocabulary"):
        train_tuned_lens(tiny(), np.append(text(), 23))


def test_the_hash_is_of_what_the_lens_reads_through():
    model = tiny()
    before = unembedding_hash(model)
    with torch.no_grad():
        model.blocks[0].mlp.w_in.weight += 1
    assert unembedding_hash(model) == before
    for change in (model.ln_final.w, model.ln_final.b, model.embed.weight):
        with torch.no_grad():
            change[..., 0] += 0.01
        after = unembedding_hash(model)
        assert after != before
        before = after


def test_too_little_text_is_refused():
    with pytest.raises(
        ValueError, match="100 tokens are too few to train and judge a lens of context 16: give at least"
    ):
        train_tuned_lens(tiny(), text(100))
    with pytest.raises(ValueError, match="leave include_mid out"):
        logit_lens(tiny(), IDS, include_mid=True, translate=lambda row, x: x)


def test_tokens_are_tracked_through_the_rows():
    model = tiny(n_layers=3)
    lens = logit_lens(model, IDS, track=[7, 2])
    assert lens.tracked.tolist() == [7, 2]
    assert lens.tracked_probability.shape == lens.tracked_rank.shape == (4, 6, 2)
    with torch.no_grad():
        own = model(torch.tensor([IDS]))[0].softmax(-1)
    assert np.allclose(lens.tracked_probability[-1], own[:, [7, 2]].numpy(), atol=1e-6)
    assert (lens.tracked_rank[-1, -1] == [int((own[-1] > own[-1, token]).sum()) + 1 for token in (7, 2)]).all()
    winners = logit_lens(model, IDS)
    assert winners.tracked.tolist() == list(dict.fromkeys(winners.top_tokens[:, -1, 0].tolist()))
    for row, first in enumerate(winners.top_tokens[:, -1, 0].tolist()):
        assert winners.tracked_rank[row, -1, winners.tracked.tolist().index(first)] == 1
    assert logit_lens(model, IDS, track=[]).tracked_rank.shape == (4, 6, 0)
    with pytest.raises(ValueError, match="track 99 is outside the vocabulary"):
        logit_lens(model, IDS, track=[99])


def test_contributions_grow_to_the_logit():
    parts = logit_contributions(tiny().double(), IDS)
    assert parts.cumulative[0] == parts.values[0]
    assert parts.cumulative[-1] == pytest.approx(parts.logit, abs=1e-10)
