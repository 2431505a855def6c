"""Evaluation: splits without shared subjects, label budgets and a linear probe."""

from tensorcontrast.evaluate.protocol import (
    ProbeResult,
    Split,
    atd_har_split,
    label_budget,
    linear_probe,
    subject_split,
)

__all__ = [
    "ProbeResult",
    "Split",
    "atd_har_split",
    "label_budget",
    "linear_probe",
    "subject_split",
]
