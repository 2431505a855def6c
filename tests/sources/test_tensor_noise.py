"""The augmented view: given, drawn each iteration, or made by an augmentation; TensorNoise."""

import numpy as np
import pytest

from tensorcontrast import ATD, PLC
from tensorcontrast.augment import Compose, Jitter
from tensorcontrast.cp.kernels import factor_match_score
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.sources.tensor_noise import TensorNoise

CONTRASTIVE = [ATD, PLC]


def swept(cls, **params):
    """Return an estimator whose iterations are sweeps: the tied solver of PLC adds epochs."""
    return build(cls, **({"solver": "als"} if cls is PLC else {}), **params)


@pytest.fixture(scope="module")
def planted():
    """X (90, 6, 8, 7) of rank 3 with 5 % noise, its classes and factors."""
    X, y, _, factors = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, random_state=0)
    return X, y, factors


@pytest.mark.parametrize("cls", CONTRASTIVE)
def test_a_view_may_be_an_array(cls, planted):
    X, *_ = planted
    view = TensorNoise()(X, np.random.default_rng(0))
    model = cls(rank=3, random_state=0).fit(X, view=view)
    assert model.view_features_.shape == (90, 3)
    assert not np.array_equal(model.view_features_, model.features_)
    same = cls(rank=3, random_state=0).fit(X, view=X)
    np.testing.assert_allclose(same.view_features_, same.features_, atol=0.02)


@pytest.mark.parametrize("cls", CONTRASTIVE)
def test_a_view_may_be_a_callable_drawn_each_iteration(cls, planted):
    X, *_ = planted
    drawn = []

    def view(rng):
        assert isinstance(rng, np.random.Generator)
        drawn.append(TensorNoise()(X, rng))
        return drawn[-1]

    model = swept(cls, rank=3, random_state=0, max_iter=7, tol=0).fit(X, view=view)
    assert model.n_iter_ == 7
    assert len(drawn) >= 7
    assert not np.array_equal(drawn[-1], drawn[-2])


@pytest.mark.parametrize(("fresh", "least", "most"), [(False, 1, 1), (True, 7, 12)])
@pytest.mark.parametrize("cls", CONTRASTIVE)
def test_augment_is_called_once_or_each_iteration(cls, fresh, least, most, planted):
    X, *_ = planted
    seen = []

    def augment(data, rng):
        seen.append(data.shape)
        return data + 0.01 * rng.standard_normal(data.shape)

    model = swept(
        cls, rank=3, augment=augment, fresh_views=fresh, max_iter=7, tol=0, random_state=0
    )
    model.fit(X)
    assert least <= len(seen) <= most
    assert set(seen) == {X.shape}


@pytest.mark.parametrize("cls", CONTRASTIVE)
def test_augmentations_of_the_library_serve_as_augment(cls):
    X, _, _, factors = make_cp_tensor(60, (6, 20), 2, noise=0.02, random_state=0)
    augment = Compose((Jitter(0.05),))
    model = cls(rank=2, augment=augment, random_state=0).fit(X)
    assert factor_match_score(model.factors_, factors) > 0.99


class TestTensorNoise:
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(50, 5, 20)).astype(np.float32)

    def test_pure_and_seeded(self):
        before = self.X.copy()
        a, b = (TensorNoise()(self.X, np.random.default_rng(1)) for _ in range(2))
        c = TensorNoise()(self.X, np.random.default_rng(2))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(self.X, before)
        assert not np.array_equal(a, c)
        assert a.dtype == np.float32
        assert a.shape == self.X.shape

    def test_noise_has_the_level_asked_for(self):
        out = TensorNoise(noise=0.3, mask=0.0)(self.X, np.random.default_rng(0))
        np.testing.assert_allclose((out - self.X).std(), 0.3 * self.X.std(), rtol=0.03)
        assert abs((out - self.X).mean()) < 0.05

    def test_masked_rows_are_one_block_of_the_mean_in_long_modes_only(self):
        out = TensorNoise(noise=0.0, mask=0.25)(self.X, np.random.default_rng(0))
        hidden = (out != self.X).any(axis=1)  # (n, 20)
        assert hidden.sum(axis=1).max() == 5
        assert (np.abs(np.diff(hidden.astype(int), axis=1)).sum(axis=1) <= 2).all()
        assert hidden.any(axis=1).mean() > 0.5
        assert len({tuple(row) for row in hidden}) > 10  # drawn for each sample
        mean = self.X.mean(axis=0, dtype=np.float64)
        samples, at = np.nonzero(hidden)
        np.testing.assert_allclose(out[samples, :, at], mean[:, at].T, rtol=1e-5)
        # The mode of length 5 is shorter than min_length: hidden columns are hidden whole.
        assert ((out != self.X).all(axis=1) == hidden).all()

    def test_no_noise_and_no_mask_change_nothing(self):
        out = TensorNoise(noise=0.0, mask=0.0)(self.X, np.random.default_rng(0))
        np.testing.assert_array_equal(out, self.X)
        assert out is not self.X
