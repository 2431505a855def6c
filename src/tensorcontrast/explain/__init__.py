"""Why a feature or an answer is what it is: shares, contributions, windows and sentences."""

from tensorcontrast.explain.feature import (
    FeatureExplanation,
    Kernel,
    WindowContributions,
    explain_features,
    signal_contributions,
)
from tensorcontrast.explain.prediction import PredictionExplanation, explain_predictions
from tensorcontrast.explain.strength import Strength, Term

__all__ = [
    "FeatureExplanation",
    "Kernel",
    "PredictionExplanation",
    "Strength",
    "Term",
    "WindowContributions",
    "explain_features",
    "explain_predictions",
    "signal_contributions",
]
