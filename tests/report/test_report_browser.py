"""The page in a real browser: no error, no request, hovering works, nothing overflows."""

import re

import pytest

from tensorcontrast import report
from tensorcontrast.report.text import plain

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def place(model, rec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return report.model_report(model, rec, folder, command="tensorcontrast demo", figures=False)


class Watched:
    """A page with what it asked for and what went wrong in it."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests, self.errors = [], []
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.errors.append(m.text))
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("dialog", lambda d: (self.errors.append(d.message), d.dismiss()))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".wave svg")
        self.uri = path.as_uri()

    def check(self):
        assert self.errors == []
        assert self.requests == [self.uri]

    def overflow(self):
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_opens_without_errors_requests_or_overflow(browser, place, scheme, width):
    size = {"width": width, "height": 844}
    watched = Watched(browser, place, viewport=size, color_scheme=scheme)
    page = watched.page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait_for_timeout(50)
    assert watched.overflow() <= 0
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.plate .wide, .bar nav, .charts svg, .windows svg')]
        .filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0).length"""
    )
    assert cut == 0  # every figure has a form for this screen, and the menu is whole
    light = page.evaluate(
        """() => { const rgb = (c) => c.match(/[0-9.]+/g).slice(0, 3).map(Number);
        const s = getComputedStyle(document.body);
        const lum = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255;
          return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        return [lum(s.backgroundColor), lum(s.color),
          lum(getComputedStyle(document.querySelector('.lead')).color)]; }"""
    )
    background, ink, muted = light
    assert (background > 0.5) == (scheme == "light")
    for text in (ink, muted):  # WCAG AA for body text
        assert (max(background, text) + 0.05) / (min(background, text) + 0.05) > 4.5
    watched.check()
    watched.context.close()


def test_theme_button_changes_page_and_figures(browser, place):
    watched = Watched(browser, place, color_scheme="light")
    page = watched.page
    colours = (
        "() => [getComputedStyle(document.body).backgroundColor, "
        "getComputedStyle(document.querySelector('svg.figure text')).fill]"
    )
    before = page.evaluate(colours)
    page.click("#theme")
    after = page.evaluate(colours)
    assert before[0] != after[0] and before[1] != after[1]
    assert page.inner_text("#theme") == "Light"
    page.click("#theme")
    assert page.evaluate(colours) == before
    watched.check()
    watched.context.close()


def test_hovering_shows_the_window_and_its_label(browser, place, rec):
    watched = Watched(browser, place)
    page = watched.page
    page.select_option("select[name=x]", label="feature 0")
    page.select_option("select[name=y]", label="feature 1")
    canvas = page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    seen = {}
    for k in range(1, 12):
        page.mouse.move(box["x"] + box["width"] * k / 12, box["y"] + box["height"] / 2)
        page.mouse.move(box["x"] + box["width"] * k / 12, box["y"] + box["height"] * 0.45)
        said = page.inner_text(".about")
        trace = page.get_attribute(".wave path.trace", "d")
        seen[said] = trace
        index = int(re.match(r"Window (\d+)", said)[1])
        assert f"class {rec.classes[rec.y[index]]}" in said
        assert f"subject {rec.groups[index]}" in said
    assert len(seen) > 2 and len(set(seen.values())) == len(seen)
    assert page.locator(".wave path.trace").count() == rec.n_channels
    assert page.locator(".wave text.name").all_text_contents() == list(rec.channels)
    watched.check()
    watched.context.close()


def test_keyboard_tap_and_legend(browser, place, rec):
    size = {"width": 390, "height": 844}
    watched = Watched(browser, place, viewport=size, has_touch=True)
    page = watched.page
    canvas = page.locator("canvas").first
    canvas.focus()
    first = page.inner_text(".about")
    said = set()
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown") * 3:
        page.keyboard.press(key)
        said.add(page.inner_text(".about"))
    assert len(said) > 2
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for dx in range(5, 95, 5):
        page.touchscreen.tap(box["x"] + box["width"] * dx / 100, box["y"] + box["height"] * 0.4)
        if page.inner_text(".about") not in said | {first}:
            break
    else:
        pytest.fail("no tap chose another window")
    buttons = page.locator(".legend button")
    assert buttons.all_inner_texts() == list(rec.classes)
    buttons.nth(1).click()
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    page.select_option("select[name=colour]", label="subject")
    assert set(page.locator(".legend button").all_inner_texts()) == {str(g) for g in rec.groups}
    watched.check()
    watched.context.close()


def test_hostile_names_are_shown_and_never_run(browser, hostile, hostile_names, tmp_path):
    model, rec = hostile
    path = report.model_report(model, rec, tmp_path, title=hostile_names[1], figures=False)
    watched = Watched(browser, path, viewport={"width": 390, "height": 844})
    page = watched.page
    page.select_option("select[name=colour]", label="subject")
    page.wait_for_timeout(50)
    assert page.inner_text("h1") == hostile_names[1]
    assert page.locator(".legend button").count() == len(set(rec.groups))
    assert page.locator(".wave text.name").first.text_content() == plain(hostile_names[0], 24)
    assert page.locator("img, iframe, script[src]").count() == 0
    assert watched.overflow() <= 0
    # The policy holds: a script that got in would not run.
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1';"
        " document.body.append(s); }"
    )
    assert page.evaluate("window.bad") is None
    watched.errors.clear()
    watched.check()
    watched.context.close()
