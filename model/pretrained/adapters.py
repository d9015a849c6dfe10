"""LoRA adapters of peft: merged into the weights they stand beside, exactly as peft merges them, or refused by name.

Hu et al. 2021 (arXiv 2106.09685): W + alpha / r B A, with alpha / sqrt(r) for rank-stabilised ones (arXiv 2312.03732).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.checks import is_int, is_number, short
from model.pretrained.accounting import Placed
from model.pretrained.files import PretrainedError, read_object
from model.pretrained.layouts import Layout
from model.pretrained.sources import ADAPTER, ADAPTER_WEIGHTS
from model.pretrained.tensors import Stored, read_tensors

# Fields that are read below, or that change nothing once an adapter is trained.
_NEUTRAL = (
    "peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "bias", "modules_to_save",
    "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "fan_in_fan_out",
    "auto_mapping", "base_model_name_or_path", "revision", "task_type", "inference_mode", "peft_version",
    "lora_dropout", "megatron_core", "qalora_group_size", "runtime_config", "ensure_weight_tying", "eva_config",
)  # fmt: skip
_PLAIN_INITS = (True, False, "gaussian", "orthogonal", "eva")  # the others change the base weights too


def merged(placed: list[Placed], folder: Path, layout: Layout, tied: bool) -> list[Placed]:
    """The tensors with an adapter's folder merged in: low-rank changes added, whole tensors (biases, modules_to_save)
    replaced. tied: whether one matrix embeds and unembeds.

    Raises PretrainedError naming the adapter's field or tensor that cannot be merged, is missing or belongs nowhere.
    """
    adapter = _Adapter(folder, read_object(folder / ADAPTER))
    stored = _stored(folder)
    result = []
    for item in placed:
        full = layout.full_name(item.bare)
        module, kind = full.rsplit(".", 1)
        changes = adapter.take(stored, module, kind, item)
        if changes and tied and item.slot.parameter == "embed.weight":
            raise PretrainedError(
                f"{folder}: the adapter changes {full}, which embeds and unembeds (tie_word_embeddings), where peft "
                "changes one of the two; merge it with peft and save both matrices."
            )
        result.append(replace(item, tensor=changes[0]) if changes else item)
    if stored:
        name = min(stored)
        raise PretrainedError(f"{folder}: the adapter's tensor {name!r} belongs to no tensor of the model.")
    return result


def _stored(folder: Path) -> dict[str, Stored]:
    """The adapter's tensors under the full names of transformers, without what peft puts around them."""
    path = next((folder / name for name in ADAPTER_WEIGHTS if (folder / name).exists()), None)
    if path is None:
        raise PretrainedError(f"{folder} holds {ADAPTER} but no weights of an adapter ({ADAPTER_WEIGHTS[0]}).")
    found: dict[str, Stored] = {}
    for name, tensor in read_tensors(path).items():
        bare = re.sub(r"\.(base_layer|modules_to_save|default)(?=\.|$)", "", name.removeprefix("base_model.model."))
        if ".original_module." in bare:
            continue  # what modules_to_save stands in for: peft does not compute with it
        if bare in found and not torch.equal(found[bare].read(), tensor.read()):
            raise PretrainedError(f"{path} holds {name!r} a second time under another name, and they differ.")
        if not tensor.dtype.is_floating_point or tensor.dtype.itemsize == 1:
            raise PretrainedError(f"{path}: {name} is {tensor.dtype}: quantised weights are not read.")
        found[bare] = tensor
    return found


@dataclass
class _Adapter:
    """adapter_config.json, checked."""

    folder: Path
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        kind = self.values.get("peft_type")
        if kind != "LORA":
            raise self._refuse("peft_type", kind, "what is merged here is LORA")
        init = self.values.get("init_lora_weights", True)
        if init not in _PLAIN_INITS:
            raise self._refuse("init_lora_weights", init, "it changes the base weights too")
        for name, value in self.values.items():
            if name not in (*_NEUTRAL, "init_lora_weights") and value not in (None, False, "", [], {}):
                raise self._refuse(name, value, "it computes something that is not here")
        bias = self.values.get("bias", "none")
        if bias not in ("none", "all", "lora_only"):
            raise self._refuse("bias", bias, "peft knows none, all and lora_only")
        for name in ("rank_pattern", "alpha_pattern"):
            if not isinstance(self.values.get(name) or {}, dict):
                raise self._refuse(name, self.values[name], "it must be a table")
        for name in ("target_modules", "exclude_modules", "modules_to_save"):
            listed = self.values.get(name)
            if not (listed is None or isinstance(listed, str) or _is_list_of(listed, str)):
                raise self._refuse(name, listed, "it must be a list of names")

    def _refuse(self, name: str, value: Any, why: str) -> PretrainedError:
        mend = "merge the adapter with peft (merge_and_unload, save_pretrained) and open that"
        return PretrainedError(f"{self.folder / ADAPTER}: {name} is {short(value)}: {why}; {mend}.")

    def take(self, stored: dict[str, Stored], module: str, kind: str, item: Placed) -> list[Stored]:
        """What a tensor becomes ([] where it stays), its parts taken out of ``stored``."""
        whole = stored.pop(f"{module}.{kind}", None)
        if whole is not None and whole.shape == item.tensor.shape and torch.equal(whole.read(), item.tensor.read()):
            whole = item.tensor  # what was saved with it and not changed
        targeted = self._matches(module)
        if whole is None and (self._is_saved(module) or (kind == "bias" and self._has_bias(targeted))):
            raise PretrainedError(f"{self.folder}: the adapter lacks the tensor '{module}.{kind}'.")
        if whole is not None and whole.shape != item.tensor.shape:
            raise PretrainedError(
                f"{self.folder}: the adapter's {module}.{kind} has shape {list(whole.shape)}, the model's "
                f"{list(item.tensor.shape)}."
            )
        base = item.tensor if whole is None else whole
        is_map = kind == "weight" and len(item.slot.shape) == 2
        if is_map and (targeted or any(name.startswith(f"{module}.lora_") for name in stored)):
            return [self._low_rank(stored, module, base, item)]
        return [] if whole in (None, item.tensor) else [whole]

    def _low_rank(self, stored: dict[str, Stored], module: str, base: Stored, item: Placed) -> Stored:
        embeds = item.slot.parameter in ("embed.weight", "pos_embed.weight")
        names = [f"{module}.lora_embedding_{x}" if embeds else f"{module}.lora_{x}.weight" for x in "AB"]
        for name in names:
            if name not in stored:
                raise PretrainedError(f"{self.folder}: the adapter lacks the tensor {name!r}.")
        a, b = (stored.pop(name) for name in names)
        rank, scale = self._scale(module)
        out, into = item.slot.shape[::-1] if item.slot.transposed or embeds else item.slot.shape
        if a.shape != (rank, into) or b.shape != (out, rank):
            raise PretrainedError(
                f"{self.folder}: {names[0]} and {names[1]} have shapes {list(a.shape)} and {list(b.shape)}; with r "
                f"{rank} they must be {[rank, into]} and {[out, rank]}."
            )
        turned = item.slot.transposed or embeds
        return replace(base, read=_added(base, a, b, scale, turned))

    def _scale(self, module: str) -> tuple[int, float]:
        rank = self._of_pattern("rank_pattern", module, self.values.get("r", 8))
        alpha = self._of_pattern("alpha_pattern", module, self.values.get("lora_alpha", 8))
        if not is_int(rank) or rank < 1:
            raise self._refuse("r", rank, "it must be a whole number from 1")
        if not is_number(alpha):
            raise self._refuse("lora_alpha", alpha, "it must be a number")
        return rank, alpha / (math.sqrt(rank) if self.values.get("use_rslora") else rank)

    def _of_pattern(self, name: str, module: str, default: Any) -> Any:
        for key, value in (self.values.get(name) or {}).items():
            if self._regex(rf"(.*\.)?({key})", module, name):
                return value
        return default

    def _matches(self, module: str) -> bool:
        """Whether peft puts a change on a module of this name."""
        if self._is_named("exclude_modules", module) or self._is_saved(module):
            return False
        if not self._is_named("target_modules", module):
            return False
        layers = self.values.get("layers_to_transform")
        if layers in (None, []) or isinstance(self.values.get("target_modules"), str):
            return True
        patterns = self.values.get("layers_pattern") or r"[^.]*"
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            found = self._regex(rf"(?:.*?\.)?{pattern}\.(\d+)\..*", module, "layers_pattern")
            if found:
                return int(found[1]) in ([layers] if is_int(layers) else layers)
        return False

    def _is_named(self, field: str, module: str) -> bool:
        names = self.values.get(field) or []
        if names == "all-linear":
            return not module.endswith(("lm_head", "embed_tokens", "wte", "wpe"))
        if isinstance(names, str):
            return bool(self._regex(names, module, field))
        return any(module == name or module.endswith(f".{name}") for name in names)

    def _is_saved(self, module: str) -> bool:
        names = self.values.get("modules_to_save") or []
        return any(self._regex(rf"(.*\.)?{name}(\..*)?", module, "modules_to_save") for name in names)

    def _has_bias(self, targeted: bool) -> bool:
        bias = self.values.get("bias", "none")
        return bias == "all" or (bias == "lora_only" and targeted)

    def _regex(self, pattern: str, module: str, field: str) -> re.Match[str] | None:
        try:
            return re.fullmatch(pattern, module)
        except re.error:
            raise self._refuse(field, self.values.get(field), "it is no regular expression") from None


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(part, kind) for part in value)


def _added(base: Stored, a: Stored, b: Stored, scale: float, turned: bool) -> Callable[[], Tensor]:
    def read() -> Tensor:
        weight = base.read()
        wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
        change = scale * (b.read().to(wide) @ a.read().to(wide))
        return weight.to(wide) + (change.T if turned else change)

    return read
