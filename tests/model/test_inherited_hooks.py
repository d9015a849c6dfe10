"""Every public method that comes with HookedRootModule keeps the house's promises, or refuses with a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformer_lens import HookedRootModule

from model import GPT
from model.hooks import UnknownHookError
from tests.model.variants import tiny, tokens

POINT = "blocks.0.hook_resid_post"  # the next block's hook_resid_pre is the same tensor
NEXT = "blocks.1.hook_resid_pre"
Call = Callable[[GPT, Any], Any]


def nothing(activation: torch.Tensor, hook: Any) -> None:
    """A hook that only looks."""


def zero_in_place(activation: torch.Tensor, hook: Any) -> None:
    activation.zero_()


BY_NAME: dict[str, Call] = {
    "add_hook": lambda model, names: model.add_hook(names, nothing),
    "add_perma_hook": lambda model, names: model.add_perma_hook(names, nothing),
    "check_and_add_hook": lambda model, names: model.check_and_add_hook(model.hook_dict[POINT], names, nothing),
    "check_hooks_to_add": lambda model, names: model.check_hooks_to_add(model.hook_dict[POINT], names, nothing),
    "hooks": lambda model, names: model.hooks(fwd_hooks=[(names, nothing)]).__enter__(),
    "run_with_hooks": lambda model, names: model.run_with_hooks(tokens(), fwd_hooks=[(names, nothing)]),
    "run_with_cache": lambda model, names: model.run_with_cache(tokens(), names_filter=names),
    "add_caching_hooks": lambda model, names: model.add_caching_hooks(names),
    "get_caching_hooks": lambda model, names: model.get_caching_hooks(names),
    "cache_some": lambda model, names: model.cache_some({}, names),
    "list_hooks": lambda model, names: model.list_hooks(names),
}
"""Methods that are given names."""

OTHERS = {"setup", "hook_points", "remove_all_hook_fns", "clear_contexts", "reset_hooks", "cache_all"}


def caching(model: GPT, names: Any, **options: Any) -> dict[str, Callable[[], Any]]:
    """Method -> run tokens() with it and return the cache."""

    def run(cache: Any) -> Any:
        output = model(tokens(), return_type="loss")
        if options.get("incl_bwd"):
            output.backward()
        model.reset_hooks()
        return cache

    def with_hooks() -> Any:
        cache, forward, backward = model.get_caching_hooks(names, **options)
        with model.hooks(forward, backward):
            return run(cache)

    return {
        "run_with_cache": lambda: model.run_with_cache(tokens(), "loss", names_filter=names, **options)[1],
        "add_caching_hooks": lambda: run(model.add_caching_hooks(names, **options)),
        "get_caching_hooks": with_hooks,
        "cache_some": lambda: run(model.cache_some({}, names, **options)),
        "cache_all": lambda: run(model.cache_all({}, **options)),
    }


CACHING = list(caching(None, None))  # type: ignore[arg-type]


def test_every_public_method_has_a_test_here() -> None:
    """A method that a later TransformerLens adds is to be looked at before it is offered."""
    public = {name for name in dir(HookedRootModule) if not name.startswith("_")}
    assert public - set(dir(nn.Module)) == {*BY_NAME, *OTHERS}


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (method, wrong)
        for method in BY_NAME
        for wrong in ("blocks.0.hook_resid_pst", ["hook_embed", "blocks.0.hook_resid_pst"], 3)
        if isinstance(wrong, str) or not method.startswith("check_")  # which takes one name
    ],
)
def test_a_misspelt_name_is_refused_and_attaches_nothing(method: str, wrong: Any) -> None:
    model = tiny()
    with pytest.raises(UnknownHookError, match="hook_resid_p" if wrong != 3 else "by 3"):
        BY_NAME[method](model, wrong)
    assert not model.list_hooks()
    assert not model.refresh_watch()
    assert model.context_level == 0


@pytest.mark.parametrize("method", CACHING)
@pytest.mark.parametrize("edit", ["later hook", "block hook", "block pre-hook", "global hook", "model hook"])
def test_a_cache_is_a_snapshot_whoever_edits_in_place(method: str, edit: str) -> None:
    model = tiny()
    plain = model.run_with_cache(tokens(), names_filter=POINT)[1][POINT]

    def zero(module: nn.Module, *args: Any) -> None:
        if module is model.blocks[1] and args:
            (args[0] if isinstance(args[0], torch.Tensor) else args[0][0]).zero_()

    handles: list[Any] = []
    if edit == "later hook":
        model.add_hook(NEXT, zero_in_place)
    elif edit == "block hook":
        handles.append(model.blocks[0].register_forward_hook(lambda module, inputs, output: (output.zero_(), None)[1]))
    elif edit == "block pre-hook":
        handles.append(model.blocks[1].register_forward_pre_hook(zero))
    elif edit == "global hook":
        handles.append(nn.modules.module.register_module_forward_pre_hook(zero))
    else:
        handles.append(model.register_forward_hook(lambda module, inputs, output: (output.zero_(), None)[1]))
    try:
        with torch.no_grad():
            cache = caching(model, [POINT])[method]()
    finally:
        for handle in handles:
            handle.remove()
    torch.testing.assert_close(cache[POINT], plain)


@pytest.mark.parametrize("method", [method for method in CACHING if method != "cache_all"])
def test_all_ways_to_cache_keep_the_same(method: str) -> None:
    model = tiny(positional_embedding_type="standard")
    expected = model.run_with_cache(tokens(), "loss", incl_bwd=True)[1]
    got = caching(model, None, incl_bwd=True)[method]()
    assert set(got) == set(expected)
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], msg=name)


@pytest.mark.parametrize("method", CACHING)
def test_a_row_is_not_dropped_from_a_larger_batch(method: str) -> None:
    with pytest.raises(ValueError, match="batch of one"):
        caching(tiny(), [POINT], remove_batch_dim=True)[method]()


@pytest.mark.parametrize("run", ["run_with_cache", "run_with_hooks"])
def test_forward_hooks_of_the_model_itself_act(run: str) -> None:
    model = tiny()
    seen: list[int] = []
    handle = model.register_forward_hook(lambda module, inputs, output: seen.append(1) or output * 0)
    output = getattr(model, run)(tokens())
    handle.remove()
    assert seen == [1]
    assert not (output[0] if run == "run_with_cache" else output).any()


@pytest.mark.parametrize("method", ["hooks", "run_with_hooks", "run_with_cache"])
def test_hooks_that_were_asked_to_stay_do(method: str) -> None:
    """A later block of temporary hooks takes away its own alone."""
    model = tiny()
    model.run_with_hooks(tokens(), fwd_hooks=[(POINT, nothing)], reset_hooks_end=False)
    model.add_hook("hook_embed", nothing, level=1)
    if method == "hooks":
        with model.hooks(fwd_hooks=[(POINT, nothing)]):
            assert len(model.list_hooks()[POINT]) == 2
    else:
        BY_NAME[method](model, POINT)
    assert {name: len(handles) for name, handles in model.list_hooks().items()} == {POINT: 1, "hook_embed": 1}
    model.reset_hooks()
    assert not model.list_hooks()


@pytest.mark.parametrize("method", ["hooks", "run_with_hooks", "run_with_cache"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_users_hooks_and_no_others(method: str, error: type[BaseException]) -> None:
    model = tiny()
    seen: list[int] = []

    def fail(activation: torch.Tensor, hook: Any) -> None:
        seen.append(1)
        raise error("stop")

    model.add_hook(NEXT, fail)
    with pytest.raises(error, match="stop"):
        if method == "hooks":
            with model.hooks(fwd_hooks=[(POINT, nothing)]):
                model(tokens())
        else:
            BY_NAME[method](model, POINT)
    assert seen == [1]
    assert list(model.list_hooks()) == [NEXT]
    assert model.context_level == 0


@pytest.mark.parametrize("hook", [None, 3, "zero"])
@pytest.mark.parametrize("attach", ["add_hook", "hooks", "run_with_hooks"])
def test_a_hook_that_is_no_function_is_refused(hook: Any, attach: str) -> None:
    model = tiny()
    with pytest.raises(ValueError, match=r"must be a function of \(activation, hook\)"):
        if attach == "add_hook":
            model.add_hook(POINT, hook)
        else:
            model.run_with_hooks(tokens(), fwd_hooks=[(POINT, nothing), (POINT, hook)])
    assert not model.list_hooks()


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.add_hook(POINT, nothing, "forward"),
        lambda model: model.add_hook(POINT, nothing, "both"),
        lambda model: model.remove_all_hook_fns("forward"),
        lambda model: model.reset_hooks(direction="forward"),
        lambda model: model.list_hooks(dir="forward"),
    ],
)
def test_a_direction_that_does_not_exist_is_refused(call: Callable[[GPT], Any]) -> None:
    with pytest.raises(ValueError, match="direction of a hook"):
        call(tiny())


def test_backward_hooks_that_could_never_fire_are_refused() -> None:
    model = tiny()
    with pytest.raises(ValueError, match="reset_hooks_end=False"):
        model.run_with_hooks(tokens(), bwd_hooks=[(POINT, nothing)])
    seen: list[int] = []
    hooks = [(POINT, lambda gradient, hook: seen.append(1))]
    model.run_with_hooks(tokens(), return_type="loss", bwd_hooks=hooks, reset_hooks_end=False).backward()
    assert seen == [1]


# --- gradients ---------------------------------------------------------------------------------------------------


def test_gradients_of_everything_come_also_where_weights_are_frozen() -> None:
    model, frozen = tiny(), tiny()
    for parameter in [*frozen.embed.parameters(), *frozen.blocks[0].parameters()]:
        parameter.requires_grad_(False)
    expected = model.run_with_cache(tokens(), "loss", incl_bwd=True)[1]
    for method in [method for method in CACHING if method != "cache_all"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, that a module's inputs need no gradient
            got = caching(frozen, None, incl_bwd=True)[method]()
        assert set(got) == set(expected), method
        for name in expected:
            torch.testing.assert_close(got[name], expected[name], msg=f"{method} {name}")


@pytest.mark.parametrize("positions", ["sinusoidal", "standard", "rotary", "alibi", "none"])
@pytest.mark.parametrize("names", [None, "hook_embed", lambda name: "ln1" not in name])
def test_every_activation_kept_has_its_gradient(positions: str, names: Any) -> None:
    model = tiny(positional_embedding_type=positions)
    model.requires_grad_(False)
    cache = model.run_with_cache(tokens(), "loss", names_filter=names, incl_bwd=True)[1]
    kept = [name for name in cache if not name.endswith("_grad")]
    assert {f"{name}_grad" for name in kept} == {name for name in cache if name.endswith("_grad")}
    assert all(parameter.grad is None for parameter in model.parameters())


def test_split_inputs_pass_over_ln1_and_its_missing_gradients_are_named() -> None:
    with pytest.raises(ValueError, match=r"blocks\.0\.ln1\.hook_scale_grad, .* split attention inputs"):
        tiny().run_with_cache(tokens(), "loss", names_filter=lambda name: True, incl_bwd=True)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_without_gradients_a_backward_cache_is_refused(off: Any) -> None:
    model = tiny()
    with off(), pytest.raises(ValueError, match=r"gradients are off here \(torch.no_grad"):
        model.run_with_cache(tokens(), "loss", incl_bwd=True)


@pytest.mark.parametrize("cut", ["detach", "zeros"])
def test_gradients_that_did_not_come_are_named(cut: str) -> None:
    model = tiny()
    replaced = {"detach": lambda a, hook: a.detach(), "zeros": lambda a, hook: torch.zeros_like(a)}[cut]
    model.add_hook(NEXT, replaced)
    with pytest.raises(ValueError, match=r"No gradient came for hook_embed_grad, .* and 16 more"):
        model.run_with_cache(tokens(), "loss", incl_bwd=True)
    assert list(model.list_hooks()) == [NEXT]
    model.reset_hooks()
    model.add_hook("ln_final.hook_normalized", replaced)
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="depends on nothing that has a gradient"):
        model.run_with_cache(tokens(), "loss", names_filter="hook_embed", incl_bwd=True)
