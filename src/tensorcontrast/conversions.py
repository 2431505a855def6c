"""Former place of the conversions of :mod:`tensorcontrast.recordings`; its names stay here."""

from tensorcontrast.recordings.frames import from_dataframe
from tensorcontrast.recordings.joining import concat
from tensorcontrast.recordings.mne_objects import from_mne, to_mne
from tensorcontrast.recordings.sampling import resample
from tensorcontrast.recordings.xarray_objects import from_xarray

__all__ = ["concat", "from_dataframe", "from_mne", "from_xarray", "resample", "to_mne"]
