"""ContrastiveFeatures: signals in, features out, as one estimator and one file."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    TensorContrastError,
    augment,
    load_model,
)
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.decompose.inputs import Joined
from tensorcontrast.features import nuisance_differences
from tensorcontrast.tensorize.blocks import SignalBlocks
from tensorcontrast.utils import checks

N = 72


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=N, n_channels=4, n_times=64, n_classes=3, random_state=0)


def small(decompose=PLC, **params):
    return decompose(rank=6, max_iter=60, tol=1e-3, **params)


def blocks():
    """The default blocks, with fewer convolution features."""
    return [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(84)]


def made(rec, decompose=None, **options):
    decompose = small() if decompose is None else decompose
    settings = {"fs": rec.fs, "tensorize": blocks(), "random_state": 0} | options
    return ContrastiveFeatures(decompose=decompose, **settings)


@pytest.fixture(scope="module")
def model(rec):
    return made(rec).fit(rec.X)


def test_defaults_follow_from_rate_and_length(rec):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0).fit(rec.X)
    assert [type(t) for t in model.tensorize_] == [SpectrogramTensor, ConvolutionFeatures]
    assert model.spectrogram_.fs == rec.fs
    assert model.augment_ == augment.standard(rec.X)
    assert model.transform(rec.X).shape == (N, 6)
    assert [len(U) for U in model.factors_] == list(model.spectrogram_.output_shape_)
    assert model.labels_.shape == (N,)
    names = model.get_feature_names_out().tolist()
    assert names == [f"component_{r}" for r in range(6)]


@pytest.mark.parametrize("kind", [PLC, Algorithm1])
def test_equals_its_parts_by_hand(rec, kind):
    steps = augment.gentle()
    part = small(kind, random_state=3)
    model = made(rec, part, augment=steps, random_state=7).fit(rec.X)
    blocks = SignalBlocks(tuple(model.tensorize_))
    if kind is PLC:
        rows = nuisance_differences(rec.X, blocks, steps)
        extra = {"nuisance": Joined(rows, blocks.dims)}
    else:
        extra = {"view": Joined(blocks.rows(steps(rec.X, checks.generator(7))), blocks.dims)}
    by_hand = clone(part).fit(Joined(blocks.rows(rec.X), blocks.dims), **extra)
    W = by_hand.transform(Joined(blocks.rows(rec.X), blocks.dims))
    np.testing.assert_allclose(model.transform(rec.X), W, atol=1e-4 * np.abs(W).max())


@pytest.mark.parametrize("decompose", [small(CPD), small(ATD), small(Algorithm1)])
def test_features_are_those_of_the_decomposition(rec, decompose):
    model = made(rec, decompose).fit(rec.X)
    W = model.decompose_.transform(model.tensors(rec.X))
    np.testing.assert_allclose(model.transform(rec.X), W, atol=1e-4 * np.abs(W).max())


def test_the_default_solver_draws_no_view(rec):
    calls = []

    def counted(X, rng):
        calls.append(len(X))
        return augment.gentle()(X, rng)

    made(rec, augment=counted).fit(rec.X)
    assert len(calls) == 2  # two draws of its one step, for the nuisance covariance
    calls.clear()
    made(rec, small(CPD), augment=counted).fit(rec.X)
    assert not calls


def test_recordings_carry_rate_and_channels(rec):
    model = made(rec, fs=None).fit(rec)
    assert model.fs_ == rec.fs
    assert model.channels_ == rec.channels
    np.testing.assert_array_equal(model.transform(rec), model.transform(rec.X))
    with pytest.raises(TensorContrastError, match="channels"):
        model.transform(rec.select(channels=list(rec.channels[::-1])))


def test_pipeline_and_grid_search(rec):
    pipeline = make_pipeline(
        made(rec, tensorize=SpectrogramTensor(n_quantiles=4)),
        LogisticRegression(max_iter=1000),
    )
    search = GridSearchCV(
        pipeline, {"contrastivefeatures__decompose__rank": [2, 6]}, cv=3, error_score="raise"
    )
    names = np.array(["low", "mid", "high"])[rec.y]
    search.fit(rec.X, names)
    assert search.best_score_ > 0.6
    assert set(search.predict(rec.X)) <= {"low", "mid", "high"}


@pytest.mark.parametrize("decompose", [CPD, ATD, PLC])
def test_one_file_holds_all_parts(rec, tmp_path, decompose):
    model = made(rec, small(decompose), channels=rec.channels).fit(rec.X)
    model.save(tmp_path / "model.tcm")
    loaded = load_model(tmp_path / "model.tcm")
    np.testing.assert_array_equal(loaded.transform(rec.X), model.transform(rec.X))
    assert loaded.channels_ == model.channels_
    assert loaded.augment_ == model.augment_
    assert type(loaded.decompose_) is decompose


def test_seed_reaches_every_part(rec):
    first, second, other = (made(rec, random_state=s).fit_transform(rec.X) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)


def test_fresh_views_are_drawn_each_iteration(rec):
    calls = []

    def counted(X, rng):
        calls.append(len(X))
        return augment.gentle()(X, rng)

    part = Algorithm1(rank=4, fresh_views=True, warm_up=0, max_iter=7, tol=0)
    model = made(rec, part, augment=counted).fit(rec.X)
    assert len(calls) >= 7
    assert np.isfinite(model.transform(rec.X)).all()


def test_labels_go_to_the_graph_only_where_asked(rec):
    model = made(rec, small(graph="true")).fit(rec.X, rec.y)
    np.testing.assert_array_equal(model.labels_, rec.y)


def test_clone_and_parameters(rec):
    model = made(rec)
    other = clone(model).set_params(decompose__rank=3)
    assert other.fit_transform(rec.X).shape == (N, 3)
    assert model.decompose.rank == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:, 0], "channel, time"),
        (lambda X: X[:, :, :0], "time"),
        (lambda X: X[:, :3], "3 channels"),
        (lambda X: X[:, :, :60], "60 samples"),
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X), "NaN"),
    ],
)
def test_bad_signals(rec, model, change, message):
    with pytest.raises(TensorContrastError, match=message):
        model.transform(change(rec.X))


def test_bad_parameters(rec):
    with pytest.raises(TensorContrastError, match="fs"):
        ContrastiveFeatures(fs=-1.0).fit(rec.X)
    with pytest.raises(TensorContrastError, match="fs"):
        ContrastiveFeatures(fs=rec.fs * 2).fit(rec)
    with pytest.raises(TensorContrastError, match="2 channel names"):
        ContrastiveFeatures(fs=rec.fs, channels=["a", "b"]).fit(rec.X)
    with pytest.raises(TensorContrastError, match="augment"):
        ContrastiveFeatures(fs=rec.fs, augment=3).fit(rec.X)
    with pytest.raises(TensorContrastError, match="labels"):
        ContrastiveFeatures(fs=rec.fs).fit(rec.X, rec.y[:-1])


def test_an_augmentation_that_changes_the_shape_is_refused(rec):
    part = small(Algorithm1)
    model = made(rec, part, augment=lambda X, rng: X[..., 1:])
    with pytest.raises(TensorContrastError, match="63"):
        model.fit(rec)
    with pytest.raises(TensorContrastError, match="63"):
        made(rec, augment=lambda X, rng: X[..., 1:]).fit(rec)


def test_gaps_are_left_out(rec):
    gaps = rec.X.copy()
    gaps[::5, 1, 40:50] = np.nan
    part = PLC(rank=4, max_iter=200, tol=1e-3)
    model = made(rec, part, tensorize=None, missing="mask").fit(gaps)
    assert model.decompose_.nuisance_gains_ is None
    assert np.isfinite(model.transform(gaps)).all()
    with pytest.raises(TensorContrastError, match="NaN"):
        made(rec).fit(gaps)


@pytest.mark.parametrize("n", [10, 27, 30])
def test_few_windows_are_enough(n):
    """Some archives have 27 windows: a fit works, and tells planted classes apart."""
    both = make_synthetic(n_samples=n + 60, n_classes=2, random_state=1)
    few, new = both[:n], both[n:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the rank, which windows limit
        model = ContrastiveFeatures(random_state=0).fit(few)
    W, V = model.transform(few), model.transform(new)
    assert np.isfinite(W).all() and np.isfinite(V).all() and W.shape[1] == 32
    classifier = LogisticRegression(max_iter=1000).fit(W / W.std(), few.y)
    assert classifier.score(V / W.std(), new.y) > 0.7
