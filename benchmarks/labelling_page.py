"""Times of the labelling page with very many windows: ``python -m benchmarks.labelling_page``.

Features are there already: those of 300 planted windows, again and again, with a little noise. The
page runs in headless Chromium (``pip install playwright``) and is labelled by keyboard. Prints one
line per number of windows: seconds until the page can be used, milliseconds until the page says
that a label is saved (median and largest), seconds of training, memory of the page.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorcontrast import ContrastiveFeatures
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.labelling import Labelling, Project
from tensorcontrast.labelling.prepare import Prepared, prepare
from tensorcontrast.labelling.server import PageServer

#: Labels that are given by keyboard.
N_LABELS = 40


def many_windows(n: int, folder: Path) -> tuple[Any, Prepared]:
    """Make recordings of n windows, and what the page needs of them."""
    small = make_synthetic(n_samples=300, n_classes=4, random_state=0)
    features = ContrastiveFeatures(random_state=0)
    base = prepare(small, folder / "cache", known="small", features=features)
    at = np.arange(n) % len(small)
    rng = np.random.default_rng(0)

    def noisy(values: Any, scale: float) -> Any:
        values = np.asarray(values, dtype=np.float32)[at]
        values += scale * rng.standard_normal(values.shape, dtype=np.float32)
        return values

    columns = {"recording": (np.arange(n) // 500).astype(str), "start": np.arange(n) % 500 * 64}
    rec = small._with(X=small.X[at], y=small.y[at], groups=None, columns=columns)
    place = np.clip(noisy(base.place, 0.01), 0, 1)
    made = replace(
        base,
        features=noisy(base.features, 0.02),
        rows=noisy(base.rows, 0.02),
        place=place,
        cluster=base.cluster[at],
    )
    return rec, made


def measure(n: int, chromium: str | None) -> dict[str, float]:
    """Measure one project."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        rec, made = many_windows(n, Path(name))
        options = {} if chromium is None else {"executable_path": chromium}
        browser = play.chromium.launch(args=["--no-sandbox"], **options)
        page = browser.new_page()
        begin = time.perf_counter()
        project = Project(Path(name) / "p.tcl", {"fingerprint": "p", "n_windows": n})
        for k in range(4):
            project.add_class(f"class {k}")
        work = Labelling(rec, project, made, who="ann")
        server = PageServer(work)
        thread = threading.Thread(target=server.run)
        thread.start()
        work.start()
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        opened = time.perf_counter() - begin
        page.evaluate(WATCH)
        for k in range(N_LABELS):
            window = work._open[next(iter(work._open))]
            page.wait_for_function(SHOWN, arg=f"window {window} ")
            page.wait_for_timeout(100)  # an annotator looks at the window
            page.keyboard.press(str(int(rec.y[window]) + 1))
            page.wait_for_function(f"() => window.saved.length === {k + 1}")
            page.wait_for_function(SHOWN.replace("===", "!=="), arg=f"window {window} ")
        saved = page.evaluate("window.saved")
        work.wait(60)
        trained = work.state()["model"]["seconds"]
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 2**20
        browser.close()
        server.stop()
        thread.join(20)
        work.stop()
        project.close()
    return {
        "opened_s": round(opened, 2),
        "saved_ms": round(float(np.median(saved)), 1),
        "saved_max_ms": round(max(saved), 1),
        "trained_s": trained,
        "page_memory_mb": round(heap, 1),
    }


#: Whether the page shows a window.
SHOWN = "text => document.querySelector('#which').textContent.includes(text) === true"
#: Milliseconds from a key to "Saved", which the page says when the label is on disk.
WATCH = """() => { window.saved = []; let at = 0;
  document.addEventListener('keydown', () => { at = performance.now(); }, true);
  new MutationObserver(() => {
    if (at && document.getElementById('status').textContent.startsWith('Saved')) {
      window.saved.push(performance.now() - at); at = 0; }
  }).observe(document.getElementById('status'), {childList: true, characterData: true,
    subtree: true}); }"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--chromium", help="program to use; default: that of playwright")
    given = parser.parse_args(arguments)
    for n in given.windows:
        print(f"{n:,} windows:", measure(n, given.chromium), flush=True)


if __name__ == "__main__":
    main()
