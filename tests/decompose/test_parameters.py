"""Parameters out of range: each raises an InvalidInputError, a ValueError, that names it."""

import numpy as np
import pytest

from tensorcontrast import ALS, ATD, CPD, PLC, Gradient, PaperALS, TensorContrastError
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
    "als": [3, "fast", ALS, {"max_iter": 3}, Gradient()],
    "n_clusters": [0, 2.5],
    "block_weights": [0.5, "equal"],
    "dtype": ["float16", "int32", 3],
    "missing": ["drop", None, np.nan],
    "robust": ["tukey", True, 1.5],
    "random_state": [-1, "a", 1.5],
    "callback": [3, "print"],
    "verbose": [-1, "yes"],
}
CONTRASTIVE = {
    "beta": [-1e-9, np.nan, np.inf, "large", None],
    "augment": [3, "noise"],
}
PARTS = {"nonnegative": ["yes", 2, None]}
WRONG_BY_CLASS = {
    CPD: WRONG | PARTS,
    ATD: WRONG | CONTRASTIVE | {"delta": [-1.0, np.nan, None]},
    PLC: WRONG
    | PARTS
    | CONTRASTIVE
    | {
        "beta": [-1e-9, np.nan, np.inf, "large"],
        "gamma": [-1.0, np.nan, np.inf],
        "epsilon": [0.0, -1.0, np.nan],
        "graph": ["truth", None],
        "solver": ["sgd"],
        "clusterer": ["kmeans", 3],
        "gradient": [3, "adam", Gradient, ALS()],
    },
}
WRONG_ALS = {
    "max_iter": [0, -1, 1.5, None],
    "tol": [-1e-9, np.nan, None],
    "patience": [0, 1.5],
    "init": ["svd", 3, None],
    "n_init": [0, 1.5],
    "warm_up": [-1, 1.5, "few"],
    "batch_size": [0, 1, 2.5],
    "step_size": [0.0, 1.1, np.nan],
    "fresh_views": ["yes"],
    "compress": ["all", 0, 1.5, -1],
    "forgetting": [-0.1, 1.1, np.nan],
}
WRONG_SETTINGS = {
    ALS: WRONG_ALS,
    PaperALS: WRONG_ALS
    | {
        "laplacian": ["unsigned"],
        "units": ["metre"],
        "trans_inv": ["no"],
        "center": ["yes", 3],
        "scale": [None],
    },
    Gradient: {
        "n_epochs": [0, 1.5],
        "learning_rate": [0.0, np.nan],
        "temperature": [0.0, -1.0, np.nan],
        "batch_size": [0, 1, 2.5, None],
        "contrast": ["hinge", None],
    },
}


@every
def test_parameters_out_of_range(cls, data):
    """Every parameter has a range, and ``fit`` checks all of them."""
    assert set(WRONG_BY_CLASS[cls]) == set(cls().get_params(deep=False))
    wrong = [(name, v) for name, values in WRONG_BY_CLASS[cls].items() for v in values]
    for name, value in wrong:
        with pytest.raises(InvalidInputError, match=name) as info:
            make(cls).set_params(**{name: value}).fit(data[0])
        assert isinstance(info.value, ValueError)


@pytest.mark.parametrize(
    ("cls", "name", "kind"),
    [(cls, "als", kind) for cls in ALL for kind in (ALS, PaperALS)] + [(PLC, "gradient", Gradient)],
)
def test_settings_out_of_range(cls, name, kind, data):
    """Every setting has a range; ``fit`` and ``partial_fit`` say which one, and of what."""
    assert set(WRONG_SETTINGS[kind]) == set(kind().get_params())
    wrong = [(key, v) for key, values in WRONG_SETTINGS[kind].items() for v in values]
    for key, value in wrong:
        told = f"The '{key}' parameter of {kind.__name__} must be"
        given = make(cls, **{name: kind(**{key: value})})
        later = make(cls, **{name: kind()}).set_params(**{f"{name}__{key}": value})
        for learn in (given.fit, given.partial_fit, later.fit):
            with pytest.raises(InvalidInputError, match=told) as info:
                learn(data[0])
            assert isinstance(info.value, ValueError)
        assert not hasattr(given, "factors_")


@every
def test_where_a_checkpoint_goes_is_checked(cls, data, tmp_path):
    wrong = {"checkpoint": [3, True], "every": [0, -1, 1.5, None, True, "3"], "resume": [3]}
    for name, values in wrong.items():
        for value in values:
            for more in ({}, {"checkpoint": tmp_path / "fit.tcc"}):
                with pytest.raises(InvalidInputError, match=f"{name}={value!r}") as info:
                    make(cls).fit(data[0], **more | {name: value})
                assert isinstance(info.value, ValueError)
    assert not list(tmp_path.iterdir())
    path = tmp_path / "fit.tcc"
    assert make(cls).fit(data[0], checkpoint=str(path), every=np.int64(3)).rank_ == 3
    assert path.exists()


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
