"""Post-Norm, Pre-Norm or both: does it matter where the norm stands, and for whom?

python studies/norm_placement.py --tier smoke
"""

import sys

from lab.cli import main
from lab.studies import Arm, Claim, Study, Tier

XIONG = "Xiong et al. 2020, arXiv 2002.04745"
LIU = "Liu et al. 2020, arXiv 2004.08249; Takase et al. 2022, arXiv 2206.00330"
PERI = "Kim et al. 2025, arXiv 2502.02732"
INIT = {
    "gpt2": {"model.init": "gpt2", "model.scaled_residual_init": True},
    "xavier": {"model.init": "xavier", "model.scaled_residual_init": False},
}
TINY = {"model.n_layers": 2, "model.d_model": 32, "model.n_ctx": 32, "data.corpus_size": 60_000}
WARMUP = {"warm": {}, "cold": {"training.warmup_steps": 0}}
ARMS = tuple(
    Arm(
        f"{placement}-{init}-{warmup}",
        {"model.norm_placement": placement, **INIT[init], **WARMUP[warmup]},
        unmatched="its second pair of norms has weights of its own" if placement == "sandwich" else "",
    )
    for placement in ("pre", "post", "sandwich")
    for init in INIT
    for warmup in WARMUP
    if placement != "sandwich" or warmup == "warm"
)


def gradient(init: str) -> tuple[Claim, ...]:
    """The gradients before the first step, by depth. A tenth of a gradient (0.1 in its logarithm) counts as none."""
    post, pre = f"post-{init}-warm", f"pre-{init}-warm"
    at = f"Before training ({init} initialisation"
    last = tuple(
        Claim(f"last-{init}-{depth}", f"{at}, {depth} layers) the gradient of the last MLP's output matrix is larger "
              "in Post-Norm than in Pre-Norm.", XIONG, post, "higher", pre, outcome=f"last_gradient_{depth}",
              margin=0.1)
        for depth in (4, 8, 16)
    )  # fmt: skip
    return (
        *last,
        Claim(f"depth-{init}", f"{at}) it falls with depth, from 4 layers to 16, more in Pre-Norm (by sqrt 4 in "
              "theory, -0.69) than in Post-Norm (not at all).", f"{XIONG}: O(d sqrt(ln d)) in Post-Norm, "
              "O(d sqrt(ln d / L)) in Pre-Norm", pre, "lower", post, outcome="depth_effect", margin=0.1),
        Claim(f"rises-{init}", f"{at}, 16 layers) the gradient of the MLP's output matrix rises towards the last layer "
              "in Post-Norm.", XIONG, post, "higher", outcome="gradient_slope_16", margin=0.1),
    )  # fmt: skip


STUDY = Study(
    name="norm_placement",
    question="Does it matter whether the norm stands before each sublayer, after it, or on both sides?",
    hypothesis="At four layers, tuned alike and warmed up, Post-Norm and Pre-Norm end within the margin of each other; "
    "without warm-up Post-Norm loses; before training its last layer's gradient is larger than Pre-Norm's, and the "
    "more so the deeper, but only under Xavier initialisation.",
    source=f"{XIONG}; {LIU}",
    # Other stories than the first time the study was run: the gradient claims were put anew after that
    base={"data.corpus_seed": 1, "model.use_bias": True, "training.warmup_steps": 30, "training.grad_clip": 1.0},
    arms=ARMS,
    control="pre-gpt2-warm",
    claims=(
        Claim(
            "placement",
            "At six layers or fewer, with warm-up and a tuned learning rate, Post-Norm ends where Pre-Norm does.",
            LIU,
            "post-gpt2-warm",
            "no difference",
            "pre-gpt2-warm",
            primary=True,
        ),
        Claim("placement-xavier", "The same under Xavier initialisation.", LIU, "post-xavier-warm", "no difference",
              "pre-xavier-warm"),
        Claim("cold", "Without warm-up Post-Norm ends above Pre-Norm.", XIONG, "post-gpt2-cold", "higher",
              "pre-gpt2-cold"),
        Claim("cold-xavier", "The same under Xavier initialisation.", XIONG, "post-xavier-cold", "higher",
              "pre-xavier-cold"),
        Claim("sandwich", "Norms on both sides end no higher than Pre-Norm.", PERI, "sandwich-gpt2-warm",
              "no difference", "pre-gpt2-warm"),
        Claim("growth", "The residual stream grows more over the layers in Pre-Norm than in Post-Norm.",
              f"{XIONG}; {PERI}", "pre-gpt2-warm", "higher", "post-gpt2-warm", outcome="residual_growth"),
        *gradient("gpt2"),
        *gradient("xavier"),
    ),
    tiers=(
        Tier("smoke", 2, (1e-3, 4e-3), overrides={**TINY, "training.steps": 40, "training.eval_every": 20,
             "training.warmup_steps": 10}),
        Tier("small", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 300, "training.eval_every": 60,
             "model.d_model": 64, "model.n_ctx": 64, "data.corpus_size": 400_000}),
        Tier("full", 8, (5e-4, 1e-3, 2e-3, 4e-3, 8e-3), 2, {"training.steps": 2000, "model.n_layers": 12}),
    ),
    measures=("residual_rms", "untrained_residual_rms", "residual_growth", "max_residual", "gradients_4",
              "gradients_8", "gradients_16", "gradient_slope_16", "last_gradient_4", "last_gradient_8",
              "last_gradient_16", "depth_effect"),
    fixed=("AdamW, cosine to a tenth, clipped at norm 1", "one corpus, one width", "depths 8 and 16 untrained only"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(["study", "run", __file__, *sys.argv[1:]]))
