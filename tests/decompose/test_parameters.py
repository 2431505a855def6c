"""Parameters out of range: each raises an InvalidInputError, a ValueError, that names it."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, TensorContrastError
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError

ALL = [CPD, ATD, PLC]
every = pytest.mark.parametrize("cls", ALL)


@pytest.fixture(scope="module")
def data():
    X, y, *_ = make_cp_tensor(40, (4, 6, 5), 3, noise=0.05, random_state=0)
    return X, y


def make(cls, **params):
    return build(cls, **{"rank": 3, "n_clusters": 3, "random_state": 0, **params})


WRONG = {
    "rank": [0, -1, 2.5, "3", None],
    "alpha": [-1e-9, np.nan, np.inf, "a", None],
    "max_iter": [0, -1, 1.5, None],
    "tol": [-1e-9, np.nan, None],
    "patience": [0, 1.5],
    "init": ["svd", 3, None],
    "n_init": [0, 1.5],
    "batch_size": [0, 1, 2.5],
    "step_size": [0.0, 1.1, np.nan],
    "n_clusters": [0, 2.5],
    "center": ["yes", 3],
    "block_weights": [0.5, "equal"],
    "scale": [None],
    "compress": ["all", 0, 1.5, -1],
    "dtype": ["float16", "int32", 3],
    "forgetting": [-0.1, 1.1, np.nan],
    "missing": ["drop", None, np.nan],
    "robust": ["tukey", True, 1.5],
    "checkpoint": [3, True],
    "every": [0, 1.5, None],
    "random_state": [-1, "a", 1.5],
    "callback": [3, "print"],
    "verbose": [-1, "yes"],
}
CONTRASTIVE = {
    "beta": [-1e-9, np.nan, np.inf, "large", None],
    "augment": [3, "noise"],
    "fresh_views": ["yes"],
    "warm_up": [-1, 1.5, None],
}
WRONG_BY_CLASS = {
    CPD: WRONG,
    ATD: WRONG | CONTRASTIVE | {"delta": [-1.0, np.nan, None]},
    PLC: WRONG
    | CONTRASTIVE
    | {
        "beta": [-1e-9, np.nan, np.inf, "large"],
        "contrast": ["hinge", None],
        "temperature": [0.0, -1.0, np.nan],
        "n_epochs": [0, 1.5],
        "learning_rate": [0.0, np.nan],
        "gamma": [-1.0, np.nan, np.inf],
        "epsilon": [0.0, -1.0, np.nan],
        "trans_inv": ["no"],
        "graph": ["truth", None],
        "laplacian": ["unsigned"],
        "units": ["metre"],
        "solver": ["sgd"],
        "clusterer": ["kmeans", 3],
    },
}


@every
def test_parameters_out_of_range(cls, data):
    """Every parameter has a range, and ``fit`` checks all of them."""
    assert set(WRONG_BY_CLASS[cls]) == set(cls().get_params())
    wrong = [(name, v) for name, values in WRONG_BY_CLASS[cls].items() for v in values]
    for name, value in wrong:
        with pytest.raises(InvalidInputError, match=name) as info:
            make(cls).set_params(**{name: value}).fit(data[0])
        assert isinstance(info.value, ValueError)


@every
def test_partial_fit_checks_parameters_too(cls, data):
    with pytest.raises(InvalidInputError, match="rank"):
        make(cls, rank=0).partial_fit(data[0])


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
    ],
)
def test_starts_that_do_not_fit(init, data):
    with pytest.raises(TensorContrastError, match=r"init.*\(4, 3\), \(6, 3\), \(5, 3\)"):
        make(CPD, init=init).fit(data[0])
