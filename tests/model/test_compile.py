"""Compiled equals eager, and a hook attached before or after compilation fires.

What must not go wrong is in the tracing, which every backend shares; the quick test takes the one without a C++
compiler, the slow one compiles for real.
"""

from __future__ import annotations

import shutil

import pytest
import torch

from tests.model.variants import tiny, tokens


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    """torch counts recompilations of one function over all tests, and gives up after a few."""
    import torch._dynamo

    torch._dynamo.reset()


def test_compiled_equals_eager_and_hooks_fire() -> None:
    model = tiny(positional_embedding_type="rotary", normalization_type="RMS")
    x = tokens()
    fired: list[str] = []

    def zero(activation, hook):
        fired.append(hook.name)
        return activation * 0

    with torch.no_grad():
        eager = model(x)
        compiled = torch.compile(model, backend="eager")
        torch.testing.assert_close(compiled(x), eager, atol=1e-5, rtol=0)
        assert len(compiled.run_with_cache(x)[1]) > 40
        model.add_hook("blocks.1.hook_mlp_out", zero)
        hooked = compiled(x)
        assert fired == ["blocks.1.hook_mlp_out"]
        torch.testing.assert_close(hooked, model(x))
        assert not torch.allclose(hooked, eager, atol=1e-3)
        model.reset_hooks()
        fired.clear()
        torch.testing.assert_close(compiled(x), eager, atol=1e-5, rtol=0)
        assert not fired


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile on CPU needs a C++ compiler")
def test_compile_in_place_with_a_hook_already_there() -> None:
    model = tiny()
    x = tokens()
    eager = model(x).detach()
    fired: list[int] = []
    model.add_hook("blocks.0.attn.hook_pattern", lambda a, hook: fired.append(1))
    model.compile()
    torch.testing.assert_close(model(x), eager, atol=1e-5, rtol=0)
    assert fired == [1]
    model.reset_hooks()
    torch.testing.assert_close(model(x), eager, atol=1e-5, rtol=0)
    assert fired == [1]
    graph = torch.compile(tiny(), fullgraph=True)
    torch.testing.assert_close(graph(x, return_type="loss"), tiny()(x, return_type="loss"), atol=1e-5, rtol=0)
