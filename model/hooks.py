"""Watching: a root module that is loud about mistakes and keeps what it has seen.

Built on TransformerLens' ``HookedRootModule``; what differs is said in each docstring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import _has_any_global_hook
from transformer_lens import HookedRootModule

from model.cache import ActivationCache
from model.caching import Keeper
from model.config import nearest
from model.points import DIRECTIONS, Hook, HookShapeError, Point, Watch, check_direction, listening

NamesFilter = str | Iterable[str] | re.Pattern[str] | Callable[[str], bool] | None


class UnknownHookError(ValueError, KeyError):
    """A hook name that the model does not have; the sentence offers the nearest one that it has."""

    def __str__(self) -> str:
        return str(self.args[0])


class InstrumentedModule(HookedRootModule):
    """A root module whose hook machinery refuses misspelt names and keeps caches as snapshots.

    Everything TransformerLens' ``HookedRootModule`` offers is here with the same meaning, except:
    an unknown name is an ``UnknownHookError``; names may be given as a string, a list, tuple or set of strings,
    a compiled regular expression (searched), or a predicate; whatever is cached is a snapshot that no later hook,
    pass or training step can change; the end of a block of temporary hooks removes those hooks and no others; and
    every run goes through ``model(...)``, so that forward hooks of the model itself act in it.
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

    def is_watched(self) -> bool:
        """Whether a hook of anybody's, on a hook point, on any module or on all modules, may act in a pass."""
        if self.refresh_watch() or _has_any_global_hook():
            return True
        return any(
            module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
            for module in self.modules()
        )

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
        if not isinstance(names, Iterable):
            raise UnknownHookError(
                f"Hook points are named by {names!r}; give a name, several, a regular expression or a predicate."
            )
        wanted = set(names)
        for name in sorted(wanted, key=str):
            if name not in self.hook_dict:
                raise UnknownHookError(f"No hook point {name!r} in this model{nearest(name, self.hook_dict)}")
        return [name for name in self.hook_dict if name in wanted]

    # --- hooks that stay ---------------------------------------------------------------------------------------

    def check_hooks_to_add(self, hook_point: Any, hook_point_name: str, *args: Any, **kwargs: Any) -> None:
        """UnknownHookError unless the point is this model's own of that name."""
        if self.hook_dict.get(hook_point_name) is not hook_point:
            raise UnknownHookError(f"The hook point given is not this model's {hook_point_name!r}.")

    def add_hook(self, name: Any, hook: Hook, *args: Any, **kwargs: Any) -> None:
        for one in self.hook_names(name):
            super().add_hook(one, hook, *args, **kwargs)

    def remove_all_hook_fns(self, direction: Any = "both", *args: Any, **kwargs: Any) -> None:
        check_direction(direction, DIRECTIONS)
        super().remove_all_hook_fns(direction, *args, **kwargs)

    def list_hooks(self, name_filter: NamesFilter = None, dir: Any = "both", including_permanent: bool = True) -> Any:
        """Hook point name -> the handles of its hooks, for points that have any; None looks at every point."""
        check_direction(dir, DIRECTIONS)
        names = list(self.hook_dict) if name_filter is None else self.hook_names(name_filter)
        return super().list_hooks(names, dir, including_permanent)

    def add_caching_hooks(
        self,
        names_filter: NamesFilter = None,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
        cache: dict[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Hooks that keep a snapshot of each pass's activations in the dict returned, until ``reset_hooks``.

        Arguments as for ``run_with_cache``. With ``incl_bwd`` a later ``backward`` keeps gradients under ``name_grad``.
        """
        kept, forward, _ = self.get_caching_hooks(names_filter, incl_bwd, device, remove_batch_dim, cache)
        for name, keep in forward:
            self.add_hook(name, keep)
        return kept

    def get_caching_hooks(
        self,
        names_filter: NamesFilter = None,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
        cache: dict[str, Tensor] | None = None,
        pos_slice: Any = None,
    ) -> tuple[dict[str, Tensor], list[Any], list[Any]]:
        """(cache, forward hooks, backward hooks) for ``hooks``, which keep snapshots in the dict ``cache``.

        Arguments as for ``run_with_cache``. With ``incl_bwd`` the forward hooks alone keep the gradients too, also
        where all weights before are frozen; the backward hooks keep the same ones.
        """
        kept: dict[str, Tensor] = {} if cache is None else cache
        names = self.hook_names(names_filter)
        keep = Keeper(kept, device, remove_batch_dim, pos_slice, gradients=incl_bwd)
        self.is_caching = True
        return kept, [(name, keep) for name in names], [(name, keep.backward) for name in names] if incl_bwd else []

    def cache_all(self, cache: dict[str, Tensor] | None, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """``add_caching_hooks`` on every point but those computed on request; returns the dict."""
        return self.cache_some(cache, None, *args, **kwargs)

    def cache_some(
        self,
        cache: dict[str, Tensor] | None,
        names: NamesFilter,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
    ) -> dict[str, Tensor]:
        """``add_caching_hooks`` on these points; returns the dict."""
        return self.add_caching_hooks(names, incl_bwd, device, remove_batch_dim, cache)

    # --- hooks for one run -------------------------------------------------------------------------------------

    @contextmanager
    def hooks(
        self,
        fwd_hooks: Iterable[tuple[NamesFilter, Hook]] = (),
        bwd_hooks: Iterable[tuple[NamesFilter, Hook]] = (),
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
    ) -> Iterator[Any]:
        """Temporary hooks. All names are checked before the first hook is attached; the user's own hooks stay."""
        wanted: list[tuple[str, Hook, Any]] = [
            (name, hook, direction)
            for direction, pairs in (("fwd", fwd_hooks), ("bwd", bwd_hooks))
            for names, hook in pairs
            for name in self.hook_names(names)
        ]
        attached = []
        self.context_level += 1
        try:
            for name, hook, direction in wanted:
                point = self.hook_dict[name]
                attached.append((point, point.add_hook(hook, direction, level=self.context_level)))
            yield self
        finally:
            self.context_level -= 1
            if reset_hooks_end:
                for point, handle in attached:
                    point.remove_hook(handle)
                if clear_contexts:
                    self.clear_contexts()

    def run_with_hooks(
        self,
        *model_args: Any,
        fwd_hooks: Iterable[tuple[NamesFilter, Hook]] = (),
        bwd_hooks: Iterable[tuple[NamesFilter, Hook]] = (),
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
        **model_kwargs: Any,
    ) -> Any:
        """The output of one forward pass with these hooks.

        Backward hooks need ``reset_hooks_end=False``, for the backward pass comes after this call: otherwise
        ValueError. They then stay until ``reset_hooks``.
        """
        backward = list(bwd_hooks)
        if backward and reset_hooks_end:
            raise ValueError(
                "bwd_hooks would be removed before the backward pass: run both inside "
                "`with model.hooks(bwd_hooks=...)`, or pass reset_hooks_end=False."
            )
        with self.hooks(fwd_hooks, backward, reset_hooks_end, clear_contexts):
            return self(*model_args, **model_kwargs)

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
        gradients are cached under ``name_grad``, also those of activations before which all weights are frozen, and
        no parameter's ``.grad`` is changed. ValueError where gradients are off or one did not come.
        remove_batch_dim needs a batch of one. pos_slice (TransformerLens' ``Slice`` or what makes one) is applied
        to the position axis of each activation.
        """
        if incl_bwd and not torch.is_grad_enabled():
            raise ValueError(
                "incl_bwd runs backward, and gradients are off here (torch.no_grad or torch.inference_mode): "
                "call run_with_cache outside of it, or leave out incl_bwd."
            )
        cache: dict[str, Tensor] = {}
        # A hook that edits in place could reach what is cached, here or through a shared tensor at the next
        # point; without one the forward pass never writes into an activation, and a reference is a snapshot.
        keep = Keeper(cache, device, remove_batch_dim, pos_slice, incl_bwd, copies=self.is_watched())
        names = self.hook_names(names_filter)
        with self.hooks([(name, keep) for name in names], (), reset_hooks_end, clear_contexts):
            output = self(*model_args, **model_kwargs)
            if incl_bwd:
                self._backward_without_trace(output)
                keep.refuse_missing()
        if isinstance(output, Tensor) and model_kwargs.get("stop_at_layer") is not None:
            output = output.clone()  # it is a cached activation: editing it must not edit the cache
        if not return_cache_object:
            return output, cache
        return output, ActivationCache(cache, self, has_batch_dim=not remove_batch_dim)

    def _backward_without_trace(self, output: Any) -> None:
        """Run backward for its hooks, and put every parameter's gradient back as it was."""
        if not isinstance(output, Tensor) or output.numel() != 1:
            raise ValueError('incl_bwd differentiates a scalar: pass return_type="loss".')
        if not output.requires_grad:
            raise ValueError("incl_bwd: the loss depends on nothing that has a gradient; a hook cuts it off.")
        before = [(parameter, parameter.grad) for parameter in self.parameters()]
        for parameter, _ in before:
            parameter.grad = None
        try:
            output.backward()
        finally:
            for parameter, gradient in before:
                parameter.grad = gradient


__all__ = ["HookShapeError", "InstrumentedModule", "Point", "UnknownHookError", "listening"]
