"""Take the pictures that README and docs show.

``python docs/screenshots.py PAGE`` takes those of a report: PAGE is the ``report.html`` of
``tensorcontrast demo``. ``python docs/screenshots.py label`` takes that of the labelling page, with
36 labels of the smartwatch recordings. Needs playwright and a Chromium.
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

OUT = Path(__file__).parent / "_static"


def main(page_file: str) -> None:
    """Write the four pictures."""
    address = Path(page_file).resolve().as_uri()
    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, theme, width, height, anchor in (
            ("light", "light", 1180, 880, None),
            ("dark", "dark", 1180, 880, None),
            ("components", "light", 1180, 620, "What each feature is"),
            ("phone", "light", 390, 844, None),
        ):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            page.goto(address)
            if anchor:
                place = page.get_by_text(anchor).first
                place.scroll_into_view_if_needed()
                place.evaluate("e => window.scrollTo(0, e.offsetTop - 60)")
            page.wait_for_timeout(500)
            page.screenshot(path=OUT / f"report-{name}.png")
            page.close()
        browser.close()


def label_page() -> None:
    """Label suggested windows by their true classes, and take the picture."""
    from tensorcontrast.datasets import load_watch

    rec = load_watch()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        command = [sys.executable, "-m", "tensorcontrast", "label", "watch", "--no-browser"]
        program = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        address = re.search(r"http\S+", program.stdout.readline())[0]
        browser = player.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 860})
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        for _ in range(36):
            text = page.inner_text("#which")
            page.keyboard.press(str(rec.y[int(re.search(r"window (\d+)", text)[1])] + 1))
            page.wait_for_function(
                "text => document.querySelector('#which').innerText !== text", arg=text
            )
        page.wait_for_timeout(4000)
        page.screenshot(path=OUT / "label.png")
        browser.close()
        program.send_signal(signal.SIGINT)
        program.wait()


if __name__ == "__main__":
    label_page() if sys.argv[1] == "label" else main(sys.argv[1])
