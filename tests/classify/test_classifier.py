"""ContrastiveClassifier: labels of any type, abstention, files, scikit-learn's tools."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tensorcontrast import (
    CPD,
    ContrastiveClassifier,
    ContrastiveFeatures,
    Recordings,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.classify import suggest
from tensorcontrast.errors import InvalidInputError

FEATURES = ContrastiveFeatures(
    tensorize=SpectrogramTensor(), decompose=CPD(rank=6, max_iter=30, tol=1e-3)
)


def small(**params):
    """One block of tensors, whose features take a fraction of a second."""
    return ContrastiveClassifier(FEATURES, random_state=0, **params)


def few(y, every=4, unknown=-1):
    """Every fourth label; the others unknown."""
    out = np.full(len(y), unknown, dtype=object if unknown is None else None)
    out[::every] = y[::every]
    return out


@pytest.fixture(scope="module")
def model(rec):
    return small().fit(rec, few(rec.y))


# ------------------------------------------------------------------------------ labels


def test_few_labels_are_enough(rec, model):
    assert model.n_labels_.sum() == 30
    assert model.score(rec, rec.y) > 0.9
    probability = model.predict_proba(rec)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rec), model.classes_[probability.argmax(axis=1)])


@pytest.mark.parametrize(
    ("values", "unknown", "kind"),
    [
        ([3, 7, 11], -1, "i"),
        (["a", "bb", "c"], "", "U"),
        (["a", "bb", "c"], None, "U"),
        ([False, True, True], None, "b"),
        ([0.0, 1.0, 2.0], np.nan, "i"),
    ],
)
def test_answers_have_the_type_of_the_labels(rec, values, unknown, kind):
    y = np.array(values, dtype=object)[rec.y]
    y[np.arange(len(y)) % 3 > 0] = unknown
    fitted = small().fit(rec.X, y)
    assert fitted.classes_.dtype.kind == kind
    assert fitted.classes_.tolist() == sorted(set(values))
    assert fitted.n_labels_.sum() == 40
    answers = fitted.predict(rec.X)
    assert answers.dtype == fitted.classes_.dtype
    true = np.array(values)[rec.y]
    assert (answers == true).mean() > 0.9
    # below a probability, the answer is the unknown label of the type
    fitted.set_params(abstain=1.0)
    unsure = {"i": -1, "U": "", "b": None}[kind]
    assert [v for v in fitted.predict(rec.X) if v not in set(values)].count(unsure) > 0


def test_recordings_bring_labels_groups_and_names(rec):
    some = rec._with(y=few(rec.y))
    fitted = small().fit(some)
    assert fitted.classes_.tolist() == ["move", "rest", "think"]
    assert fitted.validation_["by"] == "group"
    assert fitted.score(rec) == fitted.score(rec, np.array(rec.classes)[rec.y]) > 0.9
    assert (fitted.fs_, fitted.channels_) == (50.0, ("Fz", "Cz", "Pz"))
    with pytest.raises(InvalidInputError, match="'move'"):
        fitted.score(rec, rec.y)
    numbers = small().fit(rec.X, few(rec.y))
    assert numbers.score(rec.X, rec.y) > 0.9
    with pytest.raises(InvalidInputError, match="'move'"):
        numbers.score(rec)


def test_unlabelled_windows_train_the_features(rec, model):
    labelled = np.flatnonzero(few(rec.y) >= 0)
    alone = small().fit(rec[labelled], rec.y[labelled])
    assert alone.extractor_.decompose_.n_samples_seen_ == 30
    assert model.extractor_.decompose_.n_samples_seen_ == len(rec)


def test_a_class_with_one_label(rec):
    y = few(rec.y)
    others = np.flatnonzero(y == 2)[1:]
    y[others] = -1
    fitted = small().fit(rec, y)
    assert fitted.n_labels_.tolist()[2] == 1
    # the only window of a class cannot be judged: no other one teaches it
    assert fitted.validation_["n_windows"] == (y >= 0).sum() - 1
    assert (fitted.predict(rec)[rec.y == 2] == 2).mean() > 0.5


def test_one_label_per_class_has_no_validation(rec):
    y = np.full(len(rec), -1)
    for c in range(3):
        y[np.flatnonzero(rec.y == c)[0]] = c
    fitted = small().fit(rec, y)
    assert fitted.temperature_ == 1.0
    assert fitted.validation_["accuracy"] is None
    assert fitted.score(rec, rec.y) > 0.5


def test_few_labels_of_many_classes_give_no_warning(rec):
    y = np.where(np.arange(120) < 40, np.arange(120) % 30, -1)
    fitted = small().fit(rec, y)  # warnings are errors here
    assert len(fitted.classes_) == 30
    assert fitted.predict_proba(rec).shape == (120, 30)


# ----------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (np.full(120, -1), r"none of the 120 windows has a label; label some"),
        (np.ones(120, dtype=int), r"all 120 labels are of one class, 1; a "),
        (np.linspace(0, 1, 120), "Unknown label type.*continuous"),
        (np.where(np.arange(120) % 2, 1, -1), "name the two classes 0 and 1"),
        (np.arange(60) % 2, "y has 60 labels but X has 120 windows"),
    ],
)
def test_bad_labels_are_errors(rec, y, message):
    with pytest.raises(InvalidInputError, match=message):
        small().fit(rec.X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"abstain": 1.5}, "'abstain' parameter"),
        ({"smooth": "median"}, "'smooth' parameter"),
        ({"dwell": 1}, "'dwell' parameter"),
    ],
)
def test_bad_parameters_are_errors(rec, params, message):
    with pytest.raises(InvalidInputError, match=message):
        small(**params).fit(rec, rec.y)


def test_other_rate_channels_or_length_at_prediction(rec, model):
    with pytest.raises(InvalidInputError, match=r"sampling rate of 25.* fitted at 50"):
        model.predict(Recordings(rec.X, fs=25, channels=rec.channels))
    with pytest.raises(InvalidInputError, match=r"have channels .*'Oz'.* fitted on"):
        model.predict(rec.rename_channels({"Fz": "Oz"}))
    with pytest.raises(InvalidInputError, match="32"):
        model.predict(rec.X[:, :, :32])
    with pytest.raises(InvalidInputError, match="channels"):
        model.predict(rec.X[:, :2])


def test_an_error_leaves_the_model_as_it_was(rec, model):
    again = clone(model).fit(rec, few(rec.y))
    before = again.predict_proba(rec)
    with pytest.raises(InvalidInputError):
        again.fit(rec, np.zeros(len(rec)))
    np.testing.assert_array_equal(again.predict_proba(rec), before)


def test_ctrl_c_leaves_the_model_as_it_was(rec, model, monkeypatch):
    again = clone(model).fit(rec, few(rec.y))
    before = again.coef_

    def stop(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(ContrastiveFeatures, "fit_and_keep", stop)
    with pytest.raises(KeyboardInterrupt, match="ContrastiveClassifier: fit was interrupted"):
        again.fit(rec, few(rec.y))
    assert again.coef_ is before


# ------------------------------------------------------------------------------ choices


def test_what_the_classifier_sees(rec):
    fitted = small().fit(rec, few(rec.y))
    rank = fitted.extractor_.decompose_.rank_
    rows = sum(P.shape[1] for P in fitted.components_["projections"])
    assert rows > 0
    assert fitted.coef_.shape == (3, rank + rows)
    assert fitted.score(rec, rec.y) > 0.85


def test_coupled_blocks(rec, tmp_path):
    """The default features: spectrograms and random-convolution features."""
    features = ContrastiveFeatures(decompose=CPD(rank=6, max_iter=30, tol=1e-3))
    fitted = ContrastiveClassifier(features, random_state=0).fit(rec, few(rec.y))
    assert fitted.score(rec, rec.y) > 0.9
    fitted.save(tmp_path / "model.tcm")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.tcm").predict_proba(rec), fitted.predict_proba(rec)
    )


def test_missing_values_leave_the_features_alone(rec):
    X = rec.X.copy()
    X[::7, 1, :20] = np.nan
    features = ContrastiveFeatures(missing="mask", decompose=CPD(rank=4, max_iter=20, tol=1e-3))
    fitted = ContrastiveClassifier(features, random_state=0).fit(X, rec.y)
    assert fitted.components_ is None
    assert fitted.score(X, rec.y) > 0.6


def test_seeds_give_the_same_model(rec, model):
    again = small().fit(rec, few(rec.y))
    np.testing.assert_array_equal(again.predict_proba(rec), model.predict_proba(rec))
    assert again.temperature_ == model.temperature_


def test_a_seed_of_the_features_is_theirs(rec):
    features = clone(FEATURES).set_params(random_state=0)
    fitted = ContrastiveClassifier(features, random_state=5).fit(rec, rec.y)
    alone = clone(features).fit(rec)
    np.testing.assert_array_equal(fitted.extractor_.transform(rec), alone.transform(rec))
    seeded = ContrastiveClassifier(FEATURES, random_state=5).fit(rec, rec.y)
    assert seeded.extractor_.random_state is not None


def test_other_labels_with_the_same_features(rec, model):
    more = few(rec.y, every=2)
    whole = small().fit(rec, more)
    again = clone(model).fit(rec, few(rec.y))
    features = again.extractor_
    again.refit(rec, more)
    assert again.extractor_ is features
    assert again.n_labels_.sum() == 60
    np.testing.assert_allclose(again.coef_, whole.coef_, atol=1e-3)
    before = again.coef_
    with pytest.raises(InvalidInputError, match="one class"):
        again.refit(rec, np.zeros(len(rec)))
    with pytest.raises(InvalidInputError, match="channels"):
        again.refit(rec.X[:, :2], more)
    with pytest.raises(InvalidInputError, match="sampling rate of 25"):
        again.refit(Recordings(rec.X, fs=25, channels=rec.channels), more)
    assert again.coef_ is before


def test_abstention_keeps_the_sure_answers(rec, model):
    plain, probability = model.answers(rec)
    limit = float(np.median(probability.max(axis=1)))
    careful = clone(model).set_params(abstain=limit).fit(rec, few(rec.y))
    answers = careful.predict(rec)
    sure = probability.max(axis=1) >= limit
    np.testing.assert_array_equal(answers[sure], plain[sure])
    assert (answers[~sure] == -1).all() and (~sure).sum() > 40


# -------------------------------------------------------------------------------- files


@pytest.mark.parametrize("labels", ["numbers", "text", "truth"])
def test_one_file_holds_it_all(rec, tmp_path, labels):
    y = {
        "numbers": rec.y,
        "text": np.array(["-a", "b", "c"])[rec.y],
        "truth": rec.y > 0,
    }[labels]
    fitted = small(abstain=0.4).fit(rec, y)
    path = tmp_path / "model.tcm"
    fitted.save(path)
    loaded = load_model(path)
    assert loaded.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(loaded.predict_proba(rec), fitted.predict_proba(rec))
    np.testing.assert_array_equal(loaded.predict(rec), fitted.predict(rec))
    assert loaded.get_params(deep=False)["abstain"] == 0.4
    assert loaded.validation_ == fitted.validation_
    assert b"pickle" not in path.read_bytes()


# ---------------------------------------------------------------------------- scikit-learn


def test_pipelines_searches_and_cross_validation(rec):
    pipe = make_pipeline(FunctionTransformer(np.negative), small())
    assert pipe.fit(rec.X, rec.y).score(rec.X, rec.y) > 0.9
    scores = cross_val_score(small(), rec, rec.y, cv=GroupKFold(2), groups=rec.groups)
    assert scores.shape == (2,) and (scores > 0.6).all()
    grid = {"features__decompose__rank": [2, 6]}
    search = GridSearchCV(small(), grid, cv=2).fit(rec, rec.y)
    assert search.best_params_["features__decompose__rank"] in (2, 6)
    assert search.predict(rec).shape == (len(rec),)


# -------------------------------------------------------------------------------- suggestions


def test_suggestions_are_those_of_its_rows_and_probabilities(rec, model):
    y = few(rec.y)
    found = model.suggest(rec, 8, y, random_state=0)
    assert len(set(found)) == 8
    assert (np.asarray(y)[found] == -1).all()
    rows = suggest.reduced_rows(model.rows(rec.X).astype(np.float32))
    p = model.predict_proba(rec)
    by_hand = suggest.order_rows(rows, y, 8, probability=p, random_state=0)
    np.testing.assert_array_equal(found, by_hand)
    others = model.suggest(rec.X, 8, y, exclude=found, groups=rec.groups, random_state=0)
    assert not set(others) & set(found)
    assert model.suggest(rec, 3).tolist() == []  # all windows of the recordings have a label


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("groups", np.zeros((90, 2))),
        ("groups", [1, 2]),
        ("groups", [None] * 45 + ["a"] * 45),
        ("groups", {"a": 1}),
    ],
)
def test_odd_groups_are_refused_by_name(rec, name, value):
    with pytest.raises(InvalidInputError, match=name):
        small().fit(rec.X[:90], few(rec.y)[:90], **{name: value})


@pytest.mark.parametrize("rows", ["abc", np.zeros((3, 3)), [["a"]] * 4, np.zeros(5)])
def test_odd_rows_are_refused_by_name(rec, model, rows):
    for use in (lambda: model.refit(rec, few(rec.y), rows=rows), lambda: model.proba_of_rows(rows)):
        with pytest.raises(InvalidInputError, match="rows"):
            use()


def test_a_classifier_on_fitted_features_is_that_of_a_fit(rec, model):
    features = model.extractor_
    other = ContrastiveClassifier.on_features(features, rec, few(rec.y), random_state=0)
    assert other.extractor_ is features
    agree = np.mean(other.predict(rec) == model.predict(rec))
    assert agree > 0.95
    W, rows = other.features_and_rows(rec[:5])
    np.testing.assert_allclose(W, features.transform(rec[:5]), atol=1e-4)
    np.testing.assert_allclose(rows, other.rows(rec[:5]), atol=1e-5)
