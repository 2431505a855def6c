"""PTB-XL: 12-lead electrocardiograms of 10 s with diagnoses."""

from __future__ import annotations

import ast
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorcontrast.datasets.download import extract_verified, fetch, read_sums
from tensorcontrast.datasets.registry import DATASETS, data_home, find_data, not_found
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
)
from tensorcontrast.readers.files import check_inside, existing, file_errors
from tensorcontrast.readers.npz import read_npz
from tensorcontrast.readers.wfdb_records import read_record
from tensorcontrast.recordings import Recordings

__all__ = ["load_ptbxl"]

SUPERCLASSES = ("NORM", "MI", "STTC", "CD", "HYP")
SEXES = ("male", "female")
_DATABASE, _STATEMENTS = "ptbxl_database.csv", "scp_statements.csv"
_POINTS = 10  # seconds


def load_ptbxl(
    path: str | Path | None = None,
    *,
    data_home: str | Path | None = None,
    download: bool = True,
    target: Literal["superclass", "sex"] = "superclass",
    several: Literal["drop", "likelihood"] = "drop",
    sampling_rate: Literal[100, 500] = 100,
    folds: Sequence[int] | None = None,
    channels: Sequence[str] | None = None,
) -> Recordings:
    """Load PTB-XL electrocardiograms.

    Parameters
    ----------
    path : path, optional
        The official folder (``ptbxl_database.csv``, ``scp_statements.csv``, ``records100`` or
        ``records500``), or ``ptbxl_100hz.npz``. By default they are looked for as described in
        :mod:`tensorcontrast.datasets.registry`.
    data_home : path, optional
        Cache folder.
    download : bool
        Fetch the official zip (1.8 GB) if nothing is there; its files are unpacked and compared
        with the published checksums.
    target : {"superclass", "sex"}
        The class: diagnostic superclass (NORM, MI, STTC, CD, HYP) or sex.
    several : {"drop", "likelihood"}
        Records with statements of more than one superclass: drop them, or take the superclass
        with the largest sum of likelihoods (and drop ties). A likelihood of 0 means unknown in
        PTB-XL: such a statement counts as one of its superclass, but adds nothing to the sum.
        Records without a diagnostic statement are dropped either way.
    sampling_rate : {100, 500}
        Which of the two official versions to read.
    folds : sequence of int, optional
        Official folds (1 to 10) to keep; by default all. 1 to 8 are meant for training, 9 for
        validation, 10 for testing.
    channels : sequence of str, optional
        Leads to read; by default all twelve.

    Returns
    -------
    Recordings
        In mV. Group = patient (negative and unique where unknown); columns ``fold``, ``age``
        (300 stands for over 89), ``sex`` (0 = male, 1 = female) and ``ecg_id``. From the npz:
        ``split`` (0 = folds 1 to 8, 1 = fold 9) in place of ``fold`` and ``ecg_id``.

    Examples
    --------
    >>> rec = load_ptbxl(folds=[9])  # doctest: +SKIP
    >>> rec.classes  # doctest: +SKIP
    ('NORM', 'MI', 'STTC', 'CD', 'HYP')
    """
    if target not in ("superclass", "sex"):
        raise InvalidInputError(f"target={target!r} is neither 'superclass' nor 'sex'")
    if several not in ("drop", "likelihood"):
        raise InvalidInputError(f"several={several!r} is neither 'drop' nor 'likelihood'")
    if sampling_rate not in (100, 500):
        raise InvalidInputError(f"sampling_rate={sampling_rate} is neither 100 nor 500")
    source = _find(path, data_home, download, sampling_rate)
    if source.suffix == ".npz":
        return _from_npz(source, target, sampling_rate, folds, channels)
    return _from_folder(source, target, several, sampling_rate, folds, channels)


def _find(path: str | Path | None, home: str | Path | None, download: bool, rate: int) -> Path:
    if path is not None:
        given = existing(path)
        if given.is_dir() and not (given / _DATABASE).is_file():
            inside = sorted(given.glob(f"*/{_DATABASE}"))
            if not inside:
                raise DataNotFoundError(
                    f"{given}: holds no {_DATABASE}; give the official folder of PTB-XL"
                )
            return inside[0].parent
        return given
    places = [p for p in DATASETS["ptb-xl"].place if rate == 100 or not p.endswith(".npz")]
    found = find_data("ptb-xl", home, only=places)
    if found is not None and (found.is_file() or (found / _DATABASE).is_file()):
        return found
    if not download:
        raise not_found("ptb-xl", home)
    return _download(home, rate)


def _download(home: str | Path | None, rate: int) -> Path:
    folder = data_home(home) / "ptb-xl"
    sums_file, archive = DATASETS["ptb-xl"].files
    try:
        sums = read_sums(fetch(sums_file.url, folder / sums_file.name, sums_file.sha256))
        zipped = fetch(archive.url, folder / archive.name, None)
    except DataNotFoundError as error:
        raise not_found("ptb-xl", home, str(error)) from error
    wanted = [n for n in sums if n.startswith(f"records{rate}/")]
    try:
        # The tables last: a folder that has them is complete.
        extract_verified(zipped, folder, sums, [*wanted, _STATEMENTS, _DATABASE])
    except FileError as error:
        zipped.unlink(missing_ok=True)
        raise DamagedFileError(f"{error}; the zip was thrown away, run again") from error
    return folder


def _from_npz(
    source: Path, target: str, rate: int, folds: Sequence[int] | None, channels: Any
) -> Recordings:
    if rate != 100 or folds is not None:
        raise FileError(
            f"{source}: holds 100 Hz and no folds; sampling_rate=500 and folds= need the official "
            "folder"
        )
    rec = read_npz(source)
    if rec.classes != SUPERCLASSES or "sex" not in rec.columns:
        raise ForeignFileError(f"{source}: does not hold PTB-XL records")
    entry = DATASETS["ptb-xl"]
    rec = rec._with(name=entry.name, citation=entry.citation, licence=entry.licence)
    if target == "sex":
        rec = rec._with(y=rec.columns["sex"].astype(np.int64), classes=SEXES)
    return rec if channels is None else rec.select(channels=channels)


def _from_folder(
    folder: Path,
    target: str,
    several: str,
    rate: int,
    folds: Sequence[int] | None,
    channels: Sequence[str] | None,
) -> Recordings:
    database = folder / _DATABASE
    with file_errors(database, "the table of PTB-XL"):
        rows = _rows(database)
        if folds is not None:
            wanted = {int(fold) for fold in folds}
            rows = [row for row in rows if int(float(row["strat_fold"])) in wanted]
        if target == "sex":
            labels = [_whole(row, "sex", database) for row in rows]
            classes: tuple[str, ...] = SEXES
        else:
            superclass = _superclasses(folder / _STATEMENTS)
            labels = [_superclass(row, superclass, several, database) for row in rows]
            classes = SUPERCLASSES
        kept = [(row, label) for row, label in zip(rows, labels, strict=True) if label >= 0]
        if not kept:
            raise FileError(f"{database}: no record is left with this choice of target and folds")
        column = "filename_lr" if rate == 100 else "filename_hr"
        for row, _ in kept:
            check_inside(row[column], database)
        first = read_record(folder / kept[0][0][column], channels=channels)
        X = np.empty((len(kept), len(first.channels), _POINTS * rate), dtype=np.float32)
        for k, (row, _) in enumerate(kept):
            record = read_record(folder / row[column], channels=channels)
            if record.channels != first.channels or record.fs != rate:
                raise FileError(
                    f"{folder / row[column]}: has leads {record.channels} at {record.fs:g} Hz, but "
                    f"{first.channels} at {rate} Hz are expected"
                )
            if record.n_times != X.shape[2] or len(record.pieces) > 1:
                raise FileError(
                    f"{folder / row[column]}: has {record.n_times} points, not {X.shape[2]}"
                )
            X[k] = record.pieces[0][1]
        table = [row for row, _ in kept]
        entry = DATASETS["ptb-xl"]
        return Recordings(
            X,
            np.asarray([label for _, label in kept]),
            groups=_patients(table),
            fs=float(rate),
            channels=first.channels,
            classes=classes,
            units="mV",
            columns={
                "fold": np.asarray([_whole(row, "strat_fold", database) for row in table]),
                "age": np.asarray([float(row["age"] or "nan") for row in table]),
                "sex": np.asarray([_whole(row, "sex", database) for row in table]),
                "ecg_id": np.asarray([_whole(row, "ecg_id", database) for row in table]),
            },
            name=entry.name,
            citation=entry.citation,
            licence=entry.licence,
        )


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        raise DataNotFoundError(f"{file}: no such file, but PTB-XL needs it")
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        needed = {"ecg_id", "patient_id", "age", "sex", "scp_codes", "strat_fold"}
        needed |= {"filename_lr", "filename_hr"}
        absent = sorted(needed - set(reader.fieldnames or []))
        if absent:
            raise ForeignFileError(f"{file}: has no column {', '.join(absent)}")
        rows = []
        for row in reader:
            if None in row or any(row[key] is None for key in needed):
                raise DamagedFileError(f"{file} line {reader.line_num}: is cut off or too long")
            rows.append(row)
    if not rows:
        raise DamagedFileError(f"{file}: holds no records")
    return rows


def _whole(row: dict[str, str], key: str, where: Path) -> int:
    try:
        return int(float(row[key]))
    except ValueError:
        raise DamagedFileError(
            f"{where} ecg_id {row['ecg_id']}: {key} is {row[key]!r}, not a number"
        ) from None


def _superclasses(file: Path) -> dict[str, str]:
    """Superclass of each diagnostic statement."""
    if not file.is_file():
        raise DataNotFoundError(f"{file}: no such file, but PTB-XL needs it")
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        names = reader.fieldnames or []
        if not {"diagnostic", "diagnostic_class"} <= set(names):
            raise ForeignFileError(f"{file}: has no columns diagnostic and diagnostic_class")
        return {
            row[names[0]]: row["diagnostic_class"]
            for row in reader
            if row["diagnostic"] and float(row["diagnostic"]) == 1
        }


def _superclass(row: dict[str, str], superclass: dict[str, str], several: str, where: Path) -> int:
    """Position of the superclass of a record, or -1 to leave it out."""
    try:
        codes = ast.literal_eval(row["scp_codes"])
        sums: dict[str, float] = {}
        for code, likelihood in codes.items():
            if code in superclass:
                name = superclass[code]
                sums[name] = sums.get(name, 0.0) + float(likelihood)
    except (ValueError, SyntaxError, AttributeError, TypeError, RecursionError, MemoryError):
        raise DamagedFileError(
            f"{where} ecg_id {row['ecg_id']}: scp_codes is {row['scp_codes'][:60]!r}, not a table "
            "of statements"
        ) from None
    if len(sums) > 1 and several == "likelihood":
        best = max(sums.values())
        sums = {name: value for name, value in sums.items() if value == best}
    if len(sums) != 1:
        return -1
    name = next(iter(sums))
    if name not in SUPERCLASSES:
        raise DamagedFileError(f"{where} ecg_id {row['ecg_id']}: unknown superclass {name!r}")
    return SUPERCLASSES.index(name)


def _patients(rows: list[dict[str, str]]) -> npt.NDArray[np.int64]:
    ids = [int(float(row["patient_id"])) if row["patient_id"] else None for row in rows]
    return np.asarray([-1 - k if i is None else i for k, i in enumerate(ids)], dtype=np.int64)
