"""Recordings from and to the objects of other packages, joined and resampled.

Every function is also a method of :class:`tensorcontrast.Recordings`. MNE, polars and xarray are
imported only where they are used.
"""

from tensorcontrast.conversions.joining import concat
from tensorcontrast.conversions.sampling import resample

__all__ = ["concat", "resample"]
