"""From windows of signals to classes, with few labels."""

from tensorcontrast.classify.classifier import ContrastiveClassifier

__all__ = ["ContrastiveClassifier"]
