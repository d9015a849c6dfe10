"""Little data, read often: do dropout and weight decay help, and where does little data end?

python studies/overfitting.py --tier smoke
"""

import sys
from typing import Any

from lab.cli import main
from lab.studies import Arm, Claim, Study, Tier

NANOGPT = "nanoGPT: dropout 0.2 for 82 passes over tiny-shakespeare, 0.0 for pre-training"
THOMAS = "gilesthomas.com, 2026 (163M, one pass: removing dropout gains 0.051 nats)"
DROPOUT = {"model.embed_dropout": 0.2, "model.attn_dropout": 0.2, "model.resid_dropout": 0.2}
SIZES = {"little": 36_000, "middle": 96_000, "much": 1_000_000}  # characters; whole files, so a little more


def arm(data: str, name: str, overrides: dict[str, Any]) -> Arm:
    """An arm on one of the sizes; a larger text may have a few more characters in its alphabet."""
    unmatched = "" if data == "little" else "compared only with arms of the same data"
    return Arm(f"{data}-{name}", {"data.corpus_size": SIZES[data], **overrides}, unmatched)


STUDY = Study(
    name="overfitting",
    question="Where a network reads little data often, do dropout and weight decay help, and when no longer?",
    hypothesis="Where the data is read a dozen times, dropout 0.2 and tenfold weight decay each end lower; where "
    "it is read less than once, dropout ends higher. In between, at about five times, dropout makes no difference.",
    source=f"{NANOGPT}; {THOMAS}",
    corpus="python",
    base={"data.tokenizer": "char", "model.n_layers": 6, "model.d_model": 64, "model.n_heads": 4, "model.n_ctx": 64,
          "model.use_bias": False, "training.warmup_steps": 30},
    arms=(
        *(arm(data, name, overrides) for data in SIZES for name, overrides in (("plain", {}), ("dropout", DROPOUT))),
        arm("little", "decay", {"training.weight_decay": 1.0}),
        arm("much", "decay", {"training.weight_decay": 1.0}),
    ),
    control="little-plain",
    claims=(
        Claim("little", "Where the data is read a dozen times or more, dropout ends lower.", NANOGPT, "little-dropout",
              "lower", "little-plain", primary=True),
        Claim("middle", "Where it is read some five times, dropout makes no difference: little data ends there.",
              "of our own", "middle-dropout", "no difference", "middle-plain"),
        Claim("much", "Where it is read less than once, dropout ends higher.", THOMAS, "much-dropout", "higher",
              "much-plain"),
        Claim("decay-little", "Tenfold weight decay ends lower where data is little.", "of our own", "little-decay",
              "lower", "little-plain"),
        Claim("decay-much", "It makes no difference where data is plenty.", "of our own", "much-decay", "no difference",
              "much-plain"),
        Claim("gap", "Dropout narrows the gap between validation and training loss where data is little.", NANOGPT,
              "little-dropout", "lower", "little-plain", outcome="generalisation_gap"),
        Claim("best", "Dropout also lowers the best loss along the way, where data is little.", NANOGPT,
              "little-dropout", "lower", "little-plain", outcome="best_val_loss"),
    ),
    tiers=(
        Tier("smoke", 2, (2e-3, 8e-3), overrides={"model.n_layers": 2, "model.d_model": 32, "model.n_ctx": 32,
             "training.steps": 40, "training.eval_every": 20, "training.warmup_steps": 10}),
        Tier("small", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 400, "training.eval_every": 50}),
        Tier("full", 8, (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3), 2, {"training.steps": 800, "model.d_model": 256}),
    ),
    measures=("generalisation_gap", "mlp_logit_share", "residual_growth"),
    fixed=("AdamW, cosine to a tenth, clipped at norm 1", "equal steps: less data is read more often", "one corpus, "
           "cut short", "losses of different sizes are of different validation texts"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(["study", "run", __file__, *sys.argv[1:]]))
