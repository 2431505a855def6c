"""Parameters out of range: each raises an InvalidInputError, a ValueError, that names it."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, Algorithm1, TensorContrastError
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import InvalidInputError

every = pytest.mark.parametrize("cls", [CPD, ATD, PLC])


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(40, (4, 6, 5), 3, noise=0.05, random_state=0)[0]


WRONG = {
    "rank": [0, -1, 2.5, "3", None, True, np.nan, [3], np.array([3, 4]), 1 + 2j],
    "alpha": [-1e-9, np.nan, np.inf, "a", None],
    "max_iter": [0, -1, 1.5, None, True],
    "tol": [-1e-9, np.nan, None],
    "n_init": [0, 1.5, True],
    "init": ["svd", 3, None, CPD()],
    "center": ["yes", 3, None],
    "scale": [None, 3, "yes"],
    "block_weights": [0.5, "equal"],
    "dtype": ["float16", "int32", 3],
    "random_state": [-1, "a", 1.5],
    "callback": [3, "print"],
    "verbose": [-1, "yes"],
}
GAPS = {"missing": ["drop", None, np.nan], "nonnegative": ["yes", 2, None]}
VIEWS = {
    "augment": [3, "noise"],
    "fresh_views": ["yes", None],
    "batch_size": [0, 1, 2.5, True],
    "step_size": [0.0, 1.1, np.nan],
}
WRONG_BY_CLASS = {
    CPD: WRONG | GAPS,
    ATD: WRONG
    | VIEWS
    | {"beta": [-1e-9, np.nan, np.inf, "large", None], "delta": [-1.0, np.nan, None]},
    PLC: WRONG
    | GAPS
    | {
        "gamma": [-1.0, np.nan, np.inf],
        "epsilon": [0.0, -1.0, np.nan],
        "n_clusters": [0, 2.5, True, "8", [3]],
        "clusterer": ["kmeans", 3],
        "graph": ["truth", None],
        "algorithm1": [3, "paper", {}, Algorithm1],
    },
    Algorithm1: VIEWS
    | {
        "beta": [-1e-9, np.nan, np.inf, "large"],
        "warm_up": [-1, 1.5, "few", True],
        "laplacian": ["unsigned", None],
        "units": ["metre", None],
        "trans_inv": ["no", None],
        "same_view": ["no", None],
    },
}
CASES = [
    (cls, name, v) for cls, names in WRONG_BY_CLASS.items() for name in names for v in names[name]
]


@pytest.mark.parametrize("cls", WRONG_BY_CLASS)
def test_every_parameter_has_a_range(cls):
    assert set(WRONG_BY_CLASS[cls]) == set(cls().get_params(deep=False))


@pytest.mark.parametrize(("cls", "name", "value"), CASES)
def test_parameters_out_of_range(cls, name, value, X):
    model = (
        PLC(rank=3, algorithm1=Algorithm1(**{name: value})) if cls is Algorithm1 else cls(rank=3)
    )
    if cls is not Algorithm1:
        model.set_params(**{name: value})
    with pytest.raises(InvalidInputError, match=name) as caught:
        model.fit(X)
    assert isinstance(caught.value, ValueError)
    assert not hasattr(model, "factors_")


@every
@pytest.mark.parametrize("value", [np.int64(3), np.uint8(3), np.int16(3)])
def test_whole_numbers_of_numpy_are_numbers(cls, value, X):
    assert cls(rank=value, random_state=0).fit(X).rank_ == 3


def test_what_only_some_estimators_have():
    assert "center" in CPD().get_params()
    assert not {"n_clusters", "gamma", "beta"} & set(CPD().get_params())


@every
def test_a_huge_rank_is_cut_before_anything_is_made(cls, X):
    with pytest.warns(UserWarning, match="rank"):
        model = cls(rank=10**12, max_iter=2, tol=0, random_state=0).fit(X[:10, :2, :3, 0])
    assert model.rank_ == 6


def starts(dims, rank=3):
    return [np.ones((d, rank)) for d in dims]


@pytest.mark.parametrize(
    "init",
    [
        [],
        starts((4, 6)),
        starts((4, 6, 4)),
        starts((4, 6, 5), 2),
        [*starts((4, 6)), np.full((5, 3), np.nan)],
        ["a", "b", "c"],
        [[[1.0], [1.0, 2.0]], 1, 1],
        [1, 2, 3],
        [None, None, None],
    ],
)
def test_starts_that_do_not_fit(init, X):
    with pytest.raises(TensorContrastError, match="init"):
        CPD(rank=3, init=init).fit(X)
