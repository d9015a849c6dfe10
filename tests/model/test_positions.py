"""Positions: tables that are as long as what was asked for, with the numbers they would have at any length."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model import GPT, RotaryScaling
from model.decoding import TokenPass
from model.positions import FIRST_TABLE, Rotary, rotary_frequencies
from tests.model.variants import tiny, tokens

SCALINGS = {
    "plain": None,
    "linear": RotaryScaling("linear", 4.0),
    "ntk": RotaryScaling("ntk", 4.0),
    "yarn": RotaryScaling("yarn", 4.0, 100),
    "llama3": RotaryScaling("llama3", 8.0, 100),
    "factors": RotaryScaling("factors", 1.0, factors=(1.0, 2.5), attention_factor=1.2),
}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tables_hold_the_same_numbers_however_they_grew(scaling: str, dtype: torch.dtype) -> None:
    config = tiny(n_ctx=3000, positional_embedding_type="rotary", rotary_scaling=SCALINGS[scaling]).config
    frequencies, factor = rotary_frequencies(config)
    angles = torch.arange(3000).float()[:, None] * frequencies  # the whole table at once
    angles = torch.cat((angles, angles), dim=-1)
    grown = Rotary(config)
    for end in (1, 5, 300, 299, 700, 2000, 3000):
        cos, sin = grown(torch.arange(end), dtype, end)
        assert torch.equal(cos.squeeze(-2), (angles.cos() * factor).to(dtype)[:end])
        assert torch.equal(sin.squeeze(-2), (angles.sin() * factor).to(dtype)[:end])


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "alibi"])
@pytest.mark.parametrize("n_ctx", [600, 1_500_000_000])
def test_a_long_context_is_a_promise_that_takes_no_memory(positions: str, n_ctx: int) -> None:
    model = tiny(n_ctx=n_ctx, positional_embedding_type=positions)
    small = tiny(n_ctx=600, positional_embedding_type=positions)
    x = tokens(2, 500)
    with torch.no_grad():
        assert torch.equal(model(x), small(x))
        assert model.rotary is None or len(next(iter(model.rotary._tables.values()))[0]) <= 1000
        for use_cache in (True, False):
            told = [
                m.generate(x[:1, :5], max_new_tokens=FIRST_TABLE + 30, temperature=0, use_cache=use_cache)
                for m in (model, small)
            ]
            assert torch.equal(*told)
        # rows of different lengths, and a table that has to grow on the way
        mask = torch.ones(2, 250, dtype=torch.long)
        mask[1, :100] = 0
        assert torch.equal(model(x[:, :250], attention_mask=mask), small(x[:, :250], attention_mask=mask))


def test_the_pass_of_one_token_makes_tables_for_what_it_uses() -> None:
    model = tiny(n_ctx=1_000_000, positional_embedding_type="alibi")
    once = TokenPass(model, list(model.modules()))
    from model.kv_cache import KVCache

    cache = KVCache(model.config)
    with torch.no_grad():
        x = tokens(1, 20)
        model(x[:, :19], past_kv_cache=cache)
        torch.testing.assert_close(once(x[:, 19], cache), model(x)[:, -1])
    assert once.reach == FIRST_TABLE


def test_a_folder_that_promises_a_billion_positions_is_sampled_in_little_memory(tmp_path: Path, root: Path) -> None:
    tiny(positional_embedding_type="rotary", normalization_type="RMS", gated_mlp=True, use_bias=False,
         tie_word_embeddings=False).save_pretrained(tmp_path)  # fmt: skip
    path = tmp_path / "config.json"
    config = {k: v for k, v in json.loads(path.read_text()).items() if k != "residlab"}
    path.write_text(json.dumps({**config, "max_position_embeddings": 1_000_000_000}))
    code = (
        f"import torch; from model import GPT; m = GPT.from_pretrained({str(tmp_path)!r}); "
        "print(m.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=5).shape)"
    )

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120, preexec_fn=little
    )
    assert done.returncode == 0 and "[1, 8]" in done.stdout, done.stderr[-2000:]


def test_gradients_after_a_first_use_without_them() -> None:
    model = tiny(n_ctx=64, positional_embedding_type="rotary")
    with torch.inference_mode():
        model(tokens(1, 8))
    model(tokens(1, 8), return_type="loss").backward()
    assert model.embed.weight.grad.abs().max() > 0
    again: GPT = tiny(n_ctx=64, positional_embedding_type="rotary")
    again(tokens(1, 8), return_type="loss").backward()
    assert torch.equal(model.embed.weight.grad, again.embed.weight.grad)
