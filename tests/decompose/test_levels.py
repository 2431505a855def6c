"""Graphs of several sizes that take turns in a descent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorcontrast import PLC, TensorContrastError, load_model
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose import als
from tensorcontrast.decompose.contrast import PLCContrast
from tensorcontrast.decompose.levels import levels, stable
from tensorcontrast.decompose.tied import TiedContrast


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return make_cp_tensor(
        n_samples=300, dims=(5, 8, 6), rank=4, n_classes=3, noise=0.5, random_state=1
    )[0].astype(np.float32)


def small(**params: Any) -> PLC:
    settings = {"rank": 4, "n_epochs": 7, "batch_size": 100, "max_iter": 30, "tol": 1e-3}
    return PLC(**(settings | {"random_state": 0} | params))


@pytest.mark.parametrize(
    ("given", "n_samples", "wanted"),
    [
        (None, 5000, (100, 50, 25, 12)),
        (None, 300, (30, 15, 7, 3)),
        (None, 40, (4, 2)),
        (None, 3, (2,)),
        (7, 5000, (7,)),
        ((12, 100, 50, 12), 5000, (100, 50, 12)),
        ([np.int64(4)], 5000, (4,)),
    ],
)
def test_numbers_of_clusters(given: Any, n_samples: int, wanted: tuple[int, ...]) -> None:
    assert levels(given, n_samples) == wanted


def test_levels_take_turns_and_the_finest_is_last(X: np.ndarray, monkeypatch) -> None:
    seen = []
    plain = PLCContrast.graph

    def noted(self: PLCContrast, W: np.ndarray, memory: als.Memory) -> Any:
        graph, change = plain(self, W, memory)
        seen.append((self.n_clusters, int(graph.labels.max()) + 1, change))
        return graph, change

    monkeypatch.setattr(PLCContrast, "graph", noted)
    model = small(n_clusters=(20, 9, 3)).fit(X)
    assert [count for count, _, _ in seen] == [20, 3, 9, 20, 3, 9, 20]
    assert all(found <= count for count, found, _ in seen)
    # What changed is counted since the last turn of the same level.
    changes = [change for _, _, change in seen]
    assert changes[:3] == [1.0, 1.0, 1.0]
    assert all(change < 1 for change in changes[3:])
    assert model.labels_.max() < 20
    assert model.centers_ is not None and model.centers_.shape == (20, 4)


def test_a_level_begins_where_its_own_clusters_were() -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((200, 3)).astype(np.float32)
    contrast = TiedContrast(PLCContrast(beta=0.2, gamma=1.0, n_clusters=20), coarser=(8, 3))
    memory = als.Memory()
    first = {level: contrast.graph(W, memory, level)[0].labels for level in (0, 1, 2)}
    for level, labels in first.items():
        graph, change = contrast.graph(W, memory, level)
        np.testing.assert_array_equal(graph.labels, labels)
        assert change == 0.0
    assert memory.coarse_centers is not None and memory.coarse_centers.shape == (11, 3)
    assert memory.centers is not None and memory.centers.shape == (20, 3)


def test_a_resumed_descent_has_all_levels(X: np.ndarray, tmp_path: Path) -> None:
    whole = small(n_clusters=(20, 9, 3)).fit(X)
    path = tmp_path / "fit.tcc"

    def stop(row: dict[str, float]) -> None:
        if "contrast" in row and whole.n_iter_ - row["iteration"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(n_clusters=(20, 9, 3), checkpoint=path, every=1, callback=stop).fit(X)
    resumed = small(n_clusters=(20, 9, 3), checkpoint=path, every=1).fit(X, resume=path)
    for U, V in zip(resumed.factors_, whole.factors_, strict=True):
        np.testing.assert_array_equal(U, V)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    assert resumed.history_["label_change"][-5:] == whole.history_["label_change"][-5:]


def test_graphs_that_another_start_does_not_find_have_no_turn() -> None:
    rng = np.random.default_rng(0)
    clear = np.repeat(4 * rng.standard_normal((5, 3)), 80, axis=0)
    clear += 0.1 * rng.standard_normal(clear.shape)
    cloud = rng.standard_normal((400, 8))
    counts = (20, 10, 5)
    assert stable((5,), clear.astype(np.float32), seed=0) == (5,)
    assert stable(counts, cloud.astype(np.float32), seed=0) == ()
    assert stable((), cloud.astype(np.float32), seed=0) == ()


def test_the_default_asks_and_a_given_number_is_taken(X: np.ndarray, monkeypatch) -> None:
    assert small(n_clusters=(20, 9, 3)).fit(X).n_clusters_ == (20, 9, 3)
    for limit, wanted in ((0.0, (30, 15, 7, 3)), (1.1, (30,))):
        monkeypatch.setattr("tensorcontrast.decompose.levels.STABLE", limit)
        assert small().fit(X).n_clusters_ == wanted
        assert small(fresh_views=True).fit(X).n_clusters_ == wanted


def test_several_numbers_are_kept_in_a_file(X: np.ndarray, tmp_path: Path) -> None:
    model = small(n_clusters=(20, 9)).fit(X)
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.n_clusters == (20, 9)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_clusters": ()}, r"n_clusters=\(\)"),
        ({"n_clusters": (5, 0)}, "at least 1"),
        ({"n_clusters": (5, 2.5)}, "at least 1"),
        ({"n_clusters": (True,)}, "at least 1"),
        ({"n_clusters": (500, 5)}, "n_clusters=500"),
        ({"n_clusters": (5, 3), "solver": "als"}, "solver='tied'"),
    ],
)
def test_wrong_numbers(X: np.ndarray, params: dict[str, Any], message: str) -> None:
    with pytest.raises(TensorContrastError, match=message):
        small(**params).fit(X)
