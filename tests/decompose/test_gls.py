"""Features read against noise: generalised least squares written out, the ε-region, every path."""

import copy

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, load_model, threads
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose import compress, kernels, noise
from tensorcontrast.decompose.epsilon import first_inside
from tensorcontrast.errors import DamagedFileError, InvalidInputError

DIMS, RANK, N = (5, 6, 4), 3, 90
FAST = {"rank": RANK, "n_epochs": 4, "max_iter": 80, "tol": 1e-4, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """Tensors with noise in a few directions, and rows of such noise alone."""
    rng = np.random.default_rng(0)
    X = make_cp_tensor(n_samples=N, dims=DIMS, rank=RANK, noise=0.05, random_state=0)[0]
    X = X / X.std()
    ways = rng.normal(size=(4, X[0].size)) * np.array([[1.8], [1.2], [0.9], [0.6]])
    rows = rng.normal(size=(200, 4)) @ ways + 0.02 * rng.normal(size=(200, X[0].size))
    X = X.reshape(N, -1) + rng.normal(size=(N, 4)) @ ways
    return X.reshape(N, *DIMS).astype("f4"), rows.reshape(-1, *DIMS).astype("f4")


@pytest.fixture(scope="module")
def model(data):
    return PLC(**FAST).fit(data[0], noise=data[1])


def made_up(seed=0, i=20, r=3, q=4):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(4, r)), rng.normal(size=(5, r))]
    V = np.linalg.qr(rng.normal(size=(i, q)))[0].T
    return rng, factors, V, np.array([3.0, 1.0, 0.5, 0.1])


@pytest.mark.parametrize("strength", [1e-3, 0.3, 10.0])
def test_E12_in_the_metric_of_the_noise_is_generalised_least_squares(strength):
    rng, factors, V, variances = made_up()
    X, H = rng.normal(size=(7, 20)), kernels.khatri_rao(factors)
    alpha = np.array([0.1, 0.2, 0.3])
    reading = noise.Reading(V, variances / (variances + strength))
    W = X @ noise.projector(factors, alpha, reading)
    # Noise of these variances in these directions, on top of as much as λ in all of them.
    inverse = np.linalg.inv(np.eye(20) + V.T @ np.diag(variances / strength) @ V)
    for x, w in zip(X, W, strict=True):
        np.testing.assert_allclose(
            np.linalg.solve(H.T @ inverse @ H + np.diag(alpha), H.T @ inverse @ x), w, rtol=1e-8
        )
    # Another check, without an inverse: no small step makes the weighted misfit smaller.
    root = np.linalg.cholesky(inverse)

    def misfit(w):
        return float((((X[0] - H @ w) @ root) ** 2).sum() + (alpha * w**2).sum())

    for step in rng.normal(size=(20, 3)) * 1e-3:
        assert misfit(W[0] + step) > misfit(W[0])


def test_without_noise_it_is_E12():
    _, factors, V, _ = made_up()
    plain = noise.projector(factors, 0.1, None)
    H = kernels.khatri_rao(factors)
    np.testing.assert_allclose(plain, H @ np.linalg.inv(H.T @ H + 0.1 * np.eye(3)), rtol=1e-9)
    np.testing.assert_allclose(
        noise.projector(factors, 0.1, noise.Reading(V, np.zeros(4))), plain, rtol=1e-9
    )


@pytest.mark.parametrize("size", [1.0, 1e-18, 1e15])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_directions_are_those_of_the_covariance(size, dtype):
    rng = np.random.default_rng(1)
    rows = (size * (rng.normal(size=(300, 6)) @ rng.normal(size=(6, 30)) + 5)).astype(dtype)
    V, variances, total = noise.directions(rows)
    values, vectors = np.linalg.eigh(np.cov(rows.T.astype("f8") / size, bias=True))
    assert V.shape == (6, 30)
    assert V.dtype == rows.dtype
    np.testing.assert_allclose(variances / size**2, values[::-1][:6], rtol=1e-3)
    assert total / size**2 == pytest.approx(values.sum(), rel=1e-4)
    overlap = np.abs(V @ vectors[:, ::-1][:, :6])
    np.testing.assert_allclose(np.diag(overlap), 1, atol=1e-3)
    np.testing.assert_allclose(V @ V.T, np.eye(6), atol=1e-5)


def test_directions_do_not_depend_on_threads():
    rows = np.random.default_rng(0).normal(size=(600, 400)).astype("f4")
    first = noise.directions(rows)
    with threads.limited("blas", 1):
        np.testing.assert_array_equal(noise.directions(rows)[0], first[0])
    assert len(first[0]) == noise.FEWEST


def test_larger_samples_have_more_directions():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 60)).astype("f4")
    few, many, all_of_them = (noise.directions(rows, n) for n in (None, 50 * 41 + 7, 10**6))
    assert [len(found[0]) for found in (few, many, all_of_them)] == [32, 41, 60]
    wide = noise.directions(rng.normal(size=(200, 150)).astype("f4"), 10**6)
    assert len(wide[0]) == noise.MOST
    np.testing.assert_allclose(few[1], many[1][:32], rtol=0.05)
    assert few[2] == many[2]


def test_rows_that_do_not_vary_have_no_direction():
    assert noise.directions(np.ones((9, 4), "f4")) is None


def slow_error(X, factors, alpha, V, gains):
    """‖X − WHᵀ‖/‖X‖ of features by generalised least squares, sample by sample."""
    H = kernels.khatri_rao(factors)
    metric = np.eye(len(H)) - V.T @ np.diag(gains) @ V
    left = 0.0
    for x in X:
        w = np.linalg.solve(H.T @ metric @ H + alpha * np.eye(H.shape[1]), H.T @ metric @ x)
        left += float(((x - H @ w) ** 2).sum())
    return np.sqrt(left / (X**2).sum())


def noisy(seed=0, n=200):
    rng, factors, V, variances = made_up(seed)
    H = kernels.khatri_rao(factors)
    X = rng.normal(size=(n, 3)) @ H.T + rng.normal(size=(n, 4)) @ (V * variances[:, None])
    return X, factors, V, variances, (V, variances, float(variances.sum()))


@pytest.mark.parametrize("sweep", [False, True])
def test_as_much_noise_is_left_out_as_the_region_allows(sweep):
    X, factors, V, variances, found = noisy()
    norm = float((X**2).sum())
    plain = slow_error(X, factors, 1e-3, V, np.zeros(4))
    before = None
    for room in (1.02, 1.1, 1.3):
        settled = noise.chosen(X, norm, factors, 1e-3, found, room * plain, sweep=sweep)
        gains, moved = settled.reading.gains, settled.factors
        error = slow_error(X, moved, 1e-3, V, gains)
        own = slow_error(X, moved, 1e-3, V, np.zeros(4))
        assert error == pytest.approx(settled.rise * own, rel=1e-6)
        assert own < error <= room * plain * (1 + 1e-9)
        assert before is None or (gains > before).all()
        assert sweep or all(a is b for a, b in zip(moved, factors, strict=True))
        before = gains
    # All of the room that there could be: λ ends at its least.
    most = noise.chosen(X, norm, factors, 1e-3, found, 100.0, sweep=sweep)
    least = noise.LEAST * np.sqrt(variances.sum())
    spread = np.sqrt(variances)
    np.testing.assert_allclose(most.reading.gains, spread / (spread + least), rtol=1e-6)
    assert noise.chosen(X, norm, factors, 1e-3, found, 0.2 * plain, sweep=sweep) is None


def test_the_largest_gains_are_just_inside():
    X, factors, V, variances, found = noisy()
    limit = 1.02 * slow_error(X, factors, 1e-3, V, np.zeros(4))
    tight = noise.chosen(X, float((X**2).sum()), factors, 1e-3, found, limit, sweep=False)
    spread = np.sqrt(variances)
    strength = spread[0] * (1 / tight.reading.gains[0] - 1)
    np.testing.assert_allclose(tight.reading.gains, spread / (spread + strength), rtol=1e-9)
    more = spread / (spread + 0.9 * strength)
    assert slow_error(X, factors, 1e-3, V, more) > limit


def test_factors_follow_the_features_by_one_sweep():
    """Each mode at its least squares given features read with the factors before, by loops."""
    X, factors, *_, found = noisy()
    alpha, norm = 1e-3, float((X**2).sum())
    settled = noise.chosen(X, norm, factors, alpha, found, 1.1)
    W = X @ noise.projector(factors, alpha, settled.reading)
    A, B = (U.copy() for U in factors)
    T = X.reshape(-1, len(A), len(B))
    for i in range(len(A)):  # row i of A: all entries T[:, i, :] ≈ Σ_r w_r a_ir b_r
        D = np.einsum("nr,jr->njr", W, B).reshape(-1, 3)
        A[i] = np.linalg.solve(D.T @ D + alpha * np.eye(3), D.T @ T[:, i].reshape(-1))
    for j in range(len(B)):
        D = np.einsum("nr,ir->nir", W, A).reshape(-1, 3)
        B[j] = np.linalg.solve(D.T @ D + alpha * np.eye(3), D.T @ T[:, :, j].reshape(-1))
    for mine, slow in zip(settled.factors, (A, B), strict=True):
        np.testing.assert_allclose(mine, slow, rtol=1e-6, atol=1e-8)


def test_a_sweep_makes_room():
    X, factors, V, _, found = noisy()
    limit = 1.1 * slow_error(X, factors, 1e-3, V, np.zeros(4))
    still, moved = (
        noise.chosen(X, float((X**2).sum()), factors, 1e-3, found, limit, sweep=sweep)
        for sweep in (False, True)
    )
    assert (moved.reading.gains > still.reading.gains).all()


def test_a_sweep_makes_no_room_where_there_was_none():
    """Factors moved away from what reconstructs best: one sweep back would be inside."""
    X, factors, *_, found = noisy()
    best = slow_error(X, factors, 1e-3, found[0], np.zeros(4))
    rng = np.random.default_rng(1)
    moved = [U + 0.3 * rng.normal(size=U.shape) for U in factors]
    norm = float((X**2).sum())
    limit = 0.5 * (best + slow_error(X, moved, 1e-3, found[0], np.zeros(4)))
    back = noise.chosen(X, norm, moved, 1e-3, found, 2.0 * limit).factors
    assert slow_error(X, back, 1e-3, found[0], np.zeros(4)) < limit
    assert noise.chosen(X, norm, moved, 1e-3, found, limit) is None


def test_what_is_reconstructed_to_rounding_has_no_noise():
    rng, factors, V, variances = made_up()
    X = rng.normal(size=(50, 3)) @ kernels.khatri_rao(factors).T
    found = (V, variances, float(variances.sum()))
    assert noise.chosen(X, float((X**2).sum()), factors, 1e-9, found, 1.0) is None


def test_a_fit_reads_against_it_inside_the_region(data, model):
    X, rows = data
    plain = PLC(**FAST).fit(X)
    start = CPD(rank=RANK, max_iter=40, tol=1e-4, random_state=0)
    start = start.set_params(init=[U.copy() for U in plain.factors_], max_iter=200).fit(X)
    assert model.noise_gains_ is not None
    assert ((model.noise_gains_ > 0) & (model.noise_gains_ < 1)).all()
    # The features follow noise less, and reconstruct less than those of E12 would.
    moved = [
        np.linalg.norm(m.transform(X[:60] + rows[:60]) - m.transform(X[:60]))
        for m in (model, plain)
    ]
    assert moved[0] < 0.9 * moved[1]
    flat = ((X - model.center_) / model.scale_).reshape(N, -1).astype("f8")
    W = flat @ noise.projector(model.factors_, model.ridge_, None)
    own = np.linalg.norm(flat - W @ kernels.khatri_rao(model.factors_).T) / np.linalg.norm(flat)
    assert own < model.reconstruction_error_
    assert model.reconstruction_error_ <= 1.05 * start.reconstruction_error_ * 1.02
    np.testing.assert_allclose(model.features_, model.transform(X), atol=1e-5)
    assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-5)
    wide = PLC(**FAST, epsilon=0.3).fit(X, noise=rows)
    assert (wide.noise_gains_ >= model.noise_gains_).all()
    assert wide.reconstruction_error_ > model.reconstruction_error_
    assert PLC(**FAST, epsilon=1e-4).fit(X, noise=rows).noise_gains_ is None


@pytest.mark.parametrize(("every", "stays"), [(None, False), (15, False), (3, True)])
def test_factors_that_many_labels_have_shaped_do_not_follow(every, stays, data):
    X, rows = data
    y = None if every is None else np.where(np.arange(N) % every, -1, np.arange(N) // every % 2)
    read, plain = (
        PLC(**FAST, beta=0.05, epsilon=0.2).fit(X, y, noise=noise) for noise in (rows, None)
    )
    assert read.noise_gains_ is not None
    patterns = [kernels.khatri_rao(m.factors_) for m in (read, plain)]
    same = np.abs(patterns[0].T @ patterns[1]).max(axis=0)  # columns are of unit length
    assert (same > 1 - 1e-5).all() == stays


@pytest.mark.parametrize("labelled", [False, True])
def test_what_the_contrast_has_used_of_the_region_is_not_taken_back(labelled, data):
    """A contrast so strong that no room is left: features stay as it has made them."""
    X, rows = data
    y = np.where(np.arange(N) % 3, -1, np.arange(N) % 2) if labelled else None
    for beta, used_up in ((1e-3, False), (1.0, True)):
        settings = FAST | {"beta": beta, "epsilon": 0.05, "learning_rate": 0.3}
        read, plain = (PLC(**settings).fit(X, y, noise=noise) for noise in (rows, None))
        assert (read.noise_gains_ is None) == used_up
        assert np.array_equal(read.transform(X), plain.transform(X)) == used_up


def test_a_fit_without_noise_forgets_it(data):
    model = PLC(**FAST).fit(data[0], noise=data[1])
    model.fit(data[0])
    assert model.noise_gains_ is None
    np.testing.assert_allclose(model.features_, model.transform(data[0]), atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"compress": [3, 4, 3]},
        {"robust": "huber"},
        {"dtype": "float64"},
        {"center": False, "scale": False},
        {"fresh_views": True},
        {"beta": "auto"},
        {"contrast": "signed"},
    ],
    ids=str,
)
def test_features_of_the_fit_are_those_of_transform(options, data):
    X, rows = data
    model = PLC(**FAST | options, epsilon=0.2).fit(X, noise=rows)
    assert model.noise_gains_ is not None
    np.testing.assert_allclose(model.features_, model.transform(X), atol=2e-4)
    V = model.noise_directions_.reshape(len(model.noise_directions_), -1)
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-4)
    if "robust" not in options:  # whose error counts samples by their weight
        assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-4)


def test_cores_as_the_tensors_that_they_stand_for():
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.normal(size=(d, j)))[0] for d, j in ((5, 3), (6, 2), (4, 4))]
    cores = rng.normal(size=(7, 24))
    whole = compress.expand_rows(cores, bases)
    slow = np.einsum("nabc,ia,jb,kc->nijk", cores.reshape(7, 3, 2, 4), *bases).reshape(7, -1)
    np.testing.assert_allclose(whole, slow, atol=1e-12)
    np.testing.assert_allclose(compress.project(whole.reshape(7, 5, 6, 4), bases), cores)


def test_a_stream_goes_on_reading_against_it(data):
    model = PLC(**FAST).fit(data[0], noise=data[1])
    gains = model.noise_gains_.copy()
    model.partial_fit(data[0][:40])
    np.testing.assert_array_equal(model.noise_gains_, gains)
    np.testing.assert_allclose(model.features_, model.transform(data[0][:40]), atol=1e-5)
    rest = (data[0][:40] - model.inverse_transform(model.features_)).reshape(40, -1)
    size = np.linalg.norm(data[0][:40] - model.center_)
    assert model.reconstruction_error_ == pytest.approx(np.linalg.norm(rest) / size, rel=1e-4)
    with pytest.raises(InvalidInputError, match="whole samples"):
        model.set_params(missing="mask").partial_fit(data[0][:40])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((9, 5, 6)), r"shape \(9, 5, 6\)"),
        (np.zeros((1, *DIMS)), "at least 2"),
        (np.full((3, *DIMS), "a"), "real numbers"),
        (np.full((3, *DIMS), np.nan), r"noise\[0\] holds NaN"),
    ],
)
def test_wrong_noise_is_told_before_any_work(rows, message, data):
    steps = []
    model = PLC(**FAST, callback=steps.append)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(data[0], noise=rows)
    assert not steps
    assert not hasattr(model, "factors_")


def test_who_cannot_take_it_says_so(data, model):
    X, rows = data
    with pytest.raises(InvalidInputError, match="solver='als'"):
        PLC(**FAST, solver="als").fit(X, noise=rows)
    with pytest.raises(InvalidInputError, match="missing='mask'"):
        PLC(**FAST, missing="mask").fit(X, noise=rows)
    masked = PLC(**FAST).fit(X, noise=rows).set_params(missing="mask")
    with pytest.raises(InvalidInputError, match="whole samples"):
        masked.transform(X)


def test_noise_without_variance_changes_nothing(data):
    still = PLC(**FAST).fit(data[0], noise=np.ones((5, *DIMS)))
    assert still.noise_gains_ is None


def test_files_keep_it(data, model, tmp_path):
    path = tmp_path / "model.tcm"
    model.save(path)
    again = load_model(path)
    np.testing.assert_array_equal(again.noise_gains_, model.noise_gains_)
    np.testing.assert_array_equal(again.transform(data[0]), model.transform(data[0]))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("noise_gains_", lambda a: a[:-1]),
        ("noise_gains_", lambda a: -a),
        ("noise_gains_", lambda a: None),
        ("noise_directions_", lambda a: a[:, :-1]),
        ("noise_directions_", lambda a: a.astype("i4")),
    ],
)
def test_files_with_noise_that_does_not_fit_are_refused(name, change, model, tmp_path):
    model = copy.copy(model)
    setattr(model, name, change(getattr(model, name)))
    model.save(tmp_path / "model.tcm")
    with pytest.raises(DamagedFileError, match="directions of noise"):
        load_model(tmp_path / "model.tcm")


@pytest.mark.parametrize("name", ["noise_gains_", "noise_directions_"])
def test_noise_that_is_not_finite_is_never_written(name, model, tmp_path):
    model = copy.copy(model)
    setattr(model, name, np.full_like(getattr(model, name), np.nan))
    with pytest.raises(InvalidInputError, match=f"the learned {name} holds NaN"):
        model.save(tmp_path / "model.tcm")
    assert not (tmp_path / "model.tcm").exists()


# ------------------------------------------------------------------- a larger β with labels


@pytest.mark.parametrize("epsilon", [1e-4, 10.0])
def test_labels_get_a_larger_weight_where_the_region_allows(epsilon, data):
    X = data[0]
    y = np.where(np.arange(N) % 3 == 0, np.arange(N) % 2, -1)
    model = PLC(**FAST, epsilon=epsilon).fit(X, y)
    assert model.beta_ == (0.07 if epsilon < 1 else 0.2)
    assert PLC(**FAST, epsilon=epsilon).fit(X).beta_ == 0.07
    few = np.where(np.arange(N) < 8, y, -1)  # fewer than a tenth have labels
    assert PLC(**FAST, epsilon=epsilon).fit(X, few).beta_ == 0.07
    assert PLC(**FAST, epsilon=epsilon, beta=0.5).fit(X, y).beta_ == 0.5


class Run:
    """A trial of a weight that is its error."""

    def __init__(self, beta, goes_on=True):
        self.beta, self.goes_on, self.lost = beta, goes_on, False
        self.keep = type("Keep", (), {"error": None})()

    def lose(self):
        self.lost = True


def test_the_first_weight_inside_is_taken_and_others_are_forgotten():
    made = []

    def trial(beta, **options):
        made.append(Run(beta, **options))
        return made[-1]

    def of(epsilon, one=trial):
        made.clear()
        return first_inside(Run(1.0), one, lambda run: run.beta, epsilon, (4.0, 3.0, 2.0))

    assert of(5.0).beta == 4.0
    assert len(made) == 1
    assert of(2.1).beta == 3.0
    assert [run.lost for run in made] == [True, False]
    assert of(0.1).beta == 2.0  # the last is taken anyway
    assert [run.lost for run in made] == [True, True, False]
    stopped = of(0.1, lambda beta: trial(beta, goes_on=False))
    assert stopped.beta == 4.0
    assert len(made) == 1
