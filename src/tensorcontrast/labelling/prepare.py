"""What the page needs before the first label: features, rows of the classifier, a map, clusters.

None of it depends on labels. It is computed once and kept in a folder next to the project file, as
arrays that are mapped into memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.classify.block_rows import unit_rows
from tensorcontrast.cp import kmeans
from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastError
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.features import nuisance_differences as nuisance_differences
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.io.model_files import load_model
from tensorcontrast.recordings import Recordings

__all__ = ["Prepared", "Settings", "cache_folder", "fingerprint", "prepare"]

Array = NDArray[Any]
Progress = Callable[..., None]

FORMAT = 1
#: Windows whose rows are computed at a time.
BLOCK_WINDOWS = 512
#: Values of signals that are hashed at a time.
HASH_WINDOWS = 4096
#: Classes of a classifier that has seen no label yet; nobody is shown them.
PLACEHOLDERS = ("first", "second")


@dataclass(frozen=True)
class Settings:
    """Numbers that the map and the clusters are made with.

    Attributes
    ----------
    max_landmarks : int
        Windows that t-SNE places, at most; the others go next to those that are most like them.
    perplexity : float
        Of t-SNE.
    n_nearest : int
        Landmarks that place another window.
    max_clusters : int
        Clusters that can be labelled at once, at most.
    """

    max_landmarks: int = 1200
    perplexity: float = 30.0
    n_nearest: int = 4
    max_clusters: int = 60


@dataclass(frozen=True)
class Prepared:
    """What does not depend on labels.

    Attributes
    ----------
    model : ContrastiveClassifier
        Features and rows are learned; its classes are placeholders unless ``answers``.
    answers : bool
        Whether the model knew classes before the first label.
    features : (n, r) array
    rows : (n, q) array
        As :meth:`ContrastiveClassifier.rows` returns them, in float32.
    place : (n, 2) array
        Place in the map, from 0 to 1.
    cluster : (n,) int array
        The largest cluster is 0.
    """

    model: ContrastiveClassifier
    answers: bool
    features: Array
    rows: Array
    place: Array
    cluster: Array


def cache_folder(project: Path) -> Path:
    """Return the folder that keeps features and map of a project."""
    return project.with_name(project.name + ".cache")


def fingerprint(rec: Recordings) -> str:
    """Hash of signals, rate, channels and places of all windows.

    Examples
    --------
    >>> first, second = Recordings(np.zeros((2, 1, 8))), Recordings(np.ones((2, 1, 8)))
    >>> fingerprint(first) == fingerprint(first), fingerprint(first) == fingerprint(second)
    (True, False)
    """
    found = hashlib.blake2b(digest_size=16)
    columns = {k: rec.columns.get(k) for k in ("recording", "start")}
    about = [rec.X.shape, rec.fs, rec.channels]
    found.update(json.dumps(about).encode())
    for values in columns.values():
        found.update(b"-" if values is None else "\n".join(map(str, values.tolist())).encode())
    for begin in range(0, len(rec), HASH_WINDOWS):
        some = np.ascontiguousarray(rec.X[begin : begin + HASH_WINDOWS], dtype="<f4")
        found.update(some.tobytes())
    return found.hexdigest()


def prepare(
    rec: Recordings,
    folder: Path,
    *,
    known: str,
    model: ContrastiveFeatures | ContrastiveClassifier | None = None,
    features: ContrastiveFeatures | None = None,
    progress: Progress = lambda **changes: None,
    settings: Settings | None = None,
) -> Prepared:
    """Return features, rows, map and clusters of all windows, from the folder where it has them.

    Parameters
    ----------
    rec : Recordings
    folder : path
        Where to keep them; see :func:`cache_folder`.
    known : str
        The :func:`fingerprint` of the recordings.
    model : ContrastiveFeatures or ContrastiveClassifier, optional
        Fitted features to use. Default: they are fitted here.
    features : ContrastiveFeatures, optional
        Features to fit; default ``ContrastiveFeatures(random_state=0)``.
    progress : callable
        Gets ``text=``, ``done=`` and ``total=``.
    settings : Settings, optional
    """
    settings = settings or Settings()
    digest = None if model is None else _digest(model, rec)
    kept = _load(folder, known, digest, len(rec))
    if kept is not None:
        return kept
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made: {error.strerror or error}") from error
    (folder / "prepared.json").unlink(missing_ok=True)
    progress(text="features")
    classifier = _classifier(rec, model, features)
    W, rows = _compute(rec, classifier, folder, progress)
    progress(text="map of all windows", done=None)
    space = unit_rows(kmeans.cluster_space(W))
    place = layout(space, settings)
    cluster = clusters(space, settings)
    for name, values in {"features": W, "place": place, "cluster": cluster}.items():
        with atomic_write(folder / f"{name}.npy", sync=False) as stream:
            np.save(stream, values)
    classifier.save(folder / "base.tcm")
    about: dict[str, Any] = {
        "format": FORMAT,
        "fingerprint": known,
        "model": digest,
        "answers": isinstance(model, ContrastiveClassifier),
    }
    with atomic_write(folder / "prepared.json") as stream:
        stream.write(json.dumps(about).encode())
    return Prepared(classifier, about["answers"], W, rows, place, cluster)


def _load(folder: Path, known: str, digest: str | None, n: int) -> Prepared | None:
    """Return what the folder has for these windows; None where it lacks anything."""
    try:
        about = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
        if about["format"] != FORMAT or about["fingerprint"] != known:
            return None
        if digest is not None and about["model"] != digest:
            return None
        model = load_model(folder / "base.tcm")
        found = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ("features", "rows", "place", "cluster")
        }
    except (OSError, ValueError, KeyError, TypeError, TensorContrastError):
        return None  # computed again
    if not isinstance(model, ContrastiveClassifier) or any(len(v) != n for v in found.values()):
        return None
    if found["rows"].shape[1] != model.coef_.shape[1]:
        return None
    place, cluster = np.array(found["place"]), np.array(found["cluster"])
    return Prepared(model, bool(about["answers"]), found["features"], found["rows"], place, cluster)


def _digest(model: ContrastiveFeatures | ContrastiveClassifier, rec: Recordings) -> str:
    """Hash of what a model makes of the first windows."""
    found = hashlib.blake2b(digest_size=16)
    extractor = model.extractor_ if isinstance(model, ContrastiveClassifier) else model
    found.update(np.asarray(extractor.transform(rec[:4]), dtype=np.float32).tobytes())
    if isinstance(model, ContrastiveClassifier):
        found.update(np.asarray(model.coef_).tobytes())
        found.update("\n".join(map(str, model.classes_.tolist())).encode())
    return found.hexdigest()


def _classifier(
    rec: Recordings,
    model: ContrastiveFeatures | ContrastiveClassifier | None,
    features: ContrastiveFeatures | None,
) -> ContrastiveClassifier:
    """Return a classifier whose features and rows are learned."""
    if isinstance(model, ContrastiveClassifier):
        return model.set_params(abstain=None)
    if len(rec) < 2:
        raise InvalidInputError("there is one window alone; labelling needs at least two")
    y = np.full(len(rec), "", dtype=object)
    y[[0, -1]] = PLACEHOLDERS
    bare = rec._with(y=None, classes=None)
    if model is None:
        features = features or ContrastiveFeatures(random_state=0)
        return ContrastiveClassifier(features, random_state=0).fit(bare, y)
    return ContrastiveClassifier.on_features(model, bare, y, random_state=0)


def _compute(
    rec: Recordings, model: ContrastiveClassifier, folder: Path, progress: Progress
) -> tuple[Array, Array]:
    """Features (n, r), and rows (n, q) of the classifier in a file."""
    n, q = len(rec), int(model.coef_.shape[1])
    part, path = folder / "rows.part", folder / "rows.npy"
    try:
        open_memmap: Any = np.lib.format.open_memmap
        rows = open_memmap(part, mode="w+", dtype=np.float32, shape=(n, q))
        features = []
        for begin in range(0, n, BLOCK_WINDOWS):
            some = rec.X[begin : begin + BLOCK_WINDOWS]
            W, found = model.features_and_rows(some)
            features.append(np.asarray(W, dtype=np.float32))
            rows[begin : begin + BLOCK_WINDOWS] = found
            progress(text="rows of the classifier", done=begin + len(some), total=n)
        rows.flush()
        del rows
        os.replace(part, path)
        return np.concatenate(features), np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}") from error


def layout(space: Array, settings: Settings) -> Array:
    """Places (n, 2) of windows in a map, from 0 to 1: t-SNE of some, the others next to these.

    Parameters
    ----------
    space : (n, r) array
        Rows of unit length.
    settings : Settings

    References
    ----------
    van der Maaten and Hinton, Visualizing Data using t-SNE, JMLR 2008.
    """
    n = len(space)
    some = np.linspace(0, n - 1, min(n, settings.max_landmarks)).astype(np.intp)
    if len(some) < 8:
        place = np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float32)
    else:
        fewer = min(settings.perplexity, (len(some) - 1) / 3)
        method = TSNE(
            perplexity=fewer, init="random", max_iter=500, random_state=0, n_jobs=1, metric="cosine"
        )
        marks = method.fit_transform(np.ascontiguousarray(space[some], dtype=np.float32))
        place = _next_to(space, space[some], marks, settings.n_nearest)
        place[some] = marks
    low, high = place.min(axis=0), place.max(axis=0)
    return np.asarray((place - low) / np.where(high > low, high - low, 1), dtype=np.float32)


def _next_to(space: Array, marked: Array, marks: Array, count: int) -> Array:
    """Weighted means of the places of the nearest landmarks, spread a little."""
    out = np.empty((len(space), 2), dtype=np.float32)
    spread = 0.012 * float(np.ptp(marks, axis=0).max())
    jitter = np.random.default_rng(0).normal(scale=spread, size=out.shape)
    for begin in range(0, len(space), 4096):
        at = slice(begin, begin + 4096)
        likeness = space[at] @ marked.T  # (b, m)
        best = np.argpartition(likeness, -count, axis=1)[:, -count:]
        value = np.take_along_axis(likeness, best, axis=1)
        weight = np.exp(20 * (value - value.max(axis=1, keepdims=True)))
        out[at] = np.einsum("bk,bkd->bd", weight, marks[best]) / weight.sum(axis=1, keepdims=True)
    return np.asarray(out + jitter, dtype=np.float32)


def clusters(space: Array, settings: Settings) -> Array:
    """Cluster (n,) of each window; the largest one is 0."""
    k = int(np.clip(round(0.7 * np.sqrt(len(space))), 2, settings.max_clusters))
    found, _ = kmeans.cluster(space.astype(np.float32), min(k, len(space)))
    order = np.argsort(-np.bincount(found), kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    return rank[found]
