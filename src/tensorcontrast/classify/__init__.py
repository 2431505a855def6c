"""From windows of signals to classes, with few labels."""

from tensorcontrast.classify.classifier import ContrastiveClassifier
from tensorcontrast.classify.stopping import AccuracyEstimate, estimated_accuracy
from tensorcontrast.classify.suggest import suggest_windows
from tensorcontrast.classify.timeline import Timeline

__all__ = [
    "AccuracyEstimate",
    "ContrastiveClassifier",
    "Timeline",
    "estimated_accuracy",
    "suggest_windows",
]
