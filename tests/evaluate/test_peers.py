"""PCA, flat tensors and MiniRocket behind the interface of the decompositions."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensorcontrast import ContrastiveFeatures
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate import linear_probe
from tensorcontrast.evaluate.peers import FlatPCA, FlatTensor, MiniRocketFeatures, ridge_probe
from tensorcontrast.neural import BYOL, DeepTensor, SimCLR


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(60, (3, 6, 5), 3, noise=0.1, dtype=np.float32, random_state=0)[0]


@pytest.fixture(scope="module")
def recordings():
    return make_synthetic(n_samples=90, n_classes=3, n_times=100, random_state=0)


def test_each_says_what_it_takes_and_how_it_is_judged():
    says = {
        cls.__name__: (cls.takes, hasattr(cls, "make_classifier"))
        for cls in (FlatPCA, FlatTensor, MiniRocketFeatures, SimCLR, BYOL, DeepTensor)
    }
    assert says.pop("MiniRocketFeatures") == ("signals", True)
    assert set(says.values()) == {("tensors", False)}


# -------------------------------------------------------------------- PCA and flat tensors


def test_pca_is_scikit_learns(X):
    model = FlatPCA(4, random_state=0).fit(X)
    flat = X.reshape(60, -1).astype(np.float64)
    exact = PCA(4, svd_solver="full").fit(flat)
    cosine = np.abs(np.sum(model.components_ * exact.components_, axis=1))
    np.testing.assert_allclose(cosine[:3], 1.0, atol=1e-4)  # the fourth is noise: not unique
    error = np.linalg.norm(flat - exact.inverse_transform(exact.transform(flat)))
    error /= np.linalg.norm(flat - flat.mean(axis=0))
    assert model.reconstruction_error_ == pytest.approx(error, rel=1e-2)
    expected = (X - model.center_).reshape(60, -1) @ model.components_.T
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-5)


def test_pca_with_more_features_than_the_data_has_says_so(X):
    with pytest.warns(TensorContrastWarning, match="59 are used"):
        model = FlatPCA(80, random_state=0).fit(X)
    assert model.transform(X).shape == (60, 59)
    assert model.reconstruction_error_ == pytest.approx(0.0, abs=1e-3)


def test_flat_tensor_standardises_each_entry(X):
    data = X.copy()
    data[:, 1, 2, 3] = 7.25  # a constant entry is not divided by its rounding
    W = FlatTensor().fit_transform(data)
    assert W.shape == (60, 90)
    constant = 1 * 30 + 2 * 5 + 3
    rest = np.delete(W, constant, axis=1)
    np.testing.assert_allclose(rest.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(rest.std(axis=0), 1.0, rtol=1e-4)
    np.testing.assert_allclose(W[:, constant], 0.0, atol=1e-5)


@pytest.mark.parametrize("model", [FlatPCA(4, random_state=0), FlatTensor()], ids=str)
def test_the_common_interface(model, X):
    y = np.arange(60) % 2
    with pytest.warns(TensorContrastWarning, match="does not use y"):
        first = clone(model).fit(X, y, view=3 * X).transform(X)
    np.testing.assert_array_equal(clone(model).fit_transform(X), first)
    assert first.dtype == np.float32
    assert clone(model).fit_transform(X.astype(np.float64)).dtype == np.float64
    pipe = make_pipeline(clone(model), LogisticRegression(max_iter=2000)).fit(X, y)
    assert pipe.predict(X).shape == (60,)
    assert len(clone(model).fit(X).get_feature_names_out()) == first.shape[1]
    with pytest.raises(InvalidInputError, match="dims"):
        clone(model).fit(X).transform(X[:, :, :4])
    bad = X.copy()
    bad[3, 0, 0, 0] = np.inf
    with pytest.raises(InvalidInputError, match=r"X\[3, 0, 0, 0\]"):
        clone(model).fit(bad)


@pytest.mark.parametrize("model", [FlatPCA(4), FlatTensor()], ids=str)
def test_in_contrastive_features(model, recordings):
    features = ContrastiveFeatures(decompose=model, random_state=0).fit(recordings)
    assert len(features.transform(recordings)) == 90


def test_a_refused_fit_keeps_the_old_model(X):
    model = FlatPCA(4, random_state=0).fit(X)
    before = model.transform(X)
    with pytest.raises(InvalidInputError):
        model.fit(X[:1])
    np.testing.assert_array_equal(model.transform(X), before)


# -------------------------------------------------------------------- MiniRocket


def test_minirocket_of_signals(recordings):
    pytest.importorskip("aeon", reason="needs the extra 'bench'")
    from aeon.transformations.collection.convolution_based import MiniRocket

    model = MiniRocketFeatures(200, random_state=0).fit(recordings.X[:60])
    W = model.transform(recordings)
    assert W.shape == (90, 168)
    assert W.dtype == np.float32
    assert 0.0 <= W.min() < W.max() <= 1.0  # shares of positive values
    again = MiniRocketFeatures(200, random_state=0).fit(recordings.X[:60])
    np.testing.assert_array_equal(again.transform(recordings.X), W)
    other = MiniRocketFeatures(200, random_state=1).fit(recordings.X[:60])
    assert not np.array_equal(other.transform(recordings.X), W)
    theirs = MiniRocket(200, random_state=model.model_.random_state)
    expected = theirs.fit(recordings.X[:60].astype(np.float32))
    np.testing.assert_array_equal(expected.transform(recordings.X.astype(np.float32)), W)


def test_minirocket_beats_chance():
    """Of 45 guesses among three classes 1/3 ± 0.07 are right: the bar is three deviations up."""
    pytest.importorskip("aeon", reason="needs the extra 'bench'")
    rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    W = MiniRocketFeatures(840, random_state=0).fit_transform(rec.X)
    assert ridge_probe(W[::2], rec.y[::2], W[1::2], rec.y[1::2]).accuracy > 0.54


def test_minirocket_wants_signals_that_are_long_enough(X):
    with pytest.raises(InvalidInputError, match=r"raw signals \[n, channel, time\]"):
        MiniRocketFeatures().fit(X)
    with pytest.raises(InvalidInputError, match="at least 9"):
        MiniRocketFeatures().fit(X[:, :, 0])
    with pytest.raises(InvalidInputError, match="n_kernels"):
        MiniRocketFeatures(10).fit(X[:, 0])


def test_without_aeon_the_extra_is_named():
    code = """
import sys
class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "aeon":
            raise ImportError("blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np
from tensorcontrast.errors import MissingDependencyError
from tensorcontrast.evaluate.peers import MiniRocketFeatures
try:
    MiniRocketFeatures().fit(np.random.default_rng(0).normal(size=(20, 2, 30)))
except MissingDependencyError as error:
    print("pip install 'tensorcontrast[bench]'" in str(error), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr


# -------------------------------------------------------------------- the ridge probe


def test_the_ridge_probe_is_scikit_learns_with_the_result_of_the_linear_probe(recordings):
    W = FlatTensor().fit_transform(recordings.X)
    y = recordings.y
    result = ridge_probe(W[:60], y[:60], W[60:], y[60:])
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)))
    expected = model.fit(W[:60], y[:60]).predict(W[60:])
    np.testing.assert_array_equal(result.predictions, expected)
    assert result.accuracy == pytest.approx(np.mean(expected == y[60:]))
    assert (result.n_train, result.n_test) == (60, 30)
    logistic = linear_probe(W[:60], y[:60], W[60:], y[60:])
    assert vars(logistic).keys() == vars(result).keys()
    with pytest.raises(InvalidInputError, match="columns"):
        ridge_probe(W[:60], y[:60], W[60:, :5], y[60:])
