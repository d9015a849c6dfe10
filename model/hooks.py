"""Watching: hook points that cost nothing until somebody listens, and a root module that is loud about mistakes.

Built on TransformerLens' ``HookPoint`` and ``HookedRootModule``; what differs is said in each docstring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint
from transformer_lens.utilities import Slice

from model.cache import ActivationCache
from model.config import nearest

NamesFilter = str | Iterable[str] | re.Pattern[str] | Callable[[str], bool] | None
Hook = Callable[..., Any]


class UnknownHookError(ValueError, KeyError):
    """A hook name that the model does not have; the sentence offers the nearest one that it has."""

    def __str__(self) -> str:
        return str(self.args[0])


class HookShapeError(ValueError):
    """A hook returned something that cannot stand in for the activation it was given."""


class Watch:
    """Whether any hook point of one model may have a listener; shared by the model and its points."""

    def __init__(self) -> None:
        self.on = False

    def __reduce__(self) -> Any:
        return Watch, ()  # a copy's points carry no hooks


class Point(HookPoint):
    """A hook point whose call is a plain return until somebody listens.

    ``listening`` is set by the registration of any torch hook, and taken back by the model's next forward pass
    once the hooks are gone, so a removed hook leaves no cost and an added one never fails to fire.
    Copies and pickles of a point carry no hooks: closures do not survive either.
    """

    def __init__(self, on_request: bool = False):
        super().__init__()
        self.listening = False
        self.on_request = on_request  # computed only when hooked by name: left out of "cache everything"
        self.watch: Watch | None = None

    def __call__(self, activation: Tensor) -> Tensor:
        if not self.listening:
            return activation
        return super().__call__(activation)

    def forward(self, activation: Tensor) -> Tensor:
        return activation

    def _heard(self) -> None:
        self.listening = True
        if self.watch is not None:
            self.watch.on = True

    def register_forward_hook(self, *args: Any, **kwargs: Any) -> Any:
        self._heard()
        return super().register_forward_hook(*args, **kwargs)

    def register_forward_pre_hook(self, *args: Any, **kwargs: Any) -> Any:
        self._heard()
        return super().register_forward_pre_hook(*args, **kwargs)

    def register_full_backward_hook(self, *args: Any, **kwargs: Any) -> Any:
        self._heard()
        return super().register_full_backward_hook(*args, **kwargs)

    def register_full_backward_pre_hook(self, *args: Any, **kwargs: Any) -> Any:
        self._heard()
        return super().register_full_backward_pre_hook(*args, **kwargs)

    def refresh(self) -> bool:
        """Recount the listeners after some may have left."""
        self.listening = bool(
            self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
        )
        return self.listening

    def add_hook(self, hook: Hook, dir: Literal["fwd", "bwd"] = "fwd", *args: Any, **kwargs: Any) -> Any:
        """As TransformerLens', and what the hook returns is checked at once: same shape, dtype and device."""

        def checked(activation: Tensor, hook: HookPoint) -> Any:
            result = user_hook(activation, hook=hook)
            if result is not None:
                self._check(activation, result, dir)
            return result

        user_hook = hook
        handle = super().add_hook(checked, dir, *args, **kwargs)  # type: ignore[arg-type]
        handle.user_hook = user_hook
        return handle

    def _check(self, given: Tensor, got: Any, dir: str) -> None:
        if dir == "bwd" and isinstance(got, tuple) and len(got) == 1:
            got = got[0]
        what = "gradient" if dir == "bwd" else "activation"
        if not isinstance(got, Tensor):
            raise HookShapeError(
                f"The hook on {self.name} returned {type(got).__name__}; it must return None or a tensor "
                f"like the {what} it was given, {_looks(given)}."
            )
        if got.shape != given.shape or got.dtype != given.dtype or got.device != given.device:
            raise HookShapeError(
                f"The hook on {self.name} returned {_looks(got)}; the {what} it was given is {_looks(given)}."
            )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            state[name] = type(state[name])()
        for name in (
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_forward_pre_hooks_with_kwargs",
        ):
            if name in state:
                state[name] = type(state[name])()
        return {**state, "fwd_hooks": [], "bwd_hooks": [], "ctx": {}, "listening": False}


def _looks(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} {tensor.dtype} on {tensor.device}"


class InstrumentedModule(HookedRootModule):
    """A root module whose hook machinery refuses misspelt names and keeps caches as snapshots.

    Everything TransformerLens' ``HookedRootModule`` offers is here with the same meaning, except:
    an unknown name is an ``UnknownHookError``; names may be given as a string, a list, tuple or set of strings,
    a compiled regular expression (searched), or a predicate; ``run_with_cache`` returns an ``ActivationCache``
    whose tensors no later hook, pass or training step can change.
    """

    hook_dict: dict[str, Point]  # type: ignore[assignment]

    def setup(self) -> None:
        super().setup()
        self.watch = Watch()
        for point in self.hook_dict.values():
            point.watch = self.watch

    def refresh_watch(self) -> bool:
        """Recount every point's listeners; False when nobody listens any more."""
        listening = [point.refresh() for point in self.hook_dict.values()]
        self.watch.on = any(listening)
        return self.watch.on

    def hook_names(self, names: NamesFilter) -> list[str]:
        """The hook points a filter means, in the model's order (a cache holds them as the pass reaches them).

        None means every point but those computed only on request (``attn.hook_result`` and the split inputs).
        An exact name that does not exist is an error; a predicate or pattern may match nothing.
        """
        if names is None:
            return [name for name, point in self.hook_dict.items() if not point.on_request]
        if isinstance(names, str):
            names = (names,)
        if isinstance(names, re.Pattern):
            return [name for name in self.hook_dict if names.search(name)]
        if callable(names):
            return [name for name in self.hook_dict if names(name)]
        wanted = set(names)
        for name in sorted(wanted, key=str):
            if name not in self.hook_dict:
                raise UnknownHookError(f"No hook point {name!r} in this model{nearest(name, self.hook_dict)}")
        return [name for name in self.hook_dict if name in wanted]

    def add_hook(self, name: Any, hook: Hook, *args: Any, **kwargs: Any) -> None:
        for one in self.hook_names(name):
            super().add_hook(one, hook, *args, **kwargs)

    @contextmanager
    def hooks(
        self,
        fwd_hooks: Iterable[tuple[NamesFilter, Hook]] = (),
        bwd_hooks: Iterable[tuple[NamesFilter, Hook]] = (),
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
    ) -> Iterator[Any]:
        """Temporary hooks. All names are checked before the first hook is attached; the user's own hooks stay."""
        forward: list[Any] = [(name, hook) for names, hook in fwd_hooks for name in self.hook_names(names)]
        backward: list[Any] = [(name, hook) for names, hook in bwd_hooks for name in self.hook_names(names)]
        with super().hooks(forward, backward, reset_hooks_end, clear_contexts):
            yield self

    def run_with_cache(
        self,
        *model_args: Any,
        names_filter: NamesFilter = None,
        device: torch.device | str | None = None,
        remove_batch_dim: bool = False,
        incl_bwd: bool = False,
        return_cache_object: bool = True,
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
        pos_slice: Any = None,
        **model_kwargs: Any,
    ) -> tuple[Any, Any]:
        """Run forward and keep the activations that ``names_filter`` names (see ``hook_names``).

        Returns (output, cache). With ``incl_bwd`` the output must be a scalar (``return_type="loss"``); its
        gradients are cached under ``name_grad`` and no parameter's ``.grad`` is changed.
        remove_batch_dim needs a batch of one. pos_slice (TransformerLens' ``Slice`` or what makes one) is applied
        to the position axis of each activation.
        """
        cache: dict[str, Tensor] = {}
        # A hook that edits in place could reach what is cached, here or through a shared tensor at the next
        # point; without one the forward pass never writes into an activation, and a reference is a snapshot.
        copy = self.refresh_watch()
        slice_ = Slice.unwrap(pos_slice) if pos_slice is not None else None

        def keep(activation: Tensor, hook: HookPoint, suffix: str = "") -> None:
            kept = activation.detach()
            if slice_ is not None:
                scores = str(hook.name).endswith(("hook_pattern", "hook_attn_scores"))
                kept = slice_.apply(kept, dim=-2 if scores else 1)
            kept = kept.to(device) if device is not None else kept
            if remove_batch_dim:
                if kept.shape[0] != 1:
                    raise ValueError(f"remove_batch_dim needs a batch of one; {hook.name} has {kept.shape[0]} rows.")
                kept = kept[0]
            cache[f"{hook.name}{suffix}"] = kept.clone() if copy else kept

        def keep_gradient(gradient: Tensor, hook: HookPoint) -> None:
            keep(gradient, hook, "_grad")

        names = self.hook_names(names_filter)
        backward = [(name, keep_gradient) for name in names] if incl_bwd else []
        with self.hooks([(name, keep) for name in names], backward, reset_hooks_end, clear_contexts):
            output = self.forward(*model_args, **model_kwargs)
            if incl_bwd:
                self._backward_without_trace(output)
        if isinstance(output, Tensor) and model_kwargs.get("stop_at_layer") is not None:
            output = output.clone()  # it is a cached activation: editing it must not edit the cache
        if not return_cache_object:
            return output, cache
        return output, ActivationCache(cache, self, has_batch_dim=not remove_batch_dim)

    def _backward_without_trace(self, output: Any) -> None:
        """Run backward for its hooks, and put every parameter's gradient back as it was."""
        if not isinstance(output, Tensor) or output.numel() != 1:
            raise ValueError('incl_bwd differentiates a scalar: pass return_type="loss".')
        before = [(parameter, parameter.grad) for parameter in self.parameters()]
        for parameter, _ in before:
            parameter.grad = None
        try:
            output.backward()
        finally:
            for parameter, gradient in before:
                parameter.grad = gradient


def listening(module: nn.Module, *names: str) -> bool:
    """Whether somebody listens to any of these hook points of a module."""
    return any(getattr(module, name).listening for name in names)
