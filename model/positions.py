"""How a model knows where a token stands: learned, sinusoidal, rotary, ALiBi, or not at all."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.config import GPTConfig, RotaryScaling

FIRST_TABLE = 256


class LearnedPositions(nn.Module):
    """A learned vector a position, added to the embedding: GPT-2's way. ``weight`` [n_ctx, d_model]."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.n_ctx, config.d_model))

    @property
    def W_pos(self) -> Tensor:
        return self.weight

    def forward(self, position_ids: Tensor) -> Tensor:
        return nn.functional.embedding(position_ids, self.weight)  # a gather, never a view of the weight


class SinusoidalPositions(nn.Module):
    """sin and cos of the position at geometric wavelengths, interleaved: Vaswani et al. 2017, section 3.5."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.d_model = config.d_model

    def forward(self, position_ids: Tensor) -> Tensor:
        # [..., pos, d_model] in fp32
        even = torch.arange(0, self.d_model, 2, device=position_ids.device, dtype=torch.float32)
        angle = position_ids[..., None].float() * torch.exp(even * (-math.log(10000.0) / self.d_model))
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)[..., : self.d_model]


def rotary_frequencies(config: GPTConfig) -> tuple[Tensor, float]:
    """Radians a position for each pair of dimensions [d_head / 2], and the factor on cos and sin.

    Su et al. 2021 (arXiv 2104.09864), with the scalings of ``RotaryScaling``. In fp32, as transformers has it, so
    that a model read from there is the same to the last digit also in fp64.
    """
    scaling = config.rotary_scaling
    base = config.rotary_base
    if scaling is not None and scaling.kind == "ntk" and config.d_head > 2:
        base *= scaling.factor ** (config.d_head / (config.d_head - 2))
    exponent = torch.arange(0, config.d_head, 2, dtype=torch.int64).float() / config.d_head
    frequencies = 1.0 / base**exponent
    if scaling is None or scaling.kind == "ntk":
        return frequencies, 1.0
    if scaling.kind == "linear":
        return frequencies / scaling.factor, 1.0
    if scaling.kind == "factors":
        slower = torch.tensor(scaling.factors, dtype=torch.float32)
        return 1.0 / (slower * base**exponent), scaling.attention_factor or 1.0
    if scaling.kind == "llama3":
        return _llama3(frequencies, scaling), 1.0
    return _yarn(frequencies, config.d_head, base, scaling)


def _llama3(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    """Long wavelengths stretched, short ones kept, a straight blend between them: Llama 3.1's released code."""
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    turns = scaling.original_n_ctx / wavelengths  # type: ignore[arg-type, operator]  # required by the config
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    blended = (1 - keep) * frequencies / scaling.factor + keep * frequencies
    return torch.where(keep <= 0, frequencies / scaling.factor, torch.where(keep >= 1, frequencies, blended))


def _yarn(frequencies: Tensor, d_head: int, base: float, scaling: RotaryScaling) -> tuple[Tensor, float]:
    """Interpolate slow frequencies, keep fast ones, blend between: arXiv 2309.00071, section 3.2."""

    def pair_that_turns(times: float) -> float:
        return d_head * math.log(scaling.original_n_ctx / (times * 2 * math.pi)) / (2 * math.log(base))  # type: ignore[operator]

    low = max(math.floor(pair_that_turns(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_that_turns(scaling.beta_slow)), d_head - 1)
    width = high - low or 1e-3  # below 0 where the trained length is shorter than a turn: then nothing is stretched
    ramp = ((torch.arange(d_head // 2).float() - low) / width).clamp(0, 1)
    keep = 1 - ramp
    exponent = torch.arange(0, d_head, 2).float() / d_head
    stretched = 1.0 / (scaling.factor * base**exponent)  # in transformers' order: the last bit matters in fp64
    blended = stretched * (1 - keep) + frequencies * keep
    if scaling.attention_factor is not None:
        return blended, scaling.attention_factor
    return blended, 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1 else 1.0


class Rotary:
    """cos and sin for rotary positions, kept for as many positions as were asked for so far, on each device.

    Not a module and holds no buffer: nothing to save, nothing for a meta-device load to leave uninitialised.
    """

    def __init__(self, config: GPTConfig):
        self.config = config
        self._tables: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def __call__(self, position_ids: Tensor, dtype: torch.dtype, end: int) -> tuple[Tensor, Tensor]:
        """cos and sin [..., pos, 1, d_head] of positions below ``end``, to broadcast over heads."""
        if torch.compiler.is_compiling():
            cos, sin = self._at(position_ids, dtype)
        else:
            cos, sin = (table[position_ids] for table in self._tables_to(end, position_ids.device, dtype))
        return cos.unsqueeze(-2), sin.unsqueeze(-2)

    def _tables_to(self, end: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The kept tables, made anew where a later position is asked for. Never as long as n_ctx for its own sake."""
        kept = self._tables.get((device, dtype))
        if kept is None or len(kept[0]) < end:
            length = table_length(end, self.config.n_ctx)
            kept = self._tables[device, dtype] = self._at(torch.arange(length, device=device), dtype)
        return kept

    def _at(self, position_ids: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        frequencies, factor = rotary_frequencies(self.config)
        angles = position_ids[..., None].float() * frequencies.to(position_ids.device)
        angles = torch.cat((angles, angles), dim=-1)  # [..., pos, d_head]
        return (angles.cos() * factor).to(dtype), (angles.sin() * factor).to(dtype)


def table_length(end: int, n_ctx: int) -> int:
    """How many positions to make a table for, when those below ``end`` are needed: twice as many, n_ctx at most."""
    return min(n_ctx, max(2 * end, FIRST_TABLE))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs (i, i + d_head/2) of x [batch, pos, head, d_head], the pairing of GPT-NeoX and Llama."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def alibi_slopes(n_heads: int) -> Tensor:
    """One slope a head, geometric: Press et al. 2022 (arXiv 2108.12409). Any head count, as in their code."""

    def powers(n: int) -> list[float]:
        start = 2.0 ** (-(2.0 ** -(math.log2(n) - 3)))
        return [start ** (i + 1) for i in range(n)]

    whole = 2 ** math.floor(math.log2(n_heads))
    slopes = powers(whole)
    if whole < n_heads:
        slopes += powers(2 * whole)[0::2][: n_heads - whole]
    return torch.tensor(slopes)
