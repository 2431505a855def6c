"""PTB-XL: 12-lead electrocardiograms of 10 s with diagnoses."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorcontrast.datasets.download import extract_verified, fetch, read_sums
from tensorcontrast.datasets.registry import DATASETS, find_or_fetch
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
from tensorcontrast.utils.names import listed
from tensorcontrast.utils.optional import optional

__all__ = ["load_ptbxl"]

SUPERCLASSES = ("NORM", "MI", "STTC", "CD", "HYP")
SEXES = ("male", "female")
_DATABASE, _STATEMENTS = "ptbxl_database.csv", "scp_statements.csv"
_SECONDS = 10


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
    source = _source(path, data_home, download, sampling_rate)
    if source.suffix == ".npz":
        if sampling_rate != 100 or folds is not None:
            raise FileError(
                f"{source}: holds 100 Hz and no folds; sampling_rate=500 and folds= need the "
                "official folder"
            )
        rec = read_npz(source)
        if rec.classes != SUPERCLASSES or "sex" not in rec.columns:
            raise ForeignFileError(f"{source}: does not hold PTB-XL records")
        rec = rec._with(**DATASETS["ptb-xl"].credit)
        if target == "sex":
            rec = rec._with(y=rec.columns["sex"].astype(np.int64), classes=SEXES)
        return rec if channels is None else rec.select(channels=channels)

    file_column = "filename_lr" if sampling_rate == 100 else "filename_hr"
    table = _table(
        source / _DATABASE,
        ["sex", "strat_fold"],
        filled=["sex", "strat_fold", "scp_codes", "filename_lr", "filename_hr"],
        others=["patient_id", "age"],
    )
    with file_errors(source / _DATABASE, "the table of PTB-XL"):
        table = table.astype({"sex": np.int64, "strat_fold": np.int64})
        if folds is not None:
            table = table[table["strat_fold"].isin([int(fold) for fold in folds])]
        if target == "sex":
            y = table["sex"].to_numpy()
        else:
            y = _superclasses(table["scp_codes"], source, several)
        table, y = table[y >= 0], y[y >= 0]
        if not len(table):
            raise FileError(
                f"{source / _DATABASE}: no record is left with this choice of target and folds"
            )
        for name in table[file_column]:
            check_inside(name, source / _DATABASE)
        # Patients that are not known get numbers of their own.
        patient = table["patient_id"].to_numpy(np.float64)
        groups = np.where(np.isnan(patient), -1 - np.arange(len(patient)), patient)
        X, leads = _signals(source, table[file_column], sampling_rate, channels)
        return Recordings(
            X,
            y,
            groups=groups.astype(np.int64),
            fs=float(sampling_rate),
            channels=leads,
            classes=SEXES if target == "sex" else SUPERCLASSES,
            units="mV",
            columns={
                "fold": table["strat_fold"].to_numpy(),
                "age": table["age"].to_numpy(np.float64),
                "sex": table["sex"].to_numpy(),
                "ecg_id": table.index.to_numpy(np.int64),
            },
            **DATASETS["ptb-xl"].credit,
        )


def _source(path: str | Path | None, home: str | Path | None, download: bool, rate: int) -> Path:
    if path is None:
        places = [p for p in DATASETS["ptb-xl"].place if rate == 100 or not p.endswith(".npz")]
        return find_or_fetch(
            "ptb-xl",
            home,
            download,
            lambda folder: _download(folder, rate),
            only=places,
            holds=_DATABASE,
        )
    source = existing(path)
    if source.is_file() or (source / _DATABASE).is_file():
        return source
    inside = sorted(source.glob(f"*/{_DATABASE}"))
    if not inside:
        raise DataNotFoundError(f"{source}: holds no {_DATABASE}; give the folder of PTB-XL")
    return inside[0].parent


def _download(folder: Path, rate: int) -> Path:
    sums_file, archive = DATASETS["ptb-xl"].files
    sums = read_sums(fetch(sums_file.url, folder / sums_file.name, sums_file.sha256))
    zipped = fetch(archive.url, folder / archive.name, None)
    records = [name for name in sums if name.startswith(f"records{rate}/")]
    try:
        # The tables last: a folder that has them is complete.
        extract_verified(zipped, folder, sums, [*records, _STATEMENTS, _DATABASE])
    except FileError as error:
        zipped.unlink(missing_ok=True)
        raise DamagedFileError(f"{error}; the zip was thrown away, run again") from error
    return folder


def _table(file: Path, numbers: Sequence[str], filled: Sequence[str], others: Sequence[str]) -> Any:
    """Read a table of PTB-XL, in which no cell of the ``filled`` columns is empty."""
    if not file.is_file():
        raise DataNotFoundError(f"{file}: no such file, but PTB-XL needs it")
    pandas = optional("pandas", "data")
    with file_errors(file, "a table of PTB-XL"):
        table = pandas.read_csv(file, index_col=0, dtype={"scp_codes": str}, low_memory=False)
        absent = [name for name in (*filled, *others) if name not in table.columns]
        if absent:
            raise ForeignFileError(f"{file}: has no column {listed(absent)}")
        for name in numbers:
            table[name] = pandas.to_numeric(table[name], errors="coerce")
        for name in filled:
            if table[name].isna().any():
                row = table.index[table[name].isna()][0]
                raise DamagedFileError(
                    f"{file} {table.index.name} {row}: {name} is missing or not a number"
                )
    if not len(table):
        raise DamagedFileError(f"{file}: holds no records")
    return table


def _superclasses(codes: Any, source: Path, several: str) -> npt.NDArray[np.int64]:
    """Position of the superclass of each record, or -1 to leave it out."""
    statements = _table(source / _STATEMENTS, [], [], ["diagnostic", "diagnostic_class"])
    statements = statements[statements["diagnostic"] == 1]
    superclass = statements["diagnostic_class"].map(SUPERCLASSES.index).to_dict()
    y = np.full(len(codes), -1, dtype=np.int64)
    for k, (ecg_id, text) in enumerate(codes.items()):
        sums: dict[int, float] = {}
        try:
            for code, likelihood in ast.literal_eval(text).items():
                if code in superclass:
                    sums[superclass[code]] = sums.get(superclass[code], 0.0) + float(likelihood)
        except (ValueError, SyntaxError, AttributeError, TypeError, RecursionError, MemoryError):
            raise DamagedFileError(
                f"{source / _DATABASE} ecg_id {ecg_id}: scp_codes is {text[:60]!r}, not a table of "
                "statements"
            ) from None
        best = max(sums.values(), default=0.0)
        kept = [c for c, value in sums.items() if several == "drop" or value == best]
        if len(kept) == 1:
            y[k] = kept[0]
    return y


def _signals(
    folder: Path, names: Any, rate: int, channels: Sequence[str] | None
) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """Signals of records in mV, and their leads."""
    for k, name in enumerate(names):
        record = read_record(folder / name, channels=channels)
        if k == 0:
            leads = record.channels
            X = np.empty((len(names), len(leads), _SECONDS * rate), dtype=np.float32)
        if (record.channels, record.fs, record.n_times) != (leads, rate, X.shape[2]):
            raise FileError(
                f"{folder / name}: has leads {record.channels}, {record.n_times} points at "
                f"{record.fs:g} Hz, but {leads}, {X.shape[2]} points at {rate} Hz are expected"
            )
        X[k] = record.pieces[0][1]
    return X, leads
