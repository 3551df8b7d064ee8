"""A line for each partition, coloured by owner. Gaps and overlaps stand out."""

from itertools import islice

from gateway.pipeline.report.model import GroupStory, Interval
from gateway.pipeline.report.plots import STYLES, drawn_map, owner_class
from tests.support.html_pages import Page
from tests.support.reports import END_MS, START_MS, group_story


def with_intervals(*intervals: Interval) -> GroupStory:
    """A group with one partition."""
    group = group_story(partitions=1)
    assert group.ownership is not None
    story = group.ownership.partitions[0].model_copy(update={"intervals": intervals})
    told = group.ownership.model_copy(update={"partitions": (story,)})
    return group.model_copy(update={"ownership": told})


def test_each_owner_has_a_colour_and_a_number() -> None:
    """They are the same in all lines. A gap has none."""
    page = Page(drawn_map(group_story(partitions=4)))
    lines = page.named("g", "line")
    assert len(lines) == 4
    assert len(page.named("rect", "owner-0")) == 2
    assert len(page.named("rect", "gap")) == 4
    numbers = [each.text for each in page.named("text", "on-owner")]
    assert numbers == ["1", "4", "2", "5", "3", "6", "1", "4"]
    assert page.wrong == []


def test_a_line_has_a_text_alternative() -> None:
    """With the focus, the same text is shown below the map."""
    page = Page(drawn_map(group_story(partitions=1)))
    (line,) = page.named("g", "line")
    (summary,) = page.named("text", "summary")
    assert line.attributes["tabindex"] == "0"
    assert line.attributes["aria-label"] == summary.text
    assert summary.text == (
        "numbers-0: member 1 for 36.0 s, nobody for 300 ms, member 4 for 2 min 23 s"
    )


def test_an_overlap_is_drawn_on_top_with_a_minimum_width() -> None:
    """A reader must not miss it."""
    first, second = (each.member_id for each in islice(group_story().members, 2))
    overlap = Interval(
        kind="overlap",
        member_id=second,
        other_member_id=first,
        from_ms=START_MS + 5,
        to_ms=START_MS + 5,
    )
    owner = Interval(kind="owner", member_id=first, from_ms=START_MS, to_ms=END_MS)
    page = Page(drawn_map(with_intervals(overlap, owner)))
    drawn = [each for each in page.named("rect") if each.attributes["class"] != "target"]
    last = drawn[-1]
    assert last.attributes["class"] == "overlap"
    assert float(last.attributes["width"] or 0) >= 4
    assert f"2 ({second}) while 1 ({first}) had it for 0 ms" in page.text


def test_an_overlap_names_both_owners() -> None:
    """It has their numbers, the earlier owner first."""
    first, second = (each.member_id for each in islice(group_story().members, 2))
    overlap = Interval(
        kind="overlap", member_id=second, other_member_id=first, from_ms=START_MS, to_ms=END_MS
    )
    page = Page(drawn_map(with_intervals(overlap)))
    assert [each.text for each in page.named("text", "on-overlap")] == ["1 + 2"]
    assert "member 1 + 2 for 3 min 0 s" in page.named("text", "summary")[0].text


def test_a_number_without_room_is_omitted() -> None:
    """The title still has it."""
    member_id = group_story().members[0].member_id
    short = Interval(kind="owner", member_id=member_id, from_ms=START_MS, to_ms=START_MS + 1_000)
    page = Page(drawn_map(with_intervals(short)))
    assert page.named("text", "on-owner") == []
    assert f"1 ({member_id}) for 1.0 s" in page.text


def test_the_numbers_of_steps_do_not_overlap() -> None:
    """Each step has its line. Of steps close together only the first shows its number."""
    group = group_story()
    near = tuple(
        step.model_copy(update={"from_ms": START_MS + 60_000 + step.number}) for step in group.steps
    )
    page = Page(drawn_map(group.model_copy(update={"steps": near})))
    assert len(page.named("line", "step")) == 3
    x = page.named("line", "step")[0].attributes["x1"]
    shown = [each.text for each in page.named("text", "tick") if each.attributes["x"] == x]
    assert shown == ["1"]


def test_colours_repeat_after_plain_and_striped_ones() -> None:
    """Further members are distinguished by their numbers."""
    classes = [owner_class(number) for number in range(1, STYLES + 1)]
    assert len(set(classes)) == STYLES
    assert owner_class(STYLES + 1) == classes[0]


def test_a_group_without_owners_has_no_map() -> None:
    """The section says so in words."""
    assert drawn_map(group_story().model_copy(update={"ownership": None})) == ""
