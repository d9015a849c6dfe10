"""The same numbers as transformers' GPT-2 and Llama, from the same weights, in fp32 and fp64."""

from __future__ import annotations

import pytest
import torch

from model import GPT, GPTConfig
from tests.model.variants import tokens


def gpt2_pair() -> tuple[torch.nn.Module, GPT]:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    reference = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=23, n_positions=16, n_embd=16, n_layer=2, n_head=4, attn_implementation="eager",
            initializer_range=0.3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        )
    ).eval()  # fmt: skip
    model = GPT(GPTConfig(d_vocab=23, n_ctx=16, d_model=16, n_layers=2, n_heads=4)).eval()
    source = reference.state_dict()
    state = {"embed.weight": source["transformer.wte.weight"], "pos_embed.weight": source["transformer.wpe.weight"]}
    names = {"attn.c_attn": "attn.w_qkv", "attn.c_proj": "attn.w_o", "mlp.c_fc": "mlp.w_in", "mlp.c_proj": "mlp.w_out"}
    for layer in range(2):
        for theirs, ours in names.items():
            state[f"blocks.{layer}.{ours}.weight"] = source[f"transformer.h.{layer}.{theirs}.weight"].T
            state[f"blocks.{layer}.{ours}.bias"] = source[f"transformer.h.{layer}.{theirs}.bias"]
        for theirs, ours in {"ln_1": "ln1", "ln_2": "ln2"}.items():
            state[f"blocks.{layer}.{ours}.w"] = source[f"transformer.h.{layer}.{theirs}.weight"]
            state[f"blocks.{layer}.{ours}.b"] = source[f"transformer.h.{layer}.{theirs}.bias"]
    state["ln_final.w"], state["ln_final.b"] = source["transformer.ln_f.weight"], source["transformer.ln_f.bias"]
    model.load_state_dict(state)
    return reference, model


def llama_pair(**rope: object) -> tuple[torch.nn.Module, GPT]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    reference = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=23, max_position_embeddings=16, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=40, rms_norm_eps=1e-5, tie_word_embeddings=False,
            attn_implementation="eager", initializer_range=0.3,
        )
    ).eval()  # fmt: skip
    model = GPT(
        GPTConfig(
            d_vocab=23, n_ctx=16, d_model=16, n_layers=2, n_heads=4, n_key_value_heads=2, d_mlp=40, gated_mlp=True,
            act_fn="silu", normalization_type="RMS", positional_embedding_type="rotary", use_bias=False,
            tie_word_embeddings=False,
        )
    ).eval()  # fmt: skip
    source = reference.state_dict()
    state = {
        "embed.weight": source["model.embed_tokens.weight"],
        "unembed.weight": source["lm_head.weight"],
        "ln_final.w": source["model.norm.weight"],
    }
    for layer in range(2):
        theirs = f"model.layers.{layer}"
        qkv = [source[f"{theirs}.self_attn.{part}_proj.weight"] for part in "qkv"]
        state[f"blocks.{layer}.attn.w_qkv.weight"] = torch.cat(qkv)
        state[f"blocks.{layer}.attn.w_o.weight"] = source[f"{theirs}.self_attn.o_proj.weight"]
        for name, ours in {"up": "w_in", "gate": "w_gate", "down": "w_out"}.items():
            state[f"blocks.{layer}.mlp.{ours}.weight"] = source[f"{theirs}.mlp.{name}_proj.weight"]
        state[f"blocks.{layer}.ln1.w"] = source[f"{theirs}.input_layernorm.weight"]
        state[f"blocks.{layer}.ln2.w"] = source[f"{theirs}.post_attention_layernorm.weight"]
    model.load_state_dict(state)
    return reference, model


def keep_llama_in_fp64(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers' Llama narrows its norms and its softmax to fp32 whatever the model's precision: lift that."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    def forward(self, x):
        return self.weight * x * (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()

    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(LlamaRMSNorm, "forward", forward)
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim))


@pytest.mark.parametrize("pair", [gpt2_pair, llama_pair])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_logits_equal_transformers(pair, dtype: torch.dtype, tolerance: float, monkeypatch) -> None:
    if dtype == torch.float64:
        keep_llama_in_fp64(monkeypatch)
    reference, model = pair()
    reference, model = reference.to(dtype), model.to(dtype)
    x = tokens(3, 16)
    with torch.no_grad():
        expected = reference(x).logits
        torch.testing.assert_close(model(x), expected, atol=tolerance, rtol=0)
        torch.testing.assert_close(model.run_with_cache(x)[0], expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("pair", [gpt2_pair, llama_pair])
def test_left_padding_equals_transformers(pair) -> None:
    reference, model = pair()
    x = tokens(2, 8)
    mask = torch.ones_like(x)
    mask[1, :3] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = reference(x, attention_mask=mask, position_ids=positions).logits
        got = model(x, attention_mask=mask)
    torch.testing.assert_close(got[mask.bool()], expected[mask.bool()], atol=1e-4, rtol=0)


def test_gradients_equal_transformers() -> None:
    reference, model = gpt2_pair()
    reference, model = reference.double(), model.double()
    x = tokens(2, 12)
    logits = reference(x).logits[:, :-1]  # its own loss narrows to fp32
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten()).backward()
    model(x, return_type="loss").backward()
    torch.testing.assert_close(model.embed.weight.grad, reference.transformer.wte.weight.grad, atol=1e-10, rtol=0)
    torch.testing.assert_close(
        model.blocks[0].attn.w_qkv.weight.grad, reference.transformer.h[0].attn.c_attn.weight.grad.T, atol=1e-10, rtol=0
    )


def test_gpt2_small_has_its_number_of_parameters() -> None:
    with torch.device("meta"):
        model = GPT(GPTConfig.preset("gpt2-small"))
    assert sum(p.numel() for p in model.parameters()) == 124_439_808
