"""Files that MNE reads: BrainVision, FIF, EEGLAB and GDF."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tensorcontrast.errors import FileError
from tensorcontrast.readers.annotations import Labels, ReadAnnotations, with_annotations
from tensorcontrast.readers.files import file_errors
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.continuous import Continuous
from tensorcontrast.recordings.mne_objects import (
    annotations_of,
    continuous_raw,
    from_mne,
    is_bad,
    picks_of,
    without,
)
from tensorcontrast.utils.optional import optional

__all__ = ["load"]

_EPOCHS = ("-epo.fif", "_epo.fif", "-epo.fif.gz", "_epo.fif.gz")


def load(
    files: Sequence[tuple[str, Path]],
    *,
    channels: Sequence[str] | None = None,
    labels: Labels | None = None,
) -> list[Continuous] | Recordings:
    """Read files of MNE; see :func:`tensorcontrast.readers.read` for the options.

    Stretches that are annotated as bad are gaps, which no window spans. Epochs in a FIF file are
    windows.
    """
    mne = optional("mne", "mne")
    recordings: list[tuple[Continuous, Path, ReadAnnotations]] = []
    for name, file in files:
        with file_errors(file, "a file of MNE"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names of files, and of what is no signal
            if file.name.lower().endswith(_EPOCHS):
                if len(files) > 1:
                    raise FileError(f"{file}: files of epochs are read one at a time")
                epochs = mne.read_epochs(file, verbose="ERROR")
                return from_mne(epochs, channels=channels, labels=labels, name=file.stem)
            raw = mne.io.read_raw(file, preload=False, verbose="ERROR")
            one = continuous_raw(raw, picks_of(raw, channels), name, None)
            marks = annotations_of(raw)
        stem = name.removesuffix(file.suffix)
        one = without(one, [mark for mark in marks if is_bad(mark[2])], stem)
        good = [mark for mark in marks if not is_bad(mark[2])]
        recordings.append((one, file, partial(list, good)))
    source = files[0][1] if len(files) == 1 else files[0][1].parent
    return with_annotations(source, recordings, labels)
