"""Tensors to features: CP models with and without contrast, as scikit-learn estimators."""

from tensorcontrast.decompose.atd import ATD
from tensorcontrast.decompose.cpd import CPD
from tensorcontrast.decompose.plc import PLC
from tensorcontrast.solvers.settings import ALS, Gradient, PaperALS

__all__ = ["ALS", "ATD", "CPD", "PLC", "Gradient", "PaperALS"]
