"""A hook point: a place in the forward pass that costs nothing until somebody listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

Hook = Callable[..., Any]
DIRECTIONS = ("fwd", "bwd", "both")


class HookShapeError(ValueError):
    """A hook returned something that cannot stand in for the activation it was given."""


class Watch:
    """What whoever listens to a model may have to know; shared by the model and its points.

    on: whether any hook point may have a listener. prompt_length: while the model generates, how many columns of the
    text were there before it began; None otherwise.
    """

    def __init__(self) -> None:
        self.on = False
        self.prompt_length: int | None = None

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

        check_direction(dir, DIRECTIONS[:2])
        if not callable(hook):
            raise ValueError(f"The hook for {self.name} is {hook!r}; it must be a function of (activation, hook).")
        user_hook = hook
        handle = super().add_hook(checked, dir, *args, **kwargs)  # type: ignore[arg-type]
        handle.user_hook = user_hook
        return handle

    def remove_hook(self, handle: Any) -> None:
        """Remove the one hook that ``add_hook`` returned this handle for, if it is still here."""
        handle.hook.remove()
        self.fwd_hooks = [one for one in self.fwd_hooks if one is not handle]
        self.bwd_hooks = [one for one in self.bwd_hooks if one is not handle]

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


def check_direction(direction: Any, allowed: tuple[str, ...]) -> None:
    if direction not in allowed:
        raise ValueError(f"The direction of a hook is {direction!r}; it must be one of {', '.join(allowed)}.")


def listening(module: nn.Module, *names: str) -> bool:
    """Whether somebody listens to any of these hook points of a module."""
    return any(getattr(module, name).listening for name in names)
