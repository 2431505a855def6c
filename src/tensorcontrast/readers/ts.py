"""The ``.ts`` format of the UEA and UCR time series archives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import DamagedFileError, FileError, ForeignFileError, TruncatedFileError
from tensorcontrast.readers.files import existing, file_errors
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.names import listed

#: How the archives call the file of the training windows; that of the tests ends likewise.
TRAIN_SUFFIX, TEST_SUFFIX = "_TRAIN.ts", "_TEST.ts"


def read_ts_pair(
    path: str | Path,
    *,
    fs: float | None = None,
    channels: Sequence[str] | None = None,
    allow_nan: bool = False,
) -> Recordings:
    """Read ``NAME_TRAIN.ts`` and ``NAME_TEST.ts`` as one: ``columns["split"]`` is 0 and 1.

    Parameters
    ----------
    path : path
        The file of the training windows; that of the test windows is next to it.
    fs, channels, allow_nan
        As in :func:`read_ts`.
    """
    first = Path(path)
    if not first.name.endswith(TRAIN_SUFFIX):
        raise FileError(f"{first}: the name of training windows ends in {TRAIN_SUFFIX}")
    second = first.with_name(first.name.removesuffix(TRAIN_SUFFIX) + TEST_SUFFIX)
    train, test = (
        read_ts(part, fs=fs, channels=channels, allow_nan=allow_nan) for part in (first, second)
    )
    if train.X.shape[1:] != test.X.shape[1:]:
        raise FileError(
            f"{second}: windows of shape {test.X.shape[1:]} (channel, time), but those of "
            f"{first.name} have {train.X.shape[1:]}; unequal lengths need cutting or padding first"
        )
    if train.y is None or test.y is None or train.classes is None or test.classes is None:
        raise FileError(f"{first if train.y is None else second}: has no classes (@classLabel)")
    classes = [*train.classes, *(name for name in test.classes if name not in train.classes)]
    code = np.array([classes.index(name) for name in test.classes])
    return Recordings(
        np.concatenate([train.X, test.X]),
        np.concatenate([train.y, code[test.y]]),
        fs=fs,
        channels=channels,
        classes=classes,
        columns={"split": np.repeat([0, 1], [len(train), len(test)])},
        name=first.name.removesuffix(TRAIN_SUFFIX),
        allow_nan=allow_nan,
    )


def read_ts(
    path: str | Path,
    *,
    fs: float | None = None,
    channels: Sequence[str] | None = None,
    allow_nan: bool = False,
) -> Recordings:
    """Read a ``.ts`` file: one sample a line, channels separated by ``:``, the class last.

    Parameters
    ----------
    path : path
        The file.
    fs : float, optional
        Samples per second, which the format does not hold.
    channels : sequence of str, optional
        Names for the channels, which the format does not hold.
    allow_nan : bool
        Accept missing values (``?``), which become NaN.
    """
    source = existing(path)
    with file_errors(source, ".ts"):
        try:
            text = source.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ForeignFileError(f"{source}: not a text file: {error}") from error
        lines = text.splitlines()
        header, first = _header(lines, source)
        classes = _classes(header, source)
        rows: list[npt.NDArray[np.float32]] = []
        labels: list[int] = []
        for number, line in enumerate(lines[first:], start=first + 1):
            stripped = line.strip()
            if not stripped or stripped[0] in "#%":
                continue
            fields = stripped.split(":")
            if classes is not None:
                label = fields.pop().strip()
                if label not in classes:
                    raise DamagedFileError(
                        f"{source} line {number}: ends with {label[:40]!r}, which is none of the "
                        f"classes {listed(classes)}"
                    )
                labels.append(classes.index(label))
            rows.append(_sample(fields, rows[0].shape if rows else None, source, number))
            if not allow_nan and np.isnan(rows[-1]).any():
                channel = int(np.flatnonzero(np.isnan(rows[-1]).any(axis=1))[0])
                raise FileError(
                    f"{source} line {number}: channel {channel} holds missing values (?); fill "
                    "them or pass allow_nan=True"
                )
        if not rows:
            raise TruncatedFileError(f"{source}: holds no samples after @data")
        _check_stated(header, rows[0].shape, source)
        return Recordings(
            np.stack(rows),
            np.asarray(labels) if classes is not None else None,
            fs=fs,
            channels=channels,
            classes=classes,
            name=header.get("problemname", source.stem),
            allow_nan=allow_nan,
        )


def _header(lines: list[str], where: Path) -> tuple[dict[str, str], int]:
    header: dict[str, str] = {}
    for number, line in enumerate(lines):
        stripped = line.strip()
        if not stripped or stripped[0] in "#%":
            continue
        if stripped[0] != "@":
            raise ForeignFileError(
                f"{where} line {number + 1}: {stripped[:40]!r} comes before @data; a .ts file "
                "starts with @ lines"
            )
        key, _, value = stripped[1:].partition(" ")
        if key.lower() == "data":
            if header.get("timestamps", "false").lower() == "true":
                raise FileError(
                    f"{where}: has time stamps (@timeStamps true), which are not read; resample "
                    "to a regular grid first"
                )
            return header, number + 1
        header[key.lower()] = value.strip()
    raise TruncatedFileError(f"{where}: ends after {len(lines)} lines without @data")


def _classes(header: dict[str, str], where: Path) -> list[str] | None:
    words = header.get("classlabel", "false").split()
    if words and words[0].lower() == "true":
        if len(words) < 2:
            raise DamagedFileError(f"{where}: @classLabel true lists no classes")
        return words[1:]
    if header.get("targetlabel", "false").lower().startswith("true"):
        raise FileError(
            f"{where}: is a regression problem (@targetLabel true), which has no classes"
        )
    return None


def _sample(
    fields: list[str], shape: tuple[int, ...] | None, where: Path, number: int
) -> npt.NDArray[np.float32]:
    if shape is not None and len(fields) != shape[0]:
        raise DamagedFileError(
            f"{where} line {number}: has {len(fields)} channels, but lines before have {shape[0]}"
        )
    values: list[npt.NDArray[np.float32]] = []
    for channel, field in enumerate(fields):
        place = f"{where} line {number}: channel {channel}"
        words = field.replace("?", "nan").split(",")
        length = shape[1] if shape is not None else len(values[0]) if values else len(words)
        if len(words) != length:
            raise FileError(
                f"{place} has {len(words)} points, but those before have {length}; unequal lengths "
                "need cutting or padding first"
            )
        try:
            with np.errstate(all="ignore"):
                values.append(np.array(words, dtype=np.float64).astype(np.float32))
        except ValueError as error:
            raise DamagedFileError(f"{place}: {error}") from None
        if np.isinf(values[-1]).any():
            word = words[int(np.isinf(values[-1]).argmax())]
            raise DamagedFileError(f"{place} holds {word[:40]!r}, out of the range of float32")
    if not values:
        raise DamagedFileError(f"{where} line {number}: holds no channels")
    return np.stack(values)


def _check_stated(header: dict[str, str], shape: tuple[int, ...], where: Path) -> None:
    sizes = {"dimensions": shape[0], "dimension": shape[0], "serieslength": shape[1]}
    for key, found in sizes.items():
        stated = header.get(key, "")
        if stated.isdigit() and int(stated) not in (0, found):
            raise DamagedFileError(
                f"{where}: the header says {key} {stated}, but the samples have {found}"
            )
    if header.get("univariate", "").lower() == "true" and shape[0] != 1:
        raise DamagedFileError(f"{where}: @univariate true, but samples have {shape[0]} channels")
