"""Recordings from and to MNE-Python: Raw, Epochs and their annotations."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    InvalidInputError,
    InvalidTypeError,
    TensorContrastWarning,
)
from tensorcontrast.recordings.checks import positions
from tensorcontrast.recordings.continuous import Continuous, windows_of
from tensorcontrast.recordings.conversion import cutting, drop_without_label, input_errors
from tensorcontrast.recordings.windows import Segment, check_segments
from tensorcontrast.utils.names import listed
from tensorcontrast.utils.optional import optional

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

AnyArray = npt.NDArray[Any]

#: Units of MNE, by the number that FIFF has for them; MNE stores all data in SI units.
UNITS = {107: "V", 112: "T", 201: "T/m", 202: "A/m", 6: "M", 114: "S", 101: "Hz", -1: ""}
#: Factors to SI of units as recordings name them, and the type of channel that MNE has for them.
VOLTS = {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "µV": 1e-6, "μV": 1e-6, "nV": 1e-9}
TYPES = {"V": "eeg", "T": "mag", "T/m": "grad"}
#: Event of windows without a label.
UNKNOWN_EVENT = "unknown"


def from_mne(
    data: Any,
    *,
    window_s: float | None = None,
    step_s: float | None = None,
    channels: str | Sequence[str | int] | None = None,
    labels: str | Mapping[str, str] | None = None,
    label_share: float = 0.5,
    drop_unlabelled: bool = False,
    group: str | int | None = None,
    name: str = "",
) -> Recordings:
    """Make recordings of a ``Raw`` or of ``Epochs`` of MNE-Python.

    Values stay in the SI units of MNE, which are volts for EEG, ECG and EMG; ``units`` says so. The
    column ``start`` is the first sample of each window: counted from the start of a ``Raw``, and
    in the samples of ``events`` for ``Epochs``. The column ``recording`` of a ``Raw`` has ``name``,
    or the name of its file, or its subject.

    Parameters
    ----------
    data : mne.io.Raw or mne.Epochs
        A ``Raw`` is cut into windows; windows that touch an annotation whose text begins with
        "bad" are dropped. Each epoch that MNE has not dropped is a window, and columns of the
        metadata become ``columns``.
    window_s, step_s : float, optional
        Length of windows of a ``Raw`` in seconds, and the time from one to the next (by default
        the length). Without a length, windows of 10 s are cut, with a warning.
    channels : sequence, optional
        Names, positions or patterns such as ``"EEG*"``. By default all channels but those of
        triggers (type "stim") and those that are marked as bad.
    labels : str or mapping, optional
        Which annotations of a ``Raw``, or events of ``Epochs``, are labels: a mapping from their
        texts to classes, or a regular expression that matches their whole text, whose part
        ``(?P<label>…)`` is the class where there is one. All by default. Others are unknown.
    label_share : float
        Share of a window that annotations of its label must cover; below it the window is
        unlabelled.
    drop_unlabelled : bool
        Leave out windows without a label.
    group : str or int, optional
        Group of all windows, or the name of a column of the metadata. By default the column
        "group" or the subject of ``data.info``, where there is one.
    name : str
        Name of the recordings.

    Returns
    -------
    Recordings

    Examples
    --------
    >>> import mne
    >>> info = mne.create_info(["Cz", "Pz"], 100, "eeg")
    >>> raw = mne.io.RawArray(np.zeros((2, 1000)), info, verbose=False)
    >>> _ = raw.set_annotations(mne.Annotations([0, 4], [4, 6], ["rest", "move"]))
    >>> rec = from_mne(raw, window_s=2)
    >>> rec.classes, rec.y.tolist(), rec.units
    (('move', 'rest'), [1, 1, 0, 0, 0], 'V')
    """
    kind = {cls.__name__ for cls in type(data).__mro__}
    if "BaseRaw" in kind:
        how = (window_s, step_s, label_share, drop_unlabelled)
        return _from_raw(data, picks_of(data, channels), labels, group, name, how)
    if "BaseEpochs" not in kind:
        raise InvalidTypeError(
            f"a {type(data).__name__} is neither a Raw nor Epochs of MNE; read files with mne.io "
            "first, or with Recordings.read"
        )
    if window_s is not None or step_s is not None:
        raise InvalidInputError(
            "epochs are windows already; leave window_s and step_s out, or pass the Raw"
        )
    rec = _from_epochs(data, picks_of(data, channels), labels, group, name)
    return drop_without_label(name or "epochs", rec) if drop_unlabelled else rec


def picks_of(data: Any, channels: str | Sequence[str | int] | None) -> list[int]:
    """Positions of channels; all but triggers and bad ones by default."""
    names = list(data.ch_names)
    if channels is not None:
        return positions("channel", channels, names)
    types = data.get_channel_types()
    bad = set(data.info["bads"])
    picks = [k for k, name in enumerate(names) if types[k] != "stim" and name not in bad]
    if not picks:
        raise InvalidInputError(
            f"all channels are triggers or marked as bad; pass channels= of {listed(names)}"
        )
    return picks


def _about(data: Any, picks: list[int], name: str) -> dict[str, Any]:
    units = tuple(UNITS.get(int(data.info["chs"][k]["unit"]), "") for k in picks)
    return {
        "channels": tuple(data.ch_names[k] for k in picks),
        "units": units if len(set(units)) > 1 else units[0],
        "name": name,
    }


def _subject(data: Any) -> str | None:
    about = data.info["subject_info"] or {}
    return next((str(about[key]) for key in ("his_id", "id") if about.get(key)), None)


def _file_name(raw: Any) -> str:
    """Name of the file that a Raw was read from; empty where there is none."""
    first = next(iter(raw.filenames), None)
    return "" if first is None else Path(first).stem


def annotations_of(raw: Any) -> list[tuple[float, float, str]]:
    """Annotations of a Raw: onset and duration in seconds from its first sample, and text."""
    notes = raw.annotations
    return [
        # Onsets count from the time of measurement, signals from the first sample that is kept.
        (float(onset) - raw.first_time, float(duration), str(text))
        for onset, duration, text in zip(
            notes.onset, notes.duration, notes.description, strict=True
        )
    ]


def continuous_raw(raw: Any, picks: list[int], name: str, group: Any) -> Continuous:
    """Make the continuous recording of a Raw."""
    about = _about(raw, picks, name)
    units = about["units"]
    began = raw.info["meas_date"]
    return Continuous(
        name=name,
        pieces=[(0, raw.get_data(picks=picks, verbose="ERROR"))],
        fs=float(raw.info["sfreq"]),
        channels=about["channels"],
        units=units if isinstance(units, tuple) else (units,) * len(picks),
        group=_subject(raw) if group is None else group,
        start=None if began is None else began + dt.timedelta(seconds=float(raw.first_time)),
    )


def without(
    recording: Continuous, spans: Sequence[tuple[float, float, str]], stem: str
) -> Continuous:
    """Leave out stretches (onset, duration, text) of a recording, which become gaps."""
    n, fs = recording.n_times, recording.fs
    keep = np.ones(n, dtype=bool)
    for onset, duration, _ in spans:
        keep[max(0, int(np.floor(onset * fs))) : max(0, int(np.ceil((onset + duration) * fs)))] = 0
    edges = np.flatnonzero(np.diff(keep.astype(np.int8), prepend=0, append=0))
    if not len(edges):
        raise InvalidInputError(f"{recording.name}: annotations that begin with 'bad' cover it all")
    x = recording.pieces[0][1]
    pieces = [(int(a), x[:, a:b]) for a, b in edges.reshape(-1, 2)]
    group = stem if recording.group is None else recording.group
    return replace(recording, pieces=pieces, group=group)


def is_bad(text: str) -> bool:
    """Whether an annotation marks a stretch as bad."""
    return text.lower().startswith("bad")


# ---------------------------------------------------------------------------------- Raw


def _from_raw(
    raw: Any,
    picks: list[int],
    labels: str | Mapping[str, str] | None,
    group: str | int | None,
    name: str,
    how: tuple[float | None, float | None, float, bool],
) -> Recordings:
    from tensorcontrast.readers.annotations import chosen_segments

    fs = float(raw.info["sfreq"])
    where = name or _file_name(raw) or _subject(raw) or "raw"
    marks = annotations_of(raw)
    texts = [m for m in marks if not is_bad(m[2]) and not m[2].lower().startswith("edge")]
    segments = None
    if labels is None and texts and not any(duration > 0 for _, duration, _ in texts):
        warnings.warn(
            f"{where}: the {len(texts)} annotations have no duration and label no window; make "
            "mne.Epochs of the events and pass those, or give the annotations durations",
            TensorContrastWarning,
            stacklevel=3,
        )
    if labels is not None and not texts:
        raise InvalidInputError(
            f"{where}: has no annotations to take labels from; leave labels= out, or call "
            "raw.set_annotations first"
        )
    with input_errors():
        if labels is not None or any(duration > 0 for _, duration, _ in texts):
            chosen = chosen_segments(where, texts, "annotations" if labels is None else labels)
            inside = check_segments(where, chosen, len(raw.times) / fs)
            segments = [Segment(s.start * fs, s.stop * fs, s.label) for s in inside]
        recording = replace(continuous_raw(raw, picks, where, group), segments=segments)
        window_s, step_s, label_share, drop = how
        rec = windows_of(
            where, [recording], cutting(window_s, step_s, label_share, drop, False, name)
        )
    start = rec.columns["start"] / fs
    keep = np.ones(len(rec), dtype=bool)
    for onset, duration, text in marks:
        if is_bad(text):
            keep &= ~((onset < start + rec.n_times / fs) & (onset + duration > start))
    if not keep.any():
        raise InvalidInputError(
            f"{where}: annotations that begin with 'bad' touch all {len(rec)} windows; take "
            "shorter windows, or delete them from raw.annotations"
        )
    return rec if keep.all() else rec[keep]


# ------------------------------------------------------------------------------- Epochs


def _from_epochs(
    epochs: Any,
    picks: list[int],
    labels: str | Mapping[str, str] | None,
    group: str | int | None,
    name: str,
) -> Recordings:
    from tensorcontrast.recordings import Recordings

    if not epochs.preload:
        epochs = epochs.copy().drop_bad(verbose="ERROR")
    if not len(epochs):
        raise InvalidInputError("there are no epochs: MNE dropped all; see epochs.drop_log")
    fs = float(epochs.info["sfreq"])
    raw_fs = float(getattr(epochs, "_raw_sfreq", None) or fs)  # events keep it when decimated
    start = np.rint((epochs.events[:, 0] / raw_fs + float(epochs.tmin)) * fs).astype(np.int64)
    columns: dict[str, AnyArray] = {"start": start}
    if epochs.metadata is not None:
        for key in epochs.metadata.columns:
            columns[str(key)] = _plain(epochs.metadata[key])
    column = "group" if group is None else str(group)
    groups = columns.pop(column, None)
    if groups is None:
        value = _subject(epochs) if group is None else group
        groups = None if value is None else np.full(len(epochs), value)
    names = _event_names(epochs.event_id, labels)
    y = np.array([names.get(int(code)) for code in epochs.events[:, 2]], dtype=object)
    classes = list(dict.fromkeys(label for _, label in sorted(names.items())))
    return Recordings(
        epochs.get_data(picks=picks, copy=True, verbose="ERROR"),
        y,
        groups=groups,
        fs=fs,
        classes=classes,
        columns=columns,
        **_about(epochs, picks, name),
    )


def _event_names(
    event_id: Mapping[str, int], labels: str | Mapping[str, str] | None
) -> dict[int, str]:
    """Class of each code of events; codes of unknown ones are left out."""
    from tensorcontrast.readers.annotations import chosen_segments

    texts = [text for text in event_id if text != UNKNOWN_EVENT]
    if labels is None:
        return {int(event_id[text]): text for text in texts}
    with input_errors():
        out = {}
        found = chosen_segments("events", [(k, 1, text) for k, text in enumerate(texts)], labels)
        for segment in found:
            out[int(event_id[texts[int(segment.start)]])] = segment.label
        return out


def _plain(column: Any) -> AnyArray:
    """Column of the metadata as numbers or text."""
    values = np.asarray(column)
    if values.dtype.kind in "iufb":
        return values
    return np.array(["" if v is None or v != v else str(v) for v in values.tolist()])


# ------------------------------------------------------------------------------- to MNE


def to_mne(
    rec: Recordings, *, ch_types: str | Sequence[str] | None = None, verbose: Any = False
) -> Any:
    """Make ``mne.EpochsArray`` of the windows.

    Labels become events named by their classes, windows without a label the event "unknown".
    Groups and columns of one value per window become the metadata. Annotations hold each window's
    label and duration. Windows in the order of time keep their start times, and recordings follow
    one another; other windows are put one after the other.

    Parameters
    ----------
    rec : Recordings
        With a sampling rate.
    ch_types : str or sequence of str, optional
        Types of channels for MNE. By default "eeg" where the unit is volts, "mag" or "grad" for T
        and T/m, else "misc".
    verbose : bool or str
        As in MNE.

    Returns
    -------
    mne.EpochsArray
        In SI units: mV, µV and nV are brought to volts.

    Examples
    --------
    >>> from tensorcontrast import Recordings
    >>> rec = Recordings(np.ones((2, 1, 100)), ["a", "b"], fs=100, channels=["Cz"], units="uV")
    >>> epochs = rec.to_mne()
    >>> epochs.event_id, float(epochs.get_data().max())
    ({'a': 1, 'b': 2}, 1e-06)
    """
    mne, pandas = optional("mne", "mne"), optional("pandas", "mne")
    if rec.fs is None:
        raise InvalidInputError("MNE needs a sampling rate; make these recordings with fs=")
    names = list(rec.channels or (str(c) for c in range(rec.n_channels)))
    units = rec.units if isinstance(rec.units, tuple) else (rec.units or "",) * rec.n_channels
    factor = np.array([VOLTS.get(unit, 1.0) for unit in units])
    if ch_types is None:
        ch_types = [TYPES.get("V" if u in VOLTS else u, "misc") for u in units]
    info = mne.create_info(names, rec.fs, ch_types, verbose=verbose)
    y = np.full(len(rec), -1) if rec.y is None else rec.y
    classes = rec.classes or tuple(str(c) for c in range(rec.n_classes))
    if UNKNOWN_EVENT in classes and (y < 0).any():
        raise InvalidInputError(
            f"a class is named {UNKNOWN_EVENT!r}, which is the event of unlabelled windows; rename "
            "it, or drop windows without a label"
        )
    event_id = {name: k + 1 for k, name in enumerate(classes)}
    if (y < 0).any():
        event_id[UNKNOWN_EVENT] = 0
    codes = np.where(y < 0, 0, y + 1)
    start = _timeline(rec)
    metadata = {k: v for k, v in rec.columns.items() if v.ndim == 1}
    if rec.groups is not None:
        metadata["group"] = rec.groups
        if len(np.unique(rec.groups)) == 1:
            info["subject_info"] = {"his_id": str(rec.groups[0])}
    epochs = mne.EpochsArray(
        rec.X * factor[:, None],
        info,
        np.column_stack([start, np.zeros_like(start), codes]),
        event_id=event_id,
        on_missing="ignore",
        metadata=pandas.DataFrame(metadata) if metadata else None,
        verbose=verbose,
    )
    texts = [classes[k] if k >= 0 else UNKNOWN_EVENT for k in y.tolist()]
    duration = rec.n_times / rec.fs
    epochs.set_annotations(mne.Annotations(start / rec.fs, duration, texts))
    return epochs


def _timeline(rec: Recordings) -> npt.NDArray[np.int64]:
    """First samples of windows on one axis of time, each greater than the one before."""
    start = rec.columns.get("start")
    if start is not None and np.issubdtype(start.dtype, np.integer):
        source = rec.columns.get("recording", np.zeros(len(rec)))
        place = start.astype(np.int64).copy()
        new = np.flatnonzero(source[1:] != source[:-1]) + 1
        for a in new.tolist():  # what follows goes on after the end of the recording before
            place[a:] = start[a:] + place[a - 1] + rec.n_times
        if (np.diff(place) > 0).all():
            return place
    return np.arange(len(rec), dtype=np.int64) * rec.n_times
