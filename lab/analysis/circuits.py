"""Is a chosen set of heads the whole story? Keep them, ablate the rest, and see how much is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab.analysis.interventions import Ablate, Intervention, Patch, apply
from lab.analysis.metrics import Metric, read_metric
from lab.analysis.patching import read_pair
from lab.analysis.prompts import Prompt, resolve_choice, resolve_layer, without_dropout
from lab.analysis.results import Result, are_alike, frame, share
from lab.analysis.sites import resolve_site, resolve_units
from model.checks import whole

if TYPE_CHECKING:
    import pandas

    from model.gpt import GPT

FILLINGS = ("corrupt", "zero", "mean")


@dataclass(frozen=True, eq=False)
class Faithfulness(Result):
    """The metric with a circuit alone, and without it.

    clean          the whole model
    circuit        the circuit's heads, all others ablated
    without        all heads but the circuit's
    empty          no head at all
    faithfulness   (circuit - empty) / (clean - empty): 1 when the circuit does it all; NaN, with a
                   ``note``, where clean and empty are alike
    completeness   (clean - without) / (clean - empty): 1 when nothing outside it can do it
    heads          [head, 2] (layer, head) of the circuit; ablation: what stands in for an ablated head
    """

    clean: float
    circuit: float
    without: float
    empty: float
    faithfulness: float
    completeness: float
    heads: np.ndarray
    ablation: str
    metric: str

    @property
    def note(self) -> str:
        if not are_alike(self.clean, self.empty):
            return ""
        return (
            f"The model scores {self.clean:.6g} with all heads and {self.empty:.6g} with none: there is no difference "
            "for a circuit to make."
        )

    def to_frame(self) -> pandas.DataFrame:
        """A row for each of the four runs."""
        runs = ("clean", "circuit", "without", "empty")
        return frame({"run": np.array(runs, dtype=object), "metric": [getattr(self, run) for run in runs]})


def circuit_faithfulness(
    model: GPT,
    clean: Prompt,
    corrupt: Prompt,
    metric: Metric,
    heads: Sequence[tuple[int, int]],
    *,
    ablation: str = "corrupt",
    reference: Any = None,
) -> Faithfulness:
    """How much of the clean metric a circuit of heads, (layer, head) each, keeps when all others are ablated.

    ablation: what an ablated head writes: "corrupt", what it wrote on the corrupt prompt (which keeps everything that
    is not asked about); "zero"; "mean", over the prompts of ``reference``. MLPs always run.
    A faithful circuit need not be the smallest one, and ablated heads may be made up for (Wang et al. 2022;
    Miller et al. 2024, arXiv 2407.08734).
    """
    resolve_choice(ablation, FILLINGS, "ablation")
    pair = read_pair(model, clean, corrupt)
    reading = read_metric(model, metric, pair.clean.shape[1])
    config = model.config
    kept = set()
    for layer, head in heads:
        (one,) = resolve_units(resolve_site("head"), whole(head, "head"), config)
        kept.add((resolve_layer(layer, config.n_layers), one))
    if not kept:
        raise ValueError("The circuit has no heads: give (layer, head) pairs.")
    everything = {(layer, head) for layer in range(config.n_layers) for head in range(config.n_heads)}

    def ablate(gone: set[tuple[int, int]]) -> list[Intervention]:
        found: list[Intervention] = []
        for layer in sorted({layer for layer, _ in gone}):
            chosen = sorted(head for at, head in gone if at == layer)
            if ablation == "corrupt":
                found.append(Patch("head", layer, head=chosen, source=pair.corrupt))
            else:
                found.append(Ablate("head", layer, head=chosen, method=ablation, reference=reference))
        return found

    def run(gone: set[tuple[int, int]]) -> float:
        with torch.no_grad(), without_dropout(model), apply(model, ablate(gone)):
            stream = model(pair.clean, stop_at_layer=config.n_layers)
        with torch.no_grad():
            return float(reading(stream[:, : reading.last + 1]))

    whole_model, circuit, without, empty = run(set()), run(everything - kept), run(kept), run(everything)
    return Faithfulness(
        clean=whole_model,
        circuit=circuit,
        without=without,
        empty=empty,
        faithfulness=share(circuit - empty, whole_model, empty),
        completeness=share(whole_model - without, whole_model, empty),
        heads=np.array(sorted(kept)),
        ablation=ablation,
        metric=reading.name,
    )
