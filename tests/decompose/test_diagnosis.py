"""``model.diagnose``: planted components are stable, invented ones are not, outliers are named."""

import json

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, Algorithm1, ContrastiveFeatures
from tensorcontrast.cp import diagnostics
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.diagnosis import STABLE, halves, match_components
from tensorcontrast.errors import InvalidInputError, TensorContrastError
from tensorcontrast.report.diagnosis import sentences

GROUPS = np.arange(120) // 10


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(120, (6, 8, 7), 3, noise=0.3, n_classes=1, random_state=0)[0]


@pytest.fixture(scope="module")
def found(X):
    return CPD(3, random_state=0).fit(X).diagnose(X, GROUPS)


@pytest.mark.parametrize(
    "model",
    [
        CPD(3, random_state=0),
        PLC(3, random_state=0),
        Algorithm1(3, random_state=0),
        ATD(3, random_state=0),
    ],
    ids=str,
)
def test_planted_components_are_stable(model, X):
    model.fit(X)
    before = model.transform(X)
    found = model.diagnose(X, GROUPS, n_seeds=1, n_splits=1)
    assert [f.verdict for f in found.features] == ["stable"] * 3 and found.n_stable == 3
    assert min(min(f.seed_correlation, f.split_correlation) for f in found.features) > 0.9
    assert found.seed_space > 0.98 and found.split_space > 0.95
    assert (found.seeds, found.splits, found.split_by) == (1, 1, "subjects")
    assert found.core_consistency[0] > 95
    assert found.notes == ()
    np.testing.assert_array_equal(model.transform(X), before)


def test_numbers_are_those_of_the_model(found, X):
    model = CPD(3, random_state=0).fit(X)
    assert found.explained == pytest.approx(model.score(X), abs=1e-5)
    assert min(f.congruence for f in found.features) == pytest.approx(model.degeneracy_, abs=1e-4)
    assert all(f.unique_share <= f.share + 1e-3 for f in found.features)
    assert found.leverage.sum() == pytest.approx(3, rel=1e-6)
    W = model.transform(X)
    np.testing.assert_allclose(found.leverage, diagnostics.leverage(W), rtol=1e-4)
    rest = np.linalg.norm((X - model.inverse_transform(W)).reshape(120, -1), axis=1)
    np.testing.assert_allclose(found.residual, rest / model.scale_, rtol=1e-3)


def test_as_data_and_as_text(found):
    data = json.loads(found.to_json(windows=True))
    assert data["n_stable"] == 3 and data["splits"] == 2
    assert "leverage" not in found.to_dict()
    assert len(data["leverage"]) == 120 and data["stable_from"] == STABLE
    assert [f["verdict"] for f in data["features"]] == ["stable"] * 3
    assert repr(found).count("stable") == 4
    with pytest.raises(AttributeError):
        found.rank = 4


def test_components_beyond_the_planted_ones_are_unstable(X):
    found = CPD(6, random_state=0).fit(X).diagnose(X, GROUPS)
    unstable = [f for f in found.features if f.verdict.startswith("unstable under ")]
    assert len(unstable) >= 2
    assert all(min(f.seed_correlation, f.split_correlation) < STABLE for f in unstable)


def test_a_component_of_one_half_of_the_subjects_is_unstable_under_others():
    X, *_ = make_cp_tensor(120, (6, 8, 7), 2, noise=0.05, n_classes=1, random_state=1)
    rng = np.random.default_rng(2)
    own = np.einsum("n,i,j,k->nijk", rng.normal(size=60), *(rng.normal(size=d) for d in (6, 8, 7)))
    X[:60] += own * (1.2 * X.std() / own.std())
    groups = np.repeat([0, 1], 60)  # the one split there is
    found = CPD(3, random_state=0).fit(X).diagnose(X, groups)
    verdicts = {f.verdict for f in found.features}
    assert verdicts == {"stable", "unstable under other subjects"}
    assert found.split_space < 0.95 < found.seed_space


def test_features_are_matched_by_what_transform_gives(X):
    model = PLC(3, random_state=0).fit(X)
    found = model.diagnose(X, GROUPS, n_seeds=1, n_splits=1)
    other = model._unfitted(1).fit(X)
    ours, theirs = model.transform(X), other.transform(X)
    expected = np.abs(np.corrcoef(ours.T, theirs.T)[:3, 3:]).max(axis=1)
    np.testing.assert_allclose([f.seed_correlation for f in found.features], expected, atol=1e-5)
    one, two = halves(GROUPS, 0)
    first, second = (model._unfitted(1).fit(X[at]).transform(X) for at in (one, two))
    a, b = (np.abs(np.corrcoef(ours.T, W.T)[:3, 3:]).argmax(axis=1) for W in (first, second))
    expected = [
        abs(np.corrcoef(first[:, i], second[:, j])[0, 1]) for i, j in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose([f.split_correlation for f in found.features], expected, atol=1e-5)
    assert found.median_correlations[1] == pytest.approx(np.median(expected), abs=1e-5)


def test_outliers_are_named(X):
    spoilt = X.copy()
    spoilt[5] *= 15  # along the model: leverage
    spoilt[9] += 12 * X.std() * np.random.default_rng(0).normal(size=X.shape[1:])
    found = CPD(3, random_state=0).fit(spoilt).diagnose(spoilt, n_seeds=0, n_splits=0)
    by = {w.window: w.reason for w in found.outliers}
    assert "leverage" in by[5] and "residual" in by[9]
    assert {w.window for w in found.outliers[:2]} == {5, 9}
    assert len(found.outliers) < 12
    assert all(f.verdict == "not tested" for f in found.features)
    assert found.tested == "nothing" and found.median_correlations == (None, None)


def test_cancelling_components_are_shown(X):
    model = CPD(3, random_state=0).fit(X)
    for U in model.factors_:
        U[:, 1] = U[:, 0] + 0.05 * U[:, 1]
    found = model.diagnose(X, n_seeds=0, n_splits=0)
    first = found.features[0]
    assert first.opposed_to == 1 and first.congruence < -0.8


def test_coupled_blocks_and_modes_shorter_than_the_rank(X):
    blocks = [X, np.ascontiguousarray(X[:, :2, :, 0].reshape(120, -1))]
    model = CPD(3, random_state=0).fit(blocks)
    found = model.diagnose(blocks, GROUPS, n_seeds=1, n_splits=1)
    assert found.n_stable >= 2
    assert found.core_consistency[0] > 90 and found.core_consistency[1] is None
    assert "core consistency" in found.notes[0]
    short = CPD(3, random_state=0).fit(X[:, :, :, :2])
    assert short.diagnose(X[:, :, :, :2], n_seeds=0).core_consistency == (None,)


def test_of_signals_with_their_subjects():
    rec = make_synthetic(90, 3, 64, n_subjects=6, random_state=0)
    model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    found = model.diagnose(rec, n_seeds=1, n_splits=1)
    assert (found.method, found.split_by, found.n_windows) == ("PLC", "subjects", 90)
    assert model.diagnose(rec.X, n_seeds=0, n_splits=1).split_by == "windows"
    with pytest.raises(InvalidInputError, match="groups has 3"):
        model.diagnose(rec.X, groups=[1, 2, 3])
    da = pytest.importorskip("dask.array")
    with pytest.raises(InvalidInputError, match="in this process"):
        model.diagnose(da.from_array(rec.X))


def test_what_cannot_be_diagnosed(X):
    model = CPD(3, random_state=0).fit(X)
    with pytest.raises(InvalidInputError, match="n_seeds=-1"):
        model.diagnose(X, n_seeds=-1)
    with pytest.raises(InvalidInputError, match="groups has shape"):
        model.diagnose(X, GROUPS[:5])
    with pytest.raises(InvalidInputError, match="missing values"):
        gaps = X.copy()
        gaps[0, 0, 0, 0] = np.nan
        CPD(3, missing="mask", random_state=0).fit(gaps).diagnose(gaps)
    for groups in ([[1], [2, 3]], np.zeros((120, 2)), 3, [None, 1, "a", {}] * 30, {1}):
        with pytest.raises(TensorContrastError, match="groups"):
            model.diagnose(X, groups, n_seeds=0)
    for name in ("n_seeds", "n_splits"):
        for count in (1.5, True, "2", None, np.array([1, 2])):
            with pytest.raises(InvalidInputError, match=name):
                model.diagnose(X, **{name: count})
    with pytest.raises(InvalidInputError, match="random_state"):
        model.diagnose(X, n_seeds=0, random_state="a")
    assert model.diagnose(X, n_seeds=np.int64(0), n_splits=np.uint8(1)).splits == 1
    one = model.diagnose(X, np.zeros(120), n_seeds=0)
    assert one.splits == 0 and "one subject" in one.notes[0]
    few = model.diagnose(X[:6], n_seeds=0)
    assert few.splits == 0 and any("too few" in note for note in few.notes)
    assert any("fitted on" in note for note in few.notes)
    da = pytest.importorskip("dask.array")
    with pytest.raises(InvalidInputError, match="in this process"):
        model.diagnose(da.from_array(X))


def test_a_core_consistency_below_zero_is_not_printed_as_a_number(X):
    found = CPD(6, random_state=0).fit(X).diagnose(X, GROUPS, n_seeds=0, n_splits=0)
    assert found.core_consistency[0] < 0
    (line,) = (line for line in sentences(found) if "core consistency" in line)
    assert "not meaningful" in line and f"{found.core_consistency[0]:.0f}" not in line


def test_halves_share_no_group_and_are_about_equal():
    groups = np.random.default_rng(0).integers(9, size=200)
    for seed in range(5):
        one, two = halves(groups, seed)
        assert not set(groups[one]) & set(groups[two])
        assert sorted([*one, *two]) == list(range(200))
        assert abs(len(one) - len(two)) <= np.bincount(groups).max()


def test_matched_features_of_two_seeds_agree(X):
    one, two = (CPD(3, random_state=seed).fit(X) for seed in (0, 7))
    found = match_components(one, two)
    assert found.score > 0.99 and sorted(found.order) == [0, 1, 2]
    W, V = one.transform(X), found.apply(two.transform(X))
    assert np.abs(W - V).max() < 0.01 * np.abs(W).max()
    with pytest.raises(InvalidInputError, match="not fitted"):
        match_components(one, CPD())
    with pytest.raises(InvalidInputError, match="same tensor shape"):
        match_components(one, CPD(3, random_state=0).fit(X[:, :3]))


def test_matching_of_models_with_other_convolution_features():
    rec = make_synthetic(60, 3, 64, n_subjects=6, random_state=0)
    decompose = PLC(2)
    one, two = (
        ContrastiveFeatures(decompose=decompose, random_state=0).fit(part)
        for part in (rec[:30], rec[30:])
    )
    found = match_components(one, two)
    wanted = diagnostics.match(one.factors_, two.factors_)  # the spectrograms alone
    np.testing.assert_array_equal(found.order, wanted.order)
    np.testing.assert_array_equal(found.similarity, wanted.similarity)
    same = match_components(one, one)
    assert same.score == pytest.approx(1.0)
