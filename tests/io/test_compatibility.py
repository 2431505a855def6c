"""Model files of earlier versions: they load, give the features they gave, and keep their settings.

The files of ``models`` are of the version before solvers had settings of their own, when the
parameters of CPD, ATD and PLC were flat and ``checkpoint`` and ``every`` were among them. They are
kept as they were written and never made anew. ``expected.npz`` has some inputs of each, and the
features that the version which wrote them gave.
"""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast import (
    ALS,
    CPD,
    PLC,
    ContrastiveFeatures,
    Gradient,
    PaperALS,
    SpectrogramTensor,
    load_model,
)

MODELS = Path(__file__).parent / "models"
PREFIX = struct.Struct("<8sIIQQ")  # magic, version, zero, size of the file, length of the header
CLASSES = {"cpd": CPD, "plc-tied": PLC, "plc-gls": PLC, "features": ContrastiveFeatures}

#: What the estimators of the files were made with, and where it is now.
SETTINGS = {
    "cpd": {
        "rank": 3,
        "alpha": 0.01,
        "random_state": 0,
        "als__max_iter": 40,
        "als__tol": 1e-4,
        "als__patience": 3,
        "als__n_init": 2,
        "als__center": False,
        "als__scale": True,
        "als__compress": None,
    },
    "plc-tied": {
        "rank": 3,
        "solver": "tied",
        "n_clusters": 3,
        "als__max_iter": 30,
        "als__tol": 1e-3,
        "als__batch_size": None,
        "gradient__n_epochs": 4,
        "gradient__learning_rate": 0.01,
        "gradient__temperature": 0.3,
        "gradient__batch_size": 16,
        "gradient__contrast": "softmax",
    },
    "plc-gls": {
        "rank": 3,
        "solver": "gls",
        "epsilon": 0.5,
        "als__max_iter": 50,
        "als__tol": 1e-4,
        "als__warm_up": 2,
        "als__forgetting": 0.9,
        "als__laplacian": "signed",
        "als__batch_size": None,
        "gradient__batch_size": Gradient().batch_size,
    },
    "features": {
        "tensorize__n_fft": 8,
        "tensorize__n_quantiles": 4,
        "decompose__rank": 3,
        "decompose__n_clusters": 3,
        "decompose__als__max_iter": 20,
        "decompose__als__tol": 1e-3,
        "decompose__als__compress": "auto",
    },
}


@pytest.fixture(scope="module")
def expected():
    with np.load(MODELS / "expected.npz") as found:
        return dict(found)


def written(name):
    """Return what the header of a file says of its model."""
    raw = (MODELS / f"{name}.tcm").read_bytes()
    header = json.loads(raw[PREFIX.size : PREFIX.size + PREFIX.unpack_from(raw)[4]])
    return header["model"]


def test_every_file_is_tested():
    assert {path.stem for path in MODELS.glob("*.tcm")} == set(CLASSES) == set(SETTINGS)
    assert sum(path.stat().st_size for path in MODELS.iterdir()) < 100_000


@pytest.mark.parametrize("name", CLASSES)
def test_the_files_are_of_the_version_before(name):
    state = written(name)
    if name == "features":
        state = state["params"]["decompose"]["estimator"]
    assert {"max_iter", "tol", "every"} <= state["params"].keys()
    assert not {"als", "gradient"} & state["params"].keys()


@pytest.mark.parametrize("name", CLASSES)
def test_features_are_those_of_the_version_that_wrote_the_file(name, expected):
    model = load_model(MODELS / f"{name}.tcm")
    assert type(model) is CLASSES[name]
    features = model.transform(expected[f"{name}-input"])
    assert features.dtype == expected[f"{name}-features"].dtype
    np.testing.assert_allclose(features, expected[f"{name}-features"], rtol=1e-5, atol=1e-5)
    assert np.abs(features).max() > 0.01


@pytest.mark.parametrize("name", CLASSES)
def test_old_settings_are_at_their_new_places(name):
    model = load_model(MODELS / f"{name}.tcm")
    found = model.get_params()
    assert {key: found[key] for key in SETTINGS[name]} == SETTINGS[name]
    assert not {"max_iter", "tol", "checkpoint", "every"} & found.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_no_setting_of_an_old_file_is_lost(name):
    """Every parameter that a file has is one of the estimator or of its settings, unchanged."""
    model, state = load_model(MODELS / f"{name}.tcm"), written(name)
    pairs = [(model, state["params"])]
    if name == "features":
        pairs = [
            (model.decompose, state["params"]["decompose"]["estimator"]["params"]),
            (model.decompose_, state["learned"]["decompose_"]["estimator"]["params"]),
        ]
    for part, params in pairs:
        assert type(part.als) is PaperALS
        places = [part, part.als, *([part.gradient] if isinstance(part, PLC) else [])]
        new = [place.get_params(deep=False) for place in places]
        for key, value in params.items():
            if key == "every" or (key, value) == ("batch_size", None):
                continue  # of fit; the default of each solver
            if name == "plc-tied" and key == "batch_size":
                assert (part.gradient.batch_size, part.als.batch_size) == (value, None)
                continue
            assert [own[key] for own in new if key in own] == [value], key


@pytest.mark.parametrize("name", CLASSES)
def test_an_old_file_saved_again_is_a_new_one(name, expected, tmp_path):
    old = load_model(MODELS / f"{name}.tcm")
    old.save(tmp_path / "new.tcm")
    new = load_model(tmp_path / "new.tcm")
    X = expected[f"{name}-input"]
    np.testing.assert_array_equal(new.transform(X), old.transform(X))
    np.testing.assert_array_equal(new.labels_, old.labels_)
    assert repr(new) == repr(old)
    assert isinstance(getattr(new, "decompose", new).als, ALS)


def test_learned_parts_come_back(expected):
    closed = load_model(MODELS / "plc-gls.tcm")
    assert closed.nuisance_gains_.max() > 0.5
    features = load_model(MODELS / "features.tcm")
    assert isinstance(features.tensorize_, SpectrogramTensor)
    assert features.decompose_.nuisance_gains_.max() > 0
    assert len(features.channels_) == expected["features-input"].shape[1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_an_old_estimator_can_be_fitted_anew(name, expected):
    X = np.concatenate([expected[f"{name}-input"]] * 3)
    X = X + 0.05 * np.random.default_rng(0).normal(size=X.shape).astype(X.dtype)
    model = load_model(MODELS / f"{name}.tcm").fit(X)
    assert model.transform(X).shape == (15, 3)
