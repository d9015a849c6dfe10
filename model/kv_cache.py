"""The keys and values a model has already computed, so that a new token costs one position and not all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from model.config import GPTConfig

FIRST_CAPACITY = 64


class LayerCache:
    """Keys and values of one layer, [batch, key-value head, pos, d_head]; keys are stored after rotation.

    The buffers are longer than what is in them and grow by doubling, so that adding a token copies that token only.
    """

    __slots__ = ("_keys", "_values", "length", "limit")

    def __init__(self, limit: int):
        self.limit = limit
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add positions; returns all keys and all values, views that later positions are written behind."""
        start, end = self.length, self.length + k.shape[2]
        if end > self.limit:
            raise ValueError(f"{end} positions do not fit into the cache of a model with n_ctx {self.limit}.")
        if k.requires_grad or v.requires_grad:
            return self._concatenate(k, v)
        keys, values = self._keys, self._values
        if keys is None or values is None or keys.shape[2] < end:
            capacity = min(self.limit, max(FIRST_CAPACITY, 2 * end))
            keys, values = self._grown(keys, k, capacity), self._grown(values, v, capacity)
            self._keys, self._values = keys, values
        keys[:, :, start:end] = k
        values[:, :, start:end] = v
        self.length = end
        return keys[:, :, :end], values[:, :, :end]

    def _grown(self, old: Tensor | None, new: Tensor, capacity: int) -> Tensor:
        batch, heads, _, d_head = new.shape
        buffer = new.new_empty(batch, heads, capacity, d_head)
        if old is not None:
            buffer[:, :, : self.length] = old[:, :, : self.length]
        return buffer

    def _concatenate(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Under autograd nothing may be written over: a new tensor each time, gradients reach the old positions."""
        if self._keys is not None and self._values is not None:
            k = torch.cat((self._keys[:, :, : self.length], k), dim=2)
            v = torch.cat((self._values[:, :, : self.length], v), dim=2)
        self._keys, self._values, self.length = k, v, k.shape[2]
        return k, v


class KVCache:
    """One ``LayerCache`` a layer. Pass it as ``past_kv_cache``: the input then continues what it holds.

    >>> cache = KVCache(model.config)
    >>> model(tokens[:, :5], past_kv_cache=cache); model(tokens[:, 5:], past_kv_cache=cache)  # as model(tokens)
    """

    def __init__(self, config: GPTConfig):
        self.layers = [LayerCache(config.n_ctx) for _ in range(config.n_layers)]

    @property
    def length(self) -> int:
        """Positions held. ValueError when a pass was interrupted between layers: ``crop`` to a length before it."""
        first, last = self.layers[0].length, self.layers[-1].length
        if first != last:
            raise ValueError(
                f"A forward pass was interrupted: the first layer holds {first} positions, the last {last}. "
                f"cache.crop({last}) forgets the unfinished ones."
            )
        return last

    def crop(self, length: int) -> None:
        """Forget all positions from ``length`` on."""
        for layer in self.layers:
            layer.length = min(layer.length, length)
