"""Text from outside never becomes markup, and what nobody can see is made visible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report.markup import Markup, join, seen, shortened, tag, trusted
from tests.support.html_pages import Page


@given(text=st.text(), value=st.text())
def test_text_is_text_wherever_it_goes(text: str, value: str) -> None:
    """As a child and as an attribute; a browser reads back what was put in."""
    page = Page(tag("p", text, title=value))
    (element,) = page.elements
    assert page.wrong == []
    assert element.name == "p"
    assert element.attributes == {"title": seen(value)}
    assert page.text == seen(text)


def test_markup_stays_markup() -> None:
    """Elements can be put into each other; text between them is escaped."""
    assert tag("p", tag("b", "1 < 2"), " & ", trusted("<i>x</i>")) == (
        "<p><b>1 &lt; 2</b> &amp; <i>x</i></p>"
    )
    assert join(("<", tag("b"))) == "&lt;<b></b>"


def test_what_is_made_of_markup_with_other_text_is_text() -> None:
    """An f-string forgets that its parts were markup: escaping twice shows, not escaping harms."""
    assert tag("p", f"{tag('b', 'x')}<script>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;script&gt;</p>"
    assert type(tag("p")) is Markup


def test_names_and_values_of_attributes() -> None:
    """Python's names become those of HTML, None is left out, numbers lose what no screen shows."""
    assert tag("rect", class_="a", stroke_width=1.25678, x=3.0, y=None, viewBox="0 0") == (
        '<rect class="a" stroke-width="1.26" x="3" viewBox="0 0"></rect>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


@pytest.mark.parametrize(
    "unseen", ["\x00", "\x1b", "\n", "\x85", "\u200b", "\u202e", "\u2066", "\ufeff", "\ud800"]
)
def test_what_nobody_can_see_is_shown(unseen: str) -> None:
    """It could hide a name or turn the direction of the line."""
    assert seen(f"a{unseen}b") == f"a\\u{{{ord(unseen):x}}}b"


def test_other_scripts_are_left_alone() -> None:
    """Letters of any language are shown as they are."""
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
