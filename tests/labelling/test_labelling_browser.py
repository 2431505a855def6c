"""The page in a real browser: labels by keyboard, restarts, hostile names, sizes, themes."""

import os
import re
import signal
import subprocess
import sys

import pytest
from tests.labelling.conftest import quick

from tensorcontrast import load_model
from tensorcontrast.datasets import load_watch
from tensorcontrast.errors import DataNotFoundError
from tensorcontrast.labelling.prepare import Settings, fingerprint, prepare

pytest.importorskip("starlette", reason="needs the extra 'label'")
pytest.importorskip("uvicorn", reason="needs the extra 'label'")


class Page:
    """A page with what it asked for and what went wrong in it."""

    def __init__(self, browser, address, *, ready=True, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests, self.errors, self.address = [], [], address
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.errors.append(m.text))
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("dialog", lambda d: (self.errors.append(d.message), d.dismiss()))
        self.page.goto(address)
        if ready:
            self.page.wait_for_selector("body[data-ready]")

    def window(self):
        return int(re.search(r"[wW]indow (\d+)", self.page.inner_text("#view-label .head"))[1])

    def press(self, key):
        """Press a key and wait until another window is there."""
        before = self.page.inner_text("#view-label .head")
        self.page.keyboard.press(key)
        self.page.wait_for_function(
            "text => document.querySelector('#view-label .head').innerText !== text", arg=before
        )

    def view(self, name):
        self.page.click(f"nav button[data-view={name}]")
        self.page.wait_for_selector(f"#view-{name}:not([hidden])")

    def overflow(self):
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def close(self):
        assert self.errors == []
        assert all(url.startswith(self.address) for url in self.requests)
        self.context.close()


# ------------------------------------------------------------------------- the whole way


class Program:
    """``tensorcontrast label`` as a process of its own."""

    WORDS = (
        *("label", "watch", "--where", "group=1", "--window", "4", "-o", "watch.tcl"),
        *("--no-browser", "--who", "ann"),
    )

    def __init__(self, folder, *more):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorcontrast", *self.WORDS, *more],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        said = self.process.stdout.readline()
        assert "http" in said, self.process.communicate()
        self.address = re.search(r"http\S+", said)[0]

    def end(self, how):
        self.process.send_signal(how)
        return self.process.communicate(timeout=60)


@pytest.fixture
def started(tmp_path):
    """Start the program, as often as wanted; whatever still runs afterwards is killed."""
    programs = []

    def start(*more):
        programs.append(Program(tmp_path, *more))
        return programs[-1]

    yield start
    for program in programs:
        if program.process.poll() is None:
            program.end(signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_24_windows_by_keyboard_undo_kill_restart_finish_predict(browser, started, tmp_path):
    try:
        rec = load_watch(overlap=0)
    except DataNotFoundError:
        pytest.skip("the smartwatch recordings are not installed")
    rec = rec[rec.groups == 1]
    folder = tmp_path / "watch.tcl.cache"
    settings = Settings(max_landmarks=60)
    prepare(rec, folder, known=fingerprint(rec), features=quick(6), settings=settings)
    program = started()
    first = Page(browser, program.address)
    given = {}
    for k in range(24):
        window = first.window()
        given[window] = rec.classes[rec.y[window]]
        first.press(str(rec.y[window] + 1))
        assert f"Saved · {k + 1} label" in first.page.inner_text("#status")
    first.press("s")
    first.press("u")  # the skip
    first.press("u")  # the last label
    undone = first.window()
    assert first.page.inner_text("#status") == "Undone · 23 labels"
    first.page.wait_for_function(
        "() => document.querySelector('#guess').textContent.startsWith('Model')"
    )
    program.end(signal.SIGKILL)
    key = str(rec.y[undone] + 1)
    first.page.keyboard.press(key)
    first.page.wait_for_selector("#trouble:not([hidden])")
    assert "tensorcontrast label watch" in first.page.inner_text("#trouble")
    assert first.page.inner_text("#status") == "Not saved"
    first.context.close()

    program = started()
    again = Page(browser, program.address)
    assert again.page.inner_text("#status") in ("Ready · 23 labels", "Opening…")
    window = again.window()
    again.press(str(rec.y[window] + 1))
    again.view("review")
    again.page.wait_for_function("() => document.querySelectorAll('#rows tr').length === 24")
    again.view("results")
    again.page.click("#finish")
    again.page.wait_for_selector("#finished code >> nth=2")
    assert "watch.tcm" in again.page.inner_text("#finished")
    again.close()
    out, err = program.end(signal.SIGINT)
    assert program.process.returncode == 0 and "24 labels are in watch.tcl" in out, err
    model = load_model(tmp_path / "watch.tcm")
    known = [w for w in given if w != undone]
    answers = model.predict(rec[known])
    assert (answers == [given[w] for w in known]).mean() > 0.9
    assert "Labels of watch" in (tmp_path / "watch.html").read_text(encoding="utf-8")


# --------------------------------------------------------------------------- how it looks

VIEWS = ("clusters", "review", "results", "label")


@pytest.fixture(scope="module")
def lit(browser, rec, kept, tmp_path_factory):
    """A server with a few labels, for the tests that only look."""
    from tests.labelling.conftest import served

    from tensorcontrast.labelling import Labelling, Project

    path = tmp_path_factory.mktemp("lit") / "days.tcl"
    known = fingerprint(rec)
    project = Project(path, {"fingerprint": known, "n_windows": len(rec)})
    for window in range(0, 30):
        project.label([window], rec.classes[rec.y[window]], who="ann", seconds=1)
    work = Labelling(rec, project, prepare(rec, kept, known=known), who="ann")
    work.start()
    assert work.wait(60)
    with served(work) as server:
        yield server
    work.stop()
    project.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1180, 390])
def test_nothing_overflows_and_text_is_legible(browser, lit, width, scheme):
    size = {"width": width, "height": 800}
    it = Page(browser, lit.address, viewport=size, color_scheme=scheme)
    for view in VIEWS:
        it.view(view)
        it.page.wait_for_timeout(60)
        assert it.overflow() <= 0, view
    found = it.page.evaluate(
        """() => { const lum = (c) => { const [r, g, b] = c.match(/[0-9.]+/g).slice(0, 3)
          .map((v) => { v /= 255;
            return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const of = (s, k) => lum(getComputedStyle(document.querySelector(s))[k]);
        return [of('.card', 'backgroundColor'), of('#where', 'color'), of('#which', 'color')]; }"""
    )
    paper, *inks = found
    assert (paper > 0.5) == (scheme == "light")
    for ink in inks:  # WCAG AA for body text
        assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) > 4.5
    drawn = it.page.evaluate(
        """() => ['signals', 'spectrogram', 'map', 'curve'].map((id) => {
        const c = document.getElementById(id), d = c.getContext('2d').getImageData(0, 0, c.width,
          c.height).data, seen = new Set();
        for (let i = 0; i < d.length; i += 4) {
          if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); }
        return seen.size; })"""
    )
    assert min(drawn) > 8, drawn
    it.close()


def test_keyboard_alone_and_names_for_screen_readers(browser, opened, serve, rec):
    work = opened()
    with serve(work) as server:
        it = Page(browser, server.address)
        page = it.page
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, canvas, a')]
            .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim()
              || (e.labels && e.labels.length))).map((e) => e.outerHTML)"""
        )
        assert unnamed == []
        first = page.locator(".class").first
        assert first.get_attribute("aria-label") == "Label rest, key 1, 0 labels"
        it.press("1")
        page.wait_for_function(
            "() => document.querySelector('#say').textContent === 'Saved rest. 1 label.'"
        )
        page.keyboard.press("n")  # a new class, and cancel, and one that is there already
        assert page.evaluate("document.activeElement.id") == "name"
        page.keyboard.type("s jump 2u")  # no letter of a name is a command
        page.keyboard.press("Enter")
        page.wait_for_selector("#dialog:not([open])", state="attached")
        page.keyboard.press("n")
        page.keyboard.type("rest")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('#dialogerror').textContent !== ''")
        page.keyboard.press("Escape")
        it.errors.clear()  # the browser notes the refusal
        assert [c["name"] for c in work.state()["classes"]] == [*rec.classes, "s jump 2u"]
        page.focus(".class >> nth=3")
        before = it.window()
        page.keyboard.press("Enter")
        page.wait_for_function(
            "w => !document.querySelector('#which').textContent.includes(`window ${w} `)",
            arg=before,
        )
        assert work.names()[before] == "s jump 2u"
        page.focus("#map")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "() => document.querySelector('#say').textContent.includes('Enter shows')"
        )
        said = page.inner_text("#say")
        page.keyboard.press("Enter")
        chosen = int(re.search(r"Window (\d+)", said)[1])
        page.wait_for_function(
            "w => document.querySelector('#which').textContent.startsWith(`window ${w}`)",
            arg=chosen,
        )
        page.focus("nav button[data-view=clusters]")
        page.keyboard.press("Enter")
        page.wait_for_selector("#six figure")
        left = work.state()["labels"]
        page.keyboard.press("2")
        page.wait_for_function(
            "() => document.querySelector('#say').textContent.includes('of walk')"
        )
        assert work.state()["labels"] > left + 5
        page.keyboard.press("u")
        page.wait_for_function(
            "() => document.querySelector('#say').textContent.startsWith('Undone')"
        )
        assert work.state()["labels"] == left
        it.close()


def test_labels_are_corrected_in_the_table(browser, opened, serve):
    work = opened()
    with serve(work) as server:
        it = Page(browser, server.address)
        window = it.window()
        it.press("1")
        it.view("review")
        with it.page.expect_response(lambda answer: "/api/review" in answer.url):
            it.page.select_option("#rows select", label="walk")
        it.page.wait_for_function(
            "() => document.querySelector('#say').textContent.includes('now walk')"
        )
        assert work.names() == {window: "walk"}
        assert work.project.label_of(window).source == "review"
        work.label(window, "run", "other page", "bob", expected="walk")
        it.page.select_option("#rows select", label="rest")  # the page still shows walk
        it.page.wait_for_selector("#trouble:not([hidden])")
        assert "labelled 'run' by bob" in it.page.inner_text("#trouble")
        assert work.names() == {window: "run"}
        it.errors.clear()  # the browser notes the refusal
        it.close()


def test_hostile_names_are_shown_and_never_run(browser, hostile, kept, tmp_path, serve):
    from tensorcontrast.labelling import Labelling, Project

    base = prepare(hostile, kept, known=_known(kept))
    project = Project(tmp_path / "<b>x.tcl", {"fingerprint": "h", "n_windows": len(hostile)})
    for name in hostile.classes:
        project.add_class(name)
    work = Labelling(hostile, project, base, who="<u>ann</u>")
    work.start()
    with serve(work) as server:
        it = Page(browser, server.address, viewport={"width": 390, "height": 844})
        for key in "123":
            it.press(key)
        assert it.page.inner_text(".class .name >> nth=0") == hostile.classes[0]
        assert '<b onclick="alert(2)">' in it.page.inner_text("#where")
        assert it.page.title() == f"Label {hostile.name}"
        for view in VIEWS:
            it.view(view)
            it.page.wait_for_timeout(60)
            assert it.overflow() <= 0, view
        assert it.page.locator("main img, main script, main b, main u, iframe").count() == 0
        it.page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1';"
            " document.body.append(s); }"
        )
        assert it.page.evaluate("window.bad") is None  # the policy holds
        it.errors.clear()
        it.close()
    work.stop()
    project.close()


def _known(folder):
    import json

    return json.loads((folder / "prepared.json").read_text())["fingerprint"]


def test_a_page_without_the_token_is_refused(browser, lit):
    stranger = Page(browser, f"http://127.0.0.1:{lit.port}/", ready=False)
    assert "open the address" in stranger.page.inner_text("body")
    stranger.context.close()


def test_100_000_windows(browser, large, serve):
    with serve(large) as server:
        it = Page(browser, server.address)
        for key in "1231":
            it.press(key)
        it.page.wait_for_function(
            "() => document.querySelector('#guess').textContent.startsWith('Model')", timeout=60_000
        )
        assert large.state()["labels"] == 4 and not large.state()["model"]["problem"]
        used = it.page.evaluate("performance.memory.usedJSHeapSize")
        assert used < 100 * 2**20  # places and colours, and one window
        it.close()


def test_the_page_is_part_of_the_package():
    from importlib import resources

    names = {f.name for f in (resources.files("tensorcontrast.labelling") / "static").iterdir()}
    assert names == {"index.html", "app.js", "drawing.js", "style.css", "icon.svg"}
