"""What generation continues and hands back: prompts read from text or ids, answers in the form of the prompt."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from model.token_ids import as_ids, is_row

if TYPE_CHECKING:
    from model.gpt import GPT


class Decoded(Protocol):
    """What an answer is made of."""

    def new_tokens(self) -> Tensor: ...

    def rows(self) -> list[list[int]]: ...


class Prompts:
    """What was asked to be continued: ids row by row, and the form the answer takes."""

    def __init__(self, model: GPT, input: Any, attention_mask: Tensor | None):
        self.model = model
        self.is_text = isinstance(input, str) or (
            isinstance(input, (list, tuple)) and len(input) > 0 and all(isinstance(row, str) for row in input)
        )
        self.tensor: Tensor | None = None  # the prompts as they were given, [batch, pos]
        self.is_one = isinstance(input, str)
        self.rows = self._read(input, attention_mask)
        self.bos_added = [not row for row in self.rows]
        if any(self.bos_added):
            bos = getattr(model.tokenizer, "bos_id", None)
            if bos is None:
                raise ValueError(
                    "The prompt is empty and the model has no beginning-of-sequence token to start from: "
                    "give at least one token, a newline or a space for instance."
                )
            self.rows = [row or [bos] for row in self.rows]
            if self.tensor is not None:
                self.tensor = self.tensor.new_full((len(self.rows), 1), bos)
        d_vocab = model.config.d_vocab
        for row in self.rows:
            if min(row) < 0 or max(row) >= d_vocab:
                bad = min(row) if min(row) < 0 else max(row)
                raise ValueError(f"Token id {bad} is outside the vocabulary, 0 to {d_vocab - 1}.")
        longest, n_ctx = max(map(len, self.rows)), model.config.n_ctx
        if longest > n_ctx:
            warnings.warn(
                f"The prompt has {longest} tokens; the model sees the last {n_ctx} of them (n_ctx).", stacklevel=4
            )

    def _read(self, input: Any, attention_mask: Tensor | None) -> list[list[int]]:
        is_list = isinstance(input, (list, tuple)) and len(input) > 0 and all(is_row(row) for row in input)
        if attention_mask is not None and (self.is_text or is_list):
            raise ValueError("attention_mask goes with ids [batch, pos]; texts and lists get a mask of their own.")
        if self.is_text:
            if self.model.tokenizer is None:
                raise ValueError("This model has no tokenizer: give token ids, or set model.tokenizer.")
            return [list(self.model.tokenizer.encode(text)) for text in ([input] if self.is_one else input)]
        if is_list:
            return [as_ids(row).tolist() for row in input]
        tokens = as_ids(input)
        if tokens.ndim not in (1, 2) or tokens.shape[0] == 0 == tokens.ndim - 2:
            raise ValueError(f"Tokens are {list(tokens.shape)}; they must be [pos] or [batch, pos].")
        self.is_one = tokens.ndim == 1
        self.tensor = tokens = (tokens.unsqueeze(0) if self.is_one else tokens).to(self.model.device)
        if attention_mask is None:
            return tokens.tolist()
        mask = torch.as_tensor(attention_mask, device=tokens.device).bool().int()
        if self.is_one and mask.ndim == 1:
            mask = mask[None]
        if mask.shape != tokens.shape:
            raise ValueError(f"attention_mask is {list(mask.shape)}, tokens are {list(tokens.shape)}.")
        if bool((mask[:, 1:] < mask[:, :-1]).any()):
            raise ValueError("attention_mask has padding after a token; generation continues rows padded on the left.")
        return [row[at.bool()].tolist() for row, at in zip(tokens, mask, strict=True)]

    def output(self, decoder: Decoded, return_type: str) -> Any:
        if return_type == "text" or (return_type == "input" and self.is_text):
            texts = [
                self.model.tokenizer.decode(row[1:] if bos_added else row)
                for row, bos_added in zip(decoder.rows(), self.bos_added, strict=True)
            ]
            return texts[0] if self.is_one or (self.tensor is not None and len(texts) == 1) else texts
        if self.tensor is not None:
            tokens = torch.cat((self.tensor, decoder.new_tokens()), dim=1)
            return tokens[0] if self.is_one else tokens
        rows = [torch.tensor(row, device=self.model.device) for row in decoder.rows()]
        return rows[0].unsqueeze(0) if self.is_one else rows
