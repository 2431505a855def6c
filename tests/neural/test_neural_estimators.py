"""SimCLR, BYOL and DeepTensor as scikit-learn transformers: what they learn, views, files."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

torch = pytest.importorskip("torch", reason="needs the extra 'neural'")

from tensorcontrast import CPD, ContrastiveFeatures, SpectrogramTensor, augment, load_model  # noqa: E402
from tensorcontrast.datasets import make_cp_tensor, make_synthetic  # noqa: E402
from tensorcontrast.neural import BYOL, DeepTensor, SimCLR  # noqa: E402
from tensorcontrast.neural.base import tensor_noise  # noqa: E402

VIEWED = [SimCLR, BYOL]
ALL = [SimCLR, BYOL, DeepTensor]
FROZEN = Path(__file__).parents[1] / "models"


def make(cls, **params):
    """Return a small, fast estimator."""
    size = {"rank": 3, "hidden": 16} if cls is DeepTensor else {"n_features": 8, "projection": 8}
    return cls(**(size | {"max_iter": 2, "batch_size": 20, "random_state": 0} | params))


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(40, (3, 9, 8), 3, noise=0.05, dtype=np.float32, random_state=0)[0]


@pytest.fixture(scope="module")
def recordings():
    return make_synthetic(n_samples=120, n_classes=3, random_state=0)


@pytest.mark.parametrize("cls", ALL)
def test_the_loss_falls_and_features_beat_chance(cls, recordings):
    """Labels of one half judge features of the other, which were fitted without any.

    Of 60 guesses among three classes 1/3 ± 0.061 are right: the bar is three deviations higher.
    """
    tensors = SpectrogramTensor(recordings.fs).fit_transform(recordings.X)
    epochs = 40 if cls is DeepTensor else 5
    model = cls(max_iter=epochs, batch_size=30, tol=0, random_state=0).fit(tensors)
    history = model.history_["loss"]
    assert history[-1] < 0.9 * history[0]
    W = model.transform(tensors)
    probe = LogisticRegression(max_iter=3000).fit(W[::2], recordings.y[::2])
    assert probe.score(W[1::2], recordings.y[1::2]) > 0.52


@pytest.mark.parametrize("cls", ALL)
def test_history_has_loss_seconds_and_parameters_of_each_epoch(cls, X):
    model = make(cls, max_iter=3).fit(X)
    assert {len(column) for column in model.history_.values()} == {3}
    assert {"loss", "seconds", "n_parameters"} <= set(model.history_)
    assert model.history_["n_parameters"] == [float(model.n_parameters_)] * 3
    assert min(model.history_["seconds"]) > 0
    assert (model.n_iter_, model.interrupted_, model.converged_) == (3, False, False)


def test_parameters_are_counted():
    """Of SimCLR: encoder and projector, layer by layer."""
    X = np.random.default_rng(0).normal(size=(20, 3, 9, 8))
    model = make(SimCLR, max_iter=1).fit(X)
    widths = (3, 16, 32, 64, 64)
    stem = 3 * 16 * 9 + 2 * 16
    blocks = sum(
        9 * a * b + 9 * b * b + a * b + 3 * 2 * b for a, b in itertools.pairwise(widths[1:])
    )
    last = 64 * 2 * 1 * 8 + 8
    projector = 8 * 8 + 2 * 8 + 8 * 8 + 8
    assert model.n_parameters_ == stem + blocks + last + projector
    byol = make(BYOL, max_iter=1, hidden=8).fit(X)
    assert byol.n_parameters_ == model.n_parameters_ + projector  # the predictor; no target


@pytest.mark.parametrize("cls", ALL)
def test_a_seed_gives_the_same_bits_and_leaves_torch_alone(cls, X):
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = make(cls).fit_transform(X)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(77)
    np.testing.assert_array_equal(make(cls).fit_transform(X), first)
    assert not np.array_equal(make(cls, random_state=1).fit_transform(X), first)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("cls", ALL)
def test_without_a_seed_two_fits_differ(cls, X):
    a, b = (make(cls, random_state=None).fit_transform(X) for _ in range(2))
    assert not np.array_equal(a, b)


@pytest.mark.parametrize("cls", ALL)
def test_a_model_file_gives_the_same_features(cls, X, tmp_path):
    model = make(cls).fit(X)
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.get_params() == model.get_params()
    assert loaded.history_ == model.history_
    assert loaded.n_parameters_ == model.n_parameters_


@pytest.mark.parametrize("cls", ALL)
def test_features_of_a_sample_do_not_depend_on_the_others(cls, X):
    model = make(cls).fit(X)
    W = model.transform(X)
    np.testing.assert_allclose(model.transform(X[5:8]), W[5:8], atol=1e-5)
    np.testing.assert_allclose(model.transform(X[5:6]), W[5:6], atol=1e-5)
    assert W.dtype == np.float32


@pytest.mark.parametrize("cls", ALL)
def test_scikit_learn_ways(cls, X):
    y = np.arange(len(X)) % 2
    pytest.importorskip("pandas")
    model = make(cls)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "history_")
    pipe = make_pipeline(model, LogisticRegression(max_iter=500)).fit(X, y)
    assert pipe.predict(X).shape == (40,)
    frame = clone(model).set_output(transform="pandas").fit_transform(X)
    names = model.get_feature_names_out()
    assert list(frame.columns) == list(names)
    assert names[0] == f"{cls.__name__.lower()}0"


@pytest.mark.parametrize("cls", ALL)
def test_in_contrastive_features(cls, recordings, tmp_path):
    drawn = []

    def shift(data, rng):
        drawn.append(len(data))
        return data + rng.normal(size=data.shape).astype(data.dtype)

    make_views = make(cls, max_iter=3)
    ContrastiveFeatures(decompose=make_views, augment=shift, random_state=0).fit(recordings)
    assert len(drawn) == (3 if cls in VIEWED else 0)  # anew in each epoch
    model = ContrastiveFeatures(decompose=make(cls), random_state=0)
    W = model.fit(recordings).transform(recordings)
    assert W.shape == (120, 3 if cls is DeepTensor else 8)
    model.save(tmp_path / "m.tcm")
    np.testing.assert_array_equal(load_model(tmp_path / "m.tcm").transform(recordings), W)


@pytest.mark.parametrize("cls", VIEWED)
def test_augment_is_drawn_anew_twice_an_epoch(cls, X):
    seen = []

    def noise(data, rng):
        assert not data.flags.writeable
        seen.append(rng.standard_normal(data.shape, dtype=np.float32))
        return data + 0.1 * seen[-1]

    make(cls, augment=noise, max_iter=3).fit(X)
    assert len(seen) == 6
    assert not any(np.array_equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.parametrize("cls", VIEWED)
def test_a_callable_view_is_drawn_each_epoch_and_a_fixed_one_counts(cls, X):
    drawn = []

    def view(rng):
        drawn.append(tensor_noise(X, rng))
        return drawn[-1]

    make(cls, max_iter=3).fit(X, view=view)
    assert len(drawn) == 3
    assert not np.array_equal(drawn[0], drawn[1])
    a = make(cls).fit(X, view=drawn[0]).transform(X)
    b = make(cls).fit(X, view=drawn[1]).transform(X)
    np.testing.assert_array_equal(make(cls).fit(X, view=drawn[0]).transform(X), a)
    assert not np.array_equal(a, b)


def test_an_augmentation_of_signals_is_kept_in_the_file(X, tmp_path):
    signals = X.reshape(40, 3, 72)
    kept = make(SimCLR, augment=augment.gentle()).fit(signals)
    kept.save(tmp_path / "n.tcm")
    assert load_model(tmp_path / "n.tcm").augment == kept.augment


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("dims", [(7,), (3, 8), (2, 3, 4, 5)])
def test_tensors_of_any_order(cls, dims):
    X = make_cp_tensor(24, dims, 2, random_state=0)[0]
    params = {"rank": 2} if cls is DeepTensor else {}
    assert make(cls, max_iter=1, **params).fit_transform(X).shape[0] == 24


def test_early_stopping_ends_a_fit():
    X = np.random.default_rng(0).normal(size=(20, 3, 4, 4))
    model = make(DeepTensor, max_iter=500, learning_rate=0.05, tol=0.05, patience=2).fit(X)
    assert model.converged_
    assert model.n_iter_ < 500


def test_a_callback_sees_each_epoch_and_can_end_the_fit(X):
    rows = []

    def callback(row):
        rows.append(row)
        return len(rows) == 2

    model = make(SimCLR, max_iter=9, callback=callback).fit(X)
    assert model.n_iter_ == 2
    assert rows[0]["loss"] == model.history_["loss"][0]


def test_the_progress_bar_is_closed(X):
    for _ in range(2):  # a bar left running would refuse a second one
        assert make(SimCLR, verbose=True).fit(X).n_iter_ == 2


# -------------------------------------------------------------------- DeepTensor


def test_deep_tensor_comes_near_the_error_of_cpd():
    X = make_cp_tensor(120, (6, 12, 10), 2, noise=0.1, dtype=np.float32, random_state=0)[0]
    options = {"hidden": 32, "learning_rate": 1e-2, "max_iter": 60, "batch_size": 20}
    model = DeepTensor(rank=2, random_state=0, **options).fit(X)
    cpd = CPD(rank=2, random_state=0).fit(X)
    assert model.score(X) > cpd.score(X) - 0.01
    assert model.reconstruction_error_ < cpd.reconstruction_error_ + 0.1


def test_deep_tensor_transform_is_the_ridge_of_e12(X):
    model = make(DeepTensor, alpha=0.3).fit(X)
    H = np.einsum("ar,br,cr->abcr", *model.factors_).reshape(-1, 3).astype(np.float64)
    flat = (X - model.center_).reshape(40, -1) / model.scale_
    expected = np.linalg.solve(H.T @ H + 0.3 * np.eye(3), (flat @ H).T).T
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-3, atol=1e-4)


def test_deep_tensor_generated_features_and_error_agree(X):
    model = make(DeepTensor, max_iter=20).fit(X)
    H = np.einsum("ar,br,cr->abcr", *model.factors_).reshape(-1, 3)
    flat = (X - model.center_).reshape(40, -1) / model.scale_
    error = np.linalg.norm(flat - model.features_ @ H.T) / np.linalg.norm(flat)
    assert model.reconstruction_error_ == pytest.approx(error, rel=1e-4)
    norms = np.linalg.norm(model.features_, axis=0)
    assert (np.diff(norms) <= 1e-6).all()
    for U in model.factors_:
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0, rtol=1e-5)


def test_deep_tensor_inverse_transform_and_score(X):
    model = make(DeepTensor, max_iter=20).fit(X)
    back = model.inverse_transform(model.transform(X))
    assert back.shape == X.shape
    residual = ((X - back) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert model.score(X) == pytest.approx(1 - residual, rel=1e-3)


def test_deep_tensor_does_not_use_a_view(X):
    W = make(DeepTensor).fit_transform(X)
    np.testing.assert_array_equal(make(DeepTensor).fit_transform(X, view=2 * X), W)


def test_deep_tensor_with_fixed_inputs(X):
    model = make(DeepTensor, learn_inputs=False, max_iter=30, tol=0).fit(X)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert model.n_parameters_ < make(DeepTensor).fit(X).n_parameters_


@pytest.mark.parametrize(
    "path", sorted(FROZEN.glob("*/deep-tensor.tcm")), ids=lambda p: p.parent.name
)
def test_frozen_networks_give_what_they_gave(path):
    with np.load(path.with_name("expected.npz")) as file:
        X, W = file["deep-tensor/input"], file["deep-tensor/transform"]
    np.testing.assert_allclose(load_model(path).transform(X), W, atol=1e-5)
