"""From windows of signals to classes, with few labels."""

from tensorcontrast.classify.classifier import ContrastiveClassifier
from tensorcontrast.classify.timeline import Timeline

__all__ = ["ContrastiveClassifier", "Timeline"]
