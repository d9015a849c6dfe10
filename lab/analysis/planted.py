"""A network whose mechanism is known, because its weights are written by hand: two layers that do induction.

It is the check of every method here (what is found must be what was put in) and a picture of how two attention
layers continue "... A B ... A" with B. The residual stream is cut into parts of one direction a token or position:

    part        holds                            written by            read by
    TOKEN       the token here                   embedding             every V, the query of L1H0
    POSITION    the place in the text            position embedding    L0H0
    PREVIOUS    the token one place back         L0H0                  the key of L1H0
    ANSWER      the token to predict             L1H0                  unembedding
    ASIDE       the token here, once more        L0H1, L1H1            nobody

L0H0 is a previous-token head: the query of place p asks for place p - 1. L1H0 is the induction head: it asks for the
place whose PREVIOUS is the token here, and copies that place's TOKEN to ANSWER. L0H1 and L1H1 look at their own
place and write where nobody reads: heads that are busy and do not matter. The MLPs write nothing.
Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; Olsson et al. 2022 (arXiv 2209.11895).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from model.gpt import GPT

PREVIOUS_TOKEN_HEAD = (0, 0)
INDUCTION_HEAD = (1, 0)
IDLE_HEADS = ((0, 1), (1, 1))


def planted_induction(d_vocab: int = 12, n_ctx: int = 24, *, sharpness: float = 12.0) -> GPT:
    """The model. sharpness: how far the score of the place a head looks for stands above all others, so that the
    weight elsewhere is about exp(-sharpness); at 12 the induction score is 1 to three digits."""
    from model import GPT, GPTConfig

    if d_vocab < 3 or n_ctx < 4:
        raise ValueError(f"Induction needs at least 3 tokens and 4 positions, not {d_vocab} and {n_ctx}.")
    d_head = max(d_vocab, n_ctx)
    config = GPTConfig(
        d_vocab=d_vocab,
        n_ctx=n_ctx,
        d_model=4 * d_vocab + n_ctx,
        n_layers=2,
        n_heads=2,
        d_head=d_head,
        d_mlp=1,
        normalization_type="RMS",
        use_bias=False,
        tie_word_embeddings=False,
    )
    model = GPT(config, initialized=False)
    token, position = slice(0, d_vocab), slice(d_vocab, d_vocab + n_ctx)
    previous, answer, aside = (slice(n_ctx + n * d_vocab, n_ctx + (n + 1) * d_vocab) for n in (1, 2, 3))
    tokens, places = torch.eye(d_vocab), torch.eye(n_ctx)
    # A stream of TOKEN + POSITION has length sqrt(2), and RMSNorm makes it sqrt(d_model): every part of it this long.
    first = (config.d_model / 2) ** 0.5
    # After layer 0 PREVIOUS and ASIDE have joined, each of length 1 too: length 2 in all.
    second = (config.d_model / 4) ** 0.5
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.rsplit(".", 1)[-1] == "w" else 0.0)
        model.embed.weight[:, token] = tokens
        model.W_pos[:, position] = places  # a view of the weight, as below
        model.unembed.weight[:, answer] = 10 * tokens
        for layer, size in enumerate((first, second)):
            attention = model.blocks[layer].attn
            gain = (sharpness * d_head**0.5) ** 0.5 / size  # a match scores gain^2 size^2 / sqrt(d_head)
            w_q, w_k, w_v, w_o = attention.W_Q, attention.W_K, attention.W_V, attention.W_O  # views of the weights
            if layer == 0:
                w_q[0, position, :n_ctx] = gain * places.roll(-1, 1)  # place p asks for p - 1, place 0 for the last
                w_k[0, position, :n_ctx] = gain * places
                w_o[0, :d_vocab, previous] = tokens / size
            else:
                w_q[0, token, :d_vocab] = gain * tokens
                w_k[0, previous, :d_vocab] = gain * tokens
                # Place 0 has no token before it and found itself: its key is made to match nothing.
                w_k[0, d_vocab, :d_vocab] = -gain
                w_o[0, :d_vocab, answer] = tokens / size
            w_v[0, token, :d_vocab] = tokens
            w_q[1, position, :n_ctx] = gain * places
            w_k[1, position, :n_ctx] = gain * places
            w_v[1, token, :d_vocab] = tokens
            w_o[1, :d_vocab, aside] = tokens / size
    return model.eval()
