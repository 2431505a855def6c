"""CP models of windows: CPD, PLC, ATD, and the paper's Algorithm 1."""

from tensorcontrast.decompose.cpd import CPD
from tensorcontrast.decompose.plc import PLC
from tensorcontrast.decompose.two_views import ATD, Algorithm1

__all__ = ["ATD", "CPD", "PLC", "Algorithm1"]
