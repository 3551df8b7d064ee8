"""External text never becomes markup, and invisible characters are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report.markup import Markup, join, seen, shortened, tag, trusted
from tests.support.html_pages import Page


@given(text=st.text(), value=st.text())
def test_text_stays_text_in_every_context(text: str, value: str) -> None:
    """In elements and attributes a browser reads back the original text."""
    page = Page(tag("p", text, title=value))
    (element,) = page.elements
    assert page.wrong == []
    assert element.name == "p"
    assert element.attributes == {"title": seen(value)}
    assert page.text == seen(text)


def test_markup_stays_markup() -> None:
    """Elements can be nested. Text between them is escaped."""
    assert tag("p", tag("b", "1 < 2"), " & ", trusted("<i>x</i>")) == (
        "<p><b>1 &lt; 2</b> &amp; <i>x</i></p>"
    )
    assert join(("<", tag("b"))) == "&lt;<b></b>"


def test_an_f_string_of_markup_is_text() -> None:
    """An f-string does not know that its parts were markup. Escaping twice is visible, but not
    escaping would be harmful."""
    assert tag("p", f"{tag('b', 'x')}<script>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;script&gt;</p>"
    assert type(tag("p")) is Markup


def test_names_and_values_of_attributes() -> None:
    """Python names become HTML names, None is omitted, and numbers are rounded to what a screen
    shows."""
    assert tag("rect", class_="a", stroke_width=1.25678, x=3.0, y=None, viewBox="0 0") == (
        '<rect class="a" stroke-width="1.26" x="3" viewBox="0 0"></rect>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


@pytest.mark.parametrize(
    "unseen", ["\x00", "\x1b", "\n", "\x85", "\u200b", "\u202e", "\u2066", "\ufeff", "\ud800"]
)
def test_invisible_characters_are_shown(unseen: str) -> None:
    """They could hide a name or change the direction of a line."""
    assert seen(f"a{unseen}b") == f"a\\u{{{ord(unseen):x}}}b"


def test_other_scripts_are_unchanged() -> None:
    """Letters of any language are shown."""
    assert seen("zażółć 注文 заказ 🚢") == "zażółć 注文 заказ 🚢"


@given(text=st.text(max_size=60), length_max=st.integers(5, 40))
def test_shortened_text_keeps_both_ends(text: str, length_max: int) -> None:
    """Ids differ at either end."""
    short = shortened(text, length_max)
    assert len(short) <= length_max
    if len(seen(text)) > length_max:
        head, tail = short.split("…", 1) if "…" not in text else (short[:1], short[-1:])
        assert head
        assert seen(text).startswith(head)
        assert seen(text).endswith(tail)
    else:
        assert short == seen(text)
