"""Shares of positions above biases, against loops; values that do not depend on their company."""

from dataclasses import fields, replace

import numpy as np
import pytest

from tensorcontrast import _shapes
from tensorcontrast._shapes import N_BIASES, POSITIONS, Shapes, dilations, kernels, learn
from tensorcontrast.errors import InvalidInputError


def windows(n, c, t, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, c, t)).cumsum(axis=2)
    return (X + 3).astype(np.float32)


def slow_outputs(x, weights, dilation):
    """Output of one kernel at each evaluated position of one signal, in float64."""
    t = len(x)
    outputs = []
    for position in range(0, t, max(1, t // POSITIONS)):
        total = 0.0
        for tap in range(9):
            at = position + (tap - 4) * dilation
            if 0 <= at < t:
                total += float(weights[tap]) * float(x[at])
        outputs.append(total)
    return np.array(outputs)


def slow_bounds(shapes, X):
    """Shares of outputs that exceed the biases, by more than rounding and with rounding."""
    k, d, c = shapes.channels.shape
    low, high = np.empty((2, len(X), k, d, N_BIASES))
    for n, window in enumerate(X.astype(np.float64)):
        for i, dilation in enumerate(shapes.dilations):
            for kernel, weights in enumerate(kernels()):
                total = sum(shapes.channels[kernel, i, j] * window[j] for j in range(c))
                outputs = slow_outputs(total, weights, int(dilation))
                size = 1e-5 * np.abs(total).max()
                for j, bias in enumerate(shapes.biases[kernel, i].astype(np.float64)):
                    low[n, kernel, i, j] = (outputs > bias + size).mean()
                    high[n, kernel, i, j] = (outputs > bias - size).mean()
    return low.reshape(len(X), -1), high.reshape(len(X), -1)


def test_kernels_and_dilations():
    weights = kernels()
    assert weights.shape == (84, 9)
    assert len(np.unique(weights, axis=0)) == 84
    assert (np.sort(weights, axis=1) == [-1] * 6 + [2] * 3).all()
    assert dilations(128).tolist() == [1, 2, 4, 8]
    assert dilations(129).tolist() == [1, 2, 4, 8, 16]
    for t in (1, 8, 9, 16):
        assert dilations(t).tolist() == [1]
    assert dilations(17).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("c", "t"), [(1, 9), (3, 9), (12, 9), (1, 33), (3, 31), (12, 17), (3, 1), (1, 5)]
)
@pytest.mark.parametrize("scale", [True, False])
def test_shares_are_those_of_a_loop(c, t, scale):
    X = windows(3, c, t)
    shapes = learn(X, scale=scale)
    shares = shapes.shares(X)
    low, high = slow_bounds(shapes, X)
    assert shares.shape == (3, 84 * len(dilations(t)) * N_BIASES)
    assert shares.dtype == np.float32
    assert (shares >= low - 1e-6).all() and (shares <= high + 1e-6).all()
    # Rounding can only matter to the few outputs that are the quantiles themselves.
    assert np.mean(high - low) < 0.5 / t


@pytest.mark.parametrize("t", [300, 515, 771])
def test_long_windows_are_convolved_at_every_few_positions(t):
    X = windows(2, 2, t)
    shapes = learn(X)
    some = slice(0, 84, 20)  # a few of the kernels, for time
    low, high = np.empty((2, 2, 84, len(shapes.dilations), N_BIASES))
    for n, i, kernel in np.ndindex(2, len(shapes.dilations), 84):
        if kernel % 20:
            continue
        total = shapes.channels[kernel, i].astype(np.float64) @ X[n]
        outputs = slow_outputs(total, kernels()[kernel], int(shapes.dilations[i]))
        assert len(outputs) == -(-t // max(1, t // POSITIONS))
        size = 1e-5 * np.abs(total).max()
        biases = shapes.biases[kernel, i].astype(np.float64)
        low[n, kernel, i] = (outputs[:, None] > biases + size).mean(axis=0)
        high[n, kernel, i] = (outputs[:, None] > biases - size).mean(axis=0)
    shares = shapes.shares(X).reshape(low.shape)[:, some]
    assert (shares >= low[:, some] - 1e-6).all() and (shares <= high[:, some] + 1e-6).all()
    assert np.mean(high[:, some] - low[:, some]) < 1e-2


@pytest.mark.parametrize(("dilation", "t"), [(1, 40), (4, 40), (16, 300), (3, 600)])
def test_one_kernel_is_a_convolution(dilation, t):
    X = windows(2, 1, t)
    ones = np.ones((84, 1, 1), np.float32)
    convolve = _shapes._Convolutions(np.array([dilation]), ones, t)
    (values,) = convolve(X)
    values = values.reshape(convolve.positions, convolve.step, 84)
    stride = max(1, t // POSITIONS)
    for kernel in (0, 41, 83):
        spread = np.zeros(8 * dilation + 1)
        spread[::dilation] = kernels()[kernel]
        for n in range(2):
            full = np.convolve(X[n, 0].astype(np.float64), spread[::-1])
            expected = full[4 * dilation : 4 * dilation + t][::stride]
            np.testing.assert_allclose(values[:, n, kernel], expected, atol=1e-4)
    assert not values[:, 2:].any()  # windows that are not there


@pytest.mark.parametrize(("c", "t"), [(1, 50), (9, 128), (12, 300), (2, 600)])
def test_threads_and_chunks_give_the_same_bits(c, t):
    X = windows(150, c, t)
    shapes, other = learn(X, n_jobs=1), learn(X, n_jobs=2)
    for field in fields(Shapes):
        np.testing.assert_array_equal(getattr(shapes, field.name), getattr(other, field.name))
    shares, values = shapes.shares(X, n_jobs=1), shapes.transform(X, n_jobs=1)
    np.testing.assert_array_equal(shapes.shares(X, n_jobs=2), shares)
    np.testing.assert_array_equal(shapes.transform(X, n_jobs=2), values)
    for step in (1, 7, 64, 100):
        starts = range(0, len(X), step)
        for method, whole in ((shapes.shares, shares), (shapes.transform, values)):
            parts = np.concatenate([method(X[start : start + step]) for start in starts])
            np.testing.assert_array_equal(parts, whole)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(shapes.transform(X[order]), values[order])


def test_other_types_and_layouts_give_the_same_bits():
    X = windows(20, 3, 60)
    shapes = learn(X)
    values = shapes.transform(X)
    wide = np.repeat(X.astype(np.float64).transpose(2, 0, 1), 2, axis=0)[::2].transpose(1, 2, 0)
    assert not wide.flags.c_contiguous
    for same in (X.astype(np.float64), np.asfortranarray(X), wide):
        np.testing.assert_array_equal(shapes.transform(same), values)
        np.testing.assert_array_equal(learn(same).basis, shapes.basis)
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(shapes.transform(read_only), values)
    whole = np.rint(X).astype(np.int16)
    assert np.isfinite(learn(whole).transform(whole)).all()
    assert shapes.transform(X[:0]).shape == (0, values.shape[1])
    assert shapes.shares(X[:0]).shape == (0, len(shapes.mean))


def test_values_are_principal_values_of_the_shares():
    X = windows(60, 2, 40)
    shapes = learn(X, n_values=10)
    assert shapes.basis.shape == (84 * 3 * N_BIASES, 10)
    shares, values = shapes.shares(X).astype(np.float64), shapes.transform(X)
    assert (shares >= 0).all() and (shares <= 1).all()
    np.testing.assert_allclose(values, (shares - shapes.mean) @ shapes.basis, atol=1e-4)
    np.testing.assert_allclose(shapes.mean, shares.mean(axis=0), atol=1e-6)
    expected = np.linalg.svd(shares - shares.mean(axis=0), compute_uv=False)[:10]
    np.testing.assert_allclose(np.linalg.norm(values, axis=0), expected, rtol=1e-4)


@pytest.mark.parametrize("n", [2, 5, 100, 1200])  # fewer and more windows than shares
def test_basis_is_orthonormal(n):
    X = windows(n, 2, 12)
    basis = learn(X).basis
    assert basis.dtype == np.float32
    assert basis.shape[1] <= min(n - 1, _shapes.N_VALUES)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-5)
    columns = np.arange(basis.shape[1])
    assert (basis[np.abs(basis).argmax(axis=0), columns] > 0).all()


def test_only_some_windows_are_learned_from(monkeypatch):
    monkeypatch.setattr(_shapes, "WINDOWS", 20)
    X = windows(70, 2, 30)
    shapes, same = learn(X), learn(X[::4])
    assert shapes.basis.shape[1] <= 17
    for field in fields(Shapes):
        np.testing.assert_array_equal(getattr(shapes, field.name), getattr(same, field.name))


def test_a_seed_is_a_bank():
    X = windows(30, 6, 40)
    one, same, other = learn(X, seed=3), learn(X, seed=3), learn(X, seed=4)
    for field in fields(Shapes):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(same, field.name))
    assert not np.array_equal(one.channels, other.channels)


@pytest.mark.parametrize("c", [1, 3, 12])
def test_channels_and_biases(c):
    X = windows(40, c, 70)
    X *= np.arange(1, c + 1, dtype=np.float32)[:, None]
    shapes = learn(X)
    used = (shapes.channels > 0).sum(axis=2)
    assert used.min() == 1 and used.max() == min(c, 9)
    expected = 1 / X.std(axis=(0, 2), dtype=np.float64)
    where = np.broadcast_to(expected, shapes.channels.shape)[shapes.channels > 0]
    np.testing.assert_allclose(shapes.channels[shapes.channels > 0], where, rtol=1e-5)
    assert (np.diff(shapes.biases, axis=2) >= 0).all()
    # Biases are quantiles: shares of the windows they came from are 7/8, 5/8, 3/8 and 1/8.
    means = shapes.mean.reshape(-1, N_BIASES)
    np.testing.assert_allclose(
        means, np.tile([0.875, 0.625, 0.375, 0.125], (len(means), 1)), atol=2e-3
    )
    plain = learn(X, scale=False)
    assert set(np.unique(plain.channels)) <= {0.0, 1.0}
    np.testing.assert_array_equal(plain.channels > 0, shapes.channels > 0)


def test_units_of_channels_do_not_matter():
    X = windows(40, 3, 50)
    shares = learn(X).shares(X)
    for factor in (1024, 1000):
        scaled = X * np.array([1, factor, 1], np.float32)[:, None]
        found = learn(scaled).shares(scaled)
        if factor == 1024:  # a power of two changes no rounding
            np.testing.assert_array_equal(found, shares)
        else:  # rounding may move an output that is a bias itself
            assert np.abs(found - shares).max() <= 2.01 / 50
            assert np.mean(found != shares) < 0.01
    plain = learn(X, scale=False).shares(X)
    assert np.mean(learn(scaled, scale=False).shares(scaled) != plain) > 0.1


def test_a_constant_channel_is_left_out():
    X = windows(30, 3, 40)
    X[:, 1] = 0.1
    shapes = learn(X)
    assert not shapes.channels[:, :, 1].any()
    values = shapes.transform(X)
    assert np.isfinite(values).all()
    X[:, 1] = 7
    np.testing.assert_array_equal(shapes.transform(X), values)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("level", [0, 0.1])
def test_constant_signals(level, scale):
    X = np.full((10, 2, 40), level, np.float32)
    shapes = learn(X, scale=scale)
    shapes.check(2, 40)
    assert shapes.basis.shape == (len(shapes.mean), 1)
    assert np.abs(shapes.transform(X)).max() < 1e-6


@pytest.mark.parametrize("t", [1, 2, 9, 100])
def test_one_window(t):
    X = windows(1, 2, t)
    shapes = learn(X)
    shapes.check(2, t)
    assert shapes.basis.shape[1] == 1
    assert np.abs(shapes.transform(X)).max() < 1e-6
    assert np.isfinite(shapes.transform(windows(5, 2, t, seed=1))).all()


def test_wrong_input_is_refused():
    X = windows(5, 3, 20)
    shapes = learn(X)
    for wrong in (X[:, :2], X[0]):
        with pytest.raises(InvalidInputError, match="3 channels"):
            shapes.shares(wrong)
        with pytest.raises(InvalidInputError, match="3 channels"):
            shapes.transform(wrong)
    for wrong in (X[:0], X[:, :, :0], X[0]):
        with pytest.raises(InvalidInputError, match="at least one"):
            learn(wrong)
    with pytest.raises(InvalidInputError, match="n_values"):
        learn(X, n_values=0)


def test_check_accepts_what_was_learned():
    X = windows(12, 3, 40)
    shapes = learn(X)
    shapes.check(3, 40)
    again = Shapes(**{field.name: getattr(shapes, field.name).copy() for field in fields(Shapes)})
    again.check(3, 40)
    np.testing.assert_array_equal(again.transform(X), shapes.transform(X))


@pytest.mark.parametrize("name", [field.name for field in fields(Shapes)])
def test_check_refuses_damaged_arrays(name):
    shapes = learn(windows(12, 3, 40))
    values = getattr(shapes, name)
    damaged = [values[:-1], values[None], values.astype(np.complex128), values.astype(np.float16)]
    damaged += [values.ravel()[:0], np.asarray(values.ravel()[0])]
    if values.dtype.kind == "f":
        for bad in (np.nan, np.inf):
            broken = values.copy()
            broken.flat[3] = bad
            damaged.append(broken)
    else:
        damaged.append(values + 1)
    if values.ndim > 1:
        damaged += [values[..., :0], np.concatenate([values] * 400, axis=-1)]
    if name == "biases":
        damaged.append(np.ascontiguousarray(values[..., ::-1]))
    for wrong in damaged:
        with pytest.raises(InvalidInputError, match=f"{name} of the shapes"):
            replace(shapes, **{name: wrong}).check(3, 40)


def test_check_refuses_other_windows():
    shapes = learn(windows(12, 3, 40))
    for c, t in ((2, 40), (3, 100)):
        with pytest.raises(InvalidInputError, match="fit again"):
            shapes.check(c, t)
