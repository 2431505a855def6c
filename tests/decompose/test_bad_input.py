"""Bad input: each kind gives a right result or a clear error that names the place."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from tensorcontrast import ATD, CPD, PLC, Algorithm1, TensorContrastError
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning

ALL = [CPD, ATD, PLC]
every = pytest.mark.parametrize("cls", ALL)


@pytest.fixture(scope="module")
def data():
    X, y, *_ = make_cp_tensor(40, (4, 6, 5), 3, noise=0.05, random_state=0)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def make(cls, **params):
    more = {"n_clusters": 3} if cls is PLC else {}
    return cls(**{"rank": 3, "random_state": 0, **more, **params})


# ---------------------------------------------------------------------------- too little data


@every
@pytest.mark.parametrize("shape", [(0, 4), (0, 4, 5), (5, 0), (5, 0, 3), (5, 3, 0)])
def test_empty(cls, shape):
    with pytest.raises(InvalidInputError, match="0"):
        make(cls).fit(np.zeros(shape))


@every
def test_one_sample(cls, data):
    with pytest.raises(InvalidInputError, match="1"):
        make(cls).fit(data[0][:1])


@every
@pytest.mark.parametrize("X", [3.0, [1.0, 2.0, 3.0], None])
def test_no_tensor_at_all(cls, X):
    with pytest.raises(InvalidInputError, match="array"):
        make(cls).fit(X)


def test_fewer_samples_than_clusters(data):
    with pytest.raises(InvalidInputError, match=r"n_samples=4 .*n_clusters=5"):
        make(PLC, n_clusters=5, rank=2).fit(data[0][:4])


@every
@pytest.mark.parametrize("n", [2, 3])
def test_two_and_three_samples_are_enough(cls, n, data):
    model = cls(rank=2, max_iter=5, tol=0, random_state=0).fit(data[0][:n])
    assert np.isfinite(model.transform(data[0])).all()


@every
def test_a_rank_that_the_data_cannot_have_is_cut(cls):
    X = np.random.default_rng(0).normal(size=(30, 2, 3))
    with pytest.warns(TensorContrastWarning, match="rank=32"):
        model = make(cls, rank=32).fit(X)
    assert model.rank_ == 6
    assert model.rank == 32
    assert model.transform(X).shape == (30, 6)
    assert len(model.get_feature_names_out()) == 6


# ---------------------------------------------------------------------------- degenerate values


@every
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e6 + 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_samples(cls, value, dtype):
    X = np.full((10, 3, 4), value, dtype=dtype)
    with pytest.raises(InvalidInputError, match="equal"):
        make(cls, rank=2).fit(X)


@every
def test_equal_samples_without_centring_are_the_mean(cls):
    sample = np.random.default_rng(0).normal(size=(1, 3, 4))
    X = np.repeat(sample, 8, axis=0)
    more = {"n_clusters": 1} if cls is PLC else {}
    model = make(cls, center=False, alpha=1e-6, **more).fit(X)
    assert np.isfinite(model.transform(X)).all()
    assert model.reconstruction_error_ < 0.2


@every
def test_all_zero(cls):
    with pytest.raises(InvalidInputError, match="zero"):
        make(cls, rank=2, center=False).fit(np.zeros((10, 3, 4)))


@every
@pytest.mark.parametrize("center", [True, False])
def test_one_constant_and_one_zero_sample_among_others(cls, center, data):
    X = data[0].copy()
    X[3], X[5] = 0.7, 0.0
    model = make(cls, center=center).fit(X)
    assert np.isfinite(model.transform(X)).all()
    if not center:
        np.testing.assert_array_equal(model.transform(X)[5], 0.0)


@every
def test_constant_channel_and_duplicate_samples(cls, data):
    X = np.concatenate([data[0], data[0]])
    X[:, 1] = 2.5
    model = make(cls).fit(X)
    np.testing.assert_allclose(model.factors_[0][1], 0.0, atol=0.05)
    W = model.transform(X)
    np.testing.assert_allclose(W[:40], W[40:], rtol=1e-12, atol=1e-12)


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_place_of_nan_and_infinity_is_named(cls, bad, data):
    X = data[0].copy()
    X[7, 2, 1, 4] = bad
    with pytest.raises(InvalidInputError, match=r"X\[7, 2, 1, 4\]"):
        make(cls).fit(X)
    model = make(cls).fit(data[0])
    for method in (model.transform, model.score):
        with pytest.raises(InvalidInputError, match=r"X\[7, 2, 1, 4\]"):
            method(X)


@every
@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_unit_gives_the_same_features(cls, factor, dtype, data):
    X = data[0].astype(dtype)
    plain = make(cls).fit(X)
    scaled = make(cls).fit(X * dtype(factor))
    np.testing.assert_allclose(scaled.transform(X * dtype(factor)), plain.transform(X), atol=2e-3)


@pytest.mark.parametrize(
    ("factor", "dtype"),
    [(1e-42, np.float32), (1e160, np.float64), (1e307, np.float64), (1e-300, np.float64)],
)
def test_values_at_the_end_of_the_range_are_right_or_named_as_such(factor, dtype, data):
    """Sums of squares leave the range of numbers; such windows are not "all equal"."""
    X = (data[0] * factor).astype(dtype)
    try:
        model = make(CPD).fit(X)
    except InvalidInputError as error:
        assert "equal" not in str(error)
    else:
        plain = make(CPD).fit(data[0]).transform(data[0])
        np.testing.assert_allclose(model.transform(X), plain, atol=0.1)


@pytest.mark.parametrize("beta", [1e4, 1e30])
def test_a_huge_weight_of_the_contrast_stays_finite(beta, data):
    for model in (make(ATD, beta=beta), make(Algorithm1, beta=beta)):
        model.set_params(max_iter=30, tol=0).fit(data[0])
        assert np.isfinite(model.transform(data[0])).all()


# ---------------------------------------------------------------------------- kinds of arrays


@every
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool", "float16"])
def test_other_numbers_are_taken_as_float32(cls, dtype, data):
    X = (data[0] * 20).astype("int8").astype(dtype)
    # Zeros and ones hold no components to speak of: a larger alpha keeps them apart.
    params = {"alpha": 0.1}
    model = make(cls, **params).fit(X)
    plain = make(cls, **params).fit(X.astype(np.float32))
    assert model.transform(X).dtype == np.float32
    np.testing.assert_array_equal(model.transform(X), plain.transform(X.astype(np.float32)))


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_the_one_asked_for(cls, dtype, data):
    model = make(cls, dtype=dtype).fit(data[0])
    assert {U.dtype.name for U in model.factors_} == {dtype}
    assert model.transform(data[0].astype(np.float16)).dtype == dtype


@every
def test_nothing_that_is_passed_in_is_changed(cls, data):
    X, y = data[0].copy(), data[1].copy() if cls is PLC else None
    if y is not None:
        y[::2] = -1
    view = X + 0.01
    extra = {ATD: {"view": view}, PLC: {"nuisance": view - X}}.get(cls, {})
    given = [a for a in (X, y, *extra.values()) if a is not None]
    before = [a.copy() for a in given]
    model = make(cls).fit(X, y, **extra)
    W = model.transform(X)
    W_before = W.copy()
    model.inverse_transform(W)
    model.score(X)
    for a, b in zip([*given, W], [*before, W_before], strict=True):
        np.testing.assert_array_equal(a, b)
    for dtype in (np.float32, np.float64):  # without centring and scaling nothing need be copied
        Z = X.astype(dtype)
        make(cls, center=False, scale=False, dtype=Z.dtype.name).fit(Z).transform(Z)
        np.testing.assert_array_equal(Z, X.astype(dtype))


# ---------------------------------------------------------------------------- transform and co


@every
@pytest.mark.parametrize(
    "shape", [(5, 4, 6), (5, 4, 6, 5, 1), (5, 6, 4, 5), (5, 4, 6, 4), (5, 120), (5, 4, 30)]
)
def test_other_dims_in_transform(cls, shape, data):
    model = make(cls).fit(data[0])
    for method in (model.transform, model.score):
        with pytest.raises(InvalidInputError):
            method(np.ones(shape))
    with pytest.raises(InvalidInputError, match="4, 6, 4"):
        model.transform(np.ones((5, 4, 6, 4)))


@every
@pytest.mark.parametrize("shape", [(5, 2), (5, 4), (3,), (5, 3, 1), (0, 3)])
def test_inverse_transform_of_other_columns(cls, shape, data):
    model = make(cls).fit(data[0])
    with pytest.raises(InvalidInputError):
        model.inverse_transform(np.ones(shape))
    with pytest.raises(InvalidInputError, match="NaN"):
        model.inverse_transform(np.full((5, 3), np.nan))
    with pytest.raises(InvalidInputError, match="rank_=3"):
        model.inverse_transform(np.ones((5, 2)))


@every
def test_before_fit(cls, data, tmp_path):
    model = make(cls)
    for use in (
        lambda: model.transform(data[0]),
        lambda: model.inverse_transform(np.ones((2, 3))),
        lambda: model.score(data[0]),
        lambda: model.save(tmp_path / "m.tcm"),
        lambda: model.get_feature_names_out(),
    ):
        with pytest.raises(NotFittedError):
            use()
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------- view and labels


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X[:-1],
        lambda X: X[..., :-1],
        lambda X: X.reshape(40, -1),
        lambda X: np.where(X == X[9, 1, 2, 3], np.nan, X),
        lambda X: "a",
        lambda X: 3,
        lambda X: X + 1j,
        lambda X: X * 1e300,
        lambda X: sparse.csr_array(X.reshape(40, -1)),
        lambda X: lambda rng: X[:-1],
        lambda X: lambda rng: None,
    ],
)
def test_views_that_do_not_fit(change, data):
    with pytest.raises(TensorContrastError, match="view"):
        make(ATD).fit(data[0], view=change(data[0]))


@every
@pytest.mark.parametrize("length", [0, 39, 41])
def test_labels_of_another_length(cls, length, data):
    for params in [{}, {"graph": "true"}] if cls is PLC else [{}]:
        with pytest.raises(InvalidInputError, match=str(length)):
            make(cls, **params).fit(data[0], np.zeros(length, dtype=int))
    with pytest.raises(InvalidInputError, match="labels"):
        make(cls).fit(data[0], 3)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "labels"),
        (np.full(40, -1), "unknown"),
        (np.full(40, np.nan), "unknown"),
        (np.where(np.arange(40) == 3, np.inf, 0.0), r"y\[3\] is inf"),
        (np.zeros((40, 2), dtype=int), r"\(40, 2\)"),
    ],
)
def test_labels_that_make_no_graph(y, message, data):
    with pytest.raises(InvalidInputError, match=message):
        make(PLC, graph="true").fit(data[0], y)


def test_labels_of_mixed_kinds(data):
    y = np.array([0, "a"] * 20, dtype=object)
    with pytest.raises(TensorContrastError, match="y"):
        make(PLC, graph="true").fit(data[0], y)


# ---------------------------------------------------------------------------- afterwards


def test_refused_input_leaves_an_unfitted_estimator_unfitted(data):
    for cls in ALL:
        model = make(cls)
        with pytest.raises(TensorContrastError):
            model.fit(np.full_like(data[0], np.nan))
        with pytest.raises(NotFittedError):
            model.transform(data[0])


@every
def test_refused_input_leaves_a_fitted_estimator_as_it_was_or_unfitted(cls, data):
    """Never the old factors with another mean and scale."""
    X, _ = data
    model = make(cls).fit(X)
    before = model.transform(X)
    with pytest.raises(InvalidInputError):
        model.fit(10 * X + 3, np.arange(5))
    try:
        np.testing.assert_array_equal(model.transform(X), before)
    except NotFittedError:
        assert not hasattr(model, "factors_")


def test_warnings_are_of_the_two_kinds_that_callers_can_filter():
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.warns(TensorContrastWarning), pytest.warns(ConvergenceWarning):
        model = CPD(max_iter=1, random_state=0).fit(X)
    assert model.rank_ == 2
