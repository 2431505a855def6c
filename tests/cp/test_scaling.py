"""Mean and scale by sums about a point, against NumPy in float64."""

import numpy as np
import pytest

from tensorcontrast.cp import scaling
from tensorcontrast.decompose import PLC
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("center", [True, False])
def test_mean_and_scale_in_one_pass(dtype, offset, center):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((700, 5, 7)) + offset * rng.standard_normal((5, 7))).astype(dtype)
    X[: scaling.HEAD_WINDOWS] += 30  # the first samples are unlike the rest
    mean, size = scaling.learn(X, center=center)
    wide = X.astype(np.float64)
    exact = wide.mean(axis=0) if center else np.zeros((5, 7))
    assert mean.dtype == dtype
    np.testing.assert_allclose(mean, exact, rtol=4 * np.finfo(dtype).eps, atol=1e-6)
    about = wide - mean
    assert size == pytest.approx(np.sqrt((about**2).sum() / len(X)), rel=1e-6)


def test_tiles_and_blocks_give_the_same_sums():
    X = np.random.default_rng(0).standard_normal((300, 40)).astype(np.float32) + 5
    shift = scaling.rough_mean(X[:20], center=True)
    whole = scaling.sums_about(X, shift)
    parts = [scaling.sums_about(block, shift, tile_values=400) for block in np.array_split(X, 7)]
    np.testing.assert_allclose(sum(t for t, _ in parts), whole[0], rtol=1e-12)
    assert sum(s for _, s in parts) == pytest.approx(whole[1], rel=1e-13)


def test_both_views_in_two_threads_give_the_same_bits(monkeypatch):
    X = np.random.default_rng(0).standard_normal((200, 4, 6, 5)).astype(np.float32)
    fits, used = [], []
    for count in (1, 2):
        monkeypatch.setattr(threads, "allowed", lambda count=count: count)
        with threads.for_two(1) as both:
            used.append(both is threads.in_turn)
        model = build(PLC, rank=3, n_clusters=5, n_epochs=3, tol=1e-2, random_state=0)
        fits.append(model.fit(X))
    assert used == [True, False]
    for one, two in zip(fits[0].factors_, fits[1].factors_, strict=True):
        np.testing.assert_array_equal(one, two)


def test_windows_in_chunks_are_those_in_memory():
    X = np.random.default_rng(0).standard_normal((50, 3, 4)).astype(np.float32) + 5
    center, size = scaling.learn(X, center=True)
    for scale in (1.0, size):
        wanted = (X - center).reshape(50, -1).astype(np.float64) / scale
        np.testing.assert_allclose(scaling.normalised(X, center, scale), wanted, rtol=1e-5)
        parts = list(scaling.chunks(X, center, scale, max_values=7 * 12))
        assert [len(part) for part in parts] == [7] * 7 + [1]
        np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("X", "center", "match"),
    [(np.full((9, 2), 3.1), True, "are equal in"), (np.zeros((9, 2)), False, "are zero")],
)
def test_windows_that_hold_nothing_are_an_error(X, center, match):
    with pytest.raises(InvalidInputError, match=rf"\(9, 2\) has nothing.*all windows {match}"):
        scaling.learn(X, center=center)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_batches_give_the_mean_and_scale_of_all(center, scale):
    X = np.random.default_rng(0).standard_normal((60, 4)) + (0 if center else 2)
    mean, size = scaling.learn(X[:20], center=center)
    first = mean, size
    for k in (20, 40):
        mean, size = scaling.update(X[k : k + 20], mean, size, k, center=center, scale=scale)
    np.testing.assert_allclose(mean, X.mean(axis=0) if center else first[0], atol=1e-12)
    if not scale:
        assert size == first[1]
    elif not center:
        assert size == pytest.approx(np.sqrt((X**2).sum() / 60))
    else:  # each batch about the mean of its time
        assert size == pytest.approx(scaling.learn(X, center=True)[1], rel=0.1)
