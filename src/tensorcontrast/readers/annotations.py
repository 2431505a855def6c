"""Annotations as labels: choosing them by their text, and finding the file that holds them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    InvalidInputError,
    TensorContrastError,
    TensorContrastWarning,
)
from tensorcontrast.readers.files import file_errors, is_glob, matching_files
from tensorcontrast.recordings.continuous import Continuous
from tensorcontrast.recordings.windows import Segment, check_segments
from tensorcontrast.utils.names import listed

__all__ = [
    "Labels",
    "annotation_files",
    "chosen_segments",
    "class_names",
    "partners",
    "with_annotations",
]

_MISSING = ("NAType", "NaTType")
#: Texts that stand for an unknown label in files.
UNKNOWN = {"", "-1", "-1.0", "nan", "na", "n/a", "none", "<na>", "nat", "null"}

#: How labels are chosen among annotations; see :func:`chosen_segments`.
Labels = str | Mapping[str, str]


def class_names(values: Sequence[Any]) -> list[Any]:
    """Labels of a column of a file: None for unknown ones, and ``1`` for ``1.0``.

    Examples
    --------
    >>> class_names(["walk", "NA", "1.0", 2.0, -1, None])
    ['walk', None, '1', '2', None, None]
    >>> class_names([1.0, 2.0, float("nan")])
    [1.0, 2.0, None]
    """
    values = [None if v is None or type(v).__name__ in _MISSING or v != v else v for v in values]
    if all(v is None or isinstance(v, Real | np.bool_) for v in values):
        return [None if v == -1 else v for v in values]
    return [None if v is None else class_name(str(v)) for v in values]


def class_name(text: str) -> str | None:
    """Class that a text names: None for unknown, and whole numbers without a decimal point."""
    if text.strip().lower() in UNKNOWN:
        return None
    return text.removesuffix(".0") if re.fullmatch(r"[+-]?\d+\.0", text) else text


def chosen_segments(
    where: object, annotations: Sequence[tuple[float, float, str]], labels: Labels
) -> list[Segment]:
    """Choose annotations by their text, and name the labels.

    Parameters
    ----------
    where : object
        What messages name.
    annotations : sequence of (onset, duration, text)
        In seconds.
    labels : "annotations", mapping or str
        ``"annotations"`` takes all texts as labels. A mapping takes the texts that are its keys and
        gives its values as labels. Any other text is a regular expression: annotations that match
        in full are taken, and the label is the part named ``label`` where there is one.

    Examples
    --------
    >>> stages = [(0, 30, "Sleep stage W"), (30, 60, "Sleep stage 2"), (40, 0, "Lights off")]
    >>> chosen_segments("night", stages, "Sleep stage (?P<label>.*)")
    [Segment(start=0, stop=30, label='W'), Segment(start=30, stop=90, label='2')]
    """
    texts = list(dict.fromkeys(text for _, _, text in annotations))
    names = _label_names(texts, labels)
    if not annotations:
        raise FileError(
            f"{where}: has no annotations to take labels from; leave labels= out, or pass "
            "annotations= (--annotations) the file that holds them"
        )
    if not names:
        raise FileError(
            f"{where}: no annotation matches labels={labels!r}; there are {listed(texts)}"
        )
    picked = [(a, d, names[text]) for a, d, text in annotations if text in names]
    segments = [Segment(onset, onset + duration, name) for onset, duration, name in picked]
    timed = [s for s in segments if math.isfinite(s.start) and s.stop >= s.start]
    if not any(s.stop > s.start for s in timed):
        raise FileError(
            f"{where}: the {len(picked)} annotations {listed(sorted(set(names)))} have no "
            "duration, so they cover no window; write durations into the file, or choose others "
            "with labels="
        )
    return timed


def _label_names(texts: list[str], labels: Labels) -> dict[str, str]:
    """Label of each text that is chosen."""
    if isinstance(labels, Mapping):
        return {text: str(labels[text]) for text in texts if text in labels}
    if labels == "annotations":
        return {text: text for text in texts if text.strip()}
    try:
        pattern = re.compile(labels)
    except re.error as error:
        raise InvalidInputError(
            f"labels={labels!r} is not a regular expression ({error}); write 'annotations' for all "
            "annotations, or a pattern such as 'Sleep stage (?P<label>.*)'"
        ) from error
    named = "label" in pattern.groupindex
    found = {text: match for text in texts if (match := pattern.fullmatch(text))}
    chosen = {text: (match["label"] if named else text) for text, match in found.items()}
    return {text: label for text, label in chosen.items() if label}


def _segments(
    where: object, read: Callable[[], Sequence[tuple[float, float, str]]], labels: Labels
) -> list[Segment] | TensorContrastError:
    """Chosen annotations of one recording of several, or the error that says why it has none.

    Files that are damaged raise at once.
    """
    try:
        annotations = read()
    except DataNotFoundError as error:
        return error
    try:
        return chosen_segments(where, annotations, labels)
    except FileError as error:
        return error


def annotation_files(annotations: str | Path, recording: Path) -> list[Path]:
    """Files that a path or pattern names, from the working folder or from that of a recording."""
    wanted = Path(annotations).expanduser()
    for place in (wanted, recording.parent / wanted):
        if is_glob(place):
            try:
                return matching_files(place)[1]
            except DataNotFoundError:
                continue
        if place.is_file():
            return [place]
    raise DataNotFoundError(
        f"{annotations}: no such file with annotations, neither here nor next to {recording}"
    )


def partners(recordings: Sequence[Path], candidates: Sequence[Path]) -> dict[Path, Path]:
    """File with the annotations of each recording: the one whose name begins most alike.

    Files in the folder of the recording are preferred. A recording without such a file has no
    entry. It is an error where two files fit equally well, or where two recordings have one file.
    """
    found: dict[Path, Path] = {}
    owner: dict[Path, Path] = {}
    for recording in recordings:
        near = [c for c in candidates if c.parent.resolve() == recording.parent.resolve()]
        alike = {c: _common_beginning(c.name, recording.name) for c in near or candidates}
        best = max(alike.values(), default=0)
        fitting = [c for c, length in alike.items() if length == best]
        if not fitting or (not best and len(recordings) > 1):
            continue
        if len(fitting) > 1:
            raise FileError(
                f"{recording}: the annotations may be in {listed([c.name for c in fitting])}; name "
                "one file with annotations="
            )
        partner = fitting[0]
        if partner in owner:
            raise FileError(
                f"{partner}: may hold the annotations of {owner[partner].name} and of "
                f"{recording.name}; the names of a recording and of its annotations must begin "
                "alike. Complete the pairs, or read one recording with annotations= its file"
            )
        owner[partner] = recording
        found[recording] = partner
    return found


def _common_beginning(a: str, b: str) -> int:
    """Count the characters with which both texts begin."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((k for k, (x, y) in pairs if x != y), min(len(a), len(b)))


#: Reads the annotations of a recording: onset and duration in seconds, and text.
ReadAnnotations = Callable[[], Sequence[tuple[float, float, str]]]


def with_annotations(
    source: object,
    recordings: Sequence[tuple[Continuous, Path, ReadAnnotations]],
    labels: Labels | None,
) -> list[Continuous]:
    """Return recordings with their annotations as labels.

    Parameters
    ----------
    source : object
        Of all recordings, for messages.
    recordings : sequence of (Continuous, path, callable)
        Each with the file of its annotations, and how these are read.
    labels
        Which annotations are labels; see :func:`chosen_segments`. None for no labels.
    """
    if labels is None:
        return [recording for recording, _, _ in recordings]
    out = []
    without: list[tuple[str, TensorContrastError]] = []
    for recording, file, read in recordings:
        segments = _segments(file, read, labels)
        if isinstance(segments, list):
            with file_errors(file, "annotations"):
                inside = check_segments(recording.name, segments, recording.n_times / recording.fs)
            fs = recording.fs
            samples = [Segment(s.start * fs, s.stop * fs, s.label) for s in inside]
            recording = replace(recording, segments=samples)
        else:
            without.append((recording.name, segments))
        out.append(recording)
    if len(without) == len(recordings):
        raise without[0][1]
    if without:
        warnings.warn(
            f"{source}: {len(without)} of {len(recordings)} recordings have no labels, such as "
            f"{without[0][0]} ({without[0][1]})",
            TensorContrastWarning,
            stacklevel=2,
        )
    return out
