"""LayerNorm or RMSNorm, with or without a norm on queries and keys: the loss, and how much the rate matters.

python studies/normalization.py --tier smoke
"""

import sys

from lab.cli import main
from lab.studies import Arm, Claim, Study, Tier

ZHANG = (
    "Zhang and Sennrich 2019, arXiv 1910.07467; Narang et al. 2021, arXiv 2102.11972 (1.821 against 1.838), recalled"
)
WORTSMAN = "Wortsman et al. 2023, arXiv 2309.14322"
TINY = {"model.n_layers": 2, "model.d_model": 32, "model.n_ctx": 32, "data.corpus_size": 60_000}
WIDE = (5e-4, 2e-3, 8e-3, 3.2e-2, 1.28e-1)  # wide on purpose: sensitivity is measured over the grid

STUDY = Study(
    name="normalization",
    question="Does it matter which norm is used, and does one on queries and keys make the rate matter less?",
    hypothesis="RMSNorm ends where LayerNorm does. A norm on queries and keys changes little at the best learning "
    "rate, but bounds the attention's scores and loses less at the rates beside it.",
    source=f"{ZHANG}; {WORTSMAN}",
    base={"model.d_model": 64, "model.n_heads": 4, "model.n_ctx": 64, "model.use_bias": False,
          "training.warmup_steps": 30},
    arms=tuple(
        Arm(f"{norm.lower()}{'-qk' if qk else ''}", {"model.normalization_type": norm, "model.qk_norm": qk})
        for qk in (False, True)
        for norm in ("LN", "RMS")
    ),
    control="ln",
    claims=(
        Claim("rms", "RMSNorm ends where LayerNorm does.", ZHANG, "rms", "no difference", "ln", primary=True),
        Claim("qk-loss", "At its best learning rate QK-norm changes nothing.", WORTSMAN, "ln-qk", "no difference",
              "ln"),
        Claim("qk-sensitivity", "With QK-norm the loss depends less on the learning rate.", WORTSMAN, "ln-qk", "lower",
              "ln", outcome="lr_sensitivity", margin=0.01),
        Claim("qk-sensitivity-rms", "The same with RMSNorm.", WORTSMAN, "rms-qk", "lower", "rms",
              outcome="lr_sensitivity", margin=0.01),
        Claim("rms-sensitivity", "RMSNorm's sensitivity is LayerNorm's.", "of our own", "rms", "no difference", "ln",
              outcome="lr_sensitivity", margin=0.05),
        Claim("qk-scores", "With QK-norm the largest attention score is smaller.", WORTSMAN, "ln-qk", "lower", "ln",
              outcome="max_attention_logit"),
    ),
    tiers=(
        Tier("smoke", 2, (2e-3, 3.2e-2), overrides={**TINY, "training.steps": 40, "training.eval_every": 20,
             "training.warmup_steps": 10}),
        Tier("small", 8, WIDE, 6, {"training.steps": 250, "training.eval_every": 50, "data.corpus_size": 400_000}),
        Tier("full", 8, WIDE, 6, {"training.steps": 4000, "model.n_layers": 8}),
    ),
    measures=("max_attention_logit", "residual_rms", "residual_growth", "max_residual"),
    fixed=("AdamW, cosine to a tenth, clipped at norm 1", "no biases", "rates a factor of four apart", "one corpus"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(["study", "run", __file__, *sys.argv[1:]]))
