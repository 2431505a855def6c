"""Shapes beside spectrograms: when they are there, what they change, and files of them."""

import numpy as np
import pytest

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast import _beside as beside
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.evaluate.peers import FlatPCA
from tensorcontrast.report.components import describe_components

FAST = {"rank": 6, "max_iter": 30, "tol": 1e-3, "random_state": 0}


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=120, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def model(rec):
    return made(rec).fit(rec.X)


def made(rec, decompose=None, **options):
    levels = SpectrogramTensor(rec.fs, n_levels=4)
    decompose = PLC(**FAST, n_epochs=3) if decompose is None else decompose
    return ContrastiveFeatures(
        fs=rec.fs, tensorize=levels, decompose=decompose, random_state=0, **options
    )


def test_shapes_are_further_slices_of_the_same_spread(rec, model):
    plain = model.tensorize_.transform(rec.X)
    tensors = model.tensors(rec.X)
    c = plain.shape[1]
    assert model.shapes_ is not None
    np.testing.assert_array_equal(tensors[:, :c], plain)
    own = tensors[:, c:].reshape(len(tensors), -1)
    shapes = beside.restored(model.shapes_, model.tensorize_, *rec.X.shape[1:]).convolution
    values = shapes.transform(rec.X)
    np.testing.assert_allclose(own[:, : values.shape[1]], values * model.shapes_["gain"], rtol=1e-5)
    assert not own[:, values.shape[1] :].any()
    spreads = [np.sqrt(A.reshape(len(A), -1).var(axis=0).sum()) for A in (own, plain)]
    assert spreads[0] == pytest.approx(beside.WEIGHT * spreads[1], rel=1e-3)


def test_the_decomposition_gives_them_loadings_of_their_own(rec, model):
    assert model.decompose_.beside == model.tensors(rec.X[:1]).shape[1] - rec.n_channels > 0
    assert [len(U) for U in model.factors_] == list(model.tensorize_.output_shape_)
    assert model.decompose_.factors_[-1].ndim == 3


def test_where_there_are_shapes(rec):
    def has(decompose=None, **options):
        return made(rec, decompose, **options).fit(rec.X).shapes_ is not None

    assert has() and has(CPD(**FAST)) and has(ATD(**FAST)) and has(FlatPCA(4))
    assert not has(shapes=False)
    assert not has(missing="mask")
    in_time = made(rec).set_params(tensorize__n_levels="time")
    assert in_time.fit(rec.X).shapes_ is None
    assert in_time.set_params(shapes=True).fit(rec.X).shapes_ is not None
    assert made(rec, CPD(**FAST)).fit(rec.X[:31]).shapes_ is None


def test_what_cannot_have_shapes_says_so(rec, model):
    with pytest.raises(InvalidInputError, match="shapes of signals with gaps"):
        made(rec, shapes=True, missing="mask").fit(rec.X)

    class Other(CPD):
        takes_beside = False

    with pytest.raises(InvalidInputError, match="Other has no loadings"):
        made(rec, Other(**FAST), shapes=True).fit(rec.X)
    gaps = rec.X.copy()
    gaps[0, 0, :9] = np.nan
    masked = made(rec).fit(rec.X).set_params(missing="mask")
    with pytest.raises(InvalidInputError, match="fitted with shapes"):
        masked.transform(gaps)


def test_a_file_has_the_shapes(rec, model, tmp_path):
    model.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    np.testing.assert_array_equal(again.transform(rec.X), model.transform(rec.X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gain", float("nan")),
        ("gain", 1),
        ("n_slices", 99),
        ("n_slices", 1.0),
        ("convolution", None),
        (
            "convolution",
            ConvolutionFeatures().fit(np.random.default_rng(0).normal(size=(9, 2, 40))),
        ),
    ],
)
def test_a_file_with_other_shapes_is_refused(rec, tmp_path, name, value):
    broken = made(rec, CPD(**FAST)).fit(rec.X)
    broken.shapes_ = broken.shapes_ | {name: value}
    broken.save(tmp_path / "m.tcm")
    with pytest.raises(DamagedFileError, match="shapes"):
        load_model(tmp_path / "m.tcm")


def test_a_file_without_the_slices_of_its_model_is_refused(rec, tmp_path):
    broken = made(rec, CPD(**FAST)).fit(rec.X)
    broken.shapes_ = None
    broken.save(tmp_path / "m.tcm")
    with pytest.raises(DamagedFileError, match="0 slices beside them do not fit"):
        load_model(tmp_path / "m.tcm")


def test_a_mapped_file_gives_the_same_model(rec, model, tmp_path):
    np.save(tmp_path / "x.npy", rec.X)
    mapped = made(rec).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(mapped.transform(rec.X), model.transform(rec.X))


def test_blocks_give_the_numbers_of_the_whole(rec, model):
    whole = model.tensors(rec.X)
    parts = [model.tensors(rec.X[a : a + 7]) for a in range(0, len(rec.X), 7)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_on_dask_as_in_memory(rec, model):
    array = pytest.importorskip("dask.array")
    spread = made(rec).fit(array.from_array(rec.X, chunks=(50, -1, -1)))
    there = np.asarray(spread.transform(array.from_array(rec.X, chunks=(40, -1, -1))))
    np.testing.assert_allclose(there, model.transform(rec.X), rtol=1e-3, atol=1e-3)


def test_constant_signals_have_no_shapes_but_do_not_fail(rec):
    X = rec.X.copy()
    X[:, 1:] = 0
    found = made(rec, CPD(**FAST)).fit(X)
    assert np.isfinite(found.transform(X)).all()


def test_components_say_how_much_of_them_is_shapes(model):
    described = describe_components(model)
    shares = [c.shapes for c in described]
    assert all(0 < share < 1 for share in shares)
    modes, own = model.decompose_.factors_[:3], model.decompose_.factors_[3][0]
    for c in described:
        size = np.prod([(U[:, c.index] ** 2).sum() for U in modes])
        weight = (own[:, c.index] ** 2).sum()
        assert c.shapes == pytest.approx(weight / (weight + size), rel=1e-4)
        assert f"shapes ({100 * c.shapes:.0f} % of it)" in c.sentence
        assert c.sentence.startswith("mostly shapes") == (c.shapes > 0.75)
