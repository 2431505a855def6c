"""The report as files: nothing is fetched, nothing from the data is markup, whole or not at all."""

import base64
import hashlib
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from tensorcontrast import (
    CPD,
    PLC,
    ContrastiveFeatures,
    Recordings,
    SpectrogramTensor,
    TensorContrastError,
    report,
)
from tensorcontrast.report.data import FigureItem
from tensorcontrast.report.of_model import model_facts, report_from_model
from tensorcontrast.report.text import plain, shortened


class Page(HTMLParser):
    """Elements with their attributes, and the text of scripts and styles."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.raw = [], [], {}
        self._in = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._in.append((tag, len(self.elements)))

    def handle_endtag(self, tag):
        if self._in and self._in[-1][0] == tag:
            self._in.pop()

    def handle_data(self, data):
        if self._in:
            self.raw[self._in[-1]] = self.raw.get(self._in[-1], "") + data
        else:
            self.text.append(data)

    def of(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def check_closed(source):
    """Assert that a page asks for nothing, runs its own script only, and says so in its policy."""
    page = Page(source)
    for tag, attrs in page.elements:
        assert tag not in {"iframe", "object", "embed", "base", "form2", "audio", "video", "img"}
        for key, value in attrs.items():
            assert not key.startswith("on") and key not in {"style", "srcdoc", "srcset", "action"}
            if key in {"href", "src"}:
                assert (
                    value.startswith("#")
                    or value == "data:,"
                    or (tag == "image" and value.startswith("data:image/png;base64,"))
                )
    scripts = [a.get("type") for a in page.of("script")]
    assert scripts.count(None) == 1
    assert set(scripts) <= {None, "application/json"}
    (policy,) = [
        m["content"] for m in page.of("meta") if m.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (text,) = [
            t
            for (name, at), t in page.raw.items()
            if name == tag and page.elements[at - 1][1].get("type") is None
        ]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#)", text)
    return page


def test_page_of_a_model(model, rec, tmp_path):
    path = report.model_report(model, rec, tmp_path / "new" / "folder", command="do this")
    assert path == tmp_path / "new" / "folder" / "report.html"
    page = check_closed(path.read_text(encoding="utf-8"))
    text = " ".join(page.text)
    for word in (
        "Feature 0",
        "frequency (Hz)",
        "time in the window (s)",
        "Kernels that matter most",
        "Highest: window",
        "every chart covers all of it",
        "coupled with random-convolution features",
        *rec.channels,
        *rec.classes,
    ):
        assert word in text
    assert "do this" in text and "numpy" in text
    assert {p.name for p in (path.parent / "figures").iterdir()} == {
        f"{name}.{suffix}"
        for name in ("convergence", "graph", "profiles")
        for suffix in ("png", "svg")
    }
    assert all(svg.get("aria-label") for svg in page.of("svg"))


def test_page_of_hostile_names(hostile, hostile_names, tmp_path):
    model, rec = hostile
    path = report.model_report(model, rec, tmp_path, title=hostile_names[1])
    source = path.read_text(encoding="utf-8")
    page = check_closed(source)
    assert "\x1b" not in source and "\u202e" not in source and "\u2028" not in source
    assert not {"b", "i", "marquee"} & {tag for tag, _ in page.elements}
    text = "".join(page.text)
    for name in (*rec.channels, hostile_names[1]):
        assert shortened(name, 15) in text
    (block,) = [
        t
        for (_, at), t in page.raw.items()
        if page.elements[at - 1][1].get("type") == "application/json"
    ]
    data = json.loads(block)
    assert data["colours"][0]["labels"] == [plain(c, 40) for c in rec.classes]
    for figure in (path.parent / "figures").glob("*.svg"):
        for node in ElementTree.parse(figure).getroot().iter():
            assert isinstance(node.tag, str) and not node.tag.endswith(("}script", "}a"))
            assert not [key for key in node.attrib if key.startswith("on")]


def test_recordings_without_names_labels_or_rate(tmp_path):
    X = np.random.default_rng(0).standard_normal((40, 2, 64)).astype(np.float32)
    rec = Recordings(X)
    model = ContrastiveFeatures(decompose=PLC(rank=3, tol=1e-2), random_state=0).fit(rec)
    path = report.model_report(model, rec, tmp_path / "r.html", figures=False)
    text = " ".join(check_closed(path.read_text(encoding="utf-8")).text)
    assert "cycles/sample" in text and "time in the window (samples)" in text
    assert "classes" not in text.split("Notes")[0]
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_a_large_recording_gives_a_moderate_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1100, 14, 150)).astype(np.float32)
    rec = Recordings(X, rng.integers(0, 4, 1100), fs=100, groups=rng.integers(0, 90, 1100))
    model = ContrastiveFeatures(decompose=CPD(rank=4, max_iter=2, tol=0), random_state=0).fit(
        rec[:60]
    )
    path = report.model_report(model, rec, tmp_path, figures=False)
    assert path.stat().st_size < 5_000_000


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("x.md", {}, "html"),
        ("there.txt", {}, "is a file"),
    ],
)
def test_wrong_places_are_told_before_the_work(model, rec, tmp_path, name, options, message):
    (tmp_path / "there.txt").write_text("kept")
    with pytest.raises(TensorContrastError, match=message):
        report.model_report(model, rec, tmp_path / name, **options)
    assert (tmp_path / "there.txt").read_text() == "kept"


def test_a_failing_disk_leaves_the_old_report(model, rec, tmp_path, monkeypatch):
    path = report.model_report(model, rec, tmp_path, figures=False)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TensorContrastError, match="No space left"):
        report.model_report(model, rec, tmp_path, title="another", figures=False)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_unfitted_models_are_refused(rec, tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        report.model_report(ContrastiveFeatures(), rec, tmp_path)
    assert not list(tmp_path.iterdir())


def test_two_figures_of_one_name_are_refused(rec, model, tmp_path):
    data = report_from_model(model, rec)
    item = FigureItem("a", "t", "c", report.plot_convergence(model))
    twice = type(data)(**{**vars(data), "figures": [item, item]})
    with pytest.raises(TensorContrastError, match="one name"):
        report.write_report(twice, tmp_path)


def test_a_model_says_what_it_was_made_of(model, rec):
    facts = dict(model_facts(model))
    core, (spectrogram, convolution) = model.decompose_, model.tensorize_
    assert (facts["method"], facts["features"]) == ("PLC", "5")
    assert facts["spectrogram"] == " × ".join(map(str, spectrogram.output_shape_))
    assert facts["convolution features"] == f"{len(convolution.components_)} values"
    assert facts["nuisance metric"] == f"{len(core.nuisance_gains_)} directions"
    plain = ContrastiveFeatures(
        tensorize=SpectrogramTensor(n_fft=32, hop=16),
        decompose=CPD(rank=3, max_iter=5, tol=0.1),
    ).fit(rec)
    told = dict(model_facts(plain))
    assert not {"convolution features", "nuisance metric"} & set(told)
    assert not [name for name in told if name.startswith("chosen")]
