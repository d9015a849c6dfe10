"""Looking inside a GPT: each function runs a prompt and returns a frozen object of named arrays.

Names are resolved on first use, so that importing this package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.analysis.attention import AttentionPatterns, attention_patterns
    from lab.analysis.contributions import LogitContributions, logit_contributions
    from lab.analysis.decomposition import ResidualDecomposition, residual_decomposition
    from lab.analysis.heads import HeadScores, head_scores
    from lab.analysis.inspection import inspect_prompt
    from lab.analysis.lens import LogitLens, logit_lens
    from lab.analysis.norms import ResidualNorms, residual_norms
    from lab.analysis.predictions import TokenPredictions, token_predictions

_HOME = {
    "AttentionPatterns": "attention",
    "HeadScores": "heads",
    "LogitContributions": "contributions",
    "LogitLens": "lens",
    "ResidualDecomposition": "decomposition",
    "ResidualNorms": "norms",
    "TokenPredictions": "predictions",
    "attention_patterns": "attention",
    "head_scores": "heads",
    "inspect_prompt": "inspection",
    "logit_contributions": "contributions",
    "logit_lens": "lens",
    "residual_decomposition": "decomposition",
    "residual_norms": "norms",
    "token_predictions": "predictions",
}

__all__ = [
    "AttentionPatterns",
    "HeadScores",
    "LogitContributions",
    "LogitLens",
    "ResidualDecomposition",
    "ResidualNorms",
    "TokenPredictions",
    "attention_patterns",
    "head_scores",
    "inspect_prompt",
    "logit_contributions",
    "logit_lens",
    "residual_decomposition",
    "residual_norms",
    "token_predictions",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lab.analysis' has no attribute {name!r}")
    return getattr(import_module(f"lab.analysis.{_HOME[name]}"), name)
