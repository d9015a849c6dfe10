"""TransformerLens on our models: the same numbers as its own bridge over the same weights, tool by tool.

Each model is written with save_pretrained and opened by the bridge from that folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformer_lens import ActivationCache, FactoredMatrix, SVDInterpreter, head_detector, patching, utilities
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_protocol import TransformerLensModelWithWeights

from model import GPT
from model.pretrained.tokenizer import PretrainedTokenizer, byte_alphabet
from model.pretrained.tokenizer_export import byte_level_engine
from tests.model.variants import tiny, tokens

LLAMA = dict(
    positional_embedding_type="rotary", normalization_type="RMS", gated_mlp=True, act_fn="silu", use_bias=False,
    n_key_value_heads=2,
)  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "llama": LLAMA,
    "qwen3": dict(LLAMA, qk_norm=True, tie_word_embeddings=False),
}
END = "<|endoftext|>"


def tokenizer() -> PretrainedTokenizer:
    vocabulary = {c: i for i, c in enumerate(byte_alphabet())} | {END: 256}
    return PretrainedTokenizer(byte_level_engine(vocabulary, [], regex=False, special=END), 256, 256)


@dataclass
class Both:
    ours: GPT
    bridge: Any
    tokens: torch.Tensor
    cache: Any
    bridge_cache: Any


@pytest.fixture(scope="module", params=VARIANTS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp(request.param)
    model = tiny(d_vocab=257, n_ctx=32, **VARIANTS[request.param])
    model.tokenizer = tokenizer()
    return opened(model, folder)


def opened(model: GPT, folder: Path) -> Both:
    model.save_pretrained(folder)
    bridge = TransformerBridge.boot_transformers(str(folder), device="cpu")
    bridge.eval()
    x = tokens(2, 9, model.config.d_vocab)
    with torch.no_grad():
        return Both(model, bridge, x, model.run_with_cache(x)[1], bridge.run_with_cache(x)[1])


def close(ours: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


def test_every_hook_has_the_bridges_name_shape_and_value(both: Both) -> None:
    switches = ("use_attn_result", "use_split_qkv_input", "use_hook_mlp_in")
    try:
        for model in (both.ours, both.bridge):
            for switch in switches:
                getattr(model, f"set_{switch}")(True)
        with torch.no_grad():
            (logits, cache), (theirs, their_cache) = (m.run_with_cache(both.tokens) for m in (both.ours, both.bridge))
    finally:
        for model in (both.ours, both.bridge):
            for switch in switches:
                getattr(model, f"set_{switch}")(False)
    close(logits, theirs)
    same_hooks(both.ours, cache, their_cache)


def same_hooks(model: GPT, cache: Any, their_cache: Any) -> None:
    on_request = {name for name, point in model.hook_dict.items() if point.on_request} - set(cache)
    assert set(cache) | on_request == set(model.hook_dict)
    for name in cache:
        expected, got = their_cache[name], cache[name]
        if "_norm." in name:  # the bridge has heads before positions in the norms of queries and keys alone
            expected = expected.transpose(1, 2)
        if name.endswith("hook_attn_scores"):  # masked ones are -inf here, a very low number there
            assert torch.equal(got == -torch.inf, torch.ones_like(got).triu(1).bool())
            expected, got = expected.tril(), got.tril()
        assert expected.shape == got.shape, name
        # One direction of a trained model's stream reaches a thousand, where neighbours in fp32 are 1.2e-4 apart.
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=2**-22)


@pytest.mark.parametrize("folder", ["gpt2-arch-mgm", "llama-arch-glassllm"])
def test_every_hook_of_trained_models(shared: Path, folder: str, tmp_path: Path) -> None:
    model = GPT.from_pretrained(shared / "models" / folder)
    model.tokenizer = tokenizer()  # the bridge asks for one
    trained = opened(model, tmp_path)
    same_hooks(model, trained.cache, trained.bridge_cache)


def test_it_is_a_model_in_the_sense_of_the_protocol(both: Both) -> None:
    assert isinstance(both.ours, TransformerLensModelWithWeights)
    for name in ("cfg", "blocks", "ln_final", "run_with_cache", "run_with_hooks", "to_tokens", "accumulated_bias",
                 "to_single_token", "tokens_to_residual_directions"):  # fmt: skip
        assert name in dir(type(both.ours))  # seen without running anything, as Python 3.12 looks
    for field in ("n_layers", "n_heads", "d_model", "d_head", "d_mlp", "n_ctx", "d_vocab", "act_fn", "device", "dtype"):
        ours, theirs = getattr(both.ours.cfg, field), getattr(both.bridge.cfg, field)
        assert torch.device(ours) == torch.device(theirs) if field == "device" else ours == theirs, field
    assert both.ours.cfg == both.ours.config


def test_weights_by_name(both: Both) -> None:
    theirs, ours = both.bridge.tl_parameters(), both.ours.tl_parameters()
    compared = 0
    for name, tensor in ours.items():
        if name in theirs:
            expected = theirs[name]
            if expected.ndim == 1 and tensor.ndim == 2:
                expected = expected.view_as(tensor)
            close(tensor, expected, 1e-6)
            compared += 1
        else:
            assert name.endswith(("b_Q", "b_K", "b_V", "b_O", "b_in", "b_out", "b_U", ".w", ".b")), name
    assert compared >= 2 + 2 * 6
    for name in ("W_E", "W_U", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_gate"):
        ours_, theirs_ = getattr(both.ours, name), getattr(both.bridge, name)
        assert (ours_ is None) == (theirs_ is None)
        if ours_ is not None:
            close(ours_, theirs_, 1e-6)


def test_circuits(both: Both) -> None:
    for name in ("QK", "OV"):
        ours, theirs = getattr(both.ours, name), getattr(both.bridge, name)
        assert isinstance(ours, FactoredMatrix)
        close(ours.AB, theirs.AB)
        close(ours[1, 3].svd()[1], theirs[1, 3].svd()[1])
        close(ours.eigenvalues.abs().sort().values, theirs.eigenvalues.abs().sort().values, 1e-3)
    for mode in "QKV":
        close(both.ours.all_composition_scores(mode), both.bridge.all_composition_scores(mode).scores)
    assert both.ours.all_head_labels == both.bridge.all_head_labels
    with pytest.raises(ValueError, match="mode is 'O'"):
        both.ours.all_composition_scores("O")


CACHE: dict[str, Callable[[ActivationCache], Any]] = {
    "accumulated_resid": lambda c: c.accumulated_resid(incl_mid=True),
    "accumulated_resid, normalised": lambda c: c.accumulated_resid(layer=1, apply_ln=True, pos_slice=-1),
    "decompose_resid": lambda c: c.decompose_resid(layer=-1),
    "decompose_resid, normalised": lambda c: c.decompose_resid(layer=1, mlp_input=True, apply_ln=True),
    "decompose_resid, attention": lambda c: c.decompose_resid(layer=-1, mode="attn"),
    "stack_head_results": lambda c: c.stack_head_results(layer=-1, incl_remainder=True),
    "stack_head_results, normalised": lambda c: c.stack_head_results(layer=-1, pos_slice=-1, apply_ln=True),
    "stack_neuron_results": lambda c: c.stack_neuron_results(layer=-1, neuron_slice=(0, 5), incl_remainder=True),
    "get_neuron_results": lambda c: c.get_neuron_results(1, pos_slice=-1),
    "get_full_resid_decomposition": lambda c: c.get_full_resid_decomposition(layer=-1, apply_ln=True, pos_slice=-1),
    "without neurons": lambda c: c.get_full_resid_decomposition(expand_neurons=False),
    "stack_activation": lambda c: c.stack_activation("z"),
    "logit_attrs": lambda c: c.logit_attrs(c.decompose_resid(layer=-1), 5, 7),
    "logit_attrs of one position": lambda c: c.logit_attrs(
        c.decompose_resid(layer=-1, pos_slice=-1), torch.tensor([5, 6]), torch.tensor([1, 2]), pos_slice=-1
    ),
    "logit_attrs of text": lambda c: c.logit_attrs(c.decompose_resid(layer=-1), "a", "b"),
    "apply_ln_to_stack": lambda c: c.apply_ln_to_stack(c.decompose_resid(layer=-1), layer=-1),
    "apply_ln_to_stack, anew": lambda c: c.apply_ln_to_stack(c.accumulated_resid(), layer=-1, recompute_ln=True),
    "logit_lens": lambda c: c.logit_lens(positions=None).values,
    "logit_lens of targets": lambda c: c.logit_lens(targets=["a", " "], incl_mid=True).readout.target_ranks,
    "logit_lens, probabilities": lambda c: c.logit_lens(top_k=3, return_type="probs").values,
    "short names": lambda c: torch.cat([c["resid_pre", 1].flatten(), c["pattern", -1].flatten(), c["k", 0].flatten()]),
}


@pytest.mark.parametrize("call", CACHE)
def test_the_cache_in_full(both: Both, call: str) -> None:
    with torch.no_grad():
        close(CACHE[call](both.cache), CACHE[call](both.bridge_cache))


def test_the_cache_adds_up(both: Both) -> None:
    with torch.no_grad():
        logits = both.ours(both.tokens)
        parts = both.cache.get_full_resid_decomposition(layer=-1)
        close(parts.sum(0), both.cache["blocks.1.hook_resid_post"])
        close(both.cache.logit_lens(positions=None).values[-1], logits)
        labels = both.cache.get_full_resid_decomposition(layer=-1, return_labels=True)[1]
    theirs = both.bridge_cache.get_full_resid_decomposition(layer=-1, return_labels=True)[1]
    assert labels == theirs and len(labels) == len(parts)


def test_one_row_of_a_cache(both: Both) -> None:
    with torch.no_grad():
        ours, theirs = (m.run_with_cache(both.tokens[:1], remove_batch_dim=True)[1] for m in (both.ours, both.bridge))
        assert ours["pattern", 0].shape == (4, 9, 9)
        close(ours.accumulated_resid(), theirs.accumulated_resid())
        close(ours.logit_lens().values, theirs.logit_lens().values)
        assert ours.to("cpu")["z", 0].shape == theirs["z", 0].shape


# --- patching --------------------------------------------------------------------------------------------------

PATCHES = [
    "get_act_patch_resid_pre", "get_act_patch_resid_mid", "get_act_patch_attn_out", "get_act_patch_mlp_out",
    "get_act_patch_attn_head_out_by_pos", "get_act_patch_attn_head_out_all_pos", "get_act_patch_attn_head_q_all_pos",
    "get_act_patch_attn_head_k_all_pos", "get_act_patch_attn_head_v_by_pos", "get_act_patch_attn_head_pattern_all_pos",
    "get_act_patch_block_every",
]  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
def test_patching(both: Both, name: str) -> None:
    clean, corrupted = both.tokens[:1, :6], both.tokens[1:, :6]

    def metric(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, 5] - logits[0, -1, 7]

    results = []
    with torch.no_grad():
        for model in (both.ours, both.bridge):
            cache = model.run_with_cache(clean)[1]
            results.append(getattr(patching, name)(model, corrupted, cache, metric))
    close(results[0], results[1])
    assert results[0].std() > 1e-3  # there is something to patch


def test_direct_path_patching(both: Both) -> None:
    clean, corrupted = both.tokens[:1, :6], both.tokens[1:, :6]
    results = []
    with torch.no_grad():
        for model in (both.ours, both.bridge):
            clean_cache, corrupted_cache = (model.run_with_cache(x)[1] for x in (clean, corrupted))
            results.append(
                patching.get_act_patch_direct_path(
                    model, corrupted, clean_cache, corrupted_cache, lambda logits: logits[0, -1, 5], 0, 1, "q"
                )
            )
            assert not model.cfg.use_split_qkv_input
    close(results[0], results[1])
    assert results[0].abs().max() > 1e-3


# --- other tools -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["previous_token_head", "duplicate_token_head", "induction_head"])
@pytest.mark.parametrize("measure", ["mul", "abs"])
def test_detect_head(both: Both, kind: str, measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(both.bridge.cfg, "default_prepend_bos", False)
    text = "the cat saw the cat"
    with torch.no_grad():
        ours, theirs = (
            head_detector.detect_head(model, text, kind, error_measure=measure) for model in (both.ours, both.bridge)
        )
    assert ours.shape == (2, 4)
    close(ours, theirs, 2e-3 if measure == "abs" else 1e-4)  # "abs" rounds to three places


@pytest.mark.parametrize("vector", ["OV", "w_in", "w_out"])
def test_singular_vectors(both: Both, vector: str) -> None:
    head = 2 if vector == "OV" else None
    ours, theirs = (
        SVDInterpreter(model).get_singular_vectors(vector, layer_index=1, num_vectors=3, head_index=head)
        for model in (both.ours, both.bridge)
    )
    assert ours.shape == (257, 1, 3)
    close(ours.abs(), theirs.abs(), 1e-3)  # a singular vector has no sign


def test_utilities(both: Both) -> None:
    name = utilities.get_act_name("pattern", 1)
    assert name in both.ours.hook_dict
    with torch.no_grad():
        logits = both.ours(both.tokens)
        close(utilities.lm_cross_entropy_loss(logits, both.tokens), both.ours(both.tokens, return_type="loss"))
        close(both.ours(both.tokens, return_type="loss"), both.bridge(both.tokens, return_type="loss"))
    assert utilities.lm_accuracy(logits, both.tokens).shape == ()
    assert both.ours.to_str_tokens("ab") == both.bridge.to_str_tokens("ab", prepend_bos=False) == ["a", "b"]
    assert both.ours.to_single_token("a") == both.bridge.to_single_token("a") == 97


def test_interventions_do_the_same(both: Both) -> None:
    def ablate(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z[:, :, 1] = 0
        return z

    hooks = [("blocks.0.attn.hook_z", ablate), ("blocks.1.hook_resid_pre", lambda x, hook: x * 0.5)]
    with torch.no_grad():
        ours, theirs = (model.run_with_hooks(both.tokens, fwd_hooks=hooks) for model in (both.ours, both.bridge))
        assert (ours - both.ours(both.tokens)).abs().max() > 0.01
    close(ours, theirs)


def test_the_bridges_own_names_of_hooks(both: Both) -> None:
    names = [
        "embed.hook_out",
        "blocks.0.hook_in",
        "blocks.1.ln2.hook_in",
        "blocks.1.attn.o.hook_in",
        "blocks.1.hook_out",
    ]
    with torch.no_grad():
        ours, theirs = (model.run_with_cache(both.tokens, names_filter=names)[1] for model in (both.ours, both.bridge))
    expected = ["hook_embed", "blocks.0.hook_resid_pre", "blocks.1.hook_resid_mid", "blocks.1.attn.hook_z"]
    assert set(ours) == {*expected, "blocks.1.hook_resid_post"}
    for name, its_name in zip(expected, names, strict=False):
        close(ours[name], theirs.cache_dict[its_name])
    with pytest.raises(ValueError, match=r"No hook point 'blocks\.7\.hook_in'"):
        both.ours.run_with_cache(both.tokens, names_filter="blocks.7.hook_in")


def test_a_soft_cap_is_part_of_the_lens() -> None:
    model = tiny(logit_soft_cap=2.0)
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens())
        close(cache.logit_lens(positions=None).values[-1], logits)
    post = tiny(norm_placement="post")
    with torch.no_grad():
        logits, cache = post.run_with_cache(tokens())
        close(cache.logit_lens(positions=None).values[-1], logits)
