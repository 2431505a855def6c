"""Why a feature or an answer is what it is: shares, contributions, windows and sentences."""

from tensorcontrast.explain.feature import (
    FeatureExplanation,
    explain_features,
    signal_contributions,
)
from tensorcontrast.explain.prediction import PredictionExplanation, explain_predictions

__all__ = [
    "FeatureExplanation",
    "PredictionExplanation",
    "explain_features",
    "explain_predictions",
    "signal_contributions",
]
