"""Answers with their times: what happens when, per window or in merged segments, as files."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.readers.edf import annotations_file
from tensorcontrast.readers.label_table import origin
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.names import csv_text, listed
from tensorcontrast.utils.optional import optional

__all__ = ["ANNOTATIONS", "FORMATS", "Timeline"]

Array = NDArray[Any]

#: Format of annotations, of one recording: EDF+.
ANNOTATIONS = ".edf"
FORMATS = (".csv", ".tsv", ".json", ".parquet", ANNOTATIONS)


@dataclass(frozen=True)
class Timeline:
    """Answers of a classifier, one per window or merged segment.

    Attributes
    ----------
    recording : (n,) str array
        Name of the recording.
    start_s, end_s : (n,) arrays
        Seconds from the start of the recording; NaN where windows do not say when they are from.
    label : (n,) str array
        Answer; empty for unknown.
    probability : (n,) array
        Of the answer; of the most likely class where the answer is unknown.
    probabilities : (n, k) array
        Of each class.
    classes : tuple of str
    extra : dict of str to (n,) array
        More columns to write, by name, such as those of an explanation; merging drops them.
    origins : dict of str to (datetime or None, str)
        When each recording began, and the code of its patient.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_classes=2, random_state=0)
    >>> features = ContrastiveFeatures(decompose=PLC(rank=4))
    >>> timeline = ContrastiveClassifier(features, random_state=0).fit(rec).timeline(rec)
    >>> len(timeline), timeline.has_times, timeline.probabilities.shape
    (60, False, (60, 2))
    """

    recording: NDArray[np.str_]
    start_s: Array
    end_s: Array
    label: NDArray[np.str_]
    probability: Array
    probabilities: Array
    classes: tuple[str, ...]
    extra: dict[str, Array] = field(default_factory=dict)
    origins: dict[str, tuple[dt.datetime | None, str]] = field(default_factory=dict)

    @classmethod
    def from_answers(
        cls, rec: Recordings, labels: Array, probabilities: Array, classes: Sequence[Any]
    ) -> Timeline:
        """Put answers for windows next to their times.

        Parameters
        ----------
        rec : Recordings
            Its columns ``recording`` and ``start`` and its rate say when windows are from.
        labels : (n,) array
            Answers; −1, None and "" are unknown.
        probabilities : (n, k) array
        classes : sequence
            Classes in the order of ``probabilities``.
        """
        names = tuple(str(c) for c in classes)
        text = np.array(["" if v in (None, -1, "") else str(v) for v in labels.tolist()])
        place = {name: k for k, name in enumerate(names)}
        best = probabilities.argmax(axis=1)
        at = np.array([place.get(v, b) for v, b in zip(text.tolist(), best, strict=True)])
        source = rec.columns.get("recording", np.full(len(rec), rec.name or "recording"))
        start = np.full(len(rec), np.nan)
        if rec.fs is not None and "start" in rec.columns:
            start = np.asarray(rec.columns["start"], dtype=np.float64) / rec.fs
        names_of = np.asarray(source).astype(np.str_)
        first = np.unique(names_of, return_index=True)
        return cls(
            names_of,
            start,
            start + (np.nan if rec.fs is None else rec.n_times / rec.fs),
            text,
            probabilities[np.arange(len(at)), at],
            probabilities,
            names,
            origins={str(name): origin(rec, int(at)) for name, at in zip(*first, strict=True)},
        )

    def __len__(self) -> int:
        return len(self.label)

    @property
    def has_times(self) -> bool:
        """Whether all answers have a time."""
        return bool(np.isfinite(self.start_s).all())

    def check_times(self, what: str) -> None:
        """Raise where answers have no time, which ``what`` needs."""
        if not self.has_times:
            raise no_times(what)

    def merged(self) -> Timeline:
        """Join neighbouring windows with the same answer.

        Probabilities are means over the windows of a segment. Where windows overlap, a segment
        ends in the middle of what the last window of it and the first of the next share.
        """
        self.check_times("merging")
        order = np.lexsort((self.start_s, self.recording))
        source, label = self.recording[order], self.label[order]
        start, end = self.start_s[order], self.end_s[order]
        touching = (source[1:] == source[:-1]) & (start[1:] <= end[:-1] + 1e-6)
        first = np.concatenate([[True], ~touching | (label[1:] != label[:-1])])
        begin = np.flatnonzero(first)
        last = np.append(begin[1:], len(order)) - 1
        seg_start, seg_end = start[begin].copy(), end[last].copy()
        shared = touching[begin[1:] - 1]
        middle = (seg_end[:-1] + seg_start[1:]) / 2
        seg_end[:-1] = np.where(shared, middle, seg_end[:-1])
        seg_start[1:] = np.where(shared, middle, seg_start[1:])
        sizes = last - begin + 1
        return Timeline(
            source[begin],
            seg_start,
            seg_end,
            label[begin],
            np.add.reduceat(self.probability[order], begin) / sizes,
            np.add.reduceat(self.probabilities[order], begin, axis=0) / sizes[:, None],
            self.classes,
            origins=self.origins,
        )

    def by_recording(self) -> dict[str, Timeline]:
        """Return the answers of each recording, by its name."""
        names = ("recording", "start_s", "end_s", "label", "probability", "probabilities")
        return {
            name: replace(
                self,
                **{column: getattr(self, column)[self.recording == name] for column in names},
                extra={column: v[self.recording == name] for column, v in self.extra.items()},
            )
            for name in dict.fromkeys(self.recording.tolist())
        }

    def rows(self, *, probabilities: bool = False) -> list[dict[str, Any]]:
        """One dict per answer: recording, start_s, end_s, label, probability.

        Parameters
        ----------
        probabilities : bool, default=False
            Also give the probability of each class, as ``p_`` with its name.
        """
        columns = self._columns(probabilities)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _columns(self, probabilities: bool) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {
            "recording": self.recording.tolist(),
            "start_s": [_or_none(v, 6) for v in self.start_s.tolist()],
            "end_s": [_or_none(v, 6) for v in self.end_s.tolist()],
            **self._clock(),
            "label": [v or None for v in self.label.tolist()],
            "probability": [round(v, 6) for v in self.probability.tolist()],
        }
        if probabilities:
            for name, values in zip(self.classes, self.probabilities.T, strict=True):
                out[f"p_{name}"] = [round(v, 6) for v in values.tolist()]
        for name, values in self.extra.items():
            out[name] = [v if isinstance(v, str) else round(v, 6) for v in values.tolist()]
        return out

    def _clock(self) -> dict[str, list[Any]]:
        """Dates and times at which answers begin, where recordings say when they began."""
        starts = {name: start for name, (start, _) in self.origins.items() if start is not None}
        if not starts or not self.has_times:
            return {}
        pairs = zip(self.recording.tolist(), self.start_s.tolist(), strict=True)
        return {
            "start_time": [
                (starts[name] + dt.timedelta(seconds=s)).isoformat() if name in starts else None
                for name, s in pairs
            ]
        }

    def write(self, path: str | Path, *, probabilities: bool = False) -> Path:
        """Write the answers; the name says the format, whole or not at all.

        Parameters
        ----------
        path : path
            ``.csv``, ``.tsv``, ``.json``, ``.parquet``; or ``.edf``: EDF+ annotations of one
            recording, which ``mne.read_annotations`` and EDF viewers read. Annotations are merged
            segments, and there is none where the answer is unknown. Onsets count from the start of
            the recording.
        probabilities : bool, default=False
            Also write the probability of each class; not with annotations.
        """
        path = Path(path).expanduser()
        kind = check_format(path)
        if kind == ANNOTATIONS:
            notes = self._annotations(path)
            content = annotations_file(notes, *self.origins.get(str(self.recording[0]), (None, "")))
        elif kind == ".json":
            data = {
                "classes": list(self.classes),
                "answers": self.rows(probabilities=probabilities),
            }
            content = (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
        elif kind == ".parquet":
            content = _parquet(self._columns(probabilities))
        else:
            content = _table(self._columns(probabilities), "\t" if kind == ".tsv" else ",")
        with atomic_write(path) as stream:
            stream.write(content)
        return path

    def _annotations(self, path: Path) -> list[tuple[float, float, str]]:
        """Onset, duration and text of the segments of one recording that have an answer."""
        self.check_times(".edf (annotations)")
        names = list(dict.fromkeys(self.recording.tolist()))
        if len(names) > 1:
            raise InvalidInputError(
                f"{path.name}: a file of annotations is of one recording, but there are "
                f"{len(names)}: {listed(names, 4)}; write one file each, or all as .csv"
            )
        merged = self.merged()
        return [
            (round(float(a), 6), round(float(b - a), 6), str(label))
            for a, b, label in zip(merged.start_s, merged.end_s, merged.label, strict=True)
            if label
        ]


def no_times(what: str) -> InvalidInputError:
    """Make the error of answers without times, which ``what`` needs."""
    return InvalidInputError(
        f"{what} needs times, but the windows do not say when they are from; use continuous "
        "recordings of a known rate (pass fs=), or write one row per window"
    )


def check_format(path: Path) -> str:
    """Return the format that a name asks for; raise where there is none, or a package lacks."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise FileError(
            f"{path.name}: answers are written as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; give "
            "such a name"
        )
    if suffix == ANNOTATIONS:
        optional("edfio", "data")
    if suffix == ".parquet":
        optional("pyarrow.parquet", "data")
    return suffix


def _or_none(value: float, digits: int) -> float | None:
    return round(value, digits) if np.isfinite(value) else None


def _table(columns: dict[str, list[Any]], delimiter: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(csv_text, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow([csv_text(v) if isinstance(v, str) else v for v in row])
    return text.getvalue().encode()


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    pyarrow, parquet = optional("pyarrow", "data"), optional("pyarrow.parquet", "data")
    kinds = {name: pyarrow.string() for name in ("recording", "label", "against", "start_time")}
    table = pyarrow.table(
        {
            name: pyarrow.array(values, type=kinds.get(name, pyarrow.float64()))
            for name, values in columns.items()
        }
    )
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()
