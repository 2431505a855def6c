"""Contributions to answers add up to their log odds, whatever the classifier sees."""

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.explain import explain_predictions


@pytest.mark.parametrize("missing", ["error", "mask"])
def test_contributions_add_up_to_the_log_odds(rec, missing):
    features = ContrastiveFeatures(decompose=PLC(rank=3, tol=1e-2), missing=missing)
    model = ContrastiveClassifier(features, random_state=0).fit(rec)
    found = explain_predictions(model, rec)
    p, own = model.predict_proba(rec), np.arange(len(rec))
    order = np.argsort(-p, axis=1)
    np.testing.assert_array_equal(found.answer, order[:, 0])
    np.testing.assert_array_equal(found.against, order[:, 1])
    odds = np.log(p[own, found.answer] / p[own, found.against])
    np.testing.assert_allclose(found.log_odds, odds, atol=1e-9)
    total = found.features.sum(axis=1) + found.blocks.sum(axis=1) + found.intercept
    np.testing.assert_allclose(total, odds, atol=1e-9)
    assert found.features.shape[1] == 3
    assert found.block_names == (
        () if missing == "mask" else ("spectrogram", "random convolutions")
    )
    columns = found.columns()
    assert list(columns)[:2] == ["against", "log_odds"]
    parts = [v for name, v in columns.items() if name.startswith("from_")]
    np.testing.assert_allclose(np.sum(parts, axis=0), odds, atol=1e-9)
    # A feature adds what the answers would lose without its column.
    if missing == "mask":
        rows = model.rows(rec.X)
        rows[:, 1] = 0
        scores = (rows @ model.coef_.T + model.intercept_) / model.temperature_
        without = scores[own, found.answer] - scores[own, found.against]
        np.testing.assert_allclose(odds - without, found.features[:, 1], atol=1e-9)
