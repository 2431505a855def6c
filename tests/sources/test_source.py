"""Streams, mapped files and chunked stores (sources/source.py) give the fit of the array."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, TensorContrastError
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.tuning import Tuning
from tensorcontrast.sources import source
from tensorcontrast.sources.tensor_noise import STRIP, TensorNoise

zarr = pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(n_samples=150, dims=(5, 8, 6), rank=3, noise=0.2, random_state=0)[0]


class Chunks:
    """Re-iterable of uneven chunks, one of them empty."""

    def __init__(self, X, cuts=(10, 10, 97)):
        self.X, self.cuts, self.passes = X, cuts, 0

    def __iter__(self):
        self.passes += 1
        return iter(np.split(self.X, self.cuts))


def stored(X, kind, folder):
    if kind == "memmap":
        path = folder / "X.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")
    if kind == "zarr":
        array = zarr.create_array(
            folder / "X.zarr", shape=X.shape, chunks=(16, *X.shape[1:]), dtype=X.dtype
        )
        array[:] = X
        return array
    return Chunks(X) if kind == "chunks" else lambda: (X[a : a + 31] for a in range(0, 150, 31))


@pytest.mark.parametrize("kind", ["memmap", "zarr", "chunks", "function"])
@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
def test_a_fit_is_that_of_the_array(cls, kind, X, tmp_path):
    options = {"rank": 3, "random_state": 0, "compress": (4, 5, 4), "max_iter": 30, "tol": 1e-4}
    whole, model = build(cls, **options), build(cls, **options)
    whole._tuning = model._tuning = Tuning(blocks=source.BlockSize(max_values=20 * X[0].size))
    whole.fit(X)
    model.fit(stored(X, kind, tmp_path))
    assert model.n_samples_seen_ == 150
    for U, V in zip(whole.factors_, model.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=2e-4)
    np.testing.assert_array_equal(whole.labels_, model.labels_)
    W = model.transform(stored(X, kind, tmp_path / "again") if kind == "chunks" else X)
    np.testing.assert_allclose(W, whole.transform(X), atol=2e-4)


def test_stores_are_transformed_and_scored_block_by_block(X, tmp_path):
    model = CPD(3, random_state=0).fit(X)
    for kind in ("memmap", "zarr"):
        data = stored(X, kind, tmp_path)
        np.testing.assert_allclose(model.transform(data), model.transform(X), atol=1e-5)
        assert model.score(data) == pytest.approx(model.score(X), abs=1e-5)


def test_without_compression_a_store_is_read_to_memory(X, tmp_path):
    whole = build(CPD, rank=3, random_state=0, compress=None).fit(X)
    model = build(CPD, rank=3, random_state=0, compress=None).fit(stored(X, "zarr", tmp_path))
    np.testing.assert_array_equal(model.factors_[0], whole.factors_[0])


def test_the_view_can_be_a_store(X, tmp_path):
    view = X + 0.05
    options = {"rank": 3, "random_state": 0, "compress": (4, 5, 4)}
    whole = build(ATD, **options).fit(X, view=view)
    model = build(ATD, **options).fit(Chunks(X), view=Chunks(view, (77,)))
    np.testing.assert_allclose(whole.factors_[1], model.factors_[1], atol=2e-4)


def test_integers_become_float32(X):
    counts = np.round(100 * X).astype(np.int16)
    model = build(CPD, rank=3, random_state=0, compress=(4, 5, 4)).fit(Chunks(counts))
    assert model.factors_[0].dtype == np.float32


@pytest.mark.parametrize("blocks", [1, 3, STRIP, 150])
def test_default_views_do_not_depend_on_the_blocks(X, blocks):
    mean, noise = X.mean(axis=0), TensorNoise()
    whole = noise.block(X, 0, 7, mean, 1.0)
    parts = [noise.block(X[a : a + blocks], a, 7, mean, 1.0) for a in range(0, len(X), blocks)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(noise.block(X, 0, 8, mean, 1.0), whole)


class Shrinking(Chunks):
    def __iter__(self):
        self.passes += 1
        return iter([self.X[: 100 - 20 * self.passes]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: iter([X]), "read once"),
        (lambda X: (x for x in [X]), "read once"),
        (lambda X: Chunks(X[:0], ()), "at least 2"),
        (lambda X: lambda: iter([]), "empty"),
        (lambda X: lambda: iter([X[:5], X[:5, :, 1:]]), "begins with window 5"),
        (lambda X: Shrinking(X), "same windows"),
        (lambda X: lambda: iter([X[0, 0, 0]]), "first chunk has shape"),
        (lambda X: lambda: iter([np.array([["a", "b"]])]), "numbers are needed"),
        (lambda X: {"a": 1}, "X is a dict"),
    ],
)
def test_bad_streams(make, message, X):
    with pytest.raises(TensorContrastError, match=message):
        CPD(2, random_state=0).fit(make(X))


def test_a_bad_value_is_named_by_its_place_among_all_samples(X):
    bad = X.copy()
    bad[120, 1, 2, 3] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[120, 1, 2, 3\] is nan"):
        CPD(2, random_state=0).fit(Chunks(bad))


def test_other_dims_at_transform(X):
    model = CPD(2, random_state=0).fit(X)
    with pytest.raises(InvalidInputError, match="was fitted"):
        model.transform(Chunks(X[:, :, 1:]))
    with pytest.raises(InvalidInputError, match="gave 100 windows where 150"):
        build(ATD, rank=2, compress=(4, 5, 4)).fit(Chunks(X), view=Chunks(X[:100], (5,)))


PEAK = """
    import resource, sys
    import numpy as np
    from tensorcontrast import ALS, PLC, Gradient

    dims, n, step = (6, 40, 40), {n}, 200
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(d, 4)).astype("float32") for d in dims]
    H = np.einsum("ar,br,cr->rabc", *factors).reshape(4, -1)

    def chunks():
        for a in range(0, n, step):
            rng = np.random.default_rng(a)
            W = rng.normal(size=(step, 4)).astype("float32")
            X = W @ H + rng.standard_normal((step, H.shape[1]), dtype="float32")
            yield X.reshape(step, *dims)

    als, gradient = ALS(max_iter=3, tol=1.0), Gradient(n_epochs=1)
    PLC(4, als=als, gradient=gradient, random_state=0).fit(lambda: chunks())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(n):
    code = textwrap.dedent(PEAK.format(n=n))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return int(done.stdout) * 1024


def test_memory_is_the_core_and_a_few_chunks():
    few, many = peak(400), peak(8_000)
    tensor, chunk, core = 8_000 * 9600 * 4, 200 * 9600 * 4, 2 * 8_000 * 128 * 4
    assert tensor > 10 * (core + 2 * chunk)  # what is allowed
    # Python's own memory is in both; of the tensor (0.3 GB) there is nothing.
    assert many - few < 2 * core + 4 * chunk
