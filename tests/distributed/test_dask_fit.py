"""A fit of a Dask array is the fit of the array: any blocks, any scheduler, any solver."""

from __future__ import annotations

import dataclasses
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
)
from tensorcontrast.cp.kmeans import KMeansTuning
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.options import build, with_options
from tensorcontrast.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    TensorContrastError,
)
from tensorcontrast.solvers import gradient
from tensorcontrast.solvers.tuning import Tuning
from tensorcontrast.sources.source import BlockSize

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

# Windows of several strips, so that sums over blocks are those over the array, to the bit.
N, DIMS = 1600, (4, 6, 5)
BLOCKS = {
    "1": (1600,),
    "2": (800, 800),
    "4": (400,) * 4,
    "uneven": (500, 1, 37, 463, 20, 579),
    "empty": (600, 0, 500, 500, 0),
}
FITS = {
    "cpd": CPD(rank=4, random_state=0),
    "cpd-core": build(CPD, rank=4, random_state=0, compress=[3, 4, 3]),
    "cpd-raw": build(CPD, rank=4, random_state=0, center=False, scale=False, compress=0.9),
    "plc": build(PLC, rank=4, random_state=0, tol=1e-4),
    "plc-core": build(PLC, rank=4, random_state=0, tol=1e-4, compress=[3, 4, 3]),
    "tied": build(PLC, rank=4, random_state=0, solver="tied", n_epochs=4, tol=1e-4),
    "tied-core": build(
        PLC, rank=4, random_state=0, solver="tied", n_epochs=4, tol=1e-4, compress=[3, 4, 3]
    ),
    "tied-fresh": build(
        PLC, rank=4, random_state=0, solver="tied", n_epochs=3, tol=1e-4, fresh_views=True
    ),
    "plc-als": build(PLC, rank=4, random_state=0, solver="als", tol=1e-4),
    "plc-paper": PLC.paper(rank=4, random_state=0, max_iter=10, tol=1e-3),
    "plc-auto": build(PLC, rank=4, random_state=0, solver="als", beta="auto", tol=1e-3),
    "plc-als-fresh": build(
        PLC, rank=4, random_state=0, solver="als", max_iter=8, tol=0, fresh_views=True
    ),
    "plc-literal": build(PLC, rank=4, random_state=0, solver="als", tol=1e-3, laplacian="literal"),
    "plc-clusterer": build(
        PLC, rank=4, random_state=0, solver="als", tol=1e-3, clusterer=KMeans(4, random_state=0)
    ),
    "atd": build(ATD, rank=4, random_state=0, tol=1e-4, warm_up=3),
    "atd-batches": build(
        ATD, rank=4, random_state=0, max_iter=4, tol=0, batch_size=64, step_size=0.1
    ),
}


#: Blocks of few windows stay blocks.
SHORT = BlockSize(strip_rows=32)
FEW_ROWS = KMeansTuning(max_first_rows=100)


def tuned(model: Any, **numbers: Any) -> Any:
    """Clone a model, with other tuning numbers."""
    out = clone(model)
    out._tuning = replace(out._tuning, **numbers)
    return out


def tensor(dtype: str = "float32") -> np.ndarray:
    return make_cp_tensor(n_samples=N, dims=DIMS, rank=4, random_state=0)[0].astype(dtype)


def few_windows() -> np.ndarray:
    """Few windows of many values: what moves of the windows is easily told from sums."""
    X, *_ = make_cp_tensor(n_samples=420, dims=(6, 10, 8), rank=4, random_state=0)
    return X.astype(np.float32)


def spread(X: np.ndarray, blocks: tuple[int, ...]) -> Any:
    return da.from_array(X, chunks=(blocks, *X.shape[1:]))


def assert_same(a: Any, b: Any, atol: float = 1e-4, *, other_labels: int = 0) -> None:
    """Windows between two clusters may change over with the rounding of sums."""
    assert a.rank_ == b.rank_
    for U, V in zip(a.factors_, b.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=atol)
    same = a.labels_ == b.labels_
    assert (~same).sum() <= other_labels
    near = 10 * atol * (10 if other_labels else 1)  # a window that moves a centre moves others
    np.testing.assert_allclose(a.features_[same], b.features_[same], atol=near)
    np.testing.assert_allclose(a.center_, b.center_, atol=atol)
    assert a.scale_ == pytest.approx(b.scale_, rel=1e-6)
    assert a.reconstruction_error_ == pytest.approx(b.reconstruction_error_, abs=atol)
    assert (a.core_dims_, a.n_iter_) == (b.core_dims_, b.n_iter_)
    np.testing.assert_allclose(a.weights_, b.weights_, rtol=1e-3, atol=atol)
    np.testing.assert_allclose(a.feature_gram_, b.feature_gram_, rtol=1e-2, atol=0.05)


@pytest.fixture(scope="module")
def serial() -> dict[str, Any]:
    return {name: clone(model).fit(tensor()) for name, model in FITS.items()}


@pytest.mark.parametrize("blocks", ["uneven", "empty"])
@pytest.mark.parametrize("name", FITS)
def test_equals_the_serial_fit(serial: dict[str, Any], name: str, blocks: str) -> None:
    assert_same(serial[name], clone(FITS[name]).fit(spread(tensor(), BLOCKS[blocks])))


@pytest.mark.parametrize("blocks", ["1", "2", "4"])
@pytest.mark.parametrize("name", ["cpd", "plc", "plc-als", "atd"])
def test_any_number_of_blocks(serial: dict[str, Any], name: str, blocks: str) -> None:
    assert_same(serial[name], clone(FITS[name]).fit(spread(tensor(), BLOCKS[blocks])))


def test_float64_agrees_to_its_own_precision() -> None:
    X = tensor("float64")
    for name in ("cpd", "plc-core"):
        a = clone(FITS[name]).fit(X)
        assert_same(a, clone(FITS[name]).fit(spread(X, BLOCKS["uneven"])), atol=1e-9)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_any_scheduler(scheduler: str) -> None:
    model = build(CPD, rank=4, random_state=0, max_iter=3, tol=0)
    pool = None
    if scheduler == "processes":  # one pool for all computations
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        with dask.config.set(scheduler=scheduler, **({} if pool is None else {"pool": pool})):
            there = clone(model).fit(spread(tensor(), BLOCKS["2"]))
    finally:
        if pool is not None:
            pool.shutdown()
    assert_same(clone(model).fit(tensor()), there)


def test_a_given_view(serial: dict[str, Any]) -> None:
    X = tensor()
    V = X + 0.1 * np.random.default_rng(1).standard_normal(X.shape).astype(X.dtype)
    model = FITS["plc"]
    here = clone(model).fit(X, view=V)
    there = clone(model).fit(spread(X, BLOCKS["4"]), view=spread(V, (1500, 100)))
    assert_same(here, there)
    assert_same(here, clone(model).fit(spread(X, BLOCKS["4"]), view=V))


def test_views_drawn_by_the_caller() -> None:
    X = tensor()

    def noisy(rng: np.random.Generator) -> np.ndarray:
        return X + 0.1 * rng.standard_normal(X.shape).astype(X.dtype)

    model = FITS["plc"]
    here = clone(model).fit(X, view=noisy)
    assert_same(here, clone(model).fit(spread(X, BLOCKS["uneven"]), view=noisy))


def test_labels_take_part() -> None:
    X, y, *_ = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, random_state=0)
    some = np.where(np.arange(N) % 7 == 0, y, -1)
    for name in ("plc", "tied"):
        here = clone(FITS[name]).fit(X, some)
        assert_same(here, clone(FITS[name]).fit(spread(X, BLOCKS["4"]), some))


@pytest.mark.parametrize(("graph", "share"), [("true", 1.0), ("true", 0.3), ("pseudo", 0.3)])
def test_known_labels_in_the_graph(graph: str, share: float) -> None:
    X, y, *_ = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, random_state=0)
    some = np.where(np.random.default_rng(0).random(N) < share, y, -1)
    model = with_options(FITS["plc-als"], graph=graph, tol=1e-3)
    for blocks in ("4", "empty"):
        assert_same(clone(model).fit(X, some), clone(model).fit(spread(X, BLOCKS[blocks]), some))


@pytest.mark.parametrize("name", ["plc-als", "plc-paper", "atd"])
def test_a_few_rows_give_the_first_centres(name: str) -> None:
    here = tuned(FITS[name], kmeans=FEW_ROWS).fit(tensor())
    for blocks in ("2", "uneven"):
        there = tuned(FITS[name], kmeans=FEW_ROWS).fit(spread(tensor(), BLOCKS[blocks]))
        assert_same(here, there)


def test_blocks_smaller_than_strips() -> None:
    small = {"blocks": BlockSize(max_values=200 * 120)}
    for name in ("plc-paper", "atd"):
        there = tuned(FITS[name], **small).fit(spread(tensor(), BLOCKS["2"]))
        assert_same(tuned(FITS[name], **small).fit(tensor()), there, other_labels=2)


@pytest.mark.parametrize(
    ("name", "most"),
    [("plc-als", 2**26), ("plc-paper", 10), ("atd", 2**26), ("atd", 10), ("plc-als-fresh", 10)],
)
def test_a_fit_goes_on_from_its_checkpoint(tmp_path: Any, name: str, most: int) -> None:
    X, path = spread(few_windows(), (60,) * 7), tmp_path / "fit.ckpt"
    limits = {"blocks": SHORT, "max_gathered_values": most}
    model = with_options(FITS[name], max_iter=9, tol=0.0)

    class Stop(Exception):
        pass

    def stop(row: dict[str, float]) -> None:
        if row["iteration"] == 7:
            raise Stop

    with pytest.raises(Stop):
        stopped = tuned(model, **limits).set_params(callback=stop)
        stopped.fit(X, checkpoint=path, every=4)
    resumed = tuned(model, **limits)
    resumed.fit(X, checkpoint=path, every=4, resume=path)
    whole = tuned(model, **limits).fit(X)
    # Without the last features, of which there are too many, E9 ends within its tolerance.
    for U, V in zip(whole.factors_, resumed.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=0.0 if most > 10 else 1e-3)
    np.testing.assert_array_equal(np.asarray(whole.labels_), np.asarray(resumed.labels_))


def test_transform_is_lazy_and_the_same(serial: dict[str, Any]) -> None:
    X = tensor()
    lazy = serial["plc"].transform(spread(X, BLOCKS["empty"]))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (N, 4)
    assert lazy.numblocks[0] == 3
    assert lazy.dtype == np.float32
    np.testing.assert_allclose(lazy.compute(), serial["plc"].transform(X), atol=1e-5)
    score = serial["plc"].score(spread(X, BLOCKS["4"]))
    assert score == pytest.approx(serial["plc"].score(X), abs=1e-5)


class Short(PLC):
    _tuning = Tuning(blocks=SHORT)  # of the copies that ContrastiveFeatures makes, too


def test_fit_transform_of_signals() -> None:
    rec = make_synthetic(n_samples=300, n_classes=3, random_state=0)
    parts = [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(16, n_biases=2)]
    model = ContrastiveFeatures(
        fs=rec.fs, tensorize=parts, decompose=build(Short, rank=4, tol=1e-3), random_state=0
    )
    here = tuned(model, blocks=SHORT).fit(rec.X)
    for blocks in ((300,), (100, 0, 157, 43)):
        signals = da.from_array(rec.X, chunks=(blocks, 2, 50))
        there = tuned(model, blocks=SHORT).fit(signals)
        for U, V in zip(here.factors_, there.factors_, strict=True):
            np.testing.assert_allclose(U, V, atol=1e-4)
        np.testing.assert_array_equal(here.labels_, there.labels_)
        np.testing.assert_allclose(
            there.transform(signals).compute(), here.transform(rec.X), atol=1e-4
        )


def test_sizes_that_are_not_known() -> None:
    X = tensor()
    unknown = da.concatenate(
        [
            da.from_delayed(dask.delayed(X[a:b]), (np.nan, *DIMS), X.dtype)
            for a, b in ((0, 50), (50, N))
        ]
    )
    assert np.isnan(unknown.shape[0])
    assert_same(clone(FITS["cpd"]).fit(X), clone(FITS["cpd"]).fit(unknown))


def test_blocks_are_cut_and_modes_brought_together() -> None:
    from tensorcontrast.distributed.source import DaskSource

    size = BlockSize(max_values=50 * 120)
    cut = DaskSource(da.from_array(tensor(), chunks=(700, 2, 3, 5)), block_size=size)
    assert max(cut.sizes) <= 50
    assert sum(cut.sizes) == N
    np.testing.assert_array_equal(np.concatenate(list(cut.blocks())), tensor())


def test_a_sample_of_the_rows_is_descended() -> None:
    X, y, *_ = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, random_state=0)
    some = np.where(np.arange(N) % 7 == 0, y, -1)
    here, there = (tuned(FITS["tied-core"], max_descent_windows=250) for _ in range(2))
    here.fit(X, some)
    there.fit(spread(X, BLOCKS["uneven"]), some)
    assert_same(here, there)
    assert here.labels_.shape == (N,)
    rows = gradient.sampled(N, 3, 250)
    assert rows is not None
    assert len(np.unique(rows)) == 250
    batches = tuned(with_options(FITS["cpd"], batch_size=32), max_descent_windows=250)
    with pytest.raises(InvalidInputError, match=r"250 at most.*without batch_size"):
        batches.fit(spread(X, BLOCKS["2"]))


@pytest.mark.parametrize("name", ["plc", "plc-core"])
@pytest.mark.parametrize("few", [True, False])
def test_the_nuisance_metric(name: str, few: bool) -> None:
    limits = {} if few else {"max_gathered_values": 10, "max_descent_windows": 250}
    X = tensor() + 0.3 * np.random.default_rng(1).normal(size=(N, *DIMS)).astype("f4")
    noise = np.random.default_rng(0).normal(size=(60, *DIMS))
    here = tuned(FITS[name], **limits).set_params(epsilon=0.3).fit(X, nuisance=noise)
    there = tuned(FITS[name], **limits).set_params(epsilon=0.3)
    there.fit(spread(X, BLOCKS["uneven"]), nuisance=noise)
    assert here.nuisance_gains_ is not None
    np.testing.assert_allclose(there.nuisance_gains_, here.nuisance_gains_, rtol=1e-3)
    assert isinstance(there.features_, np.ndarray) is few
    assert_same(here, there)
    lazy = there.transform(spread(X, BLOCKS["4"]))
    np.testing.assert_allclose(lazy, here.transform(X), atol=1e-3)


@pytest.mark.parametrize("name", ["cpd", "plc-core", "plc-als", "plc-paper", "atd"])
def test_features_of_very_many_samples_stay_lazy(name: str) -> None:
    limits: dict[str, Any] = {"max_gathered_values": 10, "kmeans": FEW_ROWS}
    if name == "plc-core":
        limits["max_descent_windows"] = 250
    model = tuned(FITS[name], **limits).fit(spread(tensor(), BLOCKS["uneven"]))
    here = tuned(FITS[name], **limits).fit(tensor())
    assert isinstance(model.features_, da.Array)
    assert isinstance(model.labels_, da.Array)
    np.testing.assert_allclose(model.features_.compute(), here.features_, atol=1e-3)
    np.testing.assert_array_equal(model.labels_.compute(), here.labels_)
    np.testing.assert_allclose(model.weights_, here.weights_, rtol=1e-3)
    if here.view_features_ is not None:
        np.testing.assert_allclose(model.view_features_.compute(), here.view_features_, atol=1e-3)


def test_what_needs_all_samples_in_one_place_is_refused() -> None:
    some = np.where(np.arange(N) % 7 == 0, np.arange(N) % 3, -1)
    X = spread(tensor(), BLOCKS["2"])
    for model, y in (
        (FITS["plc-clusterer"], None),
        (clone(FITS["plc-als"]).set_params(graph="same-view"), None),
        (FITS["plc-als"], some),
    ):
        with pytest.raises(InvalidInputError, match="solver='tied'"):
            tuned(model, max_gathered_values=10).fit(X, y)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of what reaches the caller, one entry each time."""
    from tensorcontrast.distributed import blocks

    seen: list[int] = []
    plain = blocks.computed

    def counted(tasks: Any, **more: Any) -> list[Any]:
        out = plain(tasks, **more)
        seen.append(sum(a.nbytes for a in _arrays(out)))
        return out

    monkeypatch.setattr(blocks, "computed", counted)
    return seen


@pytest.mark.parametrize("name", ["cpd-core", "atd", "plc-core", "plc-als", "plc-paper"])
def test_samples_stay_where_they_are(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nothing that reaches the caller at once is larger than features, sums or the window."""
    seen = watched(monkeypatch)
    model = with_options(FITS[name], max_iter=6, tol=0)
    model = tuned(model, blocks=SHORT, head_windows=8, max_descent_windows=30)
    X = few_windows()
    model.fit(spread(X, (60,) * 7))
    sums = 7 * 8 * (4 * 480 + 4 * 4 + 16)  # the last seven of a tree
    features, sample = 2 * 4 * 4 * len(X), 2 * 30 * 60 * 4
    assert len(seen) > 8
    assert max(seen) <= max(sums, features, sample)
    assert max(seen) < 0.2 * X.nbytes


@pytest.mark.parametrize("name", ["plc-als", "plc-paper", "atd"])
def test_only_sums_reach_the_caller(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Four times the windows, no more bytes an iteration: features and labels stay away."""
    few = KMeansTuning(max_first_rows=50)
    seen = watched(monkeypatch)
    moved = []
    for repeats in (1, 4):
        marks: dict[int, int] = {}

        def mark(row: dict[str, float], marks: dict[int, int] = marks) -> None:
            marks[int(row["iteration"])] = len(seen)

        X = spread(np.concatenate([few_windows()] * repeats), (60,) * 7 * repeats)
        model = with_options(FITS[name], max_iter=9, tol=0, callback=mark)
        tuned(model, blocks=SHORT, kmeans=few).fit(X)
        an_iteration = [sum(seen[marks[i] : marks[i + 1]]) for i in range(6, 9)]
        moved.append(max(an_iteration))
        # Q, WᵀW and squares; sums over 8 clusters of both views, and of some steps of Lloyd's.
        a_sum = 8 * (4 * 480 + 4 * 4 + 16) + 6 * 8 * (8 * 4 + 8 + 12)
        assert moved[-1] <= (7 if repeats == 1 else 4) * a_sum  # at the top of a tree
    assert moved[1] < moved[0]


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if dataclasses.is_dataclass(value):
        value = list(vars(value).values())
    return [a for part in value for a in _arrays(part)] if isinstance(value, list | tuple) else []


def test_bad_values_are_named_by_their_place() -> None:
    X = tensor()
    X[1333, 2, 3, 4] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[1333, 2, 3, 4\] is nan"):
        CPD(rank=2).fit(spread(X, BLOCKS["4"]))
    with pytest.raises(InvalidInputError, match="all windows are equal"):
        CPD(rank=2).fit(da.ones((40, 4, 5), chunks=(10, 4, 5)))
    with pytest.raises(InvalidInputError, match="at least 2"):
        CPD(rank=2).fit(da.ones((1, 4, 5)))
    with pytest.raises(InvalidInputError, match="at least one value"):
        CPD(rank=2).fit(da.ones((0, 4, 5)))
    with pytest.raises(InvalidInputError, match="shape"):
        CPD(rank=2).fit(da.ones(5))
    with pytest.raises(InvalidTypeError, match="numbers are needed"):
        CPD(rank=2).fit(da.from_array(np.full((4, 3), "a"), chunks=2))
    with pytest.raises(InvalidInputError, match="view has shape"):
        PLC(rank=2).fit(spread(tensor(), BLOCKS["2"]), view=da.ones((N, 4, 6, 4)))
    model = build(CPD, rank=2, max_iter=2, tol=0).fit(tensor())
    with pytest.raises(InvalidInputError, match="dims"):
        model.transform(da.ones((5, 4, 6, 4)))


def test_an_estimator_is_left_as_it_was_where_a_fit_fails(serial: dict[str, Any]) -> None:
    model = clone(FITS["cpd"]).fit(tensor())
    before = [U.copy() for U in model.factors_]
    X = tensor()
    X[1400] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        model.fit(spread(X, BLOCKS["4"]))
    for U, V in zip(before, model.factors_, strict=True):
        np.testing.assert_array_equal(U, V)


def test_other_decompositions_refuse_dask() -> None:
    from tensorcontrast.evaluate.peers import FlatPCA

    signals = da.ones((20, 2, 64), chunks=(10, 2, 64))
    with pytest.raises(InvalidInputError, match="does not take Dask arrays"):
        ContrastiveFeatures(fs=10.0, decompose=FlatPCA(2)).fit(signals)


def test_dask_is_not_imported_and_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, tensorcontrast; tensorcontrast.PLC, tensorcontrast.ContrastiveFeatures\n"
        "import numpy as np\n"
        "als = tensorcontrast.ALS(max_iter=2, tol=0)\n"
        "tensorcontrast.CPD(rank=2, als=als).fit(np.random.rand(9, 3, 4))\n"
        "assert not {'dask', 'distributed', 'zarr'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    from tensorcontrast.distributed import extra

    monkeypatch.setattr(extra, "import_module", lambda name: (_ for _ in ()).throw(ImportError()))
    with pytest.raises(MissingDependencyError, match=r"pip install 'tensorcontrast\[dask\]'"):
        extra.package("dask")


def test_the_same_to_the_bit() -> None:
    """Sums are of the same strips, so that nothing is left for chance to amplify."""
    X = tensor() + np.random.default_rng(0).standard_normal((N, *DIMS)).astype(np.float32)
    for name in ("cpd", "cpd-core", "plc-core", "plc", "plc-als", "plc-paper", "atd"):
        model = with_options(FITS[name], max_iter=10, tol=0)
        here, there = clone(model).fit(X), clone(model).fit(spread(X, BLOCKS["uneven"]))
        for U, V in zip(here.factors_, there.factors_, strict=True):
            np.testing.assert_array_equal(U, V)
        np.testing.assert_array_equal(here.labels_, there.labels_)
        np.testing.assert_allclose(here.history_["objective"], there.history_["objective"], 1e-12)


def test_exact_data_ends_alike() -> None:
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((d, 2)) for d in (4, 5)]
    X = np.einsum("nr,ir,jr->nij", rng.standard_normal((200, 2)), *factors)
    model = build(CPD, rank=2, random_state=0, alpha=0.0, tol=1e-7, center=False)
    here, there = (tuned(model, blocks=SHORT) for _ in range(2))
    here.fit(X)
    there.fit(spread(X, (50, 90, 60)))
    assert here.n_iter_ == there.n_iter_
    assert here.reconstruction_error_ < 1e-3
    assert there.reconstruction_error_ == pytest.approx(here.reconstruction_error_, rel=1e-3)


def test_blocks_are_brought_to_strips() -> None:
    from tensorcontrast.distributed.source import aligned

    assert aligned((420,), 10_000) == (420,)
    assert aligned((60,) * 7, 10_000, 32) == (64, 64, 64, 64, 32, 64, 68)
    assert aligned((100, 0, 1, 319), 64, 32) == (64, 32, 64, 64, 64, 64, 64, 4)
    assert aligned((10, 10), 8, 32) == (8, 8, 4)


@pytest.mark.parametrize("chunks", [(1500,), (700, 800), (512, 1, 0, 987)])
def test_sketches_of_blocks_are_those_of_the_whole(chunks: tuple[int, ...]) -> None:
    from tensorcontrast.cp.sketch import SketchTuning

    eager = {"sketch": SketchTuning(min_values_to_sketch=0)}
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4, 9, 6)).astype(np.float32)
    X += np.einsum("nr,ar,br,cr->nabc", *(rng.standard_normal((d, 3)) for d in X.shape)).astype(
        np.float32
    )
    model = build(CPD, rank=3, max_iter=15, tol=0.0, random_state=0)
    serial = tuned(model, **eager).fit(X)
    blocks = tuned(model, **eager).fit(dask.array.from_array(X, chunks=(chunks, 4, 9, 6)))
    for a, b in zip(serial.factors_, blocks.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)
    assert np.array_equal(serial.labels_, np.asarray(blocks.labels_))


def test_workers_without_memory_end_the_fit_with_the_way_out() -> None:
    from tensorcontrast.distributed.blocks import cluster_errors

    def full(block: Any) -> Any:
        raise MemoryError

    X = da.zeros((60, 4, 5), chunks=(20, 4, 5)).map_blocks(full, meta=np.zeros((0, 4, 5)))
    with pytest.raises(TensorContrastError, match=r"out of memory: make the blocks .* smaller"):
        CPD(rank=2).fit(X)
    killed = type("KilledWorker", (Exception,), {})
    with pytest.raises(TensorContrastError, match="died again and again"), cluster_errors():
        raise killed("task")
