"""Looking inside a GPT: each function runs a prompt and returns a frozen object of named arrays.

Names are resolved on first use, so that importing this package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.analysis.attention import AttentionPatterns, attention_patterns
    from lab.analysis.circuits import Faithfulness, circuit_faithfulness
    from lab.analysis.composition import HeadWeights, TokenEffects, head_tokens, head_weights, neuron_tokens
    from lab.analysis.contributions import LogitContributions, logit_contributions
    from lab.analysis.decomposition import ResidualDecomposition, residual_decomposition
    from lab.analysis.direct_paths import PathPatching, path_patching
    from lab.analysis.directions import prompt_direction, token_direction
    from lab.analysis.dynamics import Dynamics, checkpoint_dynamics
    from lab.analysis.effects import InterventionEffect, intervention_effect
    from lab.analysis.emergence import Formation, formation
    from lab.analysis.estimates import attribution_patching
    from lab.analysis.film import measured_film, probed_film, recorded_film
    from lab.analysis.heads import HeadScores, head_scores
    from lab.analysis.inspection import inspect_prompt
    from lab.analysis.interventions import Ablate, Intervention, KnockOut, Patch, Scale, Steer, apply
    from lab.analysis.lens import LogitLens, logit_lens
    from lab.analysis.metrics import Logit, LogitDifference, LogProbability
    from lab.analysis.norms import ResidualNorms, residual_norms
    from lab.analysis.patching import PatchingGrid, activation_patching
    from lab.analysis.planted import planted_induction
    from lab.analysis.predictions import TokenPredictions, token_predictions
    from lab.analysis.probe_labels import (
        LabelledTokens,
        UnreadableLabels,
        conllu_labels,
        corpus_labels,
        function_labels,
        read_labels,
    )
    from lab.analysis.probes import Probes, fit_probes
    from lab.analysis.sources import SourceContributions, source_contributions
    from lab.analysis.tuned_lens import LensTraining, TunedLens, train_tuned_lens

_HOME = {
    "Ablate": "interventions",
    "AttentionPatterns": "attention",
    "Dynamics": "dynamics",
    "Faithfulness": "circuits",
    "Formation": "emergence",
    "HeadScores": "heads",
    "HeadWeights": "composition",
    "Intervention": "interventions",
    "InterventionEffect": "effects",
    "KnockOut": "interventions",
    "LabelledTokens": "probe_labels",
    "LensTraining": "tuned_lens",
    "LogProbability": "metrics",
    "Logit": "metrics",
    "LogitContributions": "contributions",
    "LogitDifference": "metrics",
    "LogitLens": "lens",
    "Patch": "interventions",
    "PatchingGrid": "patching",
    "PathPatching": "direct_paths",
    "Probes": "probes",
    "ResidualDecomposition": "decomposition",
    "ResidualNorms": "norms",
    "Scale": "interventions",
    "SourceContributions": "sources",
    "Steer": "interventions",
    "TokenEffects": "composition",
    "TokenPredictions": "predictions",
    "TunedLens": "tuned_lens",
    "UnreadableLabels": "probe_labels",
    "activation_patching": "patching",
    "apply": "interventions",
    "attention_patterns": "attention",
    "attribution_patching": "estimates",
    "checkpoint_dynamics": "dynamics",
    "circuit_faithfulness": "circuits",
    "conllu_labels": "probe_labels",
    "corpus_labels": "probe_labels",
    "fit_probes": "probes",
    "formation": "emergence",
    "function_labels": "probe_labels",
    "head_scores": "heads",
    "head_tokens": "composition",
    "head_weights": "composition",
    "inspect_prompt": "inspection",
    "intervention_effect": "effects",
    "logit_contributions": "contributions",
    "logit_lens": "lens",
    "measured_film": "film",
    "neuron_tokens": "composition",
    "path_patching": "direct_paths",
    "planted_induction": "planted",
    "probed_film": "film",
    "prompt_direction": "directions",
    "read_labels": "probe_labels",
    "recorded_film": "film",
    "residual_decomposition": "decomposition",
    "residual_norms": "norms",
    "source_contributions": "sources",
    "token_direction": "directions",
    "token_predictions": "predictions",
    "train_tuned_lens": "tuned_lens",
}

__all__ = [
    "Ablate",
    "AttentionPatterns",
    "Dynamics",
    "Faithfulness",
    "Formation",
    "HeadScores",
    "HeadWeights",
    "Intervention",
    "InterventionEffect",
    "KnockOut",
    "LabelledTokens",
    "LensTraining",
    "LogProbability",
    "Logit",
    "LogitContributions",
    "LogitDifference",
    "LogitLens",
    "Patch",
    "PatchingGrid",
    "PathPatching",
    "Probes",
    "ResidualDecomposition",
    "ResidualNorms",
    "Scale",
    "SourceContributions",
    "Steer",
    "TokenEffects",
    "TokenPredictions",
    "TunedLens",
    "UnreadableLabels",
    "activation_patching",
    "apply",
    "attention_patterns",
    "attribution_patching",
    "checkpoint_dynamics",
    "circuit_faithfulness",
    "conllu_labels",
    "corpus_labels",
    "fit_probes",
    "formation",
    "function_labels",
    "head_scores",
    "head_tokens",
    "head_weights",
    "inspect_prompt",
    "intervention_effect",
    "logit_contributions",
    "logit_lens",
    "measured_film",
    "neuron_tokens",
    "path_patching",
    "planted_induction",
    "probed_film",
    "prompt_direction",
    "read_labels",
    "recorded_film",
    "residual_decomposition",
    "residual_norms",
    "source_contributions",
    "token_direction",
    "token_predictions",
    "train_tuned_lens",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lab.analysis' has no attribute {name!r}")
    return getattr(import_module(f"lab.analysis.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
