"""Added tokens that hold a space mark read as the file's own decoder reads them."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from model.pretrained.tokenizer import PretrainedTokenizer


def engine(kind: str) -> Tokenizer:
    vocabulary = {"<unk>": 0, **{f"<0x{n:02X}>": n + 1 for n in range(256)}, "▁": 257, "a": 258, "b": 259}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    if kind == "fallback":
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
    made.add_special_tokens([AddedToken("▁<PRE>", normalized=False), "<s>"])
    made.add_tokens([AddedToken("▁▁"), AddedToken("plain")])
    return made


@pytest.mark.parametrize("kind", ["fallback", "metaspace"])
@pytest.mark.parametrize("text", ["a▁<PRE>a", "a▁▁a", "aplaina", "a<s>b", "▁▁▁<PRE>"])
def test_they_are_decoded_as_the_engine_decodes_them(kind: str, text: str) -> None:
    made = engine(kind)
    ids = [258, *(made.token_to_id(token) for token in ("▁<PRE>", "▁▁", "plain", "<s>")), 259]
    ids += made.encode(text).ids
    tokenizer = PretrainedTokenizer(made)
    assert tokenizer.decode(ids) == made.decode(ids, skip_special_tokens=False)
    assert "".join(p if isinstance(p, str) else p.decode() for p in tokenizer.pieces(ids)) == tokenizer.decode(ids)
