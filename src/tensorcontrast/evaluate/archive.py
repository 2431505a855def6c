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
from pathlib import Path
from typing import Any, Literal

from tensorcontrast.errors import DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig
from tensorcontrast.evaluate.toml_config import near
from tensorcontrast.readers.ts import TEST_SUFFIX, TRAIN_SUFFIX

__all__ = [
    "BASELINE",
    "BUDGETS",
    "HALVES",
    "LABEL_METHODS",
    "METHODS",
    "NAMES",
    "archive_config",
    "archive_folder",
    "choosing",
    "folder_sets",
    "of_half",
]

Half = Literal["choosing", "reporting", "all"]
HALVES: tuple[Half, ...] = ("choosing", "reporting", "all")

BUDGETS: tuple[int | str, ...] = (10, 30, 60, "100%")

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

#: Public sets with the splits of the presets "accuracy" and "demo".
_PUBLIC: tuple[dict[str, Any], ...] = (
    {"name": "har", "label": "HAR", "split": "official"},
    {"name": "ptb-xl", "label": "PTB-XL", "split": "subject", "clip": 5.0},
    {"name": "sleep-edf", "label": "Sleep-EDF", "split": "subject"},
    {
        "name": "watch",
        "label": "Smartwatch",
        "split": "subject",
        "fractions": [0.5, 0.2, 0.3],  # three of the ten people to test on: one alone is chance
    },
)

NAMES: tuple[str, ...] = tuple(
    sorted((*FILES, *(entry["label"] for entry in _PUBLIC)), key=str.casefold)
)

#: What the others are compared with.
BASELINE = "PLC"

METHODS: tuple[dict[str, Any], ...] = (
    {"name": "plc", "label": BASELINE},
    {"name": "cpd", "label": "CPD"},
    {"name": "atd", "label": "ATD"},
    {"name": "plc-paper", "label": "PLC (paper)"},
    {"name": "pca", "label": "PCA", "note": "of the same tensors"},
    {"name": "minirocket-pca", "label": "PCA of MiniRocket"},
    {"name": "minirocket", "label": "MiniRocket + ridge", "note": "9,996 features"},
    {"name": "multirocket-hydra", "label": "MultiRocket-Hydra", "note": "ridge classifier"},
    {"name": "quant", "label": "QUANT + trees", "note": "200 extremely randomised trees"},
    {"name": "catch22", "label": "Catch22", "note": "random forest of 200 trees"},
    {"name": "random", "label": "Random encoder", "note": "random factors of the same size"},
)


#: PLC with the drawn labels in its graph, and on the same windows without them.
LABEL_METHODS: tuple[dict[str, Any], ...] = (
    {"name": "plc", "label": "PLC, labels in the graph", "labels_in_graph": "drawn"},
    {"name": "plc", "label": "PLC, labels hidden", "labels_in_graph": "hidden"},
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


def folder_sets(folder: str | Path) -> list[dict[str, Any]]:
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
    return [_entry(name, found[name]) for name in sorted(found, key=str.casefold)]


def _entry(name: str, path: Path) -> dict[str, Any]:
    known = {"name": name, "label": name, "path": str(path), "split": "train-test"}
    return {**known, "format": "npz"} if path.suffix == ".npz" else known


def archive_config(
    folder: str | Path | None = None,
    *,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    half: str = "all",
    labels_in_graph: bool = False,
    **changes: Any,
) -> BenchConfig:
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
    **changes : Any
        Fields of :class:`BenchConfig`, such as ``seeds`` and ``budgets``.

    Examples
    --------
    >>> config = archive_config(sets=["har", "GunPoint"], methods=["plc", "CPD"], seeds=1)
    >>> [d.label for d in config.datasets], [m.label for m in config.methods]
    (['GunPoint', 'HAR'], ['PLC', 'CPD'])
    """
    entries = folder_sets(folder) if folder is not None else _own_sets()
    half_names = of_half([entry["label"] for entry in entries], half)
    for entry in entries:
        first = entry["label"] in choosing(e["label"] for e in entries)
        entry["half"] = "choosing" if first else "reporting"
    wanted = _picked(entries, sets, "data set")
    datasets = [entry for entry in wanted if entry["label"] in half_names]
    if not datasets:
        raise InvalidInputError(
            f"none of the data sets {', '.join(sets or ())} is in the {half} half, which has "
            f"{', '.join(half_names) or 'none'}"
        )
    data = {
        "title": "Archive",
        "datasets": datasets,
        "methods": _picked(LABEL_METHODS if labels_in_graph else METHODS, methods, "method"),
        "seeds": 4,
        "budgets": list(BUDGETS),
        "draws": 6,
        "fit_budgets": True,
    }
    return BenchConfig.from_data({**data, **changes}, "archive")


def require(datasets: Iterable[DatasetConfig]) -> None:
    """Raise an error that says what to do where files of the archive are missing."""
    absent = [d.label for d in datasets if d.path is not None and not Path(d.path).is_file()]
    if absent:
        raise DataNotFoundError(
            f"archive: no files of {', '.join(absent)} in {archive_folder()}; set the environment "
            "variable TENSORCONTRAST_DATA to the folder that has archive/NAME.npz, name other sets "
            "(--sets), or another folder of .npz or .ts files (--folder)"
        )


def _own_sets() -> list[dict[str, Any]]:
    folder = archive_folder()
    entries = [_entry(name, folder / f"{name}.npz") for name in FILES]
    entries += [dict(entry) for entry in _PUBLIC]
    return sorted(entries, key=lambda entry: str(entry["label"]).casefold())


def _picked(
    entries: Sequence[dict[str, Any]], wanted: Sequence[str] | None, kind: str
) -> list[dict[str, Any]]:
    if wanted is None:
        return list(entries)
    known = {n.casefold(): e["label"] for e in entries for n in (e["name"], e["label"])}
    labels = set()
    for name in wanted:
        if name.strip().casefold() not in known:
            there = [entry["label"] for entry in entries]
            raise InvalidInputError(f"no {kind} {name!r}; {near(name, there)}")
        labels.add(known[name.strip().casefold()])
    return [entry for entry in entries if entry["label"] in labels]
