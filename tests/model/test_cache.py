"""TransformerLens' ActivationCache works on our models, and refuses where its assumptions fail."""

from __future__ import annotations

import pytest
import torch
import transformer_lens

from tests.model.variants import tiny, tokens


@pytest.mark.parametrize("norm", ["LN", "RMS"])
def test_activation_cache_methods(norm: str) -> None:
    model = tiny(normalization_type=norm)
    x = tokens()
    with torch.no_grad():
        logits, cache = model.run_with_cache(x)
        assert isinstance(cache, transformer_lens.ActivationCache)
        parts, labels = cache.decompose_resid(return_labels=True)
        torch.testing.assert_close(parts.sum(0), cache["resid_post", -1], atol=1e-5, rtol=0)
        assert labels[:2] == ["embed", "pos_embed"]
        heads, _ = cache.stack_head_results(incl_remainder=True, return_labels=True)
        torch.testing.assert_close(heads.sum(0), cache["resid_post", -1], atol=1e-5, rtol=0)
        full = cache.get_full_resid_decomposition()
        torch.testing.assert_close(full.sum(0), cache["resid_post", -1], atol=1e-4, rtol=0)
        accumulated = cache.accumulated_resid(apply_ln=True)
        assert accumulated.shape == (3, 2, 9, 16)
        # The attributions and the final norm's bias make up the logit.
        scaled = cache.apply_ln_to_stack(parts) * model.ln_final.w
        bias = 0 if model.ln_final.b is None else model.ln_final.b
        directions = model.tokens_to_residual_directions(x)
        total = ((scaled.sum(0) + bias) * directions).sum(-1)
        torch.testing.assert_close(total, logits.gather(-1, x[..., None])[..., 0], atol=1e-4, rtol=0)


def test_refusals_point_to_the_exact_way() -> None:
    x = tokens()
    _, post = tiny(norm_placement="post").run_with_cache(x)
    for call in (post.decompose_resid, post.stack_head_results, lambda: post.apply_ln_to_stack(post["resid_post", 0])):
        with pytest.raises(ValueError, match="residual_decomposition"):
            call()
    _, sandwich = tiny(norm_placement="sandwich").run_with_cache(x)
    parts = sandwich.decompose_resid()
    torch.testing.assert_close(parts.sum(0), sandwich["resid_post", -1], atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="'sandwich'"):
        sandwich.stack_head_results()
