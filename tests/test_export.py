"""ONNX files give what the library gives: all kinds of blocks, models, labels and signals."""

import json
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveClassifier,
    ContrastiveFeatures,
    ConvolutionFeatures,
    Recordings,
    SpectrogramTensor,
    __version__,
    datasets,
    export_onnx,
)
from tensorcontrast.errors import FileError, InvalidInputError, MissingDependencyError
from tensorcontrast.export import IR_VERSION, OPSET, compare_onnx

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
runtime = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")


def signals(n=16, n_channels=3, n_times=96, seed=0):
    rng = np.random.default_rng(seed)
    slow = rng.normal(size=(n, n_channels, 8)).repeat(n_times // 8, axis=2)
    return (slow + 0.3 * rng.normal(size=(n, n_channels, n_times))).astype(np.float32)


def written(model, tmp_path):
    """Write a model, and return the path and a session of it."""
    path = tmp_path / "model.onnx"
    export_onnx(model, path)
    return path, runtime.InferenceSession(path)


def fitted(X, tensorize=None, decompose=None, **params):
    if tensorize is None:
        tensorize = [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(8, n_biases=2)]
    decompose = PLC(rank=4, n_clusters=2, max_iter=5, tol=0) if decompose is None else decompose
    model = ContrastiveFeatures(
        tensorize=tensorize, decompose=decompose, random_state=0, n_jobs=1, **params
    )
    return model.fit(X)


# --------------------------------------------------------------- real recordings


@pytest.fixture(scope="module")
def watch():
    pytest.importorskip("seglearn", reason="the smartwatch recordings: needs the extra 'data'")
    rec = datasets.load_watch()
    return rec[:: len(rec) // 45]


@pytest.fixture(scope="module")
def classifier(watch):
    features = ContrastiveFeatures(decompose=PLC(rank=8, max_iter=5, tol=0), n_jobs=1)
    return ContrastiveClassifier(features, random_state=0).fit(watch)


def test_answers_for_real_recordings_are_those_of_the_library(classifier, watch, tmp_path):
    path, session = written(classifier, tmp_path)
    found = compare_onnx(classifier, path, watch.X, n_timed=3)
    assert found["max_difference"] < 1e-5
    assert (found["n_windows"], found["other_labels"]) == (len(watch), 0)
    assert found["size_bytes"] == path.stat().st_size
    assert found["ms_per_window"] > 0
    label, probabilities = session.run(None, {"windows": watch.X[:1]})  # any number of windows
    assert (label.shape, probabilities.shape) == ((1,), (1, len(classifier.classes_)))
    assert probabilities.dtype == np.float32
    assert label[0] in watch.classes


def test_features_of_real_recordings_are_those_of_the_library(classifier, watch, tmp_path):
    features = classifier.extractor_
    path, session = written(features, tmp_path)
    found = compare_onnx(features, path, watch.X, n_timed=1)
    assert found["max_difference"] <= found["relative_difference"] < 1e-5
    (rows,) = session.run(None, {"windows": watch.X[:7]})
    assert (rows.shape, rows.dtype) == ((7, 8), np.float32)
    np.testing.assert_allclose(rows, features.transform(watch[:7]), atol=1e-5)


def test_the_file_says_what_it_is(classifier, watch, tmp_path):
    path, session = written(classifier, tmp_path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", OPSET)]
    assert (proto.ir_version, proto.producer_name) == (IR_VERSION, "tensorcontrast")
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list(classifier.classes_)
    assert json.loads(facts["channels"]) == list(watch.channels)
    assert json.loads(facts["fs"]) == watch.fs
    assert facts["tensorcontrast_version"] == __version__ == proto.producer_version
    assert facts["model"] == "ContrastiveClassifier"
    (given,) = session.get_inputs()
    assert (given.name, given.type) == ("windows", "tensor(float)")
    assert given.shape == ["n", *watch.X.shape[1:]]


def test_windows_that_cannot_be_used_have_no_answer(classifier, watch, tmp_path):
    _, session = written(classifier, tmp_path)
    X = watch.X[:6].copy()
    X[1, 2, 3], X[2, 0, 0], X[3, 1, 5], X[4, 1, 5] = np.nan, np.inf, -np.inf, 1e37
    label, probabilities = session.run(None, {"windows": X})
    assert np.isnan(probabilities[1:5]).all()
    assert (label[1:5] == "").all()
    whole = [0, 5]
    np.testing.assert_allclose(probabilities[whole], classifier.predict_proba(X[whole]), atol=1e-5)
    assert (label[whole] == classifier.predict(X[whole])).all()


# --------------------------------------------------------------- every kind of part


@pytest.mark.parametrize(
    "options",
    [
        {"representation": "sqrt-magnitude"},
        {"representation": "magnitude", "n_quantiles": 3},
        {"representation": "log-magnitude", "window": "rectangular"},
        {"representation": "log-real-imag", "n_quantiles": 2},
        {"representation": "magnitude", "n_fft": 30, "hop": 7},
        {"dtype": "float64", "n_quantiles": 4, "n_fft": 15},
    ],
    ids=lambda options: options.get("representation", "float64"),
)
def test_every_spectrogram(options, tmp_path):
    X = signals()
    X[:, 1] += 1e4  # as large as the others are small
    model = fitted(X, SpectrogramTensor(**options), CPD(rank=3, max_iter=5, tol=0))
    path, _ = written(model, tmp_path)
    assert compare_onnx(model, path, X, n_timed=1)["max_difference"] < 2e-5


@pytest.mark.parametrize(
    ("tensorize", "decompose"),
    [
        (
            [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(8, n_biases=3)],
            ATD(rank=3, max_iter=5, tol=0),
        ),
        (ConvolutionFeatures(8, n_biases=2), CPD(rank=3, max_iter=5, tol=0)),
        (
            [SpectrogramTensor(dtype="float64"), ConvolutionFeatures(8, n_biases=2)],
            PLC(rank=3, n_clusters=2, max_iter=5, tol=0, block_weights=(1, 3), dtype="float64"),
        ),
        (
            [ConvolutionFeatures(8, n_biases=1), SpectrogramTensor(n_quantiles=2)],
            Algorithm1(rank=3, n_clusters=2, max_iter=5, tol=0),
        ),
    ],
    ids=["atd", "convolution-alone", "weights-float64", "algorithm1"],
)
def test_every_decomposition(tensorize, decompose, tmp_path):
    X = signals()
    model = fitted(X, tensorize, decompose)
    path, session = written(model, tmp_path)
    found = compare_onnx(model, path, X, n_timed=1)
    assert found["max_difference"] < 1e-5
    assert session.get_outputs()[0].type == "tensor(float)"
    classes = ContrastiveClassifier(model, random_state=0)
    classes.fit(X, np.arange(len(X)) % 2)
    path, _ = written(classes, tmp_path)
    found = compare_onnx(classes, path, X, n_timed=1)
    assert (found["max_difference"] < 1e-5, found["other_labels"]) == (True, 0)


@pytest.mark.parametrize(
    ("scale", "offset", "n_times", "limit"),
    [
        # Zeros around a window are 1e5 below it: there, float32 rounds outputs to 0.01.
        (1.0, 1e5, 96, 5e-3),
        (1e-15, 0.0, 96, 1e-5),
        (1e15, 3e16, 96, 1e-5),
        (1.0, -300.0, 520, 1e-4),
    ],
    ids=["offset", "tiny", "huge", "long"],
)
def test_units_offsets_and_long_windows(scale, offset, n_times, limit, tmp_path):
    X = (signals(n_times=n_times) * scale + offset).astype(np.float32)
    model = fitted(X)
    path, _ = written(model, tmp_path)
    assert compare_onnx(model, path, X, n_timed=1)["relative_difference"] < limit
    assert compare_onnx(model, path, n_timed=1)["n_windows"] == 32  # noise of that size


def test_features_of_float64_signals(tmp_path):
    X = signals().astype(np.float64) * 1e-6
    model = fitted(X)
    assert model.spectrogram_.unit_ != 1
    path, _ = written(model, tmp_path)
    assert compare_onnx(model, path, X, n_timed=1)["relative_difference"] < 1e-5


# --------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "names",
    [np.array([7, 3]), np.array([True, False]), np.array(["läuft", "steht"])],
    ids=["integers", "truth", "text"],
)
def test_labels_of_every_type_and_unknown_ones(names, tmp_path):
    X = signals()
    X[8:] *= 3
    X[7] *= 2  # between the classes
    y = names[(np.arange(16) >= 8).astype(int)]
    features = ContrastiveFeatures(
        tensorize=SpectrogramTensor(), decompose=CPD(3, max_iter=5, tol=0)
    )
    model = ContrastiveClassifier(features, random_state=0).fit(X, y)
    sure = np.sort(model.predict_proba(X).max(axis=1))
    model.set_params(abstain=float(sure[3:5].mean()))
    path, session = written(model, tmp_path)
    found = compare_onnx(model, path, X, n_timed=1)
    assert (found["max_difference"] < 1e-5, found["other_labels"]) == (True, 0)
    label = session.run(["label"], {"windows": X})[0]
    unknown = "" if names.dtype.kind == "U" else -1
    assert np.sum(label == unknown) == 4
    assert label.dtype == (object if names.dtype.kind == "U" else np.int64)


# --------------------------------------------------------------- what has no graph


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X: CPD(2, max_iter=5, tol=0).fit(X), "CPD takes no raw windows"),
        (
            lambda X: fitted(X, SpectrogramTensor(), CPD(2, max_iter=5, tol=0), missing="mask"),
            "missing='mask': ContrastiveFeatures .* fill the gaps",
        ),
        (
            lambda X: fitted(X, SpectrogramTensor(), PLC(2, missing="mask", max_iter=5, tol=0)),
            "missing='mask': PLC",
        ),
        (
            lambda X: fitted(X, FlatWindows(), CPD(2, max_iter=5, tol=0)),
            "FlatWindows",
        ),
        (
            lambda X: fitted(X, SpectrogramTensor(), CPD(2, nonnegative=True, max_iter=5, tol=0)),
            "CPD",
        ),
        (
            lambda X: fitted(X, ConvolutionFeatures(4), Plain(2)),
            "Plain",
        ),
        (
            lambda X: ContrastiveClassifier(
                ContrastiveFeatures(
                    tensorize=SpectrogramTensor(), decompose=CPD(2, max_iter=5, tol=0)
                ),
                smooth="viterbi",
                dwell=3,
            ).fit(Recordings(X, columns={"recording": ["a"] * 16}), np.arange(16) // 8),
            "smooth='viterbi' needs the other windows",
        ),
    ],
    ids=["tensors", "mask", "mask-inside", "transformer", "parts", "decomposition", "smooth"],
)
def test_what_cannot_be_exported_says_why(make, words, tmp_path):
    model = make(signals())
    with pytest.raises(InvalidInputError, match=words):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class Plain(PCA):
    """A decomposition of the caller."""

    def fit(self, X, y=None, view=None):
        return super().fit(X)


class FlatWindows(FunctionTransformer):
    """A transformer of the caller."""

    def fit(self, X, y=None):
        self.output_shape_ = X.shape[1:]
        self.n_channels_in_, self.n_times_in_ = X.shape[1:]
        return super().fit(X.reshape(len(X), -1))

    def transform(self, X):
        return np.asarray(X).reshape(len(X), -1)


def test_models_that_are_not_fitted(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        export_onnx(ContrastiveFeatures(), tmp_path / "model.onnx")


@pytest.fixture(scope="module")
def plain():
    return fitted(signals(), SpectrogramTensor(), CPD(2, max_iter=5, tol=0))


def test_files_are_written_whole_or_not_at_all(plain, tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        export_onnx(plain, tmp_path / "no" / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(name, plain, tmp_path, monkeypatch):
    path, _ = written(plain, tmp_path)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=rf"{name} is not .*tensorcontrast\[onnx\]"):
        if name == "onnx":
            export_onnx(plain, path)
        else:
            compare_onnx(plain, path)


def test_nothing_to_compare(plain, tmp_path):
    path, _ = written(plain, tmp_path)
    with pytest.raises(InvalidInputError, match="holds no window"):
        compare_onnx(plain, path, signals()[:0])
