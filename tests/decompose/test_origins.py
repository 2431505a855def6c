"""Graphs of where samples come from: eigenvectors written out, repeats, and every path of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

from tensorcontrast import PLC, load_model, threads
from tensorcontrast.decompose import label_trial, origins, plc_solve, tied
from tensorcontrast.decompose.origins import Origins, find, neighbour_distance

DIMS, N, CLASSES = (5, 6, 4), 1000, 5


def rows_of(seed: int, n: int, n_origins: int | None = None, size: int = 120) -> Any:
    """Samples that differ most by noise, and by what class they are of a little; noise; classes.

    With ``n_origins`` there are so many of these, and samples are repeats of them.
    """
    rng = np.random.default_rng(seed)
    loud = 2 * rng.normal(size=(6, size))
    quiet = 0.15 * rng.normal(size=(10, size))
    m = n if n_origins is None else n_origins
    classes = rng.integers(CLASSES, size=m)
    place = 4 * rng.normal(size=(CLASSES, 10))[classes] + rng.normal(size=(m, 10))
    of = np.arange(n) % m
    noise = rng.normal(size=(400, 6)) @ loud + 0.05 * rng.normal(size=(400, size))
    X = place[of] @ quiet + rng.normal(size=(n, 6)) @ loud + 0.05 * rng.normal(size=(n, size))
    return X.astype("f4"), noise.astype("f4"), classes[of]


@pytest.fixture(scope="module")
def data() -> Any:
    X, noise, y = rows_of(0, N)
    return X.reshape(-1, *DIMS), noise.reshape(-1, *DIMS), y


def small(**params: Any) -> PLC:
    settings = {"rank": 4, "n_epochs": 4, "max_iter": 40, "tol": 1e-3, "random_state": 0}
    return PLC(**(settings | {"batch_size": 256, "alpha": 1e-2} | params))


@pytest.fixture(scope="module")
def model(data: Any) -> PLC:
    return small().fit(data[0], noise=data[1])


def same(one: PLC, other: PLC) -> None:
    for U, V in zip(one.factors_, other.factors_, strict=True):
        np.testing.assert_array_equal(U, V)


# ---------------------------------------------------------------------------- directions


def test_directions_are_eigenvectors_of_signal_against_noise() -> None:
    X, noise, _ = rows_of(0, N)
    found = find(X, 2.5 * noise, 2.5)
    assert found is not None
    A = found.columns.astype("f8")
    signal = np.cov(X.T.astype("f8"), bias=True)
    spread = noise.T.astype("f8") @ noise.astype("f8") / len(noise)
    # All 120 components of these samples are among the principal ones: nothing is left out.
    spread += origins.FLOOR * np.trace(spread) / 120 * np.eye(120)
    values, vectors = eigh(signal, spread)
    np.testing.assert_allclose(A.T @ spread @ A, np.eye(32), atol=2e-3)
    got = np.diag(A.T @ signal @ A)
    np.testing.assert_allclose(got, values[::-1][:32], rtol=1e-2)
    overlap = np.abs(A[:, :10].T @ spread @ vectors[:, ::-1][:, :10])
    np.testing.assert_allclose(overlap.max(axis=1), 1, atol=0.02)


def test_distance_of_neighbours_against_a_loop() -> None:
    G = np.random.default_rng(0).normal(size=(300, 4))
    near = [min(((g - h) ** 2).sum() for j, h in enumerate(G) if j != i) for i, g in enumerate(G)]
    assert neighbour_distance(G) == pytest.approx(np.median(near) / 8)


def test_repeats_are_told_from_samples_with_origins_of_their_own() -> None:
    X, noise, _ = rows_of(0, 1200)
    apart = find(X, noise, 1.0)
    X, noise, _ = rows_of(0, 1200, n_origins=30)
    repeats = find(X, noise, 1.0)
    assert apart is not None and apart.apart
    assert repeats is not None and not repeats.apart
    # Two repeats differ by noise alone, the nearest of forty by less.
    assert 0 < repeats.distance < 1 < apart.distance


def test_clusters_are_of_what_noise_cannot_have_made() -> None:
    X, noise, y = rows_of(3, 1500)
    found = find(X, noise, 1.0)
    assert found is not None
    fine, coarse = found.labels(X, (20, CLASSES), seed=0)
    assert fine.max() < 20 and coarse.max() < CLASSES
    assert adjusted_rand_score(y, coarse) > 0.9
    flat = Origins(np.eye(X.shape[1], dtype="f4"), 2.0)
    assert adjusted_rand_score(y, flat.labels(X, (CLASSES,), seed=0)[0]) < 0.5


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_units_do_not_matter(size: float) -> None:
    X, noise, _ = rows_of(0, N)
    plain, other = find(X, noise, 1.0), find(X, noise * np.float32(size), size)
    assert plain is not None and other is not None
    assert other.distance == pytest.approx(plain.distance, rel=1e-3)


def test_directions_do_not_depend_on_threads() -> None:
    X, noise, _ = rows_of(0, N)
    first = find(X, noise, 1.0)
    with threads.limited("blas", 1):
        second = find(X, noise, 1.0)
    assert first is not None and second is not None
    np.testing.assert_array_equal(first.columns, second.columns)


def test_where_nothing_can_be_told() -> None:
    X, noise, _ = rows_of(0, N)
    assert find(X[:-1], noise, 1.0) is None
    assert find(X, 0 * noise, 1.0) is None
    assert find(np.ones_like(X), noise, 1.0) is None


def test_fewer_components_than_directions() -> None:
    X, noise, _ = rows_of(0, N, size=3)
    found = find(X, noise, 1.0)
    assert found is not None and found.columns.shape == (3, 3)


# ---------------------------------------------------------------------------- fits


def test_a_fit_goes_by_the_origins_of_its_samples(data: Any, model: PLC) -> None:
    X, noise, y = data
    assert model.neighbour_distance_ > origins.APART
    assert model.n_clusters_ == (100, 50, 25, 12)
    assert model.beta_ in (plc_solve.ORIGINS_BETA, plc_solve.TIED_BETA)
    assert model.history_["label_change"][-4:] == [1.0, 0.0, 0.0, 0.0]
    pure = sum(np.bincount(y[model.labels_ == k]).max() for k in np.unique(model.labels_)) / N
    own = small(clusterer=MiniBatchKMeans(100, random_state=0)).fit(X, noise=noise)
    less = sum(np.bincount(y[own.labels_ == k]).max() for k in np.unique(own.labels_)) / N
    assert pure > less + 0.1
    assert own.neighbour_distance_ is None
    assert model.centers_ is not None and model.centers_.shape == (100, 4)


def test_the_clusters_are_those_of_the_directions(
    data: Any, model: PLC, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, noise, _ = data
    seen = []
    usual = Origins.labels

    def noted(self: Origins, rows: np.ndarray, counts: tuple[int, ...], seed: int) -> Any:
        seen.append((self.distance, usual(self, rows, counts, seed)))
        return seen[-1][1]

    monkeypatch.setattr(Origins, "labels", noted)
    again = small(beta=model.beta_).fit(X, noise=noise)
    flat = (X.reshape(N, -1) - model.center_.reshape(-1)) / np.float32(model.scale_)
    found = find(flat, noise.reshape(len(noise), -1), model.scale_)
    assert found is not None
    ((distance, labels),) = seen
    assert distance == again.neighbour_distance_ == pytest.approx(found.distance, rel=1e-3)
    assert [int(own.max()) + 1 for own in labels] == [100, 50, 25, 12]
    np.testing.assert_array_equal(again.labels_, labels[0])


def test_repeats_have_the_graph_of_their_features(monkeypatch: pytest.MonkeyPatch) -> None:
    X, noise, _ = rows_of(0, N, n_origins=20)
    X, noise = X.reshape(-1, *DIMS), noise.reshape(-1, *DIMS)
    model = small().fit(X, noise=noise)
    assert model.neighbour_distance_ < origins.APART
    assert model.beta_ == plc_solve.TIED_BETA
    monkeypatch.setattr(PLC, "_asks_origins", lambda _: False)
    unasked = small().fit(X, noise=noise)
    assert unasked.neighbour_distance_ is None
    same(model, unasked)


def test_few_samples_and_no_noise_ask_nothing(data: Any) -> None:
    assert small().fit(data[0][:200], noise=data[1]).neighbour_distance_ is None
    assert small().fit(data[0]).neighbour_distance_ is None


def test_a_given_weight_and_given_numbers_are_taken(data: Any) -> None:
    model = small(beta=0.03, n_clusters=(20, 7)).fit(data[0], noise=data[1])
    assert (model.beta_, model.n_clusters_) == (0.03, (20, 7))
    assert model.labels_.max() < 20


def test_a_weight_that_leaves_the_region_is_not_taken(data: Any) -> None:
    strict = small(epsilon=1e-6).fit(data[0], noise=data[1])
    assert strict.beta_ == plc_solve.TIED_BETA
    assert small(epsilon=10.0).fit(data[0], noise=data[1]).beta_ == plc_solve.ORIGINS_BETA


def test_labels_join_the_graph(data: Any, model: PLC) -> None:
    X, noise, y = data
    known = np.where(np.arange(N) < 20, y, -1)
    told = small().fit(X, known, noise=noise)
    assert told.neighbour_distance_ == model.neighbour_distance_
    assert not np.array_equal(told.factors_[0], model.factors_[0])
    every = small(graph="true").fit(X, y, noise=noise)
    assert every.neighbour_distance_ is None


def test_a_stopped_fit_goes_on_to_the_same_bits(data: Any, model: PLC, tmp_path: Path) -> None:
    path = tmp_path / "fit.tcc"

    def stop(row: dict[str, float]) -> None:
        if "contrast" in row and model.n_iter_ - row["iteration"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(checkpoint=path, every=1, callback=stop).fit(data[0], noise=data[1])
    resumed = small(checkpoint=path, every=1).fit(data[0], noise=data[1], resume=path)
    same(resumed, model)
    np.testing.assert_array_equal(resumed.labels_, model.labels_)
    np.testing.assert_array_equal(resumed.centers_, model.centers_)


def test_a_file_and_a_stream_go_on_from_it(data: Any, model: PLC, tmp_path: Path) -> None:
    model.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    assert again.neighbour_distance_ == model.neighbour_distance_
    again.partial_fit(data[0][:300])
    assert again.centers_.shape == (30, 4)  # as many as so small a batch has
    assert np.isfinite(again.transform(data[0][:5])).all()


def test_cores_and_a_part_of_the_samples(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, noise, _ = data
    cores = small(compress=(5, 6, 4)).fit(X, noise=noise)
    assert cores.neighbour_distance_ == pytest.approx(
        small().fit(X, noise=noise).neighbour_distance_, rel=0.05
    )
    monkeypatch.setattr(tied, "DESCENT_ROWS", 700)
    part = small().fit(X, noise=noise)
    assert part.neighbour_distance_ > origins.APART
    assert part.labels_.shape == (N,) and part.labels_.max() < 100
    again = small(fresh_views=True).fit(X, noise=noise)
    assert again.history_["label_change"][-3:] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("gain", [-0.1, 0.1])
def test_many_labels_are_asked_beside_a_graph_of_origins(
    data: Any, model: PLC, monkeypatch: pytest.MonkeyPatch, gain: float
) -> None:
    X, noise, y = data
    monkeypatch.setattr(label_trial, "ENOUGH", 100)
    said = iter([0.5 + gain, 0.5] * 2)
    monkeypatch.setattr(label_trial, "accuracy", lambda *_: next(said))
    told = small().fit(X, np.where(np.arange(N) < 400, y, -1), noise=noise)
    assert told.label_gain_ == pytest.approx(gain)
    assert told.neighbour_distance_ == model.neighbour_distance_
    if gain < 0:
        same(told, model)
        assert told.beta_ == model.beta_
    else:
        assert not np.array_equal(told.factors_[0], model.factors_[0])
