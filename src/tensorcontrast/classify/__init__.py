"""From windows of signals to classes, with few labels."""

from tensorcontrast.classify.classifier import ContrastiveClassifier
from tensorcontrast.classify.suggest import AccuracyEstimate, estimated_accuracy, suggest_windows
from tensorcontrast.classify.timeline import Timeline

__all__ = [
    "AccuracyEstimate",
    "ContrastiveClassifier",
    "Timeline",
    "estimated_accuracy",
    "suggest_windows",
]
