"""What a benchmark run computes: data sets × methods × seeds × label budgets, as checked data.

Configurations come from TOML files (:func:`load_config`), from
:func:`tensorcontrast.evaluate.presets.preset`, or from Python.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    field_validator,
    model_validator,
)

from tensorcontrast.datasets.registry import DATASETS
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate import kinds
from tensorcontrast.evaluate.paper import SHAPES
from tensorcontrast.evaluate.toml_config import check_data, fault, load_toml, near
from tensorcontrast.utils.names import listed

__all__ = [
    "BenchConfig",
    "DatasetConfig",
    "MethodConfig",
    "TuneConfig",
    "load_config",
    "load_toml",
    "slug",
]

SplitName = Literal["subject", "atd-har", "official", "train-test"]
Count = Annotated[int, Strict(), Field(ge=1)]
Text = Annotated[str, Strict()]

#: Names next to those of the public data sets: recordings made on the spot.
MADE = ("synthetic",)


def _budget(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            share = float(value.strip()[:-1])
        except ValueError:
            share = -1.0
        if 0 < share <= 100:
            return f"{share:g}%"
    raise fault(f"{value!r} is not a label budget: give a number of labels or a text like '5%'")


#: Most seeds of a run; a count is written out as a list.
MAX_SEEDS = 10_000


def _seeds(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | list | tuple):
        raise fault(f"{value!r}: give a number of seeds or a list of them")
    if isinstance(value, int) and value > MAX_SEEDS:
        raise fault(f"{value} seeds are too many; give {MAX_SEEDS} at most")
    return tuple(range(value)) if isinstance(value, int) else value


def _tensorize(value: Any) -> str | dict[str, Any]:
    from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

    if value in ("default", "paper"):
        return str(value)
    if not isinstance(value, dict):
        raise fault(
            f"{value!r}: give 'default', 'paper' or a table of SpectrogramTensor's parameters"
        )
    known = SpectrogramTensor().get_params()
    for key in value:
        if key not in known:
            raise fault(f"SpectrogramTensor has no parameter {key!r}; {near(key, known)}", key)
    try:
        SpectrogramTensor(**value)._check_params()
    except InvalidInputError as error:
        raise fault(str(error)) from None
    return dict(value)


def _labels_in_graph(value: Any) -> Any:
    return {True: "drawn", False: "no"}[value] if isinstance(value, bool) else value


Budget = Annotated[Any, BeforeValidator(_budget)]
Seed = Annotated[int, Strict(), Field(ge=0)]
Tensorize = Annotated[Any, BeforeValidator(_tensorize)]
Augment = Literal["default", "paper", "none"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TuneConfig(_Strict):
    """How parameters are chosen: never with test labels.

    "bic" and "aic" see the unlabelled windows only; "cv" sees the labels that the budget allows,
    in a cross-validation over the subjects of train.
    """

    grid: dict[str, list[Any]]
    criterion: Literal["bic", "aic", "cv"] = "bic"
    folds: Annotated[int, Strict(), Field(ge=2)] = 3

    @field_validator("grid")
    @classmethod
    def _values(cls, grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if not grid:
            raise fault("the grid is empty; name parameters with the values to try")
        for key, values in grid.items():
            if not values:
                raise fault(f"{key} has no values to try", key)
        return grid


class DatasetConfig(_Strict):
    """Recordings, and how they are split.

    ``name`` is one of the public data sets, "synthetic", or any name where ``path`` says which
    file or folder to read. In a list, a text alone is a name or a path.
    """

    name: Text = ""
    label: Text = ""
    path: Text | None = None
    format: Text | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    split: SplitName | None = None
    fractions: tuple[float, float, float] | None = None
    half: Literal["choosing", "reporting"] | None = None
    clip: Annotated[float, Strict(), Field(gt=0)] | None = None
    limit: Count | None = None
    tensorize: Tensorize | None = None
    augment: Augment | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        if isinstance(data, str):
            built_in = data in DATASETS or data in MADE
            data = {"name": data} if built_in else {"path": data}
        if not isinstance(data, dict):
            return data
        data = dict(data)
        path, name, split = data.get("path"), data.get("name"), data.get("split")
        if not name and isinstance(path, str):
            data["name"] = name = Path(path).name.split(".")[0] or path
        if not data.get("label") and isinstance(name, str):
            suffix = {"atd-har": "-atd", "official": "-official"}.get(str(split), "")
            data["label"] = name + suffix
        return data

    @field_validator("fractions")
    @classmethod
    def _shares(cls, shares: tuple[float, float, float] | None) -> Any:
        return shares if shares is None else _checked_shares(shares)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if not self.name:
            raise fault("a data set needs a name or a path")
        if self.path is None and self.name not in DATASETS and self.name not in MADE:
            known = [*DATASETS, *MADE]
            raise fault(
                f"no data set {self.name!r}; {near(self.name, known)} (or give path = "
                "'file of recordings')",
                "name",
            )
        return self


class MethodConfig(_Strict):
    """A way to features, and its parameters. In a list, a text alone is a name."""

    name: Text
    label: Text = ""
    params: dict[str, Any] = Field(default_factory=dict)
    tensorize: Tensorize | None = None
    augment: Augment | None = None
    labels_in_graph: Annotated[
        Literal["no", "drawn", "hidden", "all"], BeforeValidator(_labels_in_graph)
    ] = "no"
    epochs: Count | None = None
    tune: TuneConfig | None = None
    note: Text = ""

    @property
    def fits_draws(self) -> bool:
        """Whether there is a fit for each draw of labels, on the windows of these as well."""
        return self.labels_in_graph in ("drawn", "hidden")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        if isinstance(data, str):
            data = {"name": data}
        if isinstance(data, dict) and isinstance(data.get("name"), str):
            kind = kinds.METHODS.get(kinds.canonical(data["name"]))
            if kind is not None:
                data = {**data, "name": kind.name, "label": data.get("label") or kind.label}
        return data

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in kinds.METHODS:
            raise fault(f"no method {name!r}; {near(name, kinds.METHODS)}")
        return name

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        kind = kinds.METHODS[self.name]
        known = kinds.parameters(self.name)
        grid = self.tune.grid if self.tune is not None else {}
        for key in [*self.params, *grid]:
            if known is not None and key not in known:
                raise fault(f"{kind.label} has no parameter {key!r}; {near(key, known)}", key)
        if self.tune is not None and self.tune.criterion != "cv" and not kind.tensor:
            raise fault(
                f"{kind.label} has no likelihood for {self.tune.criterion}; use criterion = 'cv'",
                "tune",
            )
        if self.labels_in_graph != "no" and not kind.labels:
            raise fault(f"{kind.label} has no graph that labels could go into", "labels_in_graph")
        if self.fits_draws and self.tune is not None:
            raise fault("labels_in_graph and tune cannot be combined yet; drop one", "tune")
        if self.epochs is not None and kind.epochs is None:
            raise fault(f"{kind.label} has no number of epochs", "epochs")
        return self


class BenchConfig(_Strict):
    """A benchmark: every method on every data set, for every seed and label budget.

    Examples
    --------
    >>> config = BenchConfig(datasets=["watch"], methods=["CPD", "PLC"], seeds=2, budgets=[30])
    >>> [m.label for m in config.methods], config.seeds
    (['CPD', 'PLC'], (0, 1))
    """

    title: Text = ""
    datasets: tuple[DatasetConfig, ...] = Field(min_length=1)
    methods: tuple[MethodConfig, ...] = Field(min_length=1)
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_seeds), Field(min_length=1)] = (0, 1, 2, 3)
    budgets: tuple[Budget, ...] = Field(default=(60, "100%"), min_length=1)
    split: SplitName = "subject"
    fractions: tuple[float, float, float] = (0.70, 0.15, 0.15)
    draws: Count = 6
    rank: Count = 32
    tensorize: Tensorize = "default"
    augment: Augment = "default"
    evidence: tuple[Literal["stages", "seeds"], ...] = ()
    allow_ungrouped: Annotated[bool, Strict()] = False
    fit_budgets: Annotated[bool, Strict()] = False
    n_jobs: Annotated[int, Strict()] | None = None

    @field_validator("seeds", "budgets", "evidence")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        for at, value in enumerate(values):
            if value in values[:at]:
                raise fault(f"{value!r} is there twice", at)
        return values

    @field_validator("datasets", "methods")
    @classmethod
    def _labels(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        seen: dict[str, int] = {}
        for at, value in enumerate(values):
            folder = slug(value.label)
            if folder in seen:
                raise fault(
                    f"the label {value.label!r} is there twice (or differs from "
                    f"{values[seen[folder]].label!r} in signs only); give a label of its own",
                    at,
                )
            seen[folder] = at
        return values

    @field_validator("fractions")
    @classmethod
    def _shares(cls, shares: tuple[float, float, float]) -> tuple[float, float, float]:
        return _checked_shares(shares)

    @field_validator("n_jobs")
    @classmethod
    def _jobs(cls, n_jobs: int | None) -> int | None:
        if n_jobs == 0:
            raise fault("n_jobs is 0; give a number of processes, or -1 for all processors")
        return n_jobs

    @model_validator(mode="after")
    def _paper(self) -> Self:
        for at, dataset in enumerate(self.datasets):
            for method in self.methods:
                chosen = (self.tensorize_of(dataset, method), self.augment_of(dataset, method))
                if "paper" in chosen and dataset.name not in SHAPES:
                    raise fault(
                        f"the paper has no tensors or augmentation for {dataset.label!r} (method "
                        f"{method.label}); it has {', '.join(SHAPES)}: use 'default' for both"
                    )
            if self.split_of(dataset) == "atd-har" and dataset.name != "har":
                raise fault(f"data set {at + 1}, {dataset.label!r}: split 'atd-har' is that of HAR")
        return self

    @classmethod
    def from_data(cls, data: Any, where: str = "configuration") -> BenchConfig:
        """Check plain data; every fault is named in one :class:`InvalidInputError`."""
        return check_data(data, cls, where)

    def replace(self, **changes: Any) -> BenchConfig:
        """Return a copy with some fields changed, checked like any other."""
        return BenchConfig.from_data({**self.model_dump(mode="json"), **changes})

    @property
    def hash(self) -> str:
        """Digest of all that results depend on: not title, notes, places of files or processes."""
        data = self._decisive()
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    def _decisive(self) -> dict[str, Any]:
        """Return what results depend on; settings that came later count where they are used."""
        data = self.model_dump(mode="json", exclude={"title", "n_jobs"})
        if not data["fit_budgets"]:
            del data["fit_budgets"]
        for dataset in data["datasets"]:
            del dataset["path"]  # the data themselves have a fingerprint
            del dataset["half"]  # where it is shown
            if dataset["fractions"] is None:
                del dataset["fractions"]
        for method in data["methods"]:
            del method["note"]
        return data

    def union(self, other: BenchConfig) -> BenchConfig:
        """Return the benchmark of both: all data sets, methods, seeds and budgets.

        Raises
        ------
        InvalidInputError
            Where a data set or a method of the same label, or the protocol, is another one.
        """
        mine, theirs = self._decisive(), other._decisive()
        joined: dict[str, Any] = {}
        for kind in ("datasets", "methods"):
            known = {entry["label"]: entry for entry in mine.pop(kind)}
            for entry in theirs.pop(kind):
                if known.setdefault(entry["label"], entry) != entry:
                    raise InvalidInputError(f"{entry['label']!r} has other settings in each")
            entries = {entry.label: entry for entry in getattr(self, kind)}
            entries |= {entry.label: entry for entry in getattr(other, kind)}
            joined[kind] = [entry.model_dump(mode="json") for entry in entries.values()]
        for kind in ("seeds", "budgets"):
            joined[kind] = list(dict.fromkeys([*mine.pop(kind), *theirs.pop(kind)]))
        odd = sorted(key for key in mine | theirs if mine.get(key) != theirs.get(key))
        if odd:
            raise InvalidInputError(f"{', '.join(odd)} differ")
        joined["seeds"].sort()
        joined["budgets"].sort(key=lambda b: (isinstance(b, str), b if isinstance(b, int) else 0))
        return self.replace(**joined)

    def dataset(self, label: str) -> DatasetConfig:
        """Return the data set of this label."""
        return _by_label(self.datasets, label, "data set")

    def method(self, label: str) -> MethodConfig:
        """Return the method of this label."""
        return _by_label(self.methods, label, "method")

    def tensorize_of(self, dataset: DatasetConfig, method: MethodConfig) -> str | dict[str, Any]:
        """Return how signals become tensors: as the method, the data set or the run says."""
        return next(x for x in (method.tensorize, dataset.tensorize, self.tensorize) if x)

    def augment_of(self, dataset: DatasetConfig, method: MethodConfig) -> Augment:
        """Return how the second view is made: as the method, the data set or the run says."""
        return method.augment or dataset.augment or self.augment

    def split_of(self, dataset: DatasetConfig) -> SplitName:
        """Return how a data set is split."""
        return dataset.split or self.split

    def fractions_of(self, dataset: DatasetConfig) -> tuple[float, float, float]:
        """Return the shares of the groups of a data set that are unlabelled, train and test."""
        return dataset.fractions or self.fractions


def _checked_shares(shares: tuple[float, float, float]) -> tuple[float, float, float]:
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise fault(f"the shares {list(shares)} must be positive and add up to 1")
    return shares


def _by_label(items: tuple[Any, ...], label: str, kind: str) -> Any:
    for item in items:
        if item.label == label:
            return item
    there = listed([item.label for item in items])
    raise InvalidInputError(f"this run has no {kind} {label!r}; there are {there}")


def slug(label: str) -> str:
    """Return the name of a label's folder: letters, digits and single hyphens.

    Examples
    --------
    >>> slug("PLC (paper)")
    'plc-paper'
    """
    kept = "".join(c.lower() if c.isalnum() else "-" for c in label)
    return "-".join(part for part in kept.split("-") if part) or "unnamed"


def load_config(path: str | Path) -> BenchConfig:
    r"""Read a configuration from a TOML file; faults are named with their lines.

    Paths of recordings are relative to the folder of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorcontrast.evaluate import load_config
    >>> lines = 'datasets = ["synthetic"]', 'methods = ["CPD", "PLC"]', "budgets = [30]"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bench.toml"
    ...     _ = path.write_text("\n".join(lines), encoding="utf-8")
    ...     config = load_config(path)
    >>> [m.label for m in config.methods], config.budgets
    (['CPD', 'PLC'], (30,))
    """
    config = load_toml(path, BenchConfig)
    folder = Path(path).expanduser().parent
    datasets = [
        d
        if d.path is None
        else d.model_copy(update={"path": str(folder / Path(d.path).expanduser())})
        for d in config.datasets
    ]
    return config.model_copy(update={"datasets": tuple(datasets)})
