"""The keys and values a model has already computed, so that a new token costs one position and not all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from model.config import GPTConfig

FIRST_CAPACITY = 64


class LayerCache:
    """Keys and values of one layer; keys are stored after rotation.

    They share one buffer [batch, 2 x key-value heads, capacity, d_head], keys before values. It is longer than what
    is in it and grows by doubling, so that adding a token copies that token only.
    """

    __slots__ = ("__weakref__", "_buffer", "length", "limit")

    def __init__(self, limit: int):
        self.limit = limit
        self.length = 0
        self._buffer: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values [batch, head, pos, d_head]; returns all of both, views on what is stored."""
        return self.append_joined(torch.cat((k, v), dim=1))

    def append_joined(self, kv: Tensor) -> tuple[Tensor, Tensor]:
        """As ``append``, keys and values side by side on the head axis: [batch, 2 x head, pos, d_head]."""
        n_new = kv.shape[2]
        start, end = self.length, self.length + n_new
        buffer = self._buffer
        if kv.requires_grad:
            # Under autograd nothing may be written over: a new tensor each time, and gradients reach the old ones.
            buffer = kv if buffer is None else torch.cat((buffer.narrow(2, 0, start), kv), dim=2)
            self._buffer = buffer
        else:
            if buffer is None or buffer.shape[2] < end:
                buffer = self._buffer = self._grown(kv, end)
            buffer.narrow(2, start, n_new).copy_(kv)
        self.length = end
        keys, values = buffer.narrow(2, 0, end).chunk(2, dim=1)
        return keys, values

    def _grown(self, kv: Tensor, needed: int) -> Tensor:
        if needed > self.limit:
            raise ValueError(f"{needed} positions do not fit into the cache of a model with n_ctx {self.limit}.")
        batch, heads, _, d_head = kv.shape
        with torch.inference_mode(False):  # a buffer made in inference mode could not be written to outside it
            capacity = min(self.limit, max(FIRST_CAPACITY, 2 * needed))
            buffer = torch.empty(batch, heads, capacity, d_head, dtype=kv.dtype, device=kv.device)
            if self._buffer is not None:
                buffer[:, :, : self.length] = self._buffer[:, :, : self.length].detach()
        return buffer


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
