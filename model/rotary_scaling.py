"""RotaryScaling: how rotary positions are stretched, and what its fields may be. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from model.checks import MOST_WHOLE, is_int, is_number, nearest, short

ROTARY_SCALINGS = ("linear", "ntk", "yarn", "llama3", "factors")
MOST_STRETCH = 1e6  # anything above is a slip of the key
LEAST = 1e-6


@dataclass(frozen=True)
class RotaryScaling:
    """How rotary positions are stretched beyond the length a model was trained at.

    kind: ``linear`` (Chen et al. 2023, arXiv 2306.15595: positions divided by ``factor``), ``ntk``
    (the base grows, high frequencies stay), ``yarn`` (Peng et al. 2023, arXiv 2309.00071: ntk by parts,
    with attention logits scaled by (0.1 ln factor + 1)^2), ``llama3`` (Llama 3.1: wavelengths longer than
    original_n_ctx / low_freq_factor are stretched, those shorter than original_n_ctx / high_freq_factor stay) or
    ``factors`` (each pair of dimensions is slowed by its own of ``factors``: GGUF's rope_freqs, LongRoPE).
    original_n_ctx: the trained length, used by ``yarn`` and ``llama3``.
    attention_factor: ``yarn``'s factor on cos and sin where it is not 0.1 ln factor + 1; that of ``factors``, else 1.
    """

    kind: str  # linear, ntk, yarn, llama3 or factors
    factor: float  # how many times longer than trained
    original_n_ctx: int | None = None  # the trained length, for yarn and llama3
    beta_fast: float = 32.0  # yarn: turns within the trained length above which nothing is stretched
    beta_slow: float = 1.0  # yarn: turns below which all is stretched
    attention_factor: float | None = None  # yarn, factors: factor on cos and sin; None: its own
    low_freq_factor: float = 1.0  # llama3: waves longer than original_n_ctx over this are stretched
    high_freq_factor: float = 4.0  # llama3: waves shorter than original_n_ctx over this are kept
    factors: tuple[float, ...] | None = None  # factors: how many times slower each pair of dimensions turns

    def __post_init__(self) -> None:
        if isinstance(self.factors, list):  # as JSON has it
            object.__setattr__(self, "factors", tuple(self.factors))


def scaling_problem(scaling: RotaryScaling, base: float, d_head: int | None) -> str | None:
    """What is wrong with a scaling, as a sentence; None where nothing is.

    base: the rotary base. d_head: the width of a head, None where it is not known.
    """
    kind = scaling.kind
    if kind not in ROTARY_SCALINGS:
        return f"rotary_scaling.kind is {short(kind)}{nearest(short(kind), ROTARY_SCALINGS)}"
    ranges = {"factor": 1.0, **dict.fromkeys(("beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor"), LEAST)}
    if scaling.attention_factor is not None:
        ranges["attention_factor"] = LEAST
    for name, least in ranges.items():
        value = getattr(scaling, name)
        if not is_number(value, MOST_STRETCH) or value < least:
            return (
                f"rotary_scaling.{name} is {short(value)}; it must be a number from {least:g} to {MOST_STRETCH:,.0f}."
            )
    length = scaling.original_n_ctx
    if length is not None and not (is_int(length) and 1 <= length <= MOST_WHOLE):
        return f"rotary_scaling.original_n_ctx is {short(length)}; it must be None or a whole number of at least 1."
    if length is None and kind in ("yarn", "llama3"):
        return f"{kind} needs original_n_ctx, the trained length; it is None."
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    if kind == "llama3" and low >= high:
        return f"llama3 needs 0 < low_freq_factor < high_freq_factor; they are {low}, {high}."
    if kind == "yarn" and scaling.beta_slow > scaling.beta_fast:
        return f"yarn needs beta_slow of at most beta_fast; they are {scaling.beta_slow} and {scaling.beta_fast}."
    if kind in ("yarn", "ntk") and base <= 1:
        return f"{kind} needs a rotary_base above 1; it is {base}."
    if scaling.attention_factor is not None and kind not in ("yarn", "factors"):
        return f"rotary_scaling.attention_factor is of yarn and factors; {kind} has none."
    return _factors_problem(scaling, d_head)


def _factors_problem(scaling: RotaryScaling, d_head: int | None) -> str | None:
    factors = scaling.factors
    if scaling.kind != "factors":
        return None if factors is None else f"rotary_scaling.factors is for kind 'factors', not for {scaling.kind!r}."
    pairs = "one number a pair of dimensions" if d_head is None else f"{d_head // 2} numbers, one a pair of dimensions"
    if not isinstance(factors, tuple) or (d_head is not None and len(factors) != d_head // 2):
        return f"rotary_scaling.factors is {short(factors)}; kind 'factors' needs {pairs}."
    wrong = next((f for f in factors if not is_number(f, MOST_STRETCH) or f < LEAST), None)
    if wrong is not None:
        return (
            f"rotary_scaling.factors has {short(wrong)}; each must be a number from {LEAST:g} to {MOST_STRETCH:,.0f}."
        )
    return None
