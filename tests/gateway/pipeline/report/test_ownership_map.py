"""A line for each partition, coloured by owner; holes and overlaps stand out."""

from itertools import islice

from gateway.pipeline.report.model import GroupStory, Interval
from gateway.pipeline.report.ownership_map import STYLES, owner_class, ownership_map
from tests.support.html_pages import Page
from tests.support.reports import END_MS, START_MS, group_story


def with_intervals(*intervals: Interval) -> GroupStory:
    """A group of one partition."""
    group = group_story(partitions=1)
    assert group.ownership is not None
    story = group.ownership.partitions[0].model_copy(update={"intervals": intervals})
    told = group.ownership.model_copy(update={"partitions": (story,)})
    return group.model_copy(update={"ownership": told})


def test_each_owner_has_its_colour_and_its_number() -> None:
    """The same in all lines; a hole has none."""
    page = Page(ownership_map(group_story(partitions=4)))
    lines = page.named("g", "line")
    assert len(lines) == 4
    assert len(page.named("rect", "owner-0")) == 2
    assert len(page.named("rect", "gap")) == 4
    numbers = [each.text for each in page.named("text", "on-owner")]
    assert numbers == ["1", "4", "2", "5", "3", "6", "1", "4"]
    assert page.wrong == []


def test_a_line_says_what_it_shows_to_who_cannot_see_it() -> None:
    """With the focus, the same text shows below the map."""
    page = Page(ownership_map(group_story(partitions=1)))
    (line,) = page.named("g", "line")
    (summary,) = page.named("text", "summary")
    assert line.attributes["tabindex"] == "0"
    assert line.attributes["aria-label"] == summary.text
    assert summary.text == (
        "numbers-0: member 1 for 36.0 s, nobody for 300 ms, member 4 for 2 min 23 s"
    )


def test_an_overlap_is_drawn_above_all_and_can_be_seen_however_short() -> None:
    """It is what the reader must not miss."""
    first, second = (each.member_id for each in islice(group_story().members, 2))
    overlap = Interval(
        kind="overlap",
        member_id=second,
        other_member_id=first,
        from_ms=START_MS + 5,
        to_ms=START_MS + 5,
    )
    owner = Interval(kind="owner", member_id=first, from_ms=START_MS, to_ms=END_MS)
    page = Page(ownership_map(with_intervals(overlap, owner)))
    drawn = [each for each in page.named("rect") if each.attributes["class"] != "target"]
    last = drawn[-1]
    assert last.attributes["class"] == "overlap"
    assert float(last.attributes["width"] or 0) >= 4
    assert f"2 ({second}) while 1 ({first}) had it for 0 ms" in page.text


def test_an_overlap_names_both() -> None:
    """By their numbers, first who had it already."""
    first, second = (each.member_id for each in islice(group_story().members, 2))
    overlap = Interval(
        kind="overlap", member_id=second, other_member_id=first, from_ms=START_MS, to_ms=END_MS
    )
    page = Page(ownership_map(with_intervals(overlap)))
    assert [each.text for each in page.named("text", "on-overlap")] == ["1 + 2"]
    assert "member 1 + 2 for 3 min 0 s" in page.named("text", "summary")[0].text


def test_a_number_is_left_out_where_it_has_no_room() -> None:
    """The title has it all the same."""
    member_id = group_story().members[0].member_id
    short = Interval(kind="owner", member_id=member_id, from_ms=START_MS, to_ms=START_MS + 1_000)
    page = Page(ownership_map(with_intervals(short)))
    assert page.named("text", "on-owner") == []
    assert f"1 ({member_id}) for 1.0 s" in page.text


def test_numbers_of_steps_do_not_overlap() -> None:
    """Each step has its line; of steps close together only the first one shows its number."""
    group = group_story()
    near = tuple(
        step.model_copy(update={"from_ms": START_MS + 60_000 + step.number}) for step in group.steps
    )
    page = Page(ownership_map(group.model_copy(update={"steps": near})))
    assert len(page.named("line", "step")) == 3
    x = page.named("line", "step")[0].attributes["x1"]
    shown = [each.text for each in page.named("text", "tick") if each.attributes["x"] == x]
    assert shown == ["1"]


def test_colours_begin_again_after_all_with_and_without_stripes() -> None:
    """Members after that are told apart by their number."""
    classes = [owner_class(number) for number in range(1, STYLES + 1)]
    assert len(set(classes)) == STYLES
    assert owner_class(STYLES + 1) == classes[0]


def test_nothing_is_drawn_where_nobody_ever_owned_anything() -> None:
    """The section says so in words."""
    assert ownership_map(group_story().model_copy(update={"ownership": None})) == ""
