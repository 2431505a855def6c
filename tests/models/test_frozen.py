"""Model files of every release are loaded, and give what the version that wrote them gave.

``tests.models.freeze`` writes the files. The reader of ``docs/reference/formats.md``, which knows
nothing of this library, reads them as well.
"""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorcontrast
from tensorcontrast import load_model
from tensorcontrast.io import model_files

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*/*.tcm"))
#: Estimators whose smallest file is too large to keep, and what is no model by itself.
NOT_FROZEN = {"SimCLR", "BYOL", "ConvolutionFeatures", "SpectrogramTensor"}
PAGE = (FOLDER.parents[1] / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")


def found_in(path):
    """Inputs and outputs of one file, by the name of the method."""
    with np.load(path.parent / "expected.npz", allow_pickle=False) as file:
        return {
            key.split("/")[1]: file[key] for key in file.files if key.split("/")[0] == path.stem
        }


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.stem != "deep-tensor"],  # tests/neural has torch already
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_a_frozen_model_gives_what_it_gave(path):
    model, expected = load_model(path), found_in(path)
    X = expected.pop("input")
    assert expected
    for method, values in expected.items():
        given = expected["transform"] if method == "inverse_transform" else X
        made = np.asarray(getattr(model, method)(given))
        assert made.shape == values.shape
        if values.dtype.kind == "f":
            assert made.dtype == values.dtype
            limit = 1e-5 * max(1.0, float(np.abs(values).max()))
            np.testing.assert_allclose(made, values, rtol=0, atol=limit, err_msg=method)
        else:
            np.testing.assert_array_equal(made, values, err_msg=method)


def test_every_estimator_of_this_version_is_frozen():
    folder = FOLDER / tensorcontrast.__version__
    assert folder.is_dir(), "python -m tests.models.freeze"
    written = set()
    for path in folder.glob("*.tcm"):
        header, _ = model_files.read_archive(path)
        assert header["written_by"] == f"tensorcontrast {tensorcontrast.__version__}"
        written.add(header["model"]["class"])
    assert written == set(model_files._MODULES) - NOT_FROZEN
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


def test_a_release_is_never_frozen_twice(tmp_path, monkeypatch, capsys):
    from tests.models import freeze

    monkeypatch.setattr(freeze, "models", lambda: iter(()))
    monkeypatch.setattr(tensorcontrast, "__version__", "9.0")
    assert freeze.main([], root=tmp_path) == 0
    (tmp_path / "9.0" / "kept").touch()
    assert freeze.main([], root=tmp_path) == freeze.main(["--replace"], root=tmp_path) == 1
    assert "never written anew" in capsys.readouterr().err
    assert (tmp_path / "9.0" / "kept").exists()
    monkeypatch.setattr(tensorcontrast, "__version__", "9.1.dev0")
    codes = [freeze.main(given, root=tmp_path) for given in ([], [], ["--replace"])]
    assert codes == [0, 1, 0]


# ------------------------------------------------------------- the reader of the documentation


def reader_code():
    (section,) = re.findall(r"(?ms)^## Layout of model files$(.*?)(?=^## |\Z)", PAGE)
    return re.findall(r"(?ms)^```python\n(.*?)^```", section)[0]


@pytest.fixture(scope="module")
def reader():
    space = {"__name__": "reader"}
    exec(compile(reader_code(), "formats.md", "exec"), space)
    return space


def test_the_reader_needs_numpy_alone():
    nodes = list(ast.walk(ast.parse(reader_code())))
    names = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in nodes if isinstance(n, ast.ImportFrom)}
    assert names - {"numpy"} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_reader_reads_every_frozen_file(path, reader):
    header, model = reader["read_model"](path)
    known, arrays = model_files.read_archive(path)
    assert header["written_by"] == known["written_by"]
    assert model["class"] == known["model"]["class"]
    assert set(model["learned"]) == set(known["model"]["learned"])
    read = []

    def collect(value):
        if isinstance(value, np.ndarray) and value.dtype != object:
            read.append(value)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)
        elif isinstance(value, list | tuple):
            for item in value:
                collect(item)

    collect(model)
    stored = list(arrays.values())
    assert len(read) == len(stored) > 1
    by_bytes = sorted((a.shape, a.dtype.str, a.tobytes()) for a in stored)
    assert sorted((a.shape, a.dtype.str, a.tobytes()) for a in read) == by_bytes


@pytest.mark.parametrize("name", ["cpd", "atd", "plc-paper"])
def test_features_follow_from_what_the_reader_reads(name, reader):
    path = FOLDER / tensorcontrast.__version__ / f"{name}.tcm"
    _, model = reader["read_model"](path)
    expected = found_in(path)
    W = reader["features"](model["learned"], expected["input"])
    np.testing.assert_allclose(W, expected["transform"], atol=1e-5)
