"""GELU or SwiGLU in the MLP, at equal parameters? And is it the gate, or the activation?

python studies/mlp_activation.py --tier smoke
"""

import sys

from lab.cli import main
from lab.studies import Arm, Claim, Study, Tier

SHAZEER = "Shazeer 2020, arXiv 2002.05202, table 1 (T5-base, 65,536 steps)"
GATED = {"model.gated_mlp": True, "model.d_mlp": 256}  # 3 x 96 x 256 = 2 x 96 x 384: the same parameters
TINY = {"model.n_layers": 2, "model.n_ctx": 32, "data.corpus_size": 60_000, "training.warmup_steps": 10}

STUDY = Study(
    name="mlp_activation",
    question="Does a SwiGLU MLP beat a GELU MLP of the same number of parameters, and is it the gate that does it?",
    hypothesis="The gated arms end about 0.04 nats below GELU, SwiGLU and GEGLU alike; a bilinear MLP, a gate without "
    "an activation, beats every ungated one.",
    source=f"{SHAZEER}: GELU 1.983, SwiGLU 1.944, GEGLU 1.942, bilinear 1.960 (sd 0.004 to 0.010)",
    base={"model.d_model": 96, "model.n_heads": 4, "model.d_mlp": 384, "model.use_bias": False, "model.n_ctx": 64,
          "training.warmup_steps": 30},
    arms=(
        Arm("gelu", {"model.act_fn": "gelu"}),
        Arm("relu2", {"model.act_fn": "relu2"}),
        Arm("swiglu", {"model.act_fn": "silu", **GATED}),
        Arm("geglu", {"model.act_fn": "gelu", **GATED}),
        Arm("bilinear", {"model.act_fn": "identity", **GATED}),
    ),
    control="gelu",
    claims=(
        Claim("swiglu", "SwiGLU ends below GELU at equal parameters (by 0.039 nats there).", SHAZEER, "swiglu",
              "lower", "gelu", primary=True),
        Claim("geglu", "GEGLU and SwiGLU end within noise of each other.", SHAZEER, "geglu", "no difference", "swiglu"),
        Claim("gate", "It is the gate: a bilinear MLP ends below GELU.", SHAZEER, "bilinear", "lower", "gelu"),
        Claim("relu2", "ReLU^2 ends below GELU.", "So et al. 2021, arXiv 2109.08668, as recalled", "relu2", "lower",
              "gelu"),
        Claim("relu2-swiglu", "SwiGLU does not end below ReLU^2.",
              "nanochat's log of 2026-02-05: SwiGLU worse on steps, time and FLOPs", "swiglu", "higher", "relu2"),
        Claim("sparser", "ReLU^2's neurons are sparser than GELU's.", "of our own", "relu2", "lower", "gelu",
              outcome="mlp_active_share", margin=0.02),
    ),
    tiers=(
        Tier("smoke", 2, (2e-3, 8e-3), overrides={**TINY, "training.steps": 40, "training.eval_every": 20}),
        Tier("small", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 400, "training.eval_every": 80,
             "data.corpus_size": 600_000}),
        Tier("full", 8, (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2), 2, {"training.steps": 4000, "model.n_layers": 8}),
    ),
    measures=("mlp_active_share", "mlp_logit_share", "residual_growth", "generalisation_gap"),
    fixed=("AdamW, cosine to a tenth, clipped at norm 1", "no biases", "d_model 96 (8/3 d is whole)", "one corpus"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(["study", "run", __file__, *sys.argv[1:]]))
