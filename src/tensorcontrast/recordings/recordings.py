"""Recordings: samples of multichannel signals with labels, groups and what is known of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.checks import (
    as_groups,
    as_labels,
    as_names,
    as_per_sample,
    as_sampling_rate,
    as_signals,
    check_finite,
    check_unicode,
    positions,
)
from tensorcontrast.recordings.frames import from_dataframe
from tensorcontrast.recordings.joining import concat
from tensorcontrast.recordings.mne_objects import from_mne, to_mne
from tensorcontrast.recordings.quality import Quality, quality
from tensorcontrast.recordings.sampling import resample
from tensorcontrast.recordings.signals import warn_if_transposed
from tensorcontrast.utils.names import listed, visible

__all__ = ["Quality", "Recordings"]

AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]


class Recordings:
    """Samples of multichannel signals, all of one length.

    Parameters
    ----------
    X : array of shape (n, channel, time)
        Signals. float32 and float64 are kept; integers become float32 (float64 where float32
        would round them) and are multiplied by ``scale``.
    y : array of shape (n,), optional
        Classes as integers from 0; or class names, which are then turned into integers (by
        ``classes`` where given, else in sorted order). Windows without a label have -1, None,
        NaN, NA or empty text, and -1 in the attribute ``y``.
    groups : array of shape (n,), optional
        Who or what each sample came from (subject, patient, machine), integers or text. Splits
        keep a group together.
    fs : float, optional
        Samples per second.
    channels, classes : sequence of str, optional
        Names.
    units : str or sequence of str, optional
        Unit of all channels, or of each.
    columns : mapping of str to array, optional
        Further arrays with one entry per sample, such as ``split``, ``night`` or ``age``.
    name, citation, licence : str
        Where the recordings are from, and on which terms.
    scale : float, optional
        Factor for ``X``, for integers as a converter wrote them.
    allow_nan : bool
        Accept NaN and infinities in ``X``.

    Examples
    --------
    >>> rec = Recordings(np.zeros((4, 2, 50)), ["a", "b", "a", "b"], groups=[1, 1, 2, 2], fs=50)
    >>> rec
    Recordings(4 samples, 2 channels, 50 times (1 s at 50 Hz), 2 classes, 2 groups)
    >>> rec.select(groups=[2]).y
    array([0, 1])
    >>> len(rec[rec.y == 0])
    2
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | None = None,
        fs: float | None = None,
        channels: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        columns: Mapping[str, npt.ArrayLike] | None = None,
        name: str = "",
        citation: str = "",
        licence: str = "",
        scale: float | None = None,
        allow_nan: bool = False,
    ) -> None:
        self.X: AnyArray = as_signals(X, scale)
        n, n_channels, _ = self.X.shape
        self.fs: float | None = None if fs is None else as_sampling_rate(fs)
        self.channels: tuple[str, ...] | None = as_names("channels", channels, n_channels)
        if self.channels is None:
            warn_if_transposed(self.X.shape)
        self.classes: tuple[str, ...] | None = as_names("classes", classes, None)
        self.units: str | tuple[str, ...] | None = (
            units if units is None or isinstance(units, str) else tuple(str(u) for u in units)
        )
        check_unicode("units", (self.units,) if isinstance(self.units, str) else self.units or ())
        if isinstance(self.units, tuple) and len(self.units) != n_channels:
            raise InvalidInputError(
                f"units has {len(self.units)} entries for {n_channels} channels; "
                "give one unit for all or one for each"
            )
        self.y: IntArray | None = None
        if y is not None:
            self.y, self.classes = as_labels(y, n, self.classes)
        self.groups: AnyArray | None = None
        if groups is not None:
            self.groups = as_groups(as_per_sample("groups", groups, n))
        self.columns: dict[str, AnyArray] = {
            str(key): as_per_sample(f"columns[{key!r}]", value, n, ndim=None)
            for key, value in (columns or {}).items()
        }
        self.name, self.citation, self.licence = str(name), str(citation), str(licence)
        #: How a table was read, in one line; empty for other recordings.
        self.understood = ""
        if not allow_nan:
            check_finite(self.X, self.channels)

    # ------------------------------------------------------------------ looking

    def __len__(self) -> int:
        return len(self.X)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Windows, channels and samples per window: the shape of ``X``."""
        n, n_channels, n_times = self.X.shape
        return n, n_channels, n_times

    @property
    def ndim(self) -> int:
        """Number of axes: 3."""
        return 3

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return ``X``, for ``np.asarray(rec)``."""
        return np.array(self.X, dtype=dtype) if copy else np.asarray(self.X, dtype=dtype)

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return int(self.X.shape[1])

    @property
    def n_times(self) -> int:
        """Number of points in time of one sample."""
        return int(self.X.shape[2])

    @property
    def n_classes(self) -> int:
        """Number of classes: of ``classes`` where given, else the largest label plus one."""
        if self.classes is not None:
            return len(self.classes)
        return 0 if self.y is None else max(0, int(self.y.max()) + 1)

    def __repr__(self) -> str:
        times = f"{self.n_times} times"
        if self.fs is not None:
            times += f" ({self.n_times / self.fs:.4g} s at {self.fs:g} Hz)"
        parts = [f"{len(self)} samples", f"{self.n_channels} channels", times]
        if self.y is not None:
            unlabelled = int((self.y < 0).sum())
            parts.append(
                f"{self.n_classes} classes" + f", {unlabelled} unlabelled" * bool(unlabelled)
            )
        if self.groups is not None:
            parts.append(f"{len(np.unique(self.groups))} groups")
        if self.columns:
            parts.append(f"columns {listed(self.columns)}")
        name = f"{visible(self.name)}: " if self.name else ""
        return f"Recordings({name}{', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Return the table and the picture that notebooks show."""
        # By its name: what notebooks show is drawn by a later layer.
        return str(import_module("tensorcontrast.report.notebook").recordings_html(self))

    quality = quality

    # ---------------------------------------------------------------- selecting

    def __getitem__(self, index: Any) -> Recordings:
        """Select windows by mask, slice, index or array of indices; always a ``Recordings``.

        Labels, groups and columns are selected too, so that scikit-learn's splitters,
        ``train_test_split`` and ``cross_val_score`` take ``Recordings`` for X.
        """
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # scikit-learn selects rows by array[rows, ...]
        if isinstance(index, int | np.integer):
            index = [index]
        try:
            rows = np.arange(len(self))[index]
        except IndexError as error:
            raise InvalidInputError(
                f"cannot select samples of recordings of length {len(self)}: {error}"
            ) from None
        if rows.ndim != 1:
            raise InvalidInputError(
                "samples are selected along the first axis only; use select(channels=...) for "
                "channels"
            )
        if not len(rows):
            raise InvalidInputError("the selection holds no samples; recordings cannot be empty")
        take = index if isinstance(index, slice) else rows
        return self._with(
            X=self.X[take],
            y=None if self.y is None else self.y[take],
            groups=None if self.groups is None else self.groups[take],
            columns={key: value[take] for key, value in self.columns.items()},
        )

    def __iter__(self) -> Iterator[Recordings]:
        return (self[i] for i in range(len(self)))

    def select(
        self,
        *,
        groups: Sequence[Any] | npt.NDArray[Any] | None = None,
        channels: Sequence[str | int] | None = None,
        classes: Sequence[str | int] | None = None,
    ) -> Recordings:
        """Keep the samples of some groups or classes, and some channels in the order given.

        Channels and classes are names, positions or patterns such as ``"EEG *"``. A name that is
        not there is an error that lists those there are.
        """
        keep = np.ones(len(self), dtype=bool)
        if groups is not None:
            if self.groups is None:
                raise InvalidInputError("these recordings have no groups to select by")
            there = set(self.groups.tolist())
            wanted = np.atleast_1d(np.asarray(groups)).tolist()
            missing = [g for g in wanted if g not in there]
            if missing:
                raise InvalidInputError(f"no group {listed(missing)}; there are {listed(there)}")
            keep &= np.isin(self.groups, wanted)
        if classes is not None:
            if self.y is None:
                raise InvalidInputError("these recordings have no labels to select by")
            names = self.classes or tuple(str(c) for c in range(self.n_classes))
            keep &= np.isin(self.y, positions("class", classes, names))
        rec = self if bool(keep.all()) else self[keep]
        if channels is None:
            return rec
        names = self.channels or tuple(str(c) for c in range(self.n_channels))
        rows = positions("channel", channels, names)
        units = self.units if not isinstance(self.units, tuple) else [self.units[c] for c in rows]
        new_names = as_names("channels", [names[c] for c in rows], len(rows))
        return rec._with(
            X=rec.X[:, rows],
            channels=new_names if self.channels else None,
            units=tuple(units) if isinstance(units, list) else units,
        )

    def rename_channels(self, mapping: Mapping[str | int, str]) -> Recordings:
        """Give some channels, named or counted from 0, other names.

        Examples
        --------
        >>> rec = Recordings(np.zeros((1, 2, 50)), channels=["EEG Fpz-Cz", "EOG"])
        >>> rec.rename_channels({"EEG Fpz-Cz": "Fpz"}).channels
        ('Fpz', 'EOG')
        """
        names = list(self.channels or (str(c) for c in range(self.n_channels)))
        before = tuple(names)
        for old, new in mapping.items():
            for row in positions("channel", [old], before):
                names[row] = new
        return self._with(channels=as_names("channels", names, self.n_channels))

    resample = resample

    def _with(self, **changes: Any) -> Recordings:
        """Copy with changes that are known to be valid."""
        new = object.__new__(Recordings)
        new.__dict__.update(self.__dict__)
        new.columns = dict(self.columns)
        new.__dict__.update(changes)
        return new

    # ------------------------------------------------------------------- making

    @classmethod
    def from_signals(
        cls,
        signals: Sequence[npt.ArrayLike],
        *,
        fs: float | None = None,
        window_s: float | None = None,
        window: int | None = None,
        overlap: float = 0.0,
        labels: Sequence[Any] | npt.NDArray[Any] | None = None,
        label_rule: Literal["majority", "drop"] = "majority",
        groups: Sequence[Any] | npt.NDArray[Any] | None = None,
        columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]] | None = None,
        time_axis: int = -1,
        short: Literal["error", "drop"] = "error",
        classes: Sequence[str] | None = None,
        **about: Any,
    ) -> Recordings:
        """Cut long signals, of unequal lengths, into windows.

        Parameters
        ----------
        signals : sequence of arrays of shape (channel, time)
            Long signals; one-dimensional ones have one channel. ``time_axis=0`` for arrays of
            shape (time, channel).
        fs : float, optional
            Samples per second; needed with ``window_s``.
        window_s, window : float or int
            Length of a window in seconds or in points; one of the two.
        overlap : float
            Fraction, from 0 to below 1, that neighbouring windows share. What is left at the end
            of a signal and does not fill a window is left out.
        labels : sequence, optional
            One label per signal, or one array per signal with a label for each sample in time:
            integers or names, and -1, None, NaN or empty text for none.
        label_rule : {"majority", "drop"}
            For labels of points: take the most frequent one of the window (the first class of
            equals), or drop windows with more than one label.
        groups : sequence, optional
            One group a signal.
        columns : mapping, optional
            Further values, one a signal. ``recording`` (position of the signal) and ``start``
            (first point of the window) are added.
        time_axis : int
            Axis of time in each signal.
        short : {"error", "drop"}
            What to do with signals shorter than a window.
        classes : sequence of str, optional
            Names of classes.
        **about
            ``channels``, ``units``, ``name``, ``citation``, ``licence``, ``allow_nan``.

        Examples
        --------
        >>> signals = [np.ones((3, 120)), np.ones((3, 220))]
        >>> rec = Recordings.from_signals(signals, fs=50, window_s=2, overlap=0.5, labels=[0, 1])
        >>> rec.X.shape, rec.y.tolist(), rec.columns["start"].tolist()
        ((4, 3, 100), [0, 1, 1, 1], [0, 0, 50, 100])
        """
        from tensorcontrast.recordings.windows import cut

        parts = cut(
            signals,
            fs=fs,
            window_s=window_s,
            window=window,
            overlap=overlap,
            labels=labels,
            label_rule=label_rule,
            time_axis=time_axis,
            short=short,
            classes=classes,
        )
        source = parts.recording
        per_signal = dict(columns or {}) | ({} if groups is None else {"groups": groups})
        per_window = {}
        for key, values in per_signal.items():
            if len(values) != len(signals):
                raise InvalidInputError(
                    f"{key} has {len(values)} entries for {len(signals)} signals; give one a signal"
                )
            per_window[key] = np.asarray(values)[source]
        return cls(
            parts.X,
            parts.y,
            groups=per_window.pop("groups", None),
            fs=fs,
            classes=parts.classes,
            columns={**per_window, "recording": source, "start": parts.start},
            **about,
        )

    concat = staticmethod(concat)
    from_dataframe = staticmethod(from_dataframe)
    from_mne = staticmethod(from_mne)
    to_mne = to_mne

    # -------------------------------------------------------------------- files

    def save(self, path: str | Path, *, compress: bool = True) -> Path:
        """Write an ``.npz`` file that :meth:`load` reads; whole or not at all."""
        from tensorcontrast.readers.npz import write_npz

        return write_npz(self, path, compress=compress)

    @classmethod
    def load(cls, path: str | Path, *, allow_nan: bool = False) -> Recordings:
        """Read an ``.npz`` file written by :meth:`save` or of the same layout."""
        from tensorcontrast.readers.npz import read_npz

        return read_npz(path, allow_nan=allow_nan)

    @classmethod
    def read(
        cls, path: str | Path | Sequence[str | Path], *, format: str | None = None, **options: Any
    ) -> Recordings:
        """Read recordings of any known format; see :func:`tensorcontrast.readers.read`."""
        from tensorcontrast.readers import read

        return read(path, format=format, **options)
