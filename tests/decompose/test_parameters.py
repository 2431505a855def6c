"""Parameters out of range: each raises an InvalidInputError, a ValueError, that names it."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, Algorithm1
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
    "center": ["yes", 3, None],
    "scale": [None, 3, "yes"],
    "block_weights": [0.5, "equal"],
    "dtype": ["float16", "int32", 3],
    "random_state": [-1, "a", 1.5],
    "callback": [3, "print"],
    "verbose": [-1, "yes"],
}
MISSING = ["drop", None, np.nan]
GRAPH = {
    "gamma": [-1.0, np.nan, np.inf],
    "epsilon": [0.0, -1.0, np.nan],
    "n_clusters": [0, 2.5, True, "8", [3]],
    "graph": ["truth", None],
}
VIEWS = {
    "augment": [3, "noise"],
    "fresh_views": ["yes", None],
    "batch_size": [0, 1, 2.5, True],
    "step_size": [0.0, 1.1, np.nan],
}
WRONG_BY_CLASS = {
    CPD: WRONG | {"missing": MISSING, "nonnegative": ["yes", 2, None]},
    ATD: WRONG
    | VIEWS
    | {"beta": [-1e-9, np.nan, np.inf, "large", None], "delta": [-1.0, np.nan, None]},
    PLC: WRONG | GRAPH | {"missing": MISSING},
    Algorithm1: WRONG
    | GRAPH
    | VIEWS
    | {
        "beta": [-1e-9, np.nan, np.inf, "large", None],
        "warm_up": [-1, 1.5, "few", True],
        "laplacian": ["unsigned", None],
        "units": ["metre", None],
        "trans_inv": ["no", None],
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
    model = cls(rank=3).set_params(**{name: value})
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
