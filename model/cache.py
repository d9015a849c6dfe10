"""TransformerLens' ActivationCache, loud where its assumptions do not hold for a model."""

from __future__ import annotations

from typing import Any

import transformer_lens

from model.config import nearest


class ActivationCache(transformer_lens.ActivationCache):
    """The activations of one run, a ``transformer_lens.ActivationCache`` in every respect but two.

    A key that is not there is an error that offers the nearest one. Methods that add component outputs up to the
    residual stream, or push them through one final norm, refuse a model for which that sum is not the stream:
    Post-Norm normalises the stream after every addition, and Sandwich-Norm normalises each sublayer's output, so
    a head or a neuron alone is not what is added. ``lab.analysis.residual_decomposition`` is exact for all three.
    """

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except KeyError as error:
            name = str(error.args[0]) if error.args else str(key)
            if not self.cache_dict:
                raise KeyError(f"{name}: this cache is empty; names_filter matched no hook point.") from None
            raise KeyError(f"No activation {name!r} was cached{nearest(name, self.cache_dict)}") from None

    def _placement(self) -> str:
        return getattr(self.model.cfg, "norm_placement", "pre")

    def _refuse(self, method: str, *placements: str) -> None:
        if self._placement() in placements:
            raise ValueError(
                f"ActivationCache.{method} assumes that parts add up to the residual stream, which norm_placement "
                f"{self._placement()!r} breaks; use lab.analysis.residual_decomposition, which is exact for it."
            )

    def decompose_resid(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("decompose_resid", "post")
        return super().decompose_resid(*args, **kwargs)

    def stack_head_results(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("stack_head_results", "post", "sandwich")
        return super().stack_head_results(*args, **kwargs)

    def stack_neuron_results(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("stack_neuron_results", "post", "sandwich")
        return super().stack_neuron_results(*args, **kwargs)

    def get_full_resid_decomposition(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("get_full_resid_decomposition", "post", "sandwich")
        return super().get_full_resid_decomposition(*args, **kwargs)

    def apply_ln_to_stack(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("recompute_ln"):  # anew for each row, as a lens reads, it assumes no sum
            self._refuse("apply_ln_to_stack", "post")
        return super().apply_ln_to_stack(*args, **kwargs)
