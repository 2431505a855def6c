"""Recordings from and to the objects of other packages, joined and resampled.

Every function is also a method of :class:`tensorcontrast.Recordings`. MNE, polars and xarray are
imported only where they are used.
"""

from tensorcontrast.conversions.frames import from_dataframe
from tensorcontrast.conversions.joining import concat
from tensorcontrast.conversions.mne_objects import from_mne, to_mne
from tensorcontrast.conversions.sampling import resample
from tensorcontrast.conversions.xarray_objects import from_xarray

__all__ = ["concat", "from_dataframe", "from_mne", "from_xarray", "resample", "to_mne"]
