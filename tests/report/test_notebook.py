"""What notebooks show: tables of recordings and models, with all names as text."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveClassifier,
    ContrastiveFeatures,
    Recordings,
)
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.report.notebook import learned_html, recordings_html

HOSTILE = "<script>alert(1)</script>"
QUOTED = "\"' onload='alert(2)' \x1b[2J\u202e"
VOID = {"br", "img", "meta", "input"}


class Page(HTMLParser):
    """Elements, attributes and text of HTML; an element that is not closed is an error."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def harmless(html):
    """Return the page, after a check that nothing in it runs or is fetched."""
    page = Page(html)
    assert set(page.tags) <= {"div", "strong", "table", "tbody", "tr", "th", "td", "b"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not {"src", "href", "xlink:href", "id"} & {name for name, _ in page.attributes}
    assert "url(" not in html and "\x1b" not in html and "\u202e" not in html
    return page


def rows(page_html):
    """Cells of the table by name."""
    cells = re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", page_html)
    return {name: Page(value).text for name, value in cells}


def test_recordings_show_a_table():
    rec = make_synthetic(n_samples=30, n_channels=3, n_times=100, fs=50, random_state=0)
    html = rec._repr_html_()
    harmless(html)
    table = rows(html)
    assert table["windows"] == "30" and table["rate"] == "50 Hz"
    assert table["length"] == "2 s (100 samples)"
    assert table["channels"].startswith("3: ")
    counts = np.bincount(rec.y)
    wanted = " · ".join(f"{name} {n}" for name, n in zip(rec.classes, counts, strict=True))
    assert table["classes"] == wanted
    assert table["groups"] == str(len(np.unique(rec.groups)))


def test_recordings_without_rate_labels_and_names():
    html = recordings_html(Recordings(np.zeros((2, 1, 40))))
    assert rows(html) == {
        "windows": "2",
        "channels": "1",
        "rate": "not given",
        "length": "40 samples",
    }
    harmless(html)
    many = Recordings(np.ones((40, 2, 20)), np.arange(40) - 1, classes=[f"c{k}" for k in range(39)])
    assert rows(recordings_html(many))["classes"].endswith("c11 1 and 27 more")
    assert rows(recordings_html(many))["without a label"] == "1"


def test_a_store_shows_a_table_without_reading(tmp_path):
    array = pytest.importorskip("dask.array", reason="needs the extra 'dask'")
    import dask

    from tensorcontrast.distributed.store import StoredRecordings

    def read():
        raise AssertionError("a block was read")

    X = array.from_delayed(dask.delayed(read)(), (5, 2, 50), float)
    html = StoredRecordings(X, y=np.array([0, 0, 2, -1, 1]), fs=25.0)._repr_html_()
    assert rows(html)["classes"] == "0 2 · 1 1 · 2 1" and rows(html)["windows"] == "5"
    harmless(html)


def test_hostile_names_are_text():
    rec = Recordings(
        np.random.default_rng(0).normal(size=(4, 2, 60)),
        [HOSTILE, QUOTED] * 2,
        channels=[HOSTILE, "</table>"],
        columns={"</div><img src=x>": np.arange(4)},
        name=HOSTILE + QUOTED,
        fs=10,
    )
    page = harmless(rec._repr_html_())
    assert HOSTILE in page.text and "</table>" in page.text


@pytest.fixture(scope="module")
def classifier():
    made = make_synthetic(n_samples=60, n_classes=2, n_channels=2, n_times=100, random_state=0)
    rec = Recordings(
        made.X, [[HOSTILE, QUOTED][c] for c in made.y], fs=50, channels=[HOSTILE, "</svg>"]
    )
    features = ContrastiveFeatures(decompose=PLC(rank=4))
    return ContrastiveClassifier(features, random_state=0).fit(rec, [HOSTILE, QUOTED] * 30)


def test_a_fitted_classifier_shows_what_it_has_learned(classifier):
    html = learned_html(classifier)
    table = rows(html)
    assert table["labels"] == "60"
    assert table["held-out accuracy"].startswith(f"{classifier.validation_['accuracy']:.3f} on 60")
    assert table["features per window"] == "4"
    assert HOSTILE not in html and "<script>" in harmless(html).text


def test_fitted_features_show_their_components(classifier):
    html = learned_html(classifier.extractor_)
    assert rows(html)["takes windows of"] == "2 channels, 2 s at 50 Hz"
    assert rows(html)["made of"] == "SpectrogramTensor, ConvolutionFeatures"
    assert "component_0" in harmless(html).text


@pytest.mark.parametrize("kind", [CPD, PLC, ATD])
def test_fitted_decompositions_show_their_shape(kind):
    X = make_cp_tensor(n_samples=40, dims=(3, 60, 5), rank=2, random_state=0)[0]
    model = kind(rank=2, random_state=0)
    assert learned_html(model) == ""
    model.fit(X)
    html = learned_html(model)
    assert rows(html)["components"] == "2" and rows(html)["shape of a window"] == "3 × 60 × 5"
    assert rows(html)["fitted on"] == "40 windows"
    harmless(html)


def test_the_diagram_of_scikit_learn_stays(classifier):
    unfitted, fitted = ContrastiveClassifier(), classifier
    for shown in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        assert "sk-" in shown and shown.endswith(learned_html(fitted))
    assert "Learned" not in unfitted._repr_html_()
    assert fitted._repr_mimebundle_()["text/plain"] == repr(fitted)
    with config_context(display="text"):
        assert list(fitted._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(fitted, "_repr_html_")


def test_no_table_needs_matplotlib():
    code = (
        "import sys, numpy as np; sys.modules['matplotlib'] = None\n"
        "from tensorcontrast import CPD, Recordings\n"
        "assert '<table' in Recordings(np.ones((2, 1, 20)))._repr_html_()\n"
        "from tensorcontrast.report.notebook import learned_html\n"
        "assert '<table' in learned_html(CPD(rank=1).fit(np.random.rand(9, 4, 3)))\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
