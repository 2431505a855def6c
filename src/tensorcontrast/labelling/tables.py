"""Labels in and out: ``labels.csv`` as ``train`` reads it, and EDF+ annotations."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.labelling.views import WindowViews
from tensorcontrast.readers.edf import annotations_file
from tensorcontrast.readers.label_table import (
    LabelRow,
    annotation_rows,
    is_label_table,
    labels_by_time,
    origin,
    read_label_table,
)
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.names import csv_text, from_csv_text

__all__ = ["export_csv", "export_edf", "import_labels"]

Array = NDArray[Any]


def overlapping(views: WindowViews) -> bool:
    """Whether windows of one recording share samples."""
    if not views.timed or len(views.start) < 2:
        return False
    order = np.lexsort((views.start, views.recording))
    same = views.recording[order][1:] == views.recording[order][:-1]
    return bool((same & (np.diff(views.start[order]) < views.n_times)).any())


def export_csv(rec: Recordings, labels: Mapping[int, str]) -> bytes:
    """Table of labels with the columns recording, start_s, end_s and label.

    Where windows overlap, ``end_s`` stays empty: such a row labels the one window that begins at
    its start, whereas a stretch would label its neighbours as well. Windows that do not say when
    they are from are given by their number, in the column ``window``.
    """
    views = WindowViews(rec)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if not views.timed or rec.fs is None:
        writer.writerow(["window", "label"])
        writer.writerows((w, csv_text(labels[w])) for w in sorted(labels))
        return out.getvalue().encode()
    whole = not overlapping(views)
    writer.writerow(["recording", "start_s", "end_s", "label"])
    for w in sorted(labels):
        about = views.about(w)
        end = f"{about['end_s']:.10g}" if whole else ""
        name = csv_text(about["recording"])
        writer.writerow([name, f"{about['start_s']:.10g}", end, csv_text(labels[w])])
    return out.getvalue().encode()


def export_edf(rec: Recordings, labels: Mapping[int, str]) -> tuple[str, bytes]:
    """EDF+ annotations, one for each window: name and content of the file.

    Labels of several recordings are a zip file of one EDF+ file each.
    """
    views = WindowViews(rec)
    if not views.timed or rec.fs is None:
        raise InvalidInputError(
            "annotations need times, but the windows do not say when they are from; write the "
            "labels as CSV"
        )
    if not labels:
        raise InvalidInputError("there is no label yet, so that there is nothing to write")
    files: dict[str, list[tuple[float, float, str]]] = {}
    first: dict[str, int] = {}
    for w in sorted(labels):
        about = views.about(w)
        length = about["end_s"] - about["start_s"]
        one = (about["start_s"], round(length, 6), labels[w])
        files.setdefault(about["recording"], []).append(one)
        first.setdefault(about["recording"], w)
    made: dict[str, bytes] = {}
    for name, own in files.items():
        start, patient = origin(rec, first[name])
        made[_file_name(name, made)] = annotations_file(own, start, patient)
    if len(made) == 1:
        return next(iter(made.items()))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, content in made.items():
            stream.writestr(name, content)
    return "labels-edf.zip", archive.getvalue()


def _file_name(name: str, taken: Mapping[str, Any]) -> str:
    stem = re.sub(r"[^\w.-]+", "_", Path(name).stem, flags=re.ASCII).strip("._")[:80] or "recording"
    candidate, k = f"{stem}-labels.edf", 2
    while candidate in taken:
        candidate, k = f"{stem}-{k}-labels.edf", k + 1
    return candidate


def import_labels(rec: Recordings, path: Path) -> dict[int, str]:
    """Labels of windows from a table (``.csv``, ``.tsv``) or from EDF+ annotations.

    A row that begins and ends with a window labels this window alone. Any other one labels the
    windows that it covers by half or more. Annotations of an EDF+ file are of the recording that
    is named like the file, or of the only one.
    """
    views = WindowViews(rec)
    if path.suffix.lower() in (".edf", ".bdf"):
        rows = _edf_rows(path, views)
    elif is_label_table(path.name):
        numbered = _numbered(path, len(rec))
        if numbered is not None:
            return numbered
        rows = read_label_table(path)
    else:
        raise FileError(f"{path}: labels are read from .csv, .tsv and .edf files")
    length = rec.n_times / (rec.fs or 1.0)
    starts = set(np.round(views.start / (rec.fs or 1.0), 4).tolist())
    tolerance = 0.5 / (rec.fs or 1.0)
    rows = [
        replace(row, end_s=None)
        if row.end_s is not None
        and abs(row.end_s - row.start_s - length) < tolerance
        and round(row.start_s, 4) in starts
        else row
        for row in rows
    ]
    y, classes = labels_by_time(rec, rows, where=str(path))
    return {int(w): classes[y[w]] for w in np.flatnonzero(y >= 0)}


def _edf_rows(path: Path, views: WindowViews) -> list[LabelRow]:
    names = list(dict.fromkeys(views.recording.tolist()))
    stem = path.stem.removesuffix("-labels")
    own = [name for name in names if Path(name).stem == stem or _file_name(name, {}) == path.name]
    if len(names) > 1 and len(own) != 1:
        raise FileError(
            f"{path}: no recording is named {stem!r}, so that these annotations could be of any of "
            f"{len(names)}; give the file the name of its recording"
        )
    name = own[0] if own else names[0]
    return annotation_rows(path, name)


def _numbered(path: Path, n: int) -> dict[int, str] | None:
    """Labels of a table with the columns window and label; None where it is another table."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None  # read_label_table says what is wrong
    if not lines or [cell.strip().lower() for cell in lines[0]] != ["window", "label"]:
        return None
    texts = from_csv_text([line[1] if len(line) > 1 else "" for line in lines[1:]])
    out = {}
    for number, (line, text) in enumerate(zip(lines[1:], texts, strict=True), start=2):
        if not line or not text:
            continue
        window = int(line[0]) if line[0].isascii() and line[0].isdigit() else -1
        if not 0 <= window < n:
            raise FileError(f"{path}, line {number}: no window {line[0]!r}; there are 0 to {n - 1}")
        out[window] = text
    return out
