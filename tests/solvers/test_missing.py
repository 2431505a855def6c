"""Missing values: the observed-data loss, features of what was observed, and what is imputed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorcontrast import ATD, CPD, PLC, ContrastiveFeatures, SpectrogramTensor, load_model
from tensorcontrast.cp import kernels
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.io import container, model_files
from tensorcontrast.recordings.signals import without_gaps
from tensorcontrast.solvers import als, missing
from tensorcontrast.sources.source import ArraySource, ChunkSource, with_nan

ALL = [CPD, ATD, PLC]


def planted(n=120, dims=(5, 6, 8), noise=0.05, share=0.3, seed=0):
    X, *_ = make_cp_tensor(n, dims, 3, noise=noise, random_state=seed)
    gaps = np.random.default_rng(seed + 1).random(X.shape) < share
    return X, np.where(gaps, np.nan, X), gaps


@pytest.fixture(scope="module")
def data():
    return planted()


def slow_features(x, gaps, factors, ridge):
    """Solve the normal equations of one window, entry by entry."""
    H = kernels.khatri_rao(factors)
    r = H.shape[1]
    K, p = np.diag(np.broadcast_to(ridge, r).astype(float)), np.zeros(r)
    for i in range(len(x)):
        if not gaps[i]:
            K += np.outer(H[i], H[i])
            p += x[i] * H[i]
    return np.linalg.solve(K, p)


def observed_loss(X, gaps, W, factors, alpha):
    """½‖M∘(X − WHᵀ)‖² + ridge, in a loop over windows."""
    H, total = kernels.khatri_rao(factors), 0.0
    for x, lacks, w in zip(X, gaps, W, strict=True):
        rest = (x - H @ w)[~lacks]
        total += 0.5 * float(rest @ rest)
    squares = sum(float((part**2).sum()) for part in (W, *factors))
    return total + 0.5 * alpha * squares


# ---------------------------------------------------------------------------- the equations


@pytest.mark.parametrize("kind", ["random", "channels", "all but two", "none"])
@pytest.mark.parametrize("ridge", [1e-3, np.array([0.5, 1e-3, 2.0])])
def test_features_solve_the_equations_of_each_sample(kind, ridge):
    rng = np.random.default_rng(0)
    dims, n = (3, 4, 5), 40
    factors = [rng.normal(size=(d, 3)) for d in dims]
    X = rng.normal(size=(n, 60))
    gaps = np.zeros((n, *dims), dtype=bool)
    if kind == "random":
        gaps = rng.random(gaps.shape) < 0.4
    elif kind == "channels":
        gaps[np.arange(n), rng.integers(3, size=n)] = rng.random((n, 1, 1)) < 0.7
    elif kind == "all but two":  # fewer entries than components
        gaps[:] = True
        gaps.reshape(n, -1)[:, [7, 31]] = False
    gaps = gaps.reshape(n, -1)
    dirty = np.where(gaps, np.nan, X)
    found = missing.observed_features(dirty, gaps, factors, ridge)
    wanted = [slow_features(x, g, factors, ridge) for x, g in zip(X, gaps, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def test_many_blocks_give_what_one_gives():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(d, 4)) for d in (5, 6)]
    X, gaps = rng.normal(size=(50, 30)), rng.random((50, 30)) < 0.3
    whole = missing.observed_features(X, gaps, factors, 0.1)
    parts = missing.observed_features(X, gaps, factors, 0.1, block_values=64)
    np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_observed_data_loss_never_rises_and_is_what_history_says(dtype):
    X, Z, _ = planted(noise=0.5)
    flat = Z.reshape(len(Z), -1).astype(dtype)
    truth = np.nan_to_num(flat).astype(float)
    gaps = missing.open_gaps(flat, np.nan)
    views = missing.pair(flat, gaps, np.nan)
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=(d, 3)).astype(dtype) for d in X.shape[1:]]
    memory, losses = als.Memory(), []
    for _ in range(40):
        factors, features, _, terms = als.sweep(
            views, factors, als.no_contrast, alpha=0.01, memory=memory
        )
        loss = observed_loss(truth, gaps, features.W.astype(float), factors, 0.01)
        assert terms["objective"] == pytest.approx(loss, rel=1e-4)
        losses.append(loss)
    falls = np.diff(losses)
    assert (falls <= 1e-5 * losses[0] * (dtype == "float32")).all()
    assert losses[-1] < 0.8 * losses[0]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    share=st.floats(0.05, 0.7),
    rank=st.integers(1, 5),
    alpha=st.sampled_from([1e-6, 1e-3, 0.03]),
)
def test_the_loss_never_rises_whatever_is_missing(seed, share, rank, alpha):
    X, Z, _ = planted(n=25, dims=(3, 4, 5), noise=0.5, share=share, seed=seed)
    never = np.isnan(Z).all(axis=0)  # of such a position nothing can be learned, and CPD says so
    Z[0, never] = X[0, never]
    history = build(
        CPD,
        rank=rank,
        alpha=alpha,
        max_iter=15,
        tol=0,
        missing="mask",
        center=False,
        random_state=seed,
    )
    objective = np.array(history.fit(Z).history_["objective"])
    assert (np.diff(objective) <= 1e-9 * objective[0]).all()


def test_mean_and_scale_are_those_of_observed_entries(data):
    _, Z, _ = data
    for source in (ArraySource(Z), ChunkSource(lambda: iter(np.array_split(Z, 7)))):
        n, mean, size = missing.learn(with_nan(source, True), center=True)
        assert n == len(Z)
        np.testing.assert_allclose(mean, np.nanmean(Z, axis=0), rtol=1e-12)
        assert size == pytest.approx(np.sqrt(np.nanvar(Z, axis=0).sum()), rel=1e-12)


# ---------------------------------------------------------------------------- the estimators


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (CPD, {}),
        (CPD, {"n_init": 3}),
        (CPD, {"batch_size": 40, "step_size": 0.5}),
        (ATD, {}),
        (ATD, {"fresh_views": True}),
        (PLC, {"n_clusters": 3}),
        (PLC, {"n_clusters": 3, "fresh_views": True}),
        (PLC, {"n_clusters": 3, "solver": "als"}),
        (PLC, {"n_clusters": 3, "beta": "auto", "n_epochs": 5, "learning_rate": 5e-3}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_imputed_is_near_the_truth(cls, options, data):
    X, Z, gaps = data
    model = build(cls, rank=3, missing="mask", random_state=0, **options).fit(Z)
    made = model.inverse_transform(model.transform(Z))
    size = np.linalg.norm((X - X.mean(axis=0))[gaps])
    error = np.linalg.norm((made - X)[gaps]) / size
    linear = without_gaps(Z.reshape(len(Z), -1, Z.shape[-1])).reshape(Z.shape)
    assert error < 0.2
    assert error < 0.3 * np.linalg.norm((linear - X)[gaps]) / size
    assert np.isfinite(model.features_).all()
    assert len(model.labels_) == len(Z)
    assert model.score(Z) > 0.97


@pytest.mark.parametrize("cls", ALL)
def test_whole_data_give_the_very_same_fit(cls, data):
    X = data[0]
    free = {"beta": 0.0} if cls is PLC else {}  # gaps leave no nuisance metric
    plain = build(cls, rank=3, random_state=0, **free).fit(X)
    masked = build(cls, rank=3, random_state=0, missing="mask", **free).fit(X)
    np.testing.assert_array_equal(masked.features_, plain.features_)
    np.testing.assert_array_equal(masked.transform(X), plain.transform(X))
    assert masked.score(X) == plain.score(X)


def test_features_of_the_fit_are_those_of_transform(data):
    _, Z, _ = data
    model = build(CPD, rank=3, missing="mask", tol=1e-7, random_state=0).fit(Z)
    np.testing.assert_allclose(model.features_, model.transform(Z), rtol=1e-5, atol=1e-7)
    flat = ((Z - model.center_) / model.scale_).reshape(len(Z), -1)
    rest = flat - kernels.cp_to_flat(model.features_, model.factors_)
    error = np.sqrt(np.nansum(rest**2) / np.nansum(flat**2))
    assert model.reconstruction_error_ == pytest.approx(error, rel=1e-6)
    assert model.score(Z) == pytest.approx(1 - error**2, rel=1e-6)


@pytest.mark.parametrize("cls", ALL)
def test_a_channel_lost_after_the_fit(cls, data):
    X = data[0]
    model = cls(rank=3, random_state=0).fit(X)
    lost = X.copy()
    lost[:, 2] = np.nan
    with pytest.raises(InvalidInputError, match="missing='mask'"):
        model.transform(lost)
    W = model.set_params(missing="mask").transform(lost)
    whole = model.transform(X)
    assert np.linalg.norm(W - whole) < 0.2 * np.linalg.norm(whole)
    np.testing.assert_allclose(model.transform(X[:5]), whole[:5], rtol=1e-10)


@pytest.mark.parametrize("cls", [ATD, PLC])
def test_a_given_view_may_have_gaps_of_its_own(cls, data):
    X, Z, _ = data
    rng = np.random.default_rng(5)
    view = X + 0.05 * rng.normal(size=X.shape)
    view[rng.random(X.shape) < 0.2] = np.nan
    for samples in (Z, X):
        model = cls(rank=3, missing="mask", random_state=0).fit(samples, view=view)
        assert np.isfinite(model.view_features_).all()
        assert model.score(X) > 0.98
    fresh = cls(rank=3, missing="mask", random_state=0).fit(Z, view=lambda rng: view)
    assert fresh.score(X) > 0.98
    with pytest.raises(InvalidInputError, match="view"):
        cls(rank=3, random_state=0).fit(X, view=view)
    with pytest.raises(InvalidInputError, match="compress=None"):
        build(cls, rank=3, missing="mask", compress=(3, 3, 3)).fit(X, view=view)


@pytest.mark.parametrize("cls", ALL)
def test_streams_with_gaps(cls, data):
    X, Z, gaps = data
    model = cls(rank=3, n_clusters=3, missing="mask", random_state=0)
    for batch in np.array_split(Z, 3):
        model.partial_fit(batch)
    made = model.inverse_transform(model.transform(Z))
    assert np.linalg.norm((made - X)[gaps]) < 0.3 * np.linalg.norm((X - X.mean(0))[gaps])
    assert np.isfinite(model.center_).all()


def test_mapped_files_streams_and_masked_arrays(data, tmp_path):
    _, Z, gaps = data
    array = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    np.save(tmp_path / "z.npy", Z)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    masked = np.ma.MaskedArray(np.where(gaps, 1e6, np.nan_to_num(Z)), mask=gaps)
    for other in (mapped, lambda: iter(np.array_split(Z, 5)), masked):
        model = CPD(rank=3, missing="mask", random_state=0).fit(other)
        np.testing.assert_allclose(model.features_, array.features_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.transform(other), model.transform(Z))
    with pytest.raises(InvalidInputError, match="missing='mask'"):
        CPD(rank=3).fit(masked)


def test_float32_stays_and_agrees(data):
    _, Z, _ = data
    one = CPD(rank=3, missing="mask", random_state=0).fit(Z.astype("float32"))
    other = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    assert one.features_.dtype == one.transform(Z.astype("float32")).dtype == np.float32
    np.testing.assert_allclose(one.features_, other.features_, rtol=1e-3, atol=1e-4)


def test_a_model_file_remembers(data, tmp_path):
    _, Z, _ = data
    model = PLC(rank=3, n_clusters=3, missing="mask", random_state=0).fit(Z)
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.missing == "mask"
    np.testing.assert_array_equal(loaded.transform(Z), model.transform(Z))


# ---------------------------------------------------------------------------- what is told


def test_nan_are_mistakes_unless_told_otherwise(data):
    _, Z, _ = data
    for cls in ALL:
        with pytest.raises(InvalidInputError, match=r"NaN.*missing='mask'"):
            cls(rank=3).fit(Z)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_never_a_missing_value(bad, data):
    Z = data[1].copy()
    Z[3, 1, 2, 0] = bad
    with pytest.raises(InvalidInputError, match=r"X\[3, 1, 2, 0\] is -?inf"):
        CPD(rank=3, missing="mask").fit(Z)
    with pytest.raises(InvalidInputError, match="infinity"):
        CPD(rank=3, missing="mask", random_state=0).fit(data[1]).transform(Z)


def test_samples_and_positions_without_any_value(data):
    Z = data[1].copy()
    Z[4] = np.nan
    model = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    np.testing.assert_allclose(model.features_[4], 0, atol=1e-12)
    with pytest.warns(TensorContrastWarning, match=r"1 windows hold nothing but NaN \(first: \[4"):
        W = model.transform(Z)
    np.testing.assert_array_equal(W[4], 0)
    Z[:, 0, 0, 0] = np.nan
    with pytest.warns(TensorContrastWarning, match=r"1 of the 240 positions.*\[0, 0, 0\]"):
        assert CPD(rank=3, missing="mask", random_state=0).fit(Z).score(Z[5:]) > 0.95
    with pytest.raises(InvalidInputError, match="every entry is NaN"):
        CPD(rank=3, missing="mask").fit(np.full((9, 3, 4), np.nan))


def test_a_compression_that_cannot_be_used_is_told(data):
    _, Z, _ = data
    with pytest.warns(TensorContrastWarning, match=r"compress=\(3, 3, 3\) is not used"):
        model = build(CPD, rank=3, missing="mask", compress=(3, 3, 3), random_state=0).fit(Z)
    assert model.core_dims_ == Z.shape[1:]


# ---------------------------------------------------------------------------- signals


@pytest.mark.parametrize(
    "options",
    [{}, {"representation": "complex"}, {"mean_row": True}, {"n_fft": 16, "hop": 20}],
)
def test_a_frame_with_a_missing_sample_is_missing_in_that_channel(options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3, 100))
    dirty = X.copy()
    dirty[0, 1, 40] = dirty[2, 0, :30] = dirty[3, 2] = dirty[5, 1, -1] = np.nan
    plain = SpectrogramTensor(50, **options).fit(X)
    masked = SpectrogramTensor(50, missing="mask", **options).fit(dirty)
    out, whole = masked.transform(dirty), plain.transform(X)
    for n in range(6):
        for c in range(whole.shape[1]):
            for t in range(whole.shape[3]):
                part = dirty[n, c % 3, t * plain.hop_ : t * plain.hop_ + plain.n_fft_]
                if np.isnan(part).any():
                    assert np.isnan(out[n, c, :, t]).all()
                else:
                    np.testing.assert_allclose(out[n, c, :, t], whole[n, c, :, t], rtol=1e-5)
    np.testing.assert_array_equal(np.concatenate(list(masked.iter_chunks(dirty, 2))), out)
    with pytest.raises(InvalidInputError, match=r"X\[0\] channel 1 holds 1 NaN.*missing='mask'"):
        plain.transform(dirty)
    dirty[1, 1, 1] = np.inf
    with pytest.raises(InvalidInputError, match=r"X\[1\] channel 1 holds 1 infinite"):
        masked.transform(dirty)


def test_gaps_are_interpolated_as_numpy_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3, 40))
    dirty = np.where(rng.random(X.shape) < 0.5, np.nan, X)
    dirty[3, 1] = np.nan
    out = without_gaps(dirty)
    at = np.arange(40)
    for n in range(20):
        for c in range(3):
            seen = ~np.isnan(dirty[n, c])
            wanted = np.interp(at, at[seen], dirty[n, c][seen]) if seen.any() else np.zeros(40)
            np.testing.assert_allclose(out[n, c], wanted, rtol=1e-12, atol=1e-12)
    assert without_gaps(X) is X


def test_signals_with_gaps_to_features():
    rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    dirty = rec.X.copy()
    dirty[:20, 1] = np.nan
    dirty[30:50, 0, 10:60] = np.nan

    def make(**options):
        decompose = build(PLC, rank=6, tol=1e-3)
        return ContrastiveFeatures(fs=rec.fs, decompose=decompose, random_state=0, **options)

    with pytest.raises(InvalidInputError, match="missing='mask'"):
        make().fit(dirty)
    for fresh in (False, True):
        model = make(missing="mask", fresh_views=fresh).fit(dirty)
        assert model.tensorize_.missing == model.decompose_.missing == "mask"
        assert np.isfinite(model.transform(dirty)).all()
    with pytest.raises(InvalidInputError, match="coupled blocks"):
        make().fit(rec.X).set_params(missing="mask").transform(dirty)
    whole = make(tensorize=SpectrogramTensor()).fit(rec.X)
    W = whole.transform(rec.X)
    lost = whole.set_params(missing="mask").transform(dirty)
    np.testing.assert_array_equal(lost[50:], W[50:])
    assert np.corrcoef(lost[:20].ravel(), W[:20].ravel())[0, 1] > 0.6


def test_parts_that_know_no_missing_values_are_named():
    from sklearn.preprocessing import FunctionTransformer

    class Whole(FunctionTransformer):
        pass

    with pytest.raises(InvalidInputError, match="Whole cannot leave missing values out"):
        ContrastiveFeatures(fs=50, tensorize=Whole(), missing="mask").fit(np.zeros((9, 2, 64)))


def test_model_files_from_before_load_with_the_defaults(data, tmp_path):
    X = data[0]
    model = PLC(rank=3, n_clusters=3, random_state=0).fit(X)
    path = tmp_path / "m.tcm"
    model.save(path)
    header, arrays = container.read(path, model_files.KIND)
    assert not {"checkpoint", "every"} & set(header["model"]["params"])
    for name in ("missing", "robust"):
        del header["model"]["params"][name]
    for name in ("sample_weight_", "degeneracy_"):
        del header["model"]["learned"][name]
    del header["arrays"]
    container.write(path, model_files.KIND, header, arrays)
    loaded = load_model(path)
    assert (loaded.missing, loaded.robust, loaded.als) == ("error", None, None)
    assert not hasattr(loaded, "checkpoint")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.partial_fit(X).score(X) > 0.9
