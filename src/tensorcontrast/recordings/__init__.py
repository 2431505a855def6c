"""Windows of multichannel signals with labels and groups, cut, checked and converted."""

from tensorcontrast.recordings.recordings import Quality, Recordings

__all__ = ["Quality", "Recordings"]
