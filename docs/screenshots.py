"""Take the pictures of a report that README and docs show: ``python docs/screenshots.py PAGE``.

PAGE is the ``report.html`` of ``tensorcontrast demo``. Needs playwright and a Chromium.
"""

import shutil
import sys
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


if __name__ == "__main__":
    main(sys.argv[1])
