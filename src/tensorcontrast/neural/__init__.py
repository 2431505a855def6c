"""The paper's neural competitors behind the interface of the decompositions (extra ``neural``).

Importing this needs no torch; fitting does.
"""

from tensorcontrast.neural.byol import BYOL
from tensorcontrast.neural.deep_tensor import DeepTensor
from tensorcontrast.neural.simclr import SimCLR

__all__ = ["BYOL", "DeepTensor", "SimCLR"]
