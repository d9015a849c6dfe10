"""Interventions as a reader lists them: plain values that fit a link, checked against the picked model, then done.

A list of `Change`s is the whole state: written into the address as text, read back from a link that may hold anything,
and turned into `lab.analysis` interventions on modules of the caller's own (`apps.inspection.open_checkpoint`), so that
what one tab changes no other tab ever runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import streamlit as st

from apps import probing
from apps.i18n import t
from apps.i18n.sentences import said
from apps.inspection import Checkpoint, open_checkpoint

if TYPE_CHECKING:
    import numpy as np

    from lab.analysis import AttentionPatterns, Intervention, InterventionEffect
    from model import GPT
    from model.config import GPTConfig

KINDS = ("zero", "mean", "scale", "knockout", "patch", "steer")
SITES = ("head", "attn_out", "mlp_out", "resid_post")
STREAMS = ("resid_post", "resid_mid", "attn_out", "mlp_out", "resid_pre")  # what has the stream's width
READS = ("last", "mean")
MOST_CHANGES = 12
LONGEST_TEXT = 400  # characters of a second prompt
LARGEST = 1e6


@dataclass(frozen=True)
class Change:
    """One intervention.

    Attributes:
        kind: one of KINDS.
        site: what is ablated, scaled or patched, one of SITES; where is steered, one of STREAMS.
        layer, head: None is all of them, which only a knock-out may say.
        position: the token it acts on, for a knock-out the query; None: every one.
        key: for a knock-out the token that is no longer looked at; None: every one.
        factor: of scaling; strength of steering.
        text: the second prompt: patched from, averaged over (mean), steered towards; with a probe, a class of it.
        versus: the prompt steered away from; with a probe, a class of it, "" for all others.
        token, against: token ids steered towards and away from; None: no token, the mean of the vocabulary.
        read: where the two prompts are read: at their last token, or the mean over all of each.
        probe: the labels of a probe to steer along ("stories:pos"), fitted on `examples` tokens at the same site and
            layer; seed: of the corpus that has the labels.
    """

    kind: str
    site: str = "head"
    layer: int | None = None
    head: int | None = None
    position: int | None = None
    key: int | None = None
    factor: float = 1.0
    text: str = ""
    versus: str = ""
    token: int | None = None
    against: int | None = None
    read: str = READS[0]
    probe: str = ""
    examples: int = probing.DEFAULT_EXAMPLES
    seed: int = 0

    @property
    def question(self) -> probing.Question:
        """What the probe to steer along is asked."""
        return probing.Question(self.probe, self.site, self.examples, probing.CONTROLS[0], self.seed)


_FIELDS = {field.name: field for field in dataclasses.fields(Change)}
_WHOLE = ("layer", "head", "position", "key", "token", "against", "examples", "seed")


def encode(changes: tuple[Change, ...]) -> str:
    """The list as text for a link: `zero,layer=1,head=0;scale,site=mlp_out,layer=0,factor=0.5`."""
    said = []
    for change in changes:
        parts = [change.kind]
        for name, field in _FIELDS.items():
            value = getattr(change, name)
            if name != "kind" and value != field.default:
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                parts.append(f"{name}={quote(shown, safe='-.')}")
        said.append(",".join(parts))
    return ";".join(said)


def decode(text: str) -> tuple[tuple[Change, ...], list[str]]:
    """(the list, the parts of the text that are no intervention). Trusts nothing: the text came with a link."""
    changes: list[Change] = []
    strange: list[str] = []
    for part in filter(None, text.split(";")):
        change = _change(part)
        if change is None or len(changes) == MOST_CHANGES:
            strange.append(part[:80])
        elif change not in changes:
            changes.append(change)
    return tuple(changes), strange


def _change(part: str) -> Change | None:
    kind, *pairs = part.split(",")
    values: dict[str, Any] = {"kind": kind}
    for pair in pairs:
        name, _, raw = pair.partition("=")
        if name not in _FIELDS or name == "kind":
            return None
        try:
            values[name] = _value(name, unquote(raw))
        except ValueError:
            return None
    if kind == "steer":
        values.setdefault("site", STREAMS[0])
    if kind not in KINDS or values.get("site", SITES[0]) not in (STREAMS if kind == "steer" else SITES):
        return None
    if values.get("read", READS[0]) not in READS or values.get("examples", probing.EXAMPLES[0]) not in probing.EXAMPLES:
        return None
    if "layer" not in values and kind not in ("knockout",):
        return None
    if kind in ("zero", "mean", "scale", "patch") and ("head" in values) != (values.get("site", "head") == "head"):
        return None
    return Change(**values)


def _value(name: str, raw: str) -> Any:
    if name in _WHOLE:
        number = int(raw)
        if not 0 <= number <= 10**7:
            raise ValueError(raw)
        return number
    if name == "factor":
        factor = float(raw)
        if not -LARGEST <= factor <= LARGEST:  # also not a number
            raise ValueError(raw)
        return factor
    if len(raw) > LONGEST_TEXT:
        raise ValueError(raw)
    return raw


def problem(change: Change, config: GPTConfig, tokenizer: Any, n_tokens: int) -> str | None:
    """Why this cannot be done to this model and prompt, in the reader's words; None: it can."""
    for name, most in (
        ("layer", config.n_layers), ("head", config.n_heads), ("position", n_tokens), ("key", n_tokens),
        ("token", config.d_vocab), ("against", config.d_vocab),
    ):  # fmt: skip
        value = getattr(change, name)
        if value is not None and value >= most:
            return t("interventions.outside", what=t(f"interventions.of_{name}"), value=value, most=most - 1)
    if change.kind == "patch" and not change.text:
        return t("interventions.needs_text")
    if change.kind == "steer" and change.probe:
        if change.probe not in probing.label_choices(change.probe.partition(":")[0]):
            return t("interventions.no_labels", labels=change.probe)
        return None if change.text else t("interventions.needs_class")
    if change.kind == "steer" and change.token is None and not (change.text and change.versus):
        return t("interventions.needs_direction")
    for text in (change.text, change.versus):
        for line in lines_of(change, text):
            reason = _unreadable(line, config, tokenizer)
            if reason is not None:
                return reason
    return None


def lines_of(change: Change, text: str) -> list[str]:
    """The prompts in a text: a reference for the mean may hold several, a line each."""
    return [line for line in text.splitlines() if line] if change.kind == "mean" else [text] if text else []


def _unreadable(text: str, config: GPTConfig, tokenizer: Any) -> str | None:
    try:
        n = len(tokenizer.encode(text))
    except ValueError as error:
        return str(error)
    if not n:
        return t("interventions.needs_text")
    return t("interventions.too_long", n=n, most=config.n_ctx) if n > config.n_ctx else None


def build(model: GPT, change: Change, ids: tuple[int, ...], checkpoint: Checkpoint) -> Intervention:
    """The `lab.analysis` intervention on a model opened from this checkpoint. Raises ValueError with a sentence."""
    from lab.analysis import Ablate, KnockOut, Patch, Scale, Steer, prompt_direction, token_direction

    where: dict[str, Any] = {"head": change.head, "position": change.position}
    if change.kind == "zero":
        return Ablate(change.site, change.layer, **where)
    if change.kind == "mean":
        reference: Any = lines_of(change, change.text) or list(ids)
        return Ablate(change.site, change.layer, method="mean", reference=reference, **where)
    if change.kind == "scale":
        return Scale(change.site, change.layer, factor=change.factor, **where)
    if change.kind == "patch":
        return Patch(change.site, change.layer, source=change.text, **where)
    if change.kind == "knockout":
        return KnockOut(change.key, change.position, layer=change.layer, head=change.head)
    layer = int(change.layer or 0)
    if change.probe:
        direction = probing.direction(checkpoint, change.question, layer, change.text, change.versus)
    elif change.token is not None:
        direction = token_direction(model, change.token, change.against)
    else:
        direction = prompt_direction(model, change.text, change.versus, layer, site=change.site, read=change.read)
    return Steer(direction, layer, strength=change.factor, site=change.site, position=change.position)


def code(change: Change) -> str:
    """The intervention as a Python expression that uses `model` and `prompt`."""
    at = "" if change.position is None else f", position={change.position}"
    head = "" if change.head is None else f", head={change.head}"
    place = f"{change.site!r}, {change.layer}{head}{at}"
    if change.kind == "zero":
        return f"Ablate({place})"
    if change.kind == "mean":
        reference = lines_of(change, change.text)
        return f"Ablate({place}, method='mean', reference={reference if reference else 'prompt'})"
    if change.kind == "scale":
        return f"Scale({place}, factor={change.factor!r})"
    if change.kind == "patch":
        return f"Patch({place}, source={change.text!r})"
    if change.kind == "knockout":
        return f"KnockOut({change.key}, {change.position}, layer={change.layer}, head={change.head})"
    if change.probe:
        layer = int(change.layer or 0)
        direction = probing.direction_as_python(change.question, layer, change.text, change.versus)
    elif change.token is not None:
        direction = f"token_direction(model, {change.token}, {change.against})"
    else:
        where = f"{change.layer}, site={change.site!r}, read={change.read!r}"
        direction = f"prompt_direction(model, {change.text!r}, {change.versus!r}, {where})"
    return f"Steer({direction}, {change.layer}, strength={change.factor!r}, site={change.site!r}{at})"


def _done(checkpoint: Checkpoint, ids: tuple[int, ...], changes: tuple[Change, ...]) -> tuple[GPT, list[Intervention]]:
    model = open_checkpoint(checkpoint)
    try:
        return model, [build(model, change, ids, checkpoint) for change in changes]
    except ValueError as error:  # what the floors below refuse, in the reader's language
        raise ValueError(said(str(error))) from error


@st.cache_resource(max_entries=6, show_spinner=False)
def effect(checkpoint: Checkpoint, ids: tuple[int, ...], changes: tuple[Change, ...]) -> InterventionEffect:
    """Predictions without and with the changes. Large for a large vocabulary: few are kept, none is copied."""
    from lab.analysis import intervention_effect

    model, interventions = _done(checkpoint, ids, changes)
    return intervention_effect(model, list(ids), interventions)


@st.cache_resource(max_entries=6, show_spinner=False)
def patterns(
    checkpoint: Checkpoint, ids: tuple[int, ...], changes: tuple[Change, ...], layer: int
) -> tuple[AttentionPatterns, AttentionPatterns]:
    """Attention of one layer without and with the changes."""
    from lab.analysis import apply, attention_patterns

    model, interventions = _done(checkpoint, ids, changes)
    before = attention_patterns(model, list(ids), layers=[layer])
    with apply(model, interventions):
        return before, attention_patterns(model, list(ids), layers=[layer])


def written(
    checkpoint: Checkpoint, ids: tuple[int, ...], changes: tuple[Change, ...], settings: dict[str, Any]
) -> tuple[list[int], list[int]]:
    """The tokens that follow the prompt, without and with the changes, from the same random numbers."""
    from lab.analysis import apply

    model, interventions = _done(checkpoint, ids, changes)

    def write() -> list[int]:
        return [step.token for step in model.stream(list(ids), **settings)]

    before = write()
    with apply(model, interventions):
        return before, write()


@st.cache_data(max_entries=16, show_spinner=False)
def each_part(checkpoint: Checkpoint, ids: tuple[int, ...], measure: str, target: tuple[int, int, int | None]) -> Any:
    """[layer, head + 3] what zero-ablating each head, each layer's attention and MLP, alone, does to a number.

    measure: "loss", the mean over the prompt, nats; "logit", that of target = (position, token, versus or None). The
    last column, the stream, is NaN: without the stream there is no network.
    """
    import numpy as np

    from lab.analysis import Ablate

    model = open_checkpoint(checkpoint)
    config = model.config
    found: np.ndarray = np.full((config.n_layers, config.n_heads + 3), np.nan)
    base = _number(model, ids, None, measure, target)
    for layer in range(config.n_layers):
        parts: list[Any] = [Ablate("head", layer, head=head) for head in range(config.n_heads)]
        parts += [Ablate("attn_out", layer), Ablate("mlp_out", layer)]
        for column, part in enumerate(parts):
            found[layer, column] = _number(model, ids, part, measure, target) - base
    return found


def _number(
    model: GPT, ids: tuple[int, ...], part: Intervention | None, measure: str, target: tuple[int, int, int | None]
) -> float:
    from lab.analysis import apply, token_predictions

    if measure == "loss":
        with apply(model, [part] if part else []):
            return token_predictions(model, list(ids), 1).loss
    from lab.analysis import intervention_effect

    position, token, versus = target
    after = intervention_effect(model, list(ids), [part] if part else []).logits_after[position]
    return float(after[token] - (after[versus] if versus is not None else 0.0))


def column_of(change: Change, n_heads: int) -> int | None:
    """The column of the map where this change is marked; None: nowhere in particular (all heads, all layers)."""
    if change.kind == "knockout":
        return change.head
    if change.kind == "steer":
        return n_heads + 2
    return change.head if change.site == "head" else n_heads + SITES.index(change.site) - 1


def place_of(column: int, n_heads: int) -> tuple[str, int | None]:
    """(site, head) of a column of the map."""
    return ("head", column) if column < n_heads else (SITES[column - n_heads + 1], None)
