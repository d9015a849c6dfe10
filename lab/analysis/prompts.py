"""What a user gives, made into what a model runs on: prompt, position, token; and a quiet forward pass."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from model.checks import as_whole, whole
from model.token_ids import as_ids

if TYPE_CHECKING:
    from lab.tokenizers import TokenLabel
    from model.gpt import GPT

Prompt = str | Sequence[int] | Sequence[str] | Tensor | np.ndarray
"""One prompt: a text (needs ``model.tokenizer``), token ids, or a tensor [pos] or [1, pos]."""


def prompt_ids(model: GPT, tokens: Prompt) -> Tensor:
    """One prompt as a tensor [1, pos] of ids on the model's device.

    An empty text becomes the tokenizer's beginning-of-text token, where it has one.
    ValueError: nothing to read, more than one prompt, an id outside the vocabulary, more tokens than n_ctx.
    """
    if isinstance(tokens, str):
        return _checked(model, _text_ids(model, tokens))
    if not isinstance(tokens, (Tensor, np.ndarray)):
        texts = [item for item in tokens if isinstance(item, str)]
        if len(texts) > 1:
            raise ValueError(f"One prompt at a time: this is a list of {len(texts)} texts.")
        if texts and len(tokens) == 1:
            return _checked(model, _text_ids(model, texts[0]))
    ids = as_ids(tokens)
    if ids.ndim == 1:
        ids = ids[None]
    if ids.ndim != 2 or ids.shape[0] != 1:
        raise ValueError(f"One prompt at a time: tokens have shape {list(ids.shape)}; give [pos] or [1, pos].")
    return _checked(model, ids)


def _text_ids(model: GPT, text: str) -> Tensor:
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ValueError("Text needs a tokenizer: give token ids, or set model.tokenizer.")
    if text:
        return torch.as_tensor(model.to_tokens(text)).reshape(1, -1)
    if tokenizer.bos_id is None:
        raise ValueError("The prompt is empty and this tokenizer has no beginning-of-text token: give some text.")
    return torch.tensor([[tokenizer.bos_id]])


def _checked(model: GPT, ids: Tensor) -> Tensor:
    config = model.config
    if ids.numel() == 0:
        raise ValueError("The prompt is empty: give at least one token.")
    wrong = ((ids < 0) | (ids >= config.d_vocab)).nonzero()
    if len(wrong):
        position = int(wrong[0, 1])
        raise ValueError(
            f"Token id {int(ids[0, position])} at position {position} is outside the vocabulary "
            f"(0 to {config.d_vocab - 1})."
        )
    if ids.shape[1] > config.n_ctx:
        raise ValueError(
            f"The prompt has {ids.shape[1]} tokens, the model's context is {config.n_ctx}: shorten it by "
            f"{ids.shape[1] - config.n_ctx}."
        )
    return ids.to(device=model.device, dtype=torch.long)


def resolve_position(position: int, length: int) -> int:
    """A position counted from the start; negative ones count from the end, as in Python."""
    position = whole(position, "position")
    if not -length <= position < length:
        raise ValueError(
            f"Position {position} is outside the prompt of {length} tokens: give 0 to {length - 1}, "
            f"or -{length} to -1 to count from the end."
        )
    return position % length


def resolve_layer(layer: int, n_layers: int, *, last: int | None = None) -> int:
    """A layer counted from the start; negative ones count from the end. ``last`` is the largest allowed."""
    layer = whole(layer, "layer")
    last = n_layers - 1 if last is None else last
    if not -n_layers <= layer <= last:
        raise ValueError(f"Layer {layer} does not exist: the model has {n_layers} layers, give 0 to {last}.")
    return layer + n_layers if layer < 0 else layer


def resolve_token(model: GPT, token: int | str, what: str = "token") -> int:
    """The id of one token given as an id or as text. ValueError when the text is not exactly one token."""
    if isinstance(token, str):
        if model.tokenizer is None:
            raise ValueError(f"{what} {token!r} is text and the model has no tokenizer: give its id.")
        ids = list(model.tokenizer.encode(token))
        if len(ids) != 1:
            pieces = ", ".join(repr(text) for text in token_texts(model, ids))
            raise ValueError(f"{what} {token!r} is {len(ids)} tokens ({pieces}): give one token, or its id.")
        return int(ids[0])
    index = as_whole(token)
    if index is None or not 0 <= index < model.config.d_vocab:
        raise ValueError(f"{what} {token!r} is outside the vocabulary (0 to {model.config.d_vocab - 1}).")
    return index


def resolve_top_k(top_k: int, d_vocab: int) -> int:
    """How many tokens to list: at least 1, and no more than there are."""
    return min(whole(top_k, "top_k", 1), d_vocab)


def resolve_choice(value: str, allowed: Sequence[str], what: str) -> str:
    """``value`` if it is one of ``allowed``; otherwise a ValueError that offers the nearest."""
    if value in allowed:
        return value
    by_lower = {name.lower(): name for name in reversed(allowed)}
    close = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[close[0]]!r}?" if close else f"known are {', '.join(allowed)}."
    raise ValueError(f"{what} is {value!r}; {hint}")


def token_texts(model: GPT, ids: Iterable[int]) -> tuple[str, ...]:
    """How each token of a text is displayed (white space and partial bytes made visible), not escaped for HTML.

    Without a tokenizer, or for a padding row of the vocabulary that no text uses, a token shows as its
    number.
    These are for reading: what is computed with is the ids.
    """
    from lab.tokenizers import token_labels

    return _displays(model, ids, token_labels)


def token_name(model: GPT, index: int) -> str:
    """How a token that stands for itself is displayed: as it is in the middle of a text."""
    from lab.tokenizers import vocabulary_labels

    return _displays(model, [index], vocabulary_labels)[0]


def _displays(model: GPT, ids: Iterable[int], label: Callable[..., list[TokenLabel]]) -> tuple[str, ...]:
    ids = [int(index) for index in ids]
    tokenizer = model.tokenizer
    if tokenizer is None:
        return tuple(str(index) for index in ids)
    shown = iter(label(tokenizer, [index for index in ids if index < tokenizer.vocab_size]))
    return tuple(next(shown).display if index < tokenizer.vocab_size else f"#{index}" for index in ids)


def vocabulary_texts(model: GPT, ids: np.ndarray) -> np.ndarray:
    """The display text of every id in an array; same shape, dtype object."""
    from lab.tokenizers import vocabulary_labels

    distinct, where = np.unique(ids, return_inverse=True)
    texts = np.array(_displays(model, distinct.tolist(), vocabulary_labels), dtype=object)
    return texts[where].reshape(ids.shape)


@contextmanager
def without_dropout(model: GPT) -> Iterator[None]:
    """Dropout off for the length of a block, every module's train/eval flag put back as it was.

    Looking must not draw from the dropout's random stream, nor see a randomly thinned network. A model that
    has no dropout, or is in eval mode, is not touched at all.
    """
    config = model.config
    drops = config.embed_dropout or config.attn_dropout or config.resid_dropout
    training = [module for module in model.modules() if module.training] if drops else []
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def watch(model: GPT, ids: Tensor, names: Iterable[str], **forward: Any) -> tuple[Any, Any]:
    """(output, cache) of one forward pass without gradients or dropout; the user's own hooks act in it."""
    with torch.no_grad(), without_dropout(model):
        return model.run_with_cache(ids, names_filter=list(names), **forward)


def as_array(tensor: Tensor) -> np.ndarray:
    """A numpy copy on the CPU; half precisions, which numpy or JSON would not hold, become float32."""
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    return tensor.detach().cpu().numpy().copy()
