"""Convolution features coupled with spectrograms: when, what they change, and files of them."""

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    features,
    load_model,
)
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.evaluate.peers import FlatPCA
from tensorcontrast.report.components import describe_components
from tensorcontrast.tensorize import blocks

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


def test_convolution_features_are_a_second_block(rec, model):
    plain = model.tensorize_.transform(rec.X)
    tensors, own = model.tensors(rec.X)
    np.testing.assert_array_equal(tensors, plain)
    values = model.shapes_["convolution"].transform(rec.X)
    np.testing.assert_allclose(own[:, : values.shape[1]], values * model.shapes_["gain"], rtol=1e-5)
    assert not own[:, values.shape[1] :].any()
    spreads = [np.sqrt(A.reshape(len(A), -1).var(axis=0).sum()) for A in (own, plain)]
    assert spreads[0] == pytest.approx(blocks.WEIGHT * spreads[1], rel=1e-3)
    found = blocks.restored(model.shapes_, model.tensorize_, *rec.X.shape[1:])
    np.testing.assert_array_equal(found.transform(rec.X)[:, plain[0].size :], own)


def test_the_decomposition_has_factors_for_both(rec, model):
    tensors, own = model.tensors(rec.X[:1])
    assert model.decompose_.block_dims_ == (tensors.shape[1:], own.shape[1:])
    assert model.decompose_.block_scales_ == (1.0, 1.0)
    assert [len(U) for U in model.factors_] == list(model.tensorize_.output_shape_)
    assert [len(U) for U in model.decompose_.factors_[1]] == [own.shape[1]]


def test_the_decomposition_can_weigh_the_blocks_anew(rec):
    part = CPD(**FAST, block_weights=(3, 1))
    found = made(rec, part).fit(rec.X)
    scales = found.decompose_.block_scales_
    variances = [
        s**2 * A.reshape(len(A), -1).var(axis=0).sum()
        for s, A in zip(scales, found.tensors(rec.X), strict=True)
    ]
    assert variances[0] == pytest.approx(3 * variances[1], rel=1e-4)
    np.testing.assert_allclose(found.transform(rec.X), found.decompose_.features_, atol=1e-4)


def test_blocks_are_those_that_the_decomposition_takes(rec, model):
    alone = clone(model.decompose_)
    tensors = model.tensors(rec.X)
    np.testing.assert_array_equal(model.decompose_.transform(tensors), model.transform(rec.X))
    weights = [A.reshape(len(A), -1).var(axis=0).sum() for A in tensors]
    alone.set_params(block_weights=weights).fit(tensors)
    np.testing.assert_allclose(alone.block_scales_, 1.0, rtol=1e-4)


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
        takes_blocks = False

    with pytest.raises(InvalidInputError, match="Other takes no coupled blocks"):
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
        ("width", 99),
        ("width", 1.0),
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


def test_a_file_without_the_blocks_of_its_model_is_refused(rec, tmp_path):
    broken = made(rec, CPD(**FAST)).fit(rec.X)
    broken.shapes_ = None
    broken.save(tmp_path / "m.tcm")
    with pytest.raises(DamagedFileError, match="in blocks None, do not fit"):
        load_model(tmp_path / "m.tcm")


def test_a_mapped_file_gives_the_same_model(rec, model, tmp_path):
    np.save(tmp_path / "x.npy", rec.X)
    mapped = made(rec).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(mapped.transform(rec.X), model.transform(rec.X))


def test_tensors_that_are_made_on_demand_give_the_same_model(rec, model, monkeypatch):
    monkeypatch.setattr(features, "IN_MEMORY_VALUES", 0)
    found = made(rec).fit(rec.X)
    np.testing.assert_allclose(found.transform(rec.X), model.transform(rec.X), rtol=1e-5, atol=1e-6)


def test_blocks_give_the_numbers_of_the_whole(rec, model):
    whole = model.tensors(rec.X)
    parts = [model.tensors(rec.X[a : a + 7]) for a in range(0, len(rec.X), 7)]
    for part, block in zip(zip(*parts, strict=True), whole, strict=True):
        np.testing.assert_array_equal(np.concatenate(part), block)


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
    modes, (own,) = model.decompose_.factors_
    for c in described:
        size = np.prod([(U[:, c.index] ** 2).sum() for U in modes])
        weight = (own[:, c.index] ** 2).sum()
        assert c.shapes == pytest.approx(weight / (weight + size), rel=1e-4)
        assert f"shapes ({100 * c.shapes:.0f} % of it)" in c.sentence
        assert c.sentence.startswith("mostly shapes") == (c.shapes > 0.75)
