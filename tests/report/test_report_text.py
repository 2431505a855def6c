"""Names from files stay text in every medium: read back by real parsers of that medium."""

import json
import re
import unicodedata
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tensorcontrast.report.text import (
    figure_text,
    html_text,
    json_block,
    markdown_text,
    plain,
    shortened,
)

MARKS = "<>&\"'`|[](){}$\\/:.!#*_~^@%=+-1 ab\n\t\x1b\x07\x9b\u202e\u2028\u200b"
TEXTS = st.one_of(st.text(max_size=60), st.text(alphabet=MARKS, max_size=40))


class Reader(HTMLParser):
    """Collects tags and text."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def read(source):
    reader = Reader()
    reader.feed(source)
    reader.close()
    return reader


@settings(deadline=None)
@given(TEXTS)
def test_plain_has_nothing_that_moves_a_cursor(text):
    out = plain(text)
    assert not any(
        unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in out
    ) and not re.search("[\u202a-\u202e\u2066-\u2069]", out)
    assert plain(out) == out


def test_plain_shows_what_was_there():
    assert plain("Cz\x1b[2J\n") == "Cz\\x1b[2J\\n"
    assert plain("naïve 脳波 µV ½") == "naïve 脳波 µV ½"
    assert plain(None) == "" and plain(7) == "7"
    assert plain("abcdef", limit=4) == "abc…"
    assert shortened("abcdefghij", 5) == "ab…ij" and shortened("abcde", 5) == "abcde"


@settings(deadline=None)
@given(TEXTS)
def test_html_reads_back_as_the_text(text):
    inside = read(f"<p>{html_text(text)}</p>")
    assert inside.tags == [("p", {})] and inside.text == plain(text)
    attribute = read(f'<p title="{html_text(text)}">')
    assert attribute.tags == [("p", {"title": plain(text)})]


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_json_reads_back_and_cannot_end_its_element(key, text):
    out = json_block({key: [text, 1.5]})
    assert json.loads(out) == {key: [text, 1.5]}
    assert not set("<>&\u2028\u2029") & set(out) and out.isascii()


@settings(deadline=None)
@given(TEXTS)
def test_markdown_reads_back_as_the_text(text):
    shown = read(MarkdownIt("commonmark").enable("table").render(f"x {markdown_text(text)} y"))
    assert [tag for tag, _ in shown.tags] == ["p"]
    assert shown.text.split() == f"x {plain(text)} y".split()


def test_a_markdown_table_keeps_its_cells(hostile_name):
    source = f"| a | b |\n| --- | --- |\n| {markdown_text(hostile_name)} | 1 |\n"
    shown = read(MarkdownIt("commonmark").enable("table").render(source))
    assert [tag for tag, _ in shown.tags].count("td") == 2
    assert not {tag for tag, _ in shown.tags} & {"a", "img", "code", "script", "svg"}


@settings(deadline=None)
@given(TEXTS)
def test_a_dollar_in_a_figure_is_a_dollar(text):
    from matplotlib.text import Text

    drawn, mathematics = Text(0, 0, figure_text(text, None))._preprocess_math(
        figure_text(text, None)
    )
    assert not mathematics
    assert drawn == plain(text)


@settings(deadline=None)
@given(TEXTS)
def test_markdown_at_the_beginning_of_a_line_is_text_too(text):
    shown = read(MarkdownIt("commonmark").enable("table").render(f"{markdown_text(text)}\n"))
    assert {tag for tag, _ in shown.tags} <= {"p"}
    assert shown.text.split() == plain(text).split()
