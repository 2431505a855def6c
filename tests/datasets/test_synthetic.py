import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError


@pytest.mark.parametrize("dims", [(5,), (4, 3), (4, 3, 5), (2, 3, 2, 3)])
def test_tensor_is_the_sum_of_its_terms(dims):
    X, y, features, factors = make_cp_tensor(15, dims, 3, noise=0.0, random_state=1)
    slow = np.zeros((15, *dims))
    for n in range(15):
        for r in range(3):
            term = np.array(features[n, r])
            for factor in factors:
                term = np.multiply.outer(term, factor[:, r])
            slow[n] += term
    np.testing.assert_allclose(X, slow, atol=1e-12)
    assert set(y.tolist()) == {0, 1, 2}
    for factor in factors:
        np.testing.assert_allclose(np.linalg.norm(factor, axis=0), 1)


@pytest.mark.parametrize("noise", [0.05, 0.5, 2.0])
def test_noise_is_relative_to_the_norm(noise):
    clean = make_cp_tensor(noise=0.0, random_state=0)[0]
    noisy = make_cp_tensor(noise=noise, random_state=0)[0]
    assert np.linalg.norm(noisy - clean) / np.linalg.norm(clean) == pytest.approx(noise)


def test_nuisance_features_carry_no_class():
    _, y, features, _ = make_cp_tensor(600, (4, 4), 5, n_nuisance=2, n_classes=3, random_state=0)
    model = LogisticRegression()
    assert cross_val_score(model, features[:, :3], y).mean() > 0.85
    assert cross_val_score(model, features[:, 3:], y).mean() < 0.45


def test_class_means_are_apart_as_asked():
    _, y, features, _ = make_cp_tensor(9000, (2, 2), 4, n_classes=3, separation=5.0, random_state=0)
    means = np.array([features[y == c].mean(axis=0) for c in range(3)])
    gaps = [np.linalg.norm(means[a] - means[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert min(gaps) == pytest.approx(5.0, abs=0.15)


def test_nonnegative_dtype_and_seed():
    X, _, features, factors = make_cp_tensor(
        noise=0, nonnegative=True, dtype=np.float32, random_state=3
    )
    assert X.dtype == features.dtype == factors[0].dtype == np.float32
    assert X.min() >= 0
    again = make_cp_tensor(noise=0, nonnegative=True, dtype=np.float32, random_state=3)[0]
    np.testing.assert_array_equal(X, again)


@pytest.mark.parametrize(
    "bad",
    [
        {"n_samples": 0},
        {"dims": ()},
        {"dims": (3, 0)},
        {"rank": 0},
        {"n_classes": 0},
        {"n_classes": 500},
        {"n_nuisance": 4},
        {"noise": -1.0},
        {"noise": float("nan")},
        {"dtype": np.int32},
    ],
)
def test_impossible_tensors(bad):
    with pytest.raises(InvalidInputError):
        make_cp_tensor(**bad)


def probe(features, rec):
    """Accuracy on subjects that the classifier has not seen."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
    folds = GroupKFold(5)
    return cross_val_score(model, features, rec.y, groups=rec.groups, cv=folds).mean()


def test_classes_are_in_the_spectrum_not_in_the_mean_and_apart_as_asked():
    # Two Gaussian classes d deviations apart are told apart with accuracy Φ(d / 2): nearly always
    # for d = 8; and with d = 0 there is nothing to tell, for three classes one third.
    apart = make_synthetic(600, 5, 200, noise=0.3, separation=8.0, random_state=0)
    same = make_synthetic(600, 5, 200, noise=0.3, separation=0.0, random_state=0)
    assert apart.X.dtype == np.float32

    def magnitude(rec):
        return np.abs(np.fft.rfft(rec.X, axis=2)[:, :, 1:]).reshape(600, -1)

    assert probe(magnitude(apart), apart) > 0.95
    assert probe(magnitude(same), same) < 0.45
    assert probe(apart.X.mean(axis=2), apart) < 0.45


def test_every_subject_has_every_class():
    rec = make_synthetic(120, n_subjects=6, n_classes=4, random_state=2)
    table = np.zeros((6, 4), dtype=int)
    np.add.at(table, (rec.groups - 1, rec.y), 1)
    assert (table == 5).all()
    few = make_synthetic(10, n_subjects=10, n_classes=3, random_state=2)
    assert len(set(few.groups.tolist())) == 10


def test_subjects_have_shifts_and_gains_of_their_own():
    rec = make_synthetic(400, n_subjects=4, noise=0.1, subject_shift=3.0, random_state=0)
    means = rec.X.mean(axis=2)
    within = np.mean([means[rec.groups == g].std(axis=0).mean() for g in range(1, 5)])
    between = np.std([means[rec.groups == g].mean(axis=0) for g in range(1, 5)], axis=0).mean()
    assert between > 10 * within


def test_noise_level_and_seed():
    quiet = make_synthetic(50, noise=0.0, random_state=5).X
    loud = make_synthetic(50, noise=1.0, random_state=5).X
    assert (loud - quiet).std() == pytest.approx(make_synthetic_scale(), rel=0.05)
    np.testing.assert_array_equal(quiet, make_synthetic(50, noise=0.0, random_state=5).X)


def make_synthetic_scale():
    plain = make_synthetic(50, noise=0.0, subject_gain=0.0, subject_shift=0.0, random_state=5)
    return plain.X.std()


@pytest.mark.parametrize(
    "bad",
    [
        {"n_channels": 0},
        {"n_times": 4},
        {"n_classes": 0},
        {"n_subjects": 0},
        {"n_components": 0},
        {"n_samples": 5},
        {"n_nuisance": -1},
        {"noise": -1.0},
    ],
)
def test_impossible_recordings(bad):
    with pytest.raises(InvalidInputError):
        make_synthetic(**bad)
