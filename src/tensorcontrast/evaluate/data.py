"""Recordings of a benchmark: loaded by name or path, checked for what a run needs, split."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tensorcontrast import datasets
from tensorcontrast.errors import InvalidInputError, TensorContrastError
from tensorcontrast.evaluate.cells import DatasetFacts
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig
from tensorcontrast.evaluate.protocol import (
    Split,
    atd_har_split,
    official_split,
    subject_split,
    train_test_split,
)
from tensorcontrast.readers.ts import TRAIN_SUFFIX, read_ts_pair
from tensorcontrast.recordings import Recordings

__all__ = ["facts", "load", "splits"]


def load(dataset: DatasetConfig) -> Recordings:
    """Load the recordings of a data set; nothing is downloaded."""
    entry = datasets.registry.DATASETS.get(dataset.name)
    if dataset.path is not None and dataset.path.endswith(TRAIN_SUFFIX):
        rec = read_ts_pair(dataset.path, **_options(dataset))
    elif dataset.name == "synthetic" and dataset.path is None:
        rec = datasets.make_synthetic(**{"random_state": 0, **_options(dataset)})
    elif entry is not None and dataset.format is None:
        loader: Any = getattr(datasets, entry.loader)
        rec = loader(dataset.path, download=False, **_options(dataset))
    else:
        assert dataset.path is not None
        rec = Recordings.read(dataset.path, format=dataset.format, **_options(dataset))
    if dataset.limit is not None and len(rec) > dataset.limit:
        chosen = np.random.default_rng(0).permutation(len(rec))[: dataset.limit]
        rec = rec[np.sort(chosen)]
    if dataset.clip is not None:
        rec = rec._with(X=np.clip(rec.X, -dataset.clip, dataset.clip))
    return rec


def _options(dataset: DatasetConfig) -> dict[str, Any]:
    return dict(dataset.options)


def checked(dataset: DatasetConfig, config: BenchConfig) -> Recordings:
    """Load recordings and check all that a run needs of them: labels, classes, groups."""
    try:
        rec = load(dataset)
    except TypeError as error:
        raise InvalidInputError(f"data set {dataset.label!r}: options: {error}") from error
    try:
        _check(rec, config)
        for seed in config.seeds:
            for split in splits(rec, dataset, config, seed):
                _check_labels(rec, split, seed)
    except TensorContrastError as error:
        raise InvalidInputError(f"data set {dataset.label!r}: {error}") from error
    return rec


def _check(rec: Recordings, config: BenchConfig) -> None:
    if rec.y is None or not (rec.y >= 0).any():
        raise InvalidInputError(
            "the recordings have no labels, and features are judged by them; give y, or fit "
            "features without a benchmark (tensorcontrast fit)"
        )
    there = np.unique(rec.y[rec.y >= 0])
    if len(there) < 2:
        name = rec.classes[int(there[0])] if rec.classes is not None else str(there[0])
        raise InvalidInputError(f"all labels are {name!r}: a classifier needs at least two classes")


def _check_labels(rec: Recordings, split: Split, seed: int) -> None:
    assert rec.y is not None
    for name, rows in (("train", split.train), ("test", split.test)):
        there = np.unique(rec.y[rows][rec.y[rows] >= 0])
        needed = 2 if name == "train" else 1
        if len(there) < needed:
            who = "" if rec.groups is None else f" ({len(np.unique(rec.groups[rows]))} groups)"
            raise InvalidInputError(
                f"with seed {seed} the {name} part{who} has windows of {len(there)} class(es); a "
                f"larger share of {name} in fractions, or other seeds, would mend it"
            )


def splits(
    rec: Recordings, dataset: DatasetConfig, config: BenchConfig, seed: int
) -> tuple[Split, ...]:
    """Split for a seed: one, or several that share the unlabelled part."""
    kind = config.split_of(dataset)
    if kind == "atd-har":
        return (atd_har_split(rec, seed=seed),)
    if kind == "official":
        return tuple(
            official_split(rec, seed=np.random.default_rng([seed, draw]))
            for draw in range(config.draws)
        )
    if kind == "train-test":
        return (train_test_split(rec),)
    shares = config.fractions_of(dataset)
    return (subject_split(rec, *shares, seed=seed, allow_ungrouped=config.allow_ungrouped),)


_SPLIT_WORDS = {
    "subject": "by subject, {:.0%} unlabelled, {:.0%} train, {:.0%} test",
    "atd-har": "the ATD authors' HAR split: official training subjects unlabelled, windows of the "
    "others halved at random",
    "official": "official training subjects unlabelled, five ninths of the others train, the rest "
    "test, {draws} draws averaged",
    "train-test": "training windows with and without labels, test windows apart, by the official "
    "split or by group",
}


def facts(dataset: DatasetConfig, rec: Recordings, config: BenchConfig) -> DatasetFacts:
    """Return what a run keeps of its recordings."""
    assert rec.y is not None
    words = _SPLIT_WORDS[config.split_of(dataset)]
    labelled = rec.y[rec.y >= 0]
    names = rec.classes or tuple(str(c) for c in range(rec.n_classes))
    return DatasetFacts(
        label=dataset.label,
        name=dataset.name,
        n_samples=len(rec),
        n_channels=rec.n_channels,
        n_times=rec.n_times,
        fs=rec.fs,
        channels=rec.channels or tuple(str(c) for c in range(rec.n_channels)),
        classes=names,
        class_counts=tuple(np.bincount(labelled, minlength=len(names)).tolist()),
        n_groups=0 if rec.groups is None else len(np.unique(rec.groups)),
        units=rec.units,
        citation=rec.citation,
        licence=rec.licence,
        split=words.format(*config.fractions_of(dataset), draws=config.draws),
        fingerprint=fingerprint(rec),
    )


def fingerprint(rec: Recordings) -> str:
    """Digest of signals, labels, groups and columns: other data never mix with old cells."""
    digest = hashlib.blake2b(digest_size=16)
    columns = [rec.columns[key] for key in sorted(rec.columns)]
    for array in (rec.X, rec.y, rec.groups, *columns):
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
