"""Tensors to features: CP models with and without contrast, as scikit-learn estimators."""

from tensorcontrast.decompose.atd import ATD
from tensorcontrast.decompose.cpd import CPD
from tensorcontrast.decompose.plc import PLC, Algorithm1

__all__ = ["ATD", "CPD", "PLC", "Algorithm1"]
