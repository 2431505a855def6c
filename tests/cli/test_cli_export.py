"""export: an ONNX file of a model, with its size, its difference and its time."""

import sys

import numpy as np
import pytest

from tensorcontrast import CPD, ContrastiveClassifier, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.datasets import make_cp_tensor

runtime = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")


def test_features_are_exported_and_compared(cli, model, other, tmp_path):
    path = tmp_path / "model.onnx"
    done = cli("export", model, "-o", path, "--data", other, "--json").json
    assert (done["onnx"], done["kind"], done["outputs"]) == (
        str(path),
        "ContrastiveFeatures",
        ["features"],
    )
    assert done["max_difference"] < 1e-5
    assert (done["n_windows"], done["size_bytes"]) == (60, path.stat().st_size)
    assert done["ms_per_window"] > 0
    assert cli("export", model, "-o", path).code == 3  # exists
    shown = cli("export", model, "-o", path, "--force").out
    for words in (" MB, ONNX operators 18", "windows of noise", "ms per window"):
        assert words in shown


def test_a_classifier_is_exported_without_its_smoothing_on_request(cli, recordings, tmp_path):
    features = ContrastiveFeatures(tensorize=SpectrogramTensor(), decompose=CPD(3))
    classifier = ContrastiveClassifier(features).fit(recordings)
    classifier.set_params(smooth="viterbi", dwell=4)
    classifier.save(tmp_path / "trained.tcm")
    path = tmp_path / "model.onnx"
    done = cli("export", tmp_path / "trained.tcm", "-o", path)
    assert done.code == 2
    assert "pass --no-smooth" in done.err
    assert not path.exists()
    done = cli("export", tmp_path / "trained.tcm", "-o", path, "--no-smooth", "--json").json
    assert done["outputs"] == ["label", "probabilities"]
    assert (done["other_labels"], done["max_difference"] < 1e-5) == (0, True)
    session = runtime.InferenceSession(path)
    label, _ = session.run(None, {"windows": recordings.X.astype(np.float32)})
    assert set(label) <= set(recordings.classes)


def test_what_cannot_be_exported(cli, model, tmp_path):
    X, *_ = make_cp_tensor(n_samples=20, dims=(4, 5), rank=2, random_state=0)
    CPD(rank=2, random_state=0).fit(X).save(tmp_path / "tensors.tcm")
    done = cli("export", tmp_path / "tensors.tcm", "-o", tmp_path / "model.onnx")
    assert (done.code, "CPD takes no raw windows" in done.err) == (4, True)
    done = cli("export", model, "-o", tmp_path / "model.pb")
    assert (done.code, "ends in .onnx" in done.err) == (2, True)


def test_without_onnxruntime_the_file_is_written_with_a_warning(cli, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "model.onnx"
    done = cli("export", model, "-o", path, "--json")
    assert (done.code, done.json["max_difference"]) == (0, None)
    assert done.json["size_bytes"] == path.stat().st_size
    assert "was not run: onnxruntime is not installed" in done.err
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = cli("export", model, "-o", tmp_path / "second.onnx")
    assert (done.code, "tensorcontrast[onnx]" in done.err) == (1, True)
