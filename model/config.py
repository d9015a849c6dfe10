"""GPTConfig: every choice that makes one GPT different from another, named and checked. Imports no torch.

Field names are TransformerLens'. The default values are GPT-2 small: 124,439,808 parameters.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from model.checks import MOST_WHOLE, is_above_0, is_int, is_number, nearest, plain, short
from model.rotary_scaling import RotaryScaling, scaling_problem

NORM_PLACEMENTS = ("pre", "post", "sandwich")
NORMALIZATION_TYPES = ("LN", "RMS")
ACTIVATIONS = ("gelu", "gelu_new", "relu", "relu2", "silu", "identity")
POSITIONAL_EMBEDDINGS = ("standard", "sinusoidal", "rotary", "alibi", "none")
INITS = ("gpt2", "xavier")
MOST_LAYERS = 10_000  # a slip of the key should not have billions of rows counted
MOST_STD = 1e3  # weights drawn wider than this are infinite after a few products in float32

Problem = tuple[str, str]
"""(field, sentence that states the value and the fix)."""


class ConfigError(ValueError):
    """A configuration that cannot be built.

    ``problems`` lists every (field, sentence); ``fields`` names the fields alone.
    """

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        self.fields = tuple(field for field, _ in problems)
        super().__init__(" ".join(sentence for _, sentence in problems))


@dataclass(frozen=True)
class GPTConfig:
    """Shape and variant of a GPT. Frozen; refuses invalid combinations with a ``ConfigError`` naming the fields.

    d_head, n_key_value_heads and d_mlp may be left None: they become d_model / n_heads, n_heads, and
    4 d_model (gated: 8/3 d_model, which gives a gated MLP the parameters of a plain one).

    use_bias gives every linear map and LayerNorm a bias; attention_bias and mlp_bias, unless None, decide for
    the sublayer's maps alone ("qkv": queries, keys and values have one, the output has none: Qwen2's way).
    norms_folded and weights_centered record what ``model.folding`` did to the weights; they change no shape.
    """

    # Shape
    d_vocab: int = 50257  # tokens of the vocabulary
    n_ctx: int = 1024  # the context: tokens seen at once
    d_model: int = 768  # width of the residual stream
    n_layers: int = 12  # blocks of attention and MLP
    n_heads: int = 12  # query heads a layer
    d_head: int = None  # type: ignore[assignment]  # width of a head; None: d_model / n_heads
    n_key_value_heads: int = None  # type: ignore[assignment]  # shared by query heads in groups; None: n_heads
    d_mlp: int = None  # type: ignore[assignment]  # the MLP's width; None: 4 d_model, gated 8/3 d_model
    # Variants
    act_fn: str = "gelu_new"  # the MLP's activation: gelu, gelu_new, relu, relu2, silu or identity
    gated_mlp: bool = False  # a gate beside the MLP (SwiGLU with silu)
    normalization_type: str = "LN"  # LN (LayerNorm) or RMS (RMSNorm)
    norm_placement: str = "pre"  # pre, post or sandwich
    eps: float = 1e-5  # added under the norms' square root
    positional_embedding_type: str = "standard"  # standard (learned), sinusoidal, rotary, alibi or none
    rotary_base: float = 10000.0  # rotary: base of the wavelengths
    rotary_scaling: RotaryScaling | None = None  # rotary: stretch to longer contexts; None: not
    tie_word_embeddings: bool = True  # unembed with the embedding
    qk_norm: bool = False  # RMSNorm on every query and key
    attention_window: int | None = None  # tokens that a query sees, itself included; None: all before it
    use_bias: bool = True  # biases in linear maps and LayerNorms
    attention_bias: bool | str | None = None  # attention's biases: true, false or qkv; None: as use_bias
    mlp_bias: bool | None = None  # the MLP's biases; None: as use_bias
    logit_soft_cap: float | None = None  # logits are bent to stay below this; None: not
    # Training behaviour
    embed_dropout: float = 0.0  # share of the embedding dropped in training
    attn_dropout: float = 0.0  # share of the attention weights dropped in training
    resid_dropout: float = 0.0  # share of each sublayer's output dropped in training
    # Initialisation
    init: str = "gpt2"  # gpt2 (normal, init_std) or xavier
    init_std: float = 0.02  # standard deviation of the first weights
    scaled_residual_init: bool = True  # output projections start smaller, by 1 / sqrt(2 n_layers)
    zero_projection_init: bool = False  # output projections start at zero
    seed: int = 0  # seed of the first weights
    # What was done to the weights
    norms_folded: bool = False  # norms' scales and shifts moved into the maps after them
    weights_centered: bool = False  # what LayerNorm takes away removed from the weights

    def __post_init__(self) -> None:
        values = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        if isinstance(self.rotary_scaling, dict):
            values["rotary_scaling"] = _rotary_scaling(self.rotary_scaling)
        problems = _problems(values)
        if problems:
            raise ConfigError(problems)
        for name, value in _resolved(values).items():
            object.__setattr__(self, name, value)

    # TransformerLens' ActivationCache and its tools read these.
    attn_only = False
    final_rms = False

    @property
    def d_vocab_out(self) -> int:
        return self.d_vocab

    @property
    def use_normalization_before_and_after(self) -> bool:
        return self.norm_placement == "sandwich"

    @property
    def qkv_has_bias(self) -> bool:
        return self.use_bias if self.attention_bias is None else bool(self.attention_bias)

    @property
    def attn_out_has_bias(self) -> bool:
        return self.use_bias if self.attention_bias is None else self.attention_bias is True

    @property
    def mlp_has_bias(self) -> bool:
        return self.use_bias if self.mlp_bias is None else self.mlp_bias

    @property
    def is_additive(self) -> bool:
        """Whether the residual stream is the plain sum of what was added to it (not so in Post-Norm)."""
        return self.norm_placement != "post"

    def replace(self, **changes: Any) -> GPTConfig:
        """A copy with some fields changed; derived widths follow unless they were set away from their defaults."""
        values = self.to_dict()
        for name, source in (("d_head", ("d_model", "n_heads")), ("n_key_value_heads", ("n_heads",))):
            if values[name] == _default_of(name, values) and any(s in changes for s in source):
                values[name] = None
        if values["d_mlp"] == _default_of("d_mlp", values) and {"d_model", "gated_mlp"} & changes.keys():
            values["d_mlp"] = None
        return GPTConfig.from_dict({**values, **changes})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON; ``from_dict`` reads them back to an equal config."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> GPTConfig:
        """Read a config back. An unknown key is an error that offers the nearest known one."""
        known = [f.name for f in dataclasses.fields(GPTConfig)]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ConfigError([(n, f"Unknown model field {n!r}{nearest(n, known)}") for n in unknown])
        return GPTConfig(**values)

    @staticmethod
    def preset(name: str, **changes: Any) -> GPTConfig:
        """A named starting point (``PRESETS``) with some fields changed."""
        if name not in PRESETS:
            raise ConfigError([("preset", f"Unknown preset {name!r}{nearest(name, PRESETS)}")])
        return GPTConfig.from_dict({**PRESETS[name], **changes})

    @staticmethod
    def problems(values: dict[str, Any]) -> list[Problem]:
        """Everything wrong with these field values at once, for a form; empty when a config can be made of them."""
        try:
            GPTConfig.from_dict(values)
        except ConfigError as error:
            return error.problems
        return []


PRESETS: dict[str, dict[str, Any]] = {
    "tinygpt": dict(d_vocab=65, n_ctx=128, d_model=256, n_layers=4, n_heads=4),
    "minigpt": dict(d_vocab=65, n_ctx=512, d_model=256, n_layers=4, n_heads=8),
    # nanoGPT's CPU shape: 804,096 parameters.
    "nano": dict(
        d_vocab=65,
        n_ctx=64,
        d_model=128,
        n_layers=4,
        n_heads=4,
        use_bias=False,
        act_fn="gelu",
        tie_word_embeddings=True,
    ),
    "small": dict(
        d_vocab=65,
        n_ctx=128,
        d_model=256,
        n_layers=4,
        n_heads=4,
        use_bias=False,
        act_fn="relu2",
        normalization_type="LN",
        positional_embedding_type="rotary",
        qk_norm=True,
        tie_word_embeddings=False,
        embed_dropout=0.1,
        resid_dropout=0.1,
        zero_projection_init=True,
    ),
    "gpt2-small": {},
}


def _default_of(name: str, values: dict[str, Any]) -> int:
    d_model, n_heads = values["d_model"], values["n_heads"]
    if name == "d_head":
        return d_model // n_heads
    if name == "n_key_value_heads":
        return n_heads
    return round(8 * d_model / 3) if values["gated_mlp"] else 4 * d_model


def _resolved(values: dict[str, Any]) -> dict[str, Any]:
    optional = ("d_head", "n_key_value_heads", "d_mlp")
    derived = {name: _default_of(name, values) for name in optional if values[name] is None}
    return {**values, **derived}


def _rotary_scaling(values: dict[str, Any]) -> RotaryScaling:
    known = [f.name for f in dataclasses.fields(RotaryScaling)]
    for name in values:
        if name not in known:
            raise ConfigError([("rotary_scaling", f"Unknown rotary_scaling key {name!r}{nearest(name, known)}")])
    for name in ("kind", "factor"):
        if name not in values:
            raise ConfigError([("rotary_scaling", f"rotary_scaling needs kind and factor; {name} is missing.")])
    return RotaryScaling(**values)


def _problems(values: dict[str, Any]) -> list[Problem]:
    """One sentence a field: ranges first, then the combinations of fields whose ranges are sound."""
    found: dict[str, str] = {}

    def require(field: str, holds: bool, sentence: str) -> None:
        if not holds and field not in found:
            found[field] = sentence

    def choice(field: str, allowed: tuple[str, ...]) -> None:
        value = values[field]
        require(
            field,
            value in allowed,
            f"{field} is {short(value)}{nearest(value if isinstance(value, str) else short(value), allowed)}",
        )

    def whole(field: str, least: int = 1, most: int = MOST_WHOLE) -> None:
        value = values[field]
        fine = is_int(value) and value >= least
        require(field, fine, f"{field} is {short(value)}; it must be a whole number of at least {least}.")
        limit = f"a whole number from {least} to 2^63 - 1" if most == MOST_WHOLE else f"at most {most:,}"
        require(field, fine and value <= most, f"{field} is {short(value)}; it must be {limit}.")

    for field in ("d_vocab", "n_ctx", "d_model", "n_layers", "n_heads"):
        whole(field, most=MOST_LAYERS if field == "n_layers" else MOST_WHOLE)
    for field in ("d_head", "n_key_value_heads", "d_mlp", "attention_window"):
        if values[field] is not None:
            whole(field)
    whole("seed", least=0)
    choice("act_fn", ACTIVATIONS)
    choice("normalization_type", NORMALIZATION_TYPES)
    choice("norm_placement", NORM_PLACEMENTS)
    choice("positional_embedding_type", POSITIONAL_EMBEDDINGS)
    choice("init", INITS)
    for field in (
        "gated_mlp",
        "tie_word_embeddings",
        "qk_norm",
        "use_bias",
        "scaled_residual_init",
        "zero_projection_init",
        "norms_folded",
        "weights_centered",
    ):
        value = values[field]
        require(field, isinstance(value, bool), f"{field} is {short(value)}; it must be true or false.")
    for field in ("eps", "rotary_base", "init_std"):
        value = values[field]
        require(field, is_above_0(value), f"{field} is {short(value)}; it must be a finite number above 0.")
    std = values["init_std"]
    require("init_std", is_number(std, MOST_STD), f"init_std is {short(std)}; it must be at most {MOST_STD:,.0f}.")
    for field in ("embed_dropout", "attn_dropout", "resid_dropout"):
        value = values[field]
        fine = is_number(value) and 0 <= value < 1
        require(field, fine, f"{field} is {short(value)}; it must be at least 0 and below 1.")
    bias = values["attention_bias"]
    fine = bias is None or isinstance(bias, bool) or bias == "qkv"
    require("attention_bias", fine, f"attention_bias is {short(bias)}; it must be None, true, false or 'qkv'.")
    bias = values["mlp_bias"]
    fine = bias is None or isinstance(bias, bool)
    require("mlp_bias", fine, f"mlp_bias is {short(bias)}; it must be None, true or false.")
    cap = values["logit_soft_cap"]
    fine = cap is None or is_above_0(cap)
    require("logit_soft_cap", fine, f"logit_soft_cap is {short(cap)}; it must be None or a number above 0.")

    if not found.keys() & {"d_model", "n_heads", "d_head"}:
        _check_heads(values, require)
    _check_rotary_scaling(values, require)
    if not found:
        _check_sizes(_resolved(values), require)
    return list(found.items())


def _check_heads(values: dict[str, Any], require: Any) -> None:
    d_model, n_heads, d_head = values["d_model"], values["n_heads"], values["d_head"]
    if d_head is None:
        divisors = [n for n in range(1, min(d_model, 64) + 1) if d_model % n == 0]
        require(
            "n_heads",
            d_model % n_heads == 0,
            f"d_model {d_model} is not divisible by n_heads {n_heads}; "
            f"head counts that divide it: {', '.join(map(str, divisors))}; or set d_head.",
        )
        if d_model % n_heads:
            return
        d_head = d_model // n_heads
    if values["positional_embedding_type"] == "rotary":
        require(
            "n_heads" if values["d_head"] is None else "d_head",
            d_head % 2 == 0,
            f"rotary positions turn pairs of dimensions, so d_head must be even, but d_model {d_model} with "
            f"n_heads {n_heads} gives d_head {d_head}; change one of them or take another positional_embedding_type.",
        )
    groups = values["n_key_value_heads"]
    if is_int(groups) and groups >= 1:
        require(
            "n_key_value_heads",
            n_heads % groups == 0,
            f"n_heads {n_heads} is not divisible by n_key_value_heads {short(groups)}: query heads share "
            "key-value heads in equal groups.",
        )


def _check_sizes(values: dict[str, Any], require: Any) -> None:
    """Refuse matrices of more bytes than can be counted, in the precision that takes the most."""
    d_model = values["d_model"]
    rows = {field: values[field] for field in ("d_vocab", "d_mlp")}
    rows["n_heads"] = (values["n_heads"] + 2 * values["n_key_value_heads"]) * values["d_head"]
    if values["positional_embedding_type"] == "standard":
        rows["n_ctx"] = values["n_ctx"]
    for field, count in rows.items():
        require(
            field,
            8 * count * d_model <= MOST_WHOLE,
            f"{field} {values[field]} with d_model {d_model} makes a matrix that no memory holds.",
        )


def _check_rotary_scaling(values: dict[str, Any], require: Any) -> None:
    scaling = values["rotary_scaling"]
    if scaling is None:
        return
    if not isinstance(scaling, RotaryScaling):
        require("rotary_scaling", False, f"rotary_scaling is {short(scaling)}; it must be None or a RotaryScaling.")
        return
    require(
        "rotary_scaling",
        values["positional_embedding_type"] == "rotary",
        f"rotary_scaling needs positional_embedding_type 'rotary', not {short(values['positional_embedding_type'])}.",
    )
    base, d_head = values["rotary_base"], values["d_head"]
    if d_head is None and all(is_int(values[f]) and values[f] > 0 for f in ("d_model", "n_heads")):
        d_head = _default_of("d_head", values)
    problem = scaling_problem(scaling, base if is_above_0(base) else 1e4, d_head if is_int(d_head) else None)
    require("rotary_scaling", problem is None, str(problem))
