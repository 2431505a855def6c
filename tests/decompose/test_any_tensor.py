"""Tensors of any order, size, dtype and rank: a finite result or a TensorContrastError."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorcontrast import ATD, CPD, PLC, Algorithm1, TensorContrastError


def algorithm1(**params):
    return Algorithm1(**params)


ALL = [CPD, ATD, PLC, algorithm1]


def works_or_is_refused(cls, n, dims, dtype, kind, seed, **params):
    """Fit, transform, rebuild; gives whether the data was taken."""
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=10.0, size=(n, *dims))
    if kind == "few values":
        X = rng.integers(0, 2, size=X.shape)
    elif kind == "one sample differs":
        X[1:] = X[1]
    elif kind == "rank one":
        X = np.multiply.outer(rng.normal(size=n), X[0])
    X = X.astype(dtype) if dtype != "uint8" else np.abs(X).astype(dtype)
    if cls in (CPD, ATD):
        params.pop("n_clusters", None)
    model = cls(tol=0, random_state=0, **params)
    try:
        model.fit(X)
    except TensorContrastError:
        return False
    W = model.transform(X)
    assert W.shape == (n, model.rank_) and np.isfinite(W).all()
    assert model.reconstruction_error_ <= 1.5
    assert model.inverse_transform(W).shape == X.shape
    return True


COMMON = {
    "cls": st.sampled_from(ALL),
    "dims": st.lists(st.integers(1, 6), min_size=1, max_size=4),
    "n_clusters": st.none() | st.integers(1, 13),
    "center": st.booleans(),
    "scale": st.booleans(),
    "max_iter": st.sampled_from([6, 30]),
    "seed": st.integers(0, 2**31),
}
thorough = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
ranks_are_cut = pytest.mark.filterwarnings("ignore::tensorcontrast.errors.TensorContrastWarning")


@ranks_are_cut
@thorough
@given(
    n=st.integers(4, 12),
    dtype=st.sampled_from(["float32", "float64", "float16", "int16"]),
    rank=st.integers(1, 3),
    alpha=st.sampled_from([1e-6, 1e-3]),
    **COMMON,
)
def test_any_shape_and_dtype_works(**case):
    taken = works_or_is_refused(kind="normal", **case)
    clusters = case["n_clusters"] or 1
    assert taken or (case["cls"] not in (CPD, ATD) and clusters > case["n"])


@ranks_are_cut
@thorough
@given(
    n=st.integers(2, 12),
    dtype=st.sampled_from(["float32", "float64", "float16", "int16", "uint8", "bool"]),
    rank=st.integers(1, 8),
    alpha=st.sampled_from([0.0, 1e-6, 1e-3, 1.0]),
    kind=st.sampled_from(["normal", "few values", "one sample differs", "rank one"]),
    **COMMON,
)
def test_any_tensor_works_or_is_refused(**case):
    assert works_or_is_refused(**case) in (True, False)


@pytest.mark.parametrize(
    "case",
    [
        case
        for reason, case in [
            (
                "without a ridge the error is 1e7 and nobody says so",
                {"n": 4, "dims": [1, 5], "dtype": "float32", "rank": 3, "alpha": 0.0, "seed": 1}
                | {"kind": "one sample differs", "scale": False},
            ),
            (
                "without a ridge the inverse overflows in float32",
                {"n": 2, "dims": [3], "dtype": "float32", "rank": 2, "alpha": 0.0, "seed": 1}
                | {"kind": "few values", "scale": False},
            ),
            (
                "the ridge of a component that dies away overflows in float32",
                {"n": 3, "dims": [2, 2], "dtype": "float32", "rank": 4, "alpha": 1e-6, "seed": 0}
                | {"kind": "one sample differs", "scale": False},
            ),
            (
                "the ridge of a component that dies away is divided by zero",
                {"n": 2, "dims": [2, 1], "dtype": "float64", "rank": 2, "alpha": 1e-6, "seed": 0}
                | {"kind": "normal", "scale": False},
            ),
            (
                "the contraction of a sample whose features are nearly zero overflows in float32",
                {"n": 10, "dims": [6, 6, 2, 2], "dtype": "float32", "rank": 2, "alpha": 1e-3}
                | {"kind": "normal", "seed": 36635978, "cls": PLC, "n_clusters": 1}
                | {"center": False, "max_iter": 30},
            ),
        ]
    ],
)
@pytest.mark.filterwarnings("ignore:.*cancel each other")
def test_tensors_that_once_broke(case):
    assert works_or_is_refused(**{"cls": CPD, "max_iter": 6, **case}) in (True, False)
