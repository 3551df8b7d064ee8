"""The owners of each partition over time: one line per partition, coloured by owner."""

from collections.abc import Mapping, Sequence

from gateway.pipeline.report.axis import LABELS_HEIGHT, Axis
from gateway.pipeline.report.markup import Markup, join, shortened, tag
from gateway.pipeline.report.model import GroupStory, Interval, MigrationStep, PartitionStory
from gateway.pipeline.report.picture import LEFT, RIGHT, box, name, picture, words
from gateway.pipeline.report.protocol_timeline import BAR_HEIGHT, axis_of, bar
from gateway.pipeline.report.wording import duration
from gateway.readable import moment

COLOURS = 8
STYLES = 2 * COLOURS
"""Plain and striped colours. Further owners reuse them; the member's number tells them apart."""

_LINE_HEIGHT = 17
_BOX_HEIGHT = 14
_TOP = 20
_DIGIT_WIDTH = 8
_OVERLAP_MORE = 2
"""The extra width at either end, so that the shortest overlap is visible."""
_SUMMARY_INTERVALS_MAX = 4


def ownership_map(group: GroupStory) -> Markup:
    """The map of one group; empty if no member ever owned a partition."""
    told = group.ownership
    if told is None:
        return join(())
    axis = axis_of(told.from_ms, told.to_ms)
    numbers = {member.member_id: n for n, member in enumerate(group.members, start=1)}
    first = _TOP + BAR_HEIGHT + 10
    bottom = first + _LINE_HEIGHT * len(told.partitions)
    lines = [
        _line(story, axis, numbers, first + _LINE_HEIGHT * n, bottom + LABELS_HEIGHT + 12)
        for n, story in enumerate(told.partitions)
    ]
    return picture(
        bottom + LABELS_HEIGHT + 18,
        axis.drawn(_TOP - 4, bottom),
        _steps(group.steps, axis, bottom),
        name("members' protocol", _TOP + 12),
        bar(group.shares, axis, _TOP),
        *lines,
        says="Owners of partitions over time",
    )


def swatch(number: int) -> Markup:
    """The colour and number of a member."""
    return tag(
        "svg",
        box(0, 26, 0, 16, class_=owner_class(number)),
        words(str(number), 13, 12, class_="on-owner", text_anchor="middle"),
        viewBox="0 0 26 16",
        class_="swatch",
        aria_hidden="true",
    )


def owner_class(number: int) -> str:
    """The CSS class of the member with this number."""
    style = (number - 1) % STYLES
    return f"owner-{style % COLOURS}" + ("-striped" if style >= COLOURS else "")


def _line(
    story: PartitionStory, axis: Axis, numbers: Mapping[str, int], y: float, y_summary: float
) -> Markup:
    """One partition. Its summary is shown below the map while the line has pointer or focus."""
    place = f"{story.topic}-{story.partition}"
    summary = f"{place}: {_summary(story.intervals, numbers)}"
    return tag(
        "g",
        box(0, RIGHT, y - 1, _LINE_HEIGHT, class_="target"),
        name(place, y + 11),
        # Gaps and overlaps are drawn last, on top of owners.
        *(
            _interval(interval, place, axis, numbers, y)
            for interval in sorted(story.intervals, key=_urgency)
        ),
        words(shortened(summary, 150), LEFT, y_summary, class_="summary"),
        class_="line",
        tabindex=0,
        role="img",
        aria_label=shortened(summary, 300),
    )


def _urgency(interval: Interval) -> int:
    return ("owner", "gap", "overlap").index(interval.kind)


def _interval(
    interval: Interval, place: str, axis: Axis, numbers: Mapping[str, int], y: float
) -> Markup:
    x_from, x_to = axis.x(interval.from_ms), axis.x(interval.to_ms)
    who = _owner_text(interval, numbers)
    lasted = duration(interval.to_ms - interval.from_ms)
    title = f"{place}: {who} for {lasted} from {moment(interval.from_ms)}"
    number = numbers.get(interval.member_id or "", 0)
    class_ = owner_class(number) if interval.kind == "owner" else interval.kind
    if interval.kind == "overlap":
        x_from, x_to = x_from - _OVERLAP_MORE, x_to + _OVERLAP_MORE
    drawn = box(x_from, x_to, y, _BOX_HEIGHT, class_=class_, title=title)
    text = _label(interval, numbers)
    if not text or x_to - x_from < _DIGIT_WIDTH * len(text) + 4:
        return drawn
    middle, on = (x_from + x_to) / 2, f"on-{interval.kind}"
    return join((drawn, words(text, middle, y + 11, class_=on, text_anchor="middle")))


def _label(interval: Interval, numbers: Mapping[str, int]) -> str:
    """The numbers of the owners; empty for a gap."""
    who = (interval.other_member_id, interval.member_id)
    return " + ".join(str(numbers.get(each, "?")) for each in who if each is not None)


def _owner_text(interval: Interval, numbers: Mapping[str, int]) -> str:
    owner = _member(interval.member_id, numbers)
    if interval.kind == "overlap":
        return f"{owner} while {_member(interval.other_member_id, numbers)} had it"
    return "nobody" if interval.kind == "gap" else owner


def _member(member_id: str | None, numbers: Mapping[str, int]) -> str:
    return f"{numbers.get(member_id or '', '?')} ({member_id})"


def _summary(intervals: Sequence[Interval], numbers: Mapping[str, int]) -> str:
    shown = [
        f"{_short_label(each, numbers)} for {duration(each.to_ms - each.from_ms)}"
        for each in intervals[:_SUMMARY_INTERVALS_MAX]
    ]
    more = len(intervals) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")


def _short_label(interval: Interval, numbers: Mapping[str, int]) -> str:
    return f"member {_label(interval, numbers)}" if interval.kind != "gap" else "nobody"


def _steps(steps: Sequence[MigrationStep], axis: Axis, bottom: float) -> Markup:
    """A line at the start of each step, with its number if there is room."""
    parts, free = [], 0.0
    for step in steps:
        if not axis.from_ms <= step.from_ms <= axis.to_ms:
            continue
        x = axis.x(step.from_ms)
        parts.append(tag("line", class_="step", x1=x, x2=x, y1=_TOP - 6, y2=bottom))
        if x >= free:
            parts.append(words(str(step.number), x, 10, class_="tick", text_anchor="middle"))
            free = x + _DIGIT_WIDTH * (len(str(step.number)) + 1)
    return join((name("step", 10), *parts) if parts else ())
