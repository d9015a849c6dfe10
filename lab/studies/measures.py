"""What a study measures of a run besides its loss: how the network came to it.

A measure is a named function of a `Subject` (a run that is done) and gives a number or a row of numbers. Studies name
them; the report says their unit. Numbers of the untrained network are taken from a fresh one of the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lab.runs import Run
from lab.training import RunConfig
from lab.training.data import Batches

if TYPE_CHECKING:
    import torch

    from lab.training import TrainingData
    from model import GPT

WINDOWS = 16  # of the validation split, that the trained network is looked at on
BATCH = 32  # windows of the first batch, for gradients of the untrained network
DEPTHS = (4, 8, 16)
SILENT = 0.01  # of the largest activation: a neuron below it adds nothing to speak of

FROM_EMBED = ("residual_rms", "untrained_residual_rms")  # rows that begin before the first layer

Value = float | list[float] | None


@dataclass
class Subject:
    """A run to be measured: its configuration, its data, the trained network and what it was before."""

    run: Run
    data: TrainingData

    @cached_property
    def config(self) -> RunConfig:
        return RunConfig.from_dict(self.run.config)

    @cached_property
    def model(self) -> GPT:
        """The network at the end of the run, in eval mode."""
        from lab.models import open_model

        return open_model(self.run.path)

    @cached_property
    def windows(self) -> torch.Tensor:
        """Evenly spread windows of the validation split, [window, n_ctx + 1]."""
        import numpy as np
        import torch

        length, ids = self.config.model.n_ctx + 1, self.data.validation
        starts = np.linspace(0, len(ids) - length, min(WINDOWS, max(1, len(ids) // length))).astype(int)
        return torch.from_numpy(np.stack([ids[s : s + length] for s in starts]).astype(np.int64))

    @cached_property
    def gradients(self) -> dict[int, list[float]]:
        """Number of layers -> what `_gradients` found, so that measures of one network share it."""
        return {}

    def untrained(self, n_layers: int | None = None) -> GPT:
        """A fresh network of the run's seed, with its own depth or another; no dropout."""
        from model import GPT

        changes = {} if n_layers is None else {"n_layers": n_layers}
        return GPT(self.config.model.replace(embed_dropout=0.0, attn_dropout=0.0, resid_dropout=0.0, **changes))

    def watch(self, names: Iterable[str], model: GPT | None = None) -> dict[str, torch.Tensor]:
        """Activations on the windows' inputs, by hook name and in this order, of the trained network or of `model`."""
        import torch

        wanted = list(names)
        with torch.no_grad():
            _, cache = (model or self.model).run_with_cache(
                self.windows[:, :-1], names_filter=lambda name: name in wanted
            )
        return {name: cache[name] for name in wanted}


@dataclass(frozen=True)
class Measure:
    """A measure's sentence, its unit, and whether it is of the trained network or of the untrained one."""

    description: str
    unit: str
    compute: Callable[[Subject], Value]
    of: str = "trained"


def measure(names: Iterable[str], run: Run, data: TrainingData) -> tuple[dict[str, Value], str | None]:
    """The named measures of a run that is done. Raises ValueError with the nearest name for an unknown one."""
    subject = Subject(run, data)
    found: dict[str, Value] = {}
    problems = []
    for name in names:
        compute = resolve_measure(name).compute
        try:
            found[name] = compute(subject)
        except (ValueError, RuntimeError, MemoryError) as error:  # one measure takes neither the loss nor another one
            found[name] = None
            problems.append(f"{name} could not be measured: {error}")
    return found, "; ".join(problems) or None


def resolve_measure(name: str) -> Measure:
    """The measure called `name`. Raises ValueError with the nearest name."""
    from model.config import nearest

    if name not in MEASURES:
        raise ValueError(f"There is no measure {name!r}{nearest(name, MEASURES)}")
    return MEASURES[name]


def _gradients(subject: Subject, n_layers: int) -> list[float]:
    """Norm of the loss' gradient with respect to each layer's MLP output matrix, before the first step."""
    if n_layers not in subject.gradients:
        subject.gradients[n_layers] = _first_gradients(subject, n_layers)
    return subject.gradients[n_layers]


def _first_gradients(subject: Subject, n_layers: int) -> list[float]:
    import torch

    model = subject.untrained(n_layers)
    training = subject.config.training
    batch = Batches(subject.data.train, model.config.n_ctx, BATCH, training.data_seed)(0)
    tokens = torch.from_numpy(batch)
    model.train()
    model(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:]).backward()
    norms = [float(block.mlp.w_out.weight.grad.norm()) for block in model.blocks]
    if not all(math.isfinite(norm) for norm in norms):
        raise ValueError(f"a gradient of the untrained network with {n_layers} layers is not finite: {norms}")
    return norms


def _gradient_slope(n_layers: int) -> Measure:
    return Measure(
        f"log of last over first layer's gradient of the MLP's output matrix, {n_layers} layers, before training",
        "nats",
        lambda subject: _log_ratio(_gradients(subject, n_layers)),
        "untrained",
    )


def _gradient_row(n_layers: int) -> Measure:
    return Measure(
        f"norm of the loss' gradient of each layer's MLP output matrix, {n_layers} layers, before training",
        "",
        lambda subject: _gradients(subject, n_layers),
        "untrained",
    )


def _log_ratio(values: list[float]) -> float:
    return math.log(values[-1] / values[0])


def _last_gradient(n_layers: int) -> Measure:
    return Measure(
        f"log of the last layer's gradient of the MLP's output matrix, {n_layers} layers, before training",
        "nats",
        lambda subject: math.log(_gradients(subject, n_layers)[-1]),
        "untrained",
    )


def _depth_effect(subject: Subject) -> Value:
    shallow, deep = DEPTHS[0], DEPTHS[-1]
    return math.log(_gradients(subject, deep)[-1] / _gradients(subject, shallow)[-1])


def _residual_names(subject: Subject) -> list[str]:
    n_layers = subject.config.model.n_layers
    return ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in range(n_layers))]


def _rms(found: Mapping[str, torch.Tensor]) -> list[float]:
    return [float(stream.double().pow(2).mean().sqrt()) for stream in found.values()]


def _residual_rms(subject: Subject) -> list[float]:
    return _rms(subject.watch(_residual_names(subject)))


def _untrained_residual_rms(subject: Subject) -> list[float]:
    return _rms(subject.watch(_residual_names(subject), subject.untrained().eval()))


def _residual_growth(subject: Subject) -> Value:
    return _log_ratio(_residual_rms(subject))


def _max_residual(subject: Subject) -> Value:
    last = f"blocks.{subject.config.model.n_layers - 1}.hook_resid_post"
    found = subject.watch([last])[last]
    return float(found.abs().max() / found.double().pow(2).mean().sqrt())


def _neurons(subject: Subject) -> list[torch.Tensor]:
    """|activation| of each layer's neurons after the nonlinearity (and the gate): [window, pos, neuron] a layer."""
    names = [f"blocks.{layer}.mlp.hook_post" for layer in range(subject.config.model.n_layers)]
    return [acts.double().abs() for acts in subject.watch(names).values()]


def _mlp_active_share(subject: Subject) -> Value:
    """Participation ratio of the neurons, (sum |a|)^2 / (n sum a^2): 1 when all are equally active, 1/n for one."""
    shares = [
        float((a.sum(-1) ** 2 / (a.shape[-1] * a.pow(2).sum(-1).clamp_min(1e-30))).mean()) for a in _neurons(subject)
    ]
    return sum(shares) / len(shares)


def _mlp_sparsity(subject: Subject) -> list[float]:
    """Share of a layer's neurons that stay within a hundredth of the token's largest activation."""
    return [float((a <= SILENT * a.amax(-1, keepdim=True)).double().mean()) for a in _neurons(subject)]


def _mlp_logit_share(subject: Subject) -> Value:
    """Of what attention and MLPs add to the logit of the token that came, the MLPs' part of the absolute sums."""
    from lab.analysis import logit_contributions

    mlp = both = 0.0
    for window in subject.windows:
        found = logit_contributions(subject.model, window[:-1], token=int(window[-1]))
        written = {kind: abs(float(found.values[found.kind == kind].sum())) for kind in ("mlp", "attn")}
        mlp, both = mlp + written["mlp"], both + sum(written.values())
    return mlp / both


def _embedding_cosine(subject: Subject) -> Value:
    """Mean over the vocabulary of the cosine between a token's embedding and its unembedding."""
    from torch.nn.functional import cosine_similarity

    return float(cosine_similarity(subject.model.W_E.detach(), subject.model.W_U.detach().T, dim=-1).mean())


def _loss_at(subject: Subject, factor: int) -> Value:
    """Validation loss read at `factor` times the context trained on; None for learned positions, which end there."""
    from lab.training.evaluation import token_losses
    from model import GPT

    config = subject.config.model
    if config.positional_embedding_type == "standard":
        return None
    longer = GPT(config.replace(n_ctx=config.n_ctx * factor))
    longer.load_state_dict(subject.model.state_dict())
    losses, _ = token_losses(longer.eval(), subject.data.validation)
    return float(losses.mean())


def _longer_penalty(subject: Subject) -> Value:
    """Loss at twice the context less that at the context itself; below zero, the model used what it never saw."""
    at_two, at_one = _loss_at(subject, 2), _loss_at(subject, 1)
    return None if not isinstance(at_two, float) or not isinstance(at_one, float) else at_two - at_one


def _max_attention_logit(subject: Subject) -> Value:
    """Largest attention score, in absolute value, among the positions a query may see."""
    names = [f"blocks.{layer}.attn.hook_attn_scores" for layer in range(subject.config.model.n_layers)]
    largest = 0.0
    for scores in subject.watch(names).values():
        seen = scores.double()[scores != -math.inf]  # what the mask hides
        largest = max(largest, float(seen.abs().max()))
    return largest


def _gap(subject: Subject) -> Value:
    """Validation loss less training loss, both over whole windows of the trained network without dropout."""
    from lab.training.evaluation import token_losses

    validation, _ = token_losses(subject.model, subject.data.validation)
    train, _ = token_losses(subject.model, subject.data.train[: len(subject.data.validation)])
    return float(validation.mean() - train.mean())


def _induction(subject: Subject) -> Value:
    import numpy as np

    from lab.analysis import head_scores

    scores = head_scores(subject.model).induction
    return float(np.nanmax(scores)) if np.isfinite(scores).any() else None


MEASURES: dict[str, Measure] = {
    **{f"gradients_{depth}": _gradient_row(depth) for depth in DEPTHS},
    **{f"gradient_slope_{depth}": _gradient_slope(depth) for depth in DEPTHS},
    **{f"last_gradient_{depth}": _last_gradient(depth) for depth in DEPTHS},
    "depth_effect": Measure(
        f"log of the last layer's gradient with {DEPTHS[-1]} layers over that with {DEPTHS[0]}, before training",
        "nats",
        _depth_effect,
        "untrained",
    ),
    "residual_rms": Measure("RMS of the residual stream before the first and after each layer", "", _residual_rms),
    "untrained_residual_rms": Measure(
        "residual_rms of the network before training", "", _untrained_residual_rms, "untrained"
    ),
    "residual_growth": Measure(
        "log of the residual stream's RMS after the last layer over that before the first", "nats", _residual_growth
    ),
    "max_residual": Measure("largest entry of the last residual stream, in units of its RMS", "RMS", _max_residual),
    "mlp_active_share": Measure(
        "participation ratio of the MLPs' neurons (1: all equally active)", "share", _mlp_active_share
    ),
    "mlp_sparsity": Measure(
        "share of each layer's MLP neurons within a hundredth of the token's largest", "share", _mlp_sparsity
    ),
    "mlp_logit_share": Measure(
        "the MLPs' part of what layers add to the logit of the right token", "share", _mlp_logit_share
    ),
    "embedding_cosine": Measure("mean cosine between embedding and unembedding of a token", "", _embedding_cosine),
    "loss_at_double": Measure(
        "validation loss read at twice the context trained on", "nats", lambda subject: _loss_at(subject, 2)
    ),
    "longer_penalty": Measure("loss at twice the context less the loss at the context", "nats", _longer_penalty),
    "max_attention_logit": Measure("largest attention score in absolute value", "", _max_attention_logit),
    "generalisation_gap": Measure("validation loss less training loss, without dropout", "nats", _gap),
    "induction": Measure("the best head's induction score", "weight", _induction),
}
