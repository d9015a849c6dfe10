"""Text in and out of a model: what GPT accepts as input, under TransformerLens' method names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from model.token_ids import as_ids, is_row
from model.tokenizer import Tokenizer


class TextMethods:
    """Mixed into GPT; reads ``self.tokenizer`` (``encode(text) -> ids``, ``decode(ids) -> text``)."""

    tokenizer: Any
    config: Any
    device: Any

    def as_tokens(self, input: Any, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Token ids [batch, pos] and their mask (None: no padding) from ids, text, or a list of either."""
        if isinstance(input, str):
            input = [input]
        if isinstance(input, (list, tuple)) and input and (isinstance(input[0], str) or is_row(input[0])):
            if attention_mask is not None:
                raise ValueError("attention_mask goes with ids [batch, pos]; texts and lists get a mask of their own.")
            rows = [self._encode(row) if isinstance(row, str) else as_ids(row, "Tokens").tolist() for row in input]
            return self._left_padded(rows)
        if isinstance(input, Tensor):
            tokens = as_ids(input, "Tokens (a residual needs start_at_layer)")
        else:
            tokens = as_ids(input, "Tokens").to(self.device)
        tokens = tokens.unsqueeze(0) if tokens.ndim == 1 else tokens
        if attention_mask is not None and not isinstance(attention_mask, Tensor):
            attention_mask = torch.as_tensor(attention_mask, device=self.device)
        if torch.compiler.is_compiling():
            return tokens, attention_mask
        self._check(tokens, attention_mask)
        return tokens, attention_mask

    def _check(self, tokens: Tensor, attention_mask: Tensor | None) -> None:
        if tokens.ndim != 2 or tokens.numel() == 0:
            empty = "there is no token to read" if tokens.numel() == 0 else "they must be [pos] or [batch, pos]"
            raise ValueError(f"Tokens are {list(tokens.shape)}: {empty}.")
        low, high = (int(x) for x in tokens.aminmax())
        if low < 0 or high >= self.config.d_vocab:
            bad = low if low < 0 else high
            raise ValueError(f"Token id {bad} is outside the vocabulary, 0 to {self.config.d_vocab - 1}.")
        if attention_mask is not None and (
            attention_mask.ndim != 2
            or attention_mask.shape[0] != tokens.shape[0]
            or attention_mask.shape[1] < tokens.shape[1]
        ):
            raise ValueError(
                f"attention_mask is {list(attention_mask.shape)}; tokens are {list(tokens.shape)}: "
                "it needs a row each and a column for every cached and new position."
            )
        if attention_mask is not None and bool(((attention_mask != 0) & (attention_mask != 1)).any()):
            other = attention_mask[(attention_mask != 0) & (attention_mask != 1)].flatten()[0].item()
            raise ValueError(f"attention_mask holds {other}; it is 1 for a token and 0 for padding, or True and False.")

    def _encode(self, text: str) -> list[int]:
        if self.tokenizer is None:
            raise ValueError("This model has no tokenizer: give token ids, or set model.tokenizer.")
        return list(self.tokenizer.encode(text))

    def _left_padded(self, rows: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        """Rows flush right; padding holds id 0 and is masked, so its id never matters."""
        for index, row in enumerate(rows):
            if not row:
                raise ValueError(f"Input {index} of {len(rows)} is empty: there is no token to read.")
        length = max(map(len, rows))
        tokens = torch.zeros(len(rows), length, dtype=torch.long)
        mask = torch.zeros(len(rows), length, dtype=torch.long)
        for index, row in enumerate(rows):
            tokens[index, length - len(row) :] = torch.tensor(row, dtype=torch.long)
            mask[index, length - len(row) :] = 1
        self._check(tokens, None)
        tokens, mask = tokens.to(self.device), mask.to(self.device)
        return tokens, None if bool(mask.all()) else mask

    def to_tokens(self, input: Any, prepend_bos: bool = False) -> Tensor:
        """Token ids [batch, pos] of a text, of texts of equal length, or of ids. Nothing is prepended unless asked for.

        Raises ValueError for texts of unequal length: their ids would be padded, and mean something only with the
        mask that goes with them. ``as_tokens`` gives both; the model itself takes the texts.
        """
        rows = [input] if isinstance(input, str) else input
        if prepend_bos:
            bos = getattr(self.tokenizer, "bos_id", None)
            if bos is None:
                raise ValueError("prepend_bos: this model's tokenizer has no beginning-of-sequence token.")
            if not isinstance(rows, (list, tuple)) or not all(isinstance(row, str) for row in rows):
                raise ValueError("prepend_bos goes with a text or a list of texts; put its id before ids yourself.")
            rows = [[bos, *self._encode(row)] for row in rows]
        tokens, mask = self.as_tokens(rows)
        if mask is not None:
            lengths = ", ".join(str(n) for n in mask.sum(-1).tolist()[:8])
            raise ValueError(
                f"to_tokens: the inputs have unequal numbers of tokens ({lengths}), so their ids would be padded, and "
                "the padding read as text by whoever has no mask. Give the texts to the model itself, or take "
                "tokens, attention_mask = model.as_tokens(texts)."
            )
        return tokens

    def to_string(self, tokens: Any) -> Any:
        """The text of token ids [pos]; a list of texts for [batch, pos]."""
        if self.tokenizer is None:
            raise ValueError("This model has no tokenizer: set model.tokenizer to turn ids into text.")
        if isinstance(tokens, (list, tuple)) and tokens and is_row(tokens[0]):
            return [self.to_string(row) for row in tokens]
        ids = as_ids(tokens, "Tokens")
        if ids.ndim > 1:
            return [self.to_string(row) for row in ids]
        return self.tokenizer.decode(ids.reshape(-1).tolist())

    def to_str_tokens(self, input: Any, prepend_bos: bool = False) -> list[str]:
        """The text of each token of one input; bytes that are no whole character as U+FFFD."""
        tokens = self.to_tokens(input, prepend_bos=prepend_bos)
        if tokens.shape[0] != 1:
            raise ValueError(f"to_str_tokens takes one input; this one has {tokens.shape[0]} rows.")
        ids = tokens[0].tolist()
        if not isinstance(self.tokenizer, Tokenizer):
            return [self.to_string(token) for token in ids]
        pieces = self.tokenizer.pieces(ids)
        return [p if isinstance(p, str) else p.decode("utf-8", errors="replace") for p in pieces]

    def to_single_token(self, text: str) -> int:
        """The id of a text that is exactly one token."""
        ids = self._encode(text)
        if len(ids) != 1:
            raise ValueError(f"{text!r} is {len(ids)} tokens, {ids}; it must be one.")
        return ids[0]
