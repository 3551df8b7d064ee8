"""A line for each group, filled from below as its members switch."""

from gateway.pipeline.report.model import ProtocolMix
from gateway.pipeline.report.plots import BAR_HEIGHT, bar, protocol_timeline
from gateway.pipeline.report.svg import Axis
from tests.support.html_pages import Element, Page
from tests.support.reports import END_MS, START_MS, group_story

AXIS = Axis(START_MS, END_MS)


def share(classic: int, consumer: int) -> ProtocolMix:
    """All the time."""
    return ProtocolMix(
        from_ms=START_MS, to_ms=END_MS, classic_members=classic, consumer_members=consumer
    )


def place(element: Element) -> tuple[float, float]:
    """The top and the height of a bar."""
    return float(element.attributes["y"] or 0), float(element.attributes["height"] or 0)


def test_the_bar_shows_the_share_of_switched_members() -> None:
    """It fills from below, with classic members above."""
    page = Page(bar([share(3, 1)], AXIS, 100.0))
    (classic,), (consumer,) = page.named("rect", "classic"), page.named("rect", "consumer")
    assert place(classic) == (100, BAR_HEIGHT * 3 / 4)
    assert place(consumer) == (100 + BAR_HEIGHT * 3 / 4, BAR_HEIGHT / 4)
    assert "3 classic, 1 consumer members for 3 min 0 s from 2027-01-15" in page.text


def test_a_group_without_members_is_a_thin_line() -> None:
    """Nothing is drawn while the group is unknown."""
    page = Page(bar([share(0, 0)], AXIS, 0.0))
    assert [each.attributes["class"] for each in page.named("rect")] == ["empty"]
    assert Page(bar([], AXIS, 0.0)).elements == []


def test_times_outside_the_plot_are_not_drawn() -> None:
    """They would be a line at the edge."""
    assert bar([share(1, 0)], Axis(END_MS + 1, END_MS + 9), 0.0) == ""


def test_each_group_links_to_its_section() -> None:
    """Migrations and findings are in the given order."""
    plain = group_story("first")
    found = group_story("second").model_copy(update={"finding_times_ms": (START_MS, END_MS)})
    page = Page(protocol_timeline([plain, found], AXIS))
    assert [each.attributes["href"] for each in page.named("a")] == ["#group-1", "#group-2"]
    assert [each.text for each in page.named("text", "name")] == ["first", "second"]
    assert len(page.named("rect", "migration")) == 2
    assert len(page.named("path", "finding-mark")) == 2
    assert page.wrong == []
