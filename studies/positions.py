"""Where does a token stand? Learned, sinusoidal, rotary, ALiBi or no positions, read at twice the context.

python studies/positions.py --tier smoke
"""

import sys

from lab.cli import main
from lab.studies import Arm, Claim, Study, Tier

PRESS = "Press et al. 2021, arXiv 2108.12409, WikiText-103 trained at 512 (as quoted in a thesis)"
HAVIV = "Haviv et al. 2022, arXiv 2203.16634 (as quoted in a thesis)"
SU = "Su et al. 2021, arXiv 2104.09864; EleutherAI: matches or surpasses learned positions"
TINY = {"model.n_layers": 2, "model.d_model": 32, "model.n_ctx": 32, "data.corpus_size": 60_000}
KINDS = {"learned": "standard", "sinusoidal": "sinusoidal", "rotary": "rotary", "alibi": "alibi", "none": "none"}

STUDY = Study(
    name="positions",
    question="Which positions are learned best, and which are still good at twice the context trained on?",
    hypothesis="Rotary positions end below learned ones; none at all end at most 5 % of perplexity above learned. Read "
    "at twice the context sinusoidal positions lose most, rotary some, ALiBi nothing.",
    source=f"{PRESS}: perplexity at 512 and 1012: sinusoidal 20.05, 43.54; rotary 20.07, 21.37; ALiBi 19.73, 18.73. "
    f"{HAVIV}: none 20.97, learned 20.42",
    base={"model.d_model": 96, "model.n_heads": 4, "model.n_ctx": 64, "model.use_bias": False,
          "training.warmup_steps": 30},
    arms=tuple(
        Arm(name, {"model.positional_embedding_type": kind},
            unmatched="its table of positions is learned: n_ctx x d_model more" if name == "learned" else "")
        for name, kind in KINDS.items()
    ),
    control="rotary",
    claims=(
        Claim("rotary", "Rotary positions end below learned ones.", SU, "rotary", "lower", "learned", primary=True),
        Claim("alibi", "ALiBi ends below sinusoidal positions at the context trained on.", PRESS, "alibi", "lower",
              "sinusoidal"),
        Claim("none", "Without positions the loss ends within 5 % of perplexity (0.05 nats) of learned ones: a causal "
              "network can count.", HAVIV, "none", "no difference", "learned", margin=0.05),
        Claim("longer-sinusoidal", "Read at twice the context, sinusoidal positions lose.", PRESS, "sinusoidal",
              "higher", outcome="longer_penalty", margin=0.01),
        Claim("longer-rotary", "Read at twice the context, rotary positions lose.", PRESS, "rotary", "higher",
              outcome="longer_penalty", margin=0.01),
        Claim("longer-alibi", "Read at twice the context, ALiBi gains from what it never saw so far away.", PRESS,
              "alibi", "lower", outcome="longer_penalty", margin=0.01),
        Claim("sinusoidal-rotary", "Sinusoidal positions lose more than rotary ones.", PRESS, "sinusoidal", "higher",
              "rotary", outcome="longer_penalty", margin=0.01),
        Claim("rotary-alibi", "Rotary positions lose more than ALiBi.", PRESS, "rotary", "higher", "alibi",
              outcome="longer_penalty", margin=0.01),
    ),
    tiers=(
        Tier("smoke", 2, (2e-3, 8e-3), overrides={**TINY, "training.steps": 40, "training.eval_every": 20,
             "training.warmup_steps": 10}),
        Tier("small", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 400, "training.eval_every": 80,
             "data.corpus_size": 600_000}),
        Tier("full", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 4000, "model.n_layers": 8,
             "model.n_ctx": 256}),
    ),
    measures=("longer_penalty", "loss_at_double", "induction", "residual_growth"),
    fixed=("AdamW, cosine to a tenth, clipped at norm 1", "rotary base 10000 over the whole head", "one corpus",
           "learned positions end at the context: they cannot be read further"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(["study", "run", __file__, *sys.argv[1:]]))
