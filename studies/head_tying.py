"""Embedding and unembedding: one matrix or two? At a character vocabulary and at one of thousands of pieces.

python studies/head_tying.py --tier smoke
"""

import sys

from lab.cli import main
from lab.studies import Arm, Claim, Study, Tier

PRESS = "Press and Wolf 2017, arXiv 1608.05859, tables 5 and 6 (PTB, words)"
THOMAS = "gilesthomas.com, LLM from scratch 32i and weight tying, 2026 (163M, V = 50,257: tying costs 0.182 nats)"
MORE = "an untied head is a matrix of its own; that is the question"
CHAR, BPE = {"data.tokenizer": "char"}, {"data.tokenizer": "bpe:4096"}
TINY = {"model.n_layers": 2, "model.n_ctx": 32, "data.corpus_size": 60_000, "training.warmup_steps": 10}

STUDY = Study(
    name="head_tying",
    question="Should the unembedding be the embedding's own matrix?",
    hypothesis="With 65 or so characters it makes no difference. With 4,096 pieces at this width the untied head has "
    "nearly half of all parameters and ends lower; narrowed to the tied model's size it ends higher.",
    source=f"{PRESS}; {THOMAS}",
    corpus="python",
    base={"model.d_model": 96, "model.n_heads": 4, "model.use_bias": False, "model.n_ctx": 64,
          "training.warmup_steps": 30, "model.positional_embedding_type": "rotary"},
    arms=(
        Arm("char-tied", {**CHAR, "model.tie_word_embeddings": True}),
        Arm("char-untied", {**CHAR, "model.tie_word_embeddings": False}, unmatched=MORE),
        Arm("bpe-tied", {**BPE, "model.tie_word_embeddings": True}, unmatched="its vocabulary is larger"),
        Arm("bpe-untied", {**BPE, "model.tie_word_embeddings": False}, unmatched=MORE),
        Arm("bpe-untied-narrow", {**BPE, "model.tie_word_embeddings": False, "model.d_model": 72},
            unmatched="matched with bpe-tied, not with the control"),
    ),
    control="char-tied",
    outcome="val_bpb",
    claims=(
        Claim("characters", "At a character vocabulary tying makes no difference in bits per byte.", PRESS, "char-tied",
              "no difference", "char-untied", outcome="val_bpb", primary=True),
        Claim("pieces", "At 4,096 pieces tying costs loss: the untied model has more parameters.", THOMAS, "bpe-tied",
              "higher", "bpe-untied", outcome="val_bpb", margin=0.01),
        Claim("matched", "At equal parameters the tied model, which is wider, ends lower.", PRESS, "bpe-tied", "lower",
              "bpe-untied-narrow", outcome="val_bpb", margin=0.01),
        Claim("regularises", "Tying regularises: the gap between validation and training loss is smaller.", PRESS,
              "bpe-tied", "lower", "bpe-untied", outcome="generalisation_gap", margin=0.01),
    ),
    tiers=(
        Tier("smoke", 2, (2e-3, 8e-3), overrides={**TINY, "training.steps": 40, "training.eval_every": 20}),
        Tier("small", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 300, "training.eval_every": 60,
             "data.corpus_size": 600_000}),
        Tier("full", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 4000, "model.n_layers": 8}),
    ),
    measures=("embedding_cosine", "generalisation_gap", "mlp_logit_share"),
    fixed=("AdamW, cosine to a tenth, clipped at norm 1", "equal steps: a step of pieces reads more bytes than one of "
           "characters", "the same initial values of the embedding in every arm of a vocabulary", "one corpus"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(["study", "run", __file__, *sys.argv[1:]]))
