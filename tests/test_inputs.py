"""What callers pass as signals or tensors: masked arrays, foreign inputs, types of numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tensorcontrast import ATD, CPD, PLC, ContrastiveFeatures, Recordings, SpectrogramTensor
from tensorcontrast.augment import Jitter, Scale
from tensorcontrast.errors import (
    InvalidInputError,
    InvalidTypeError,
    TensorContrastError,
    TensorContrastWarning,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2, 64)) + np.sin(np.arange(64) * RNG.uniform(0.2, 1.5, (40, 1, 1)))
HIDDEN = np.zeros(X.shape, bool)
HIDDEN[3, 1, 5:9] = HIDDEN[7, 0, 60:] = True
#: The hidden values are absurd: a result that is right has not seen them.
MASKED = np.ma.MaskedArray(np.where(HIDDEN, 1e9, X), mask=HIDDEN)
GAPS = np.where(HIDDEN, np.nan, X)
T = RNG.normal(size=(30, 3, 4))
T_HIDDEN = RNG.random(T.shape) < 0.05


def features(**options):
    decompose = CPD(rank=3, max_iter=5, tol=0)
    return ContrastiveFeatures(fs=50.0, decompose=decompose, random_state=0, **options)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# ---------------------------------------------------------------------------- masked arrays


def test_masked_signals_are_an_error():
    plain = features().fit(X)
    some = SpectrogramTensor(missing="mask")
    for call in (
        features(missing="mask").fit,
        plain.transform,
        plain.tensors,
        some.fit,
        Recordings,
        lambda x: Recordings(x, allow_nan=True),
        lambda x: Recordings.from_signals([x[0]], window=32),
        lambda x: Jitter()(x, 0),
    ):
        for masked in (MASKED[3:], list(MASKED[3:])):
            with pytest.raises(InvalidInputError, match="masked"):
                call(masked)


@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
def test_masked_tensors_in_every_method(cls):
    masked = np.ma.MaskedArray(np.where(T_HIDDEN, -1e9, T), mask=T_HIDDEN)
    options = {"rank": 2, "random_state": 0, "max_iter": 5, "tol": 0}
    plain = cls(**options).fit(T)
    for call in (cls(**options).fit, plain.transform, plain.score):
        for given in (masked, list(masked), [list(window) for window in masked]):
            with pytest.raises(InvalidInputError, match="masked"):
                call(given)
    if cls is ATD:
        with pytest.raises(InvalidInputError, match="masked"):
            cls(**options).fit(T, view=masked)
    with pytest.raises(InvalidInputError, match="W is a masked array"):
        plain.inverse_transform(np.ma.masked_less(plain.transform(T), 0))


@pytest.mark.parametrize("mask", [np.ma.nomask, False, np.zeros(X.shape, bool)])
def test_arrays_without_masked_values_are_plain_arrays(mask):
    whole = np.ma.MaskedArray(X, mask=mask)
    made = features().fit(whole).transform(whole)
    np.testing.assert_array_equal(made, features().fit_transform(X))
    np.testing.assert_array_equal(Recordings(whole).X, X)
    assert type(Recordings(whole).X) is np.ndarray


def test_masked_blocks_of_dask_are_an_error():
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X, chunks=(10, 2, 64))
    hidden = da.ma.masked_array(lazy, da.from_array(HIDDEN, chunks=lazy.chunks))
    with pytest.raises(InvalidInputError, match="masked"):
        features().fit(hidden)
    with pytest.raises(InvalidInputError, match="masked"):
        features().fit(X).transform(hidden).compute()
    with pytest.raises(InvalidInputError, match="masked"):
        CPD(rank=2).fit(hidden)
    with pytest.raises(InvalidInputError, match="masked"):
        CPD(rank=2, max_iter=3, tol=0).fit(X).transform(hidden).compute()


def test_masked_tensors_of_neural_estimators_are_an_error():
    pytest.importorskip("torch")
    from tensorcontrast.neural import SimCLR

    masked = np.ma.MaskedArray(T, mask=T_HIDDEN)
    with pytest.raises(InvalidInputError, match="masked"):
        SimCLR(max_iter=1).fit(masked)


# ---------------------------------------------------------------------------- foreign inputs


def nested():
    return pd.DataFrame({c: [pd.Series(w) for w in X[:, i]] for i, c in enumerate("ab")})


def with_gradient(values):
    torch = pytest.importorskip("torch")
    return torch.tensor(values, requires_grad=True)


FOREIGN = {
    "gradient": (lambda: with_gradient(X), r"detach\(\).cpu\(\).numpy\(\)"),
    "ragged": (lambda: [[[1.0, 2.0], [3.0]], [[1.0], [2.0]]], "unequal lengths"),
    "objects": (lambda: np.array([[[{}, "a"]], [[None, 2]]], dtype=object), "number"),
    "sparse": (lambda: sparse.csr_array(np.eye(6)), "toarray"),
    "text": (lambda: np.full((4, 2, 8), "a"), "real numbers"),
    "bytes": (lambda: np.full((4, 2, 8), b"1"), "real numbers"),
    "complex": (lambda: X + 1j, "np.abs"),
    "dates": (lambda: np.zeros((4, 2, 8), "datetime64[s]"), "time stamps"),
    "spans": (lambda: np.zeros((4, 2, 8), "timedelta64[s]"), "time stamps"),
    "records": (lambda: np.zeros((4, 2, 8), [("a", float)]), "fields"),
    "dicts": (lambda: [{"a": 1.0}, {"a": 2.0}], "number"),
    "dict": (lambda: {"a": X}, "dict"),
    "set": (lambda: {1.0, 2.0}, "set"),
    "generator": (lambda: (x for x in X), "once|several times"),
    "string": (lambda: "signals.npy", "real numbers"),
    "nested table": (nested, "Recordings|number"),
    "none": (lambda: None, "dimensions|2D|number"),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("entry", ["features", "spectrogram", "recordings", "cpd", "augment"])
def test_foreign_inputs_are_errors_of_ours_with_a_way_out(kind, entry):
    made, message = FOREIGN[kind]
    call = {
        "features": features().fit,
        "spectrogram": SpectrogramTensor().fit,
        "recordings": Recordings,
        "cpd": CPD(rank=2).fit,
        "augment": lambda x: Scale()(x, 0),
    }[entry]
    with pytest.raises(TensorContrastError, match=message):
        call(made())


def test_tables_are_no_signals_but_can_be_tensors():
    table = pd.DataFrame(X[:, 0], columns=[f"t{i}" for i in range(64)])
    with pytest.raises(InvalidInputError, match=r"from_signals.*to_numpy\(\).reshape"):
        features().fit(table)
    model = CPD(rank=2, max_iter=3, tol=0).fit(table)
    assert model.feature_names_in_[1] == "t1"


def test_tensors_of_torch_without_gradient_are_arrays():
    torch = pytest.importorskip("torch")
    wanted = features().fit_transform(X)
    np.testing.assert_array_equal(features().fit_transform(torch.tensor(X)), wanted)


def test_the_way_out_for_infinity_is_not_the_mask():
    both = GAPS.copy()
    both[0, 0, 0] = np.inf
    for call in (features().fit, SpectrogramTensor().fit, CPD(rank=2).fit):
        with pytest.raises(InvalidInputError, match="inf") as error:
            call(both)
        assert "missing='mask'" not in str(error.value)
        with pytest.raises(InvalidInputError, match="missing='mask'"):
            call(GAPS)


# ---------------------------------------------------------------------------- swapped axes


@pytest.mark.parametrize("shape", [(4, 28, 50), (4, 12, 25), (4, 16, 16)])
def test_ordinary_windows_are_no_swapped_axes(shape):
    assert Recordings(np.ones(shape)).n_channels == shape[1]


def test_more_channels_than_samples_are_told_once():
    swapped = X.transpose(0, 2, 1)
    way = r"64 channels of 2 samples per window.*X.transpose\(0, 2, 1\)"
    with pytest.warns(TensorContrastWarning, match=way):
        rec = Recordings(swapped)
    assert len(rec[:3]) == 3  # no warning again
    with pytest.warns(TensorContrastWarning, match=way) as told:
        model = features().fit(swapped)
    assert sum("transpose" in str(w.message) for w in told) == 1
    names = [f"electrode {i}" for i in range(64)]
    assert model.transform(Recordings(swapped, channels=names, fs=50.0).X).shape == (40, 3)


def test_sparse_is_a_type_error():
    with pytest.raises(InvalidTypeError, match="dense"):
        Recordings(sparse.csr_array(np.eye(3)))
