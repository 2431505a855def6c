"""The archive: many small data sets, few labels, strong peers, one protocol for all.

Thirteen sets of ``TENSORCONTRAST_DATA/archive`` with UCI HAR, Sleep-EDF, PTB-XL and the embedded
smartwatch recordings, or any folder of ``.npz`` and ``.ts`` files.

Half of the sets are for choosing between methods and settings, the others for reporting. The rule
was written down before the first fit: the names are sorted without regard to case; the first,
third, fifth … are for choosing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tensorcontrast.errors import DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate.benchmark import Benchmark, Budget, Dataset, Method
from tensorcontrast.readers.ts import TEST_SUFFIX, TRAIN_SUFFIX

__all__ = [
    "BASELINE",
    "BUDGETS",
    "HALVES",
    "LABEL_METHODS",
    "METHODS",
    "NAMES",
    "archive_benchmark",
    "archive_folder",
    "choosing",
    "folder_sets",
    "of_half",
]

Entry = TypeVar("Entry", Dataset, Method)

HALVES = ("choosing", "reporting", "all")

BUDGETS: tuple[Budget, ...] = (10, 30, 60, "100%")

#: Sets of the folder ``archive`` in the data folder.
FILES = (
    "BasicMotions",
    "Epilepsy",
    "FingerMovements",
    "GunPoint",
    "Handwriting",
    "ItalyPowerDemand",
    "JapaneseVowels_eq",
    "Libras",
    "mitbih_beats",
    "myo_emg",
    "RacketSports",
    "UWaveGestureLibrary",
    "wisdm_watch",
)

#: Public sets.
_PUBLIC = (
    Dataset("HAR", "har", split="official"),
    # A few records have artefacts of 30 mV; no heart makes 5.
    Dataset("PTB-XL", "ptb-xl", clip=5.0),
    Dataset("Sleep-EDF", "sleep-edf"),
    # Three of the ten people to test on: one alone is chance.
    Dataset("Smartwatch", "watch", fractions=(0.5, 0.2, 0.3)),
)

NAMES: tuple[str, ...] = tuple(
    sorted((*FILES, *(dataset.label for dataset in _PUBLIC)), key=str.casefold)
)

#: What the others are compared with.
BASELINE = "PLC"

METHODS = (
    Method(BASELINE, "plc"),
    Method("CPD", "cpd"),
    Method("ATD", "atd"),
    Method("PLC (paper)", "plc-paper"),
    Method("PCA", "pca", note="of the same tensors"),
    Method("PCA of MiniRocket", "minirocket-pca"),
    Method("MiniRocket + ridge", "minirocket", note="9,996 features"),
    Method("MultiRocket-Hydra", "multirocket-hydra", note="ridge classifier"),
    Method("QUANT + trees", "quant", note="200 extremely randomised trees"),
    Method("Catch22", "catch22", note="random forest of 200 trees"),
    Method("Random encoder", "random", note="random factors of the same size"),
)

#: PLC with the drawn labels in its graph, and on the same windows without them.
LABEL_METHODS = (
    Method("PLC, labels in the graph", "plc", labels_in_graph="drawn"),
    Method("PLC, labels hidden", "plc", labels_in_graph="hidden"),
)


def choosing(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the half that is for choosing: every other one, sorted without case.

    Examples
    --------
    >>> choosing(["b", "A", "d", "C"])
    ('A', 'C')
    """
    return tuple(sorted(names, key=lambda name: (name.casefold(), name))[::2])


def of_half(names: Sequence[str], half: str) -> tuple[str, ...]:
    """Return the names of a half, in the order given.

    Examples
    --------
    >>> of_half(["b", "A", "d", "C"], "reporting")
    ('b', 'd')
    """
    if half not in HALVES:
        raise InvalidInputError(f"no half {half!r}; there are {', '.join(HALVES)}")
    if half == "all":
        return tuple(names)
    chosen = set(choosing(names))
    return tuple(name for name in names if (name in chosen) == (half == "choosing"))


def archive_folder() -> Path:
    """Return the folder of the thirteen sets, which may not exist."""
    base = os.environ.get("TENSORCONTRAST_DATA")
    return Path(base).expanduser() / "archive" if base else Path("archive")


def folder_sets(folder: str | Path) -> list[Dataset]:
    """Find the data sets of a folder and of those in it.

    ``NAME.npz`` is a set, and ``NAME_TRAIN.ts`` with ``NAME_TEST.ts`` is one.
    """
    where = Path(folder).expanduser()
    if not where.is_dir():
        raise DataNotFoundError(f"{where}: no such folder of data sets")
    found: dict[str, Path] = {}
    for path in sorted([*where.rglob("*.npz"), *where.rglob(f"*{TRAIN_SUFFIX}")]):
        name = path.name.removesuffix(TRAIN_SUFFIX).removesuffix(".npz")
        if name in found:
            raise InvalidInputError(
                f"{where}: the set {name!r} is there twice, as {found[name].relative_to(where)} "
                f"and {path.relative_to(where)}; rename or remove one"
            )
        other = path.with_name(name + TEST_SUFFIX)
        if path.suffix == ".ts" and not other.is_file():
            raise DataNotFoundError(f"{path}: the test windows, {other.name}, are not next to it")
        found[name] = path
    if not found:
        raise DataNotFoundError(
            f"{where}: holds no data set; NAME.npz or NAME{TRAIN_SUFFIX} with NAME{TEST_SUFFIX} "
            "are looked for, in folders inside as well"
        )
    return [_of_file(name, found[name]) for name in sorted(found, key=str.casefold)]


def _of_file(name: str, path: Path) -> Dataset:
    return Dataset(name, name, str(path), split="train-test")


def archive_benchmark(
    folder: str | Path | None = None,
    *,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    half: str = "all",
    labels_in_graph: bool = False,
    seeds: Sequence[int] = (0, 1, 2, 3),
    budgets: Sequence[Budget] = BUDGETS,
) -> Benchmark:
    """Return the benchmark, or a part of it.

    Parameters
    ----------
    folder : path, optional
        A folder of data sets (:func:`folder_sets`) instead of the seventeen.
    sets, methods : sequences of str, optional
        Names of data sets and methods, case aside; all by default.
    half : {"all", "choosing", "reporting"}
        Of the sets. Halves are those of all sets of the folder, whatever ``sets`` asks for.
    labels_in_graph : bool, default=False
        Compare PLC with and without labels in its graph, instead of the methods.
    seeds, budgets : sequences

    Examples
    --------
    >>> found = archive_benchmark(sets=["har", "GunPoint"], methods=["plc", "CPD"])
    >>> [d.label for d in found.datasets], [m.label for m in found.methods]
    (['GunPoint', 'HAR'], ['PLC', 'CPD'])
    """
    found = folder_sets(folder) if folder is not None else _own_sets()
    first = choosing(dataset.label for dataset in found)
    found = [replace(d, half="choosing" if d.label in first else "reporting") for d in found]
    half_names = of_half([dataset.label for dataset in found], half)
    chosen = [d for d in _picked(found, sets, "data set") if d.label in half_names]
    if not chosen:
        raise InvalidInputError(
            f"none of the data sets {', '.join(sets or ())} is in the {half} half, which has "
            f"{', '.join(half_names) or 'none'}"
        )
    picked = _picked(LABEL_METHODS if labels_in_graph else METHODS, methods, "method")
    return Benchmark(chosen, picked, seeds, budgets, fit_budgets=True)


def require(datasets: Iterable[Dataset]) -> None:
    """Raise an error that says what to do where files of the archive are missing."""
    absent = [d.label for d in datasets if d.path is not None and not Path(d.path).is_file()]
    if absent:
        raise DataNotFoundError(
            f"archive: no files of {', '.join(absent)} in {archive_folder()}; set the environment "
            "variable TENSORCONTRAST_DATA to the folder that has archive/NAME.npz, name other sets "
            "(--sets), or another folder of .npz or .ts files (--folder)"
        )


def _own_sets() -> list[Dataset]:
    folder = archive_folder()
    found = [*(_of_file(name, folder / f"{name}.npz") for name in FILES), *_PUBLIC]
    return sorted(found, key=lambda dataset: dataset.label.casefold())


def _picked(entries: Sequence[Entry], wanted: Sequence[str] | None, kind: str) -> list[Entry]:
    if wanted is None:
        return list(entries)
    labels = set()
    for name in wanted:
        same = [e.label for e in entries if name.strip().casefold() in _names(e)]
        if not same:
            there = ", ".join(entry.label for entry in entries)
            raise InvalidInputError(f"no {kind} {name!r}; there are {there}")
        labels.add(same[0])
    return [entry for entry in entries if entry.label in labels]


def _names(entry: Dataset | Method) -> tuple[str, str]:
    return entry.name.casefold(), entry.label.casefold()
