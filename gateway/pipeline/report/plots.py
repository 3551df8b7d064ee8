"""The plots of the page: bars of costs and readiness, protocols over time, owners over time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from gateway.pipeline.report.markup import Markup, join, shortened, tag
from gateway.pipeline.report.model import (
    ClientVersion,
    GroupStory,
    Interval,
    Migration,
    MigrationStep,
    PartitionStory,
    ProtocolMix,
    StepCost,
)
from gateway.pipeline.report.svg import (
    COLOURS,
    LABELS_HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    Axis,
    box,
    centred,
    picture,
    row_name,
    titled,
    words,
)
from gateway.pipeline.report.wording import counted, duration, number, partition_seconds
from gateway.readable import moment

_BARS_ROW_HEIGHT = 24
_BARS_BOX_HEIGHT = 16
_BARS_TOP = 4
_CHAR_WIDTH = 8

READINESS: Mapping[str, tuple[str, Callable[[ClientVersion], int]]] = MappingProxyType(
    {
        "consumer": ("on the consumer protocol already", lambda client: client.on_consumer),
        "ready": ("can switch now", lambda client: client.ready),
        "blocked": ("could switch, but the group cannot convert", lambda client: client.blocked),
        "unknown": ("unknown version", lambda client: client.unknown),
        "too-old": ("version too old", lambda client: client.too_old),
    }
)
"""The states of a version's members, by the CSS class of their colour."""


def step_bars(costs: Sequence[StepCost]) -> Markup:
    """Unowned time by step number."""
    most = max((cost.unowned_partition_s for cost in costs), default=0.0) or 1.0
    rows = []
    for n, cost in enumerate(costs):
        y = _BARS_TOP + _BARS_ROW_HEIGHT * n
        end = LEFT + (RIGHT - LEFT - 130) * cost.unowned_partition_s / most
        title = (
            f"step {cost.number} of {counted(cost.steps, 'migration')}:"
            f" {partition_seconds(cost.unowned_partition_s)},"
            f" in the worst {number(cost.unowned_partition_s_most)}"
        )
        rows += [
            row_name(f"step {cost.number}", y + 12),
            box(LEFT, end, y, _BARS_BOX_HEIGHT, class_="unowned", title=title),
            words(
                f"{number(cost.unowned_partition_s)} p·s in {counted(cost.steps, 'migration')}",
                end + 6,
                y + 12,
                class_="figure",
            ),
        ]
    return picture(
        _BARS_TOP + _BARS_ROW_HEIGHT * len(costs), *rows, says="Time without owner by step"
    )


def readiness_bars(clients: Sequence[ClientVersion]) -> Markup:
    """The members of each client version, by readiness."""
    most = max((_members(client) for client in clients), default=0) or 1
    rows = []
    for n, client in enumerate(clients):
        y, x = _BARS_TOP + _BARS_ROW_HEIGHT * n, float(LEFT)
        label = client_name(client)
        rows.append(row_name(label, y + 12))
        for class_, (meaning, of) in READINESS.items():
            count = of(client)
            if not count:
                continue
            end = x + (RIGHT - LEFT) * count / most
            title = f"{label}: {counted(count, 'member')}, {meaning}"
            rows.append(box(x, end, y, _BARS_BOX_HEIGHT, class_=class_, title=title))
            text = number(count)
            if end - x > _CHAR_WIDTH * (len(text) + 1):
                rows.append(centred(text, (x + end) / 2, y + 12, f"on-{class_}"))
            x = end
        in_all = counted(_members(client), "member")
        rows.append(words(in_all, WIDTH, y + 12, class_="figure", text_anchor="end"))
    return picture(
        _BARS_TOP + _BARS_ROW_HEIGHT * len(clients),
        *rows,
        says="Members by client version and readiness",
    )


def client_name(client: ClientVersion) -> str:
    """The version as the client introduced itself."""
    if client.software_name is None:
        return "(unnamed client)"
    return f"{client.software_name} {client.software_version or ''}".strip()


def _members(client: ClientVersion) -> int:
    return sum(of(client) for _, of in READINESS.values())


BAR_HEIGHT = 16
_TIMELINE_ROW_HEIGHT = 30
_TIMELINE_TOP = 22


def protocol_timeline(groups: Sequence[GroupStory], axis: Axis) -> Markup:
    """Several groups below each other, each with a link to its section."""
    bottom = _TIMELINE_TOP + _TIMELINE_ROW_HEIGHT * len(groups)
    rows = [
        _row(group, place, axis, _TIMELINE_TOP + _TIMELINE_ROW_HEIGHT * (place - 1))
        for place, group in enumerate(groups, start=1)
    ]
    return picture(
        bottom + LABELS_HEIGHT,
        words("without owner", WIDTH, 12, class_="tick", text_anchor="end"),
        axis.drawn(_TIMELINE_TOP - 4, bottom),
        *rows,
        says=f"Protocol of {counted(len(groups), 'group')} over time",
    )


def bar(mixes: Sequence[ProtocolMix], axis: Axis, y: float) -> Markup:
    """The bar of one group; its lower part is the share of members on the consumer protocol."""
    shown = (mix for mix in mixes if mix.from_ms <= axis.to_ms and axis.from_ms <= mix.to_ms)
    return join(part for mix in shown for part in _mix(mix, axis, y))


def _row(group: GroupStory, place: int, axis: Axis, y: float) -> Markup:
    unowned = f"{number(group.unowned_partition_s)} p·s"
    return tag(
        "a",
        titled(
            f"{group.group_id}: {counted(group.findings, 'finding')},"
            f" {unowned} without owner, {counted(group.rebalances, 'rebalance')}"
        ),
        box(0, WIDTH, y, _TIMELINE_ROW_HEIGHT, class_="target"),
        row_name(group.group_id, y + 17),
        bar(group.protocol_mixes, axis, y + 6),
        *(_span(migration, axis, y + 6 + BAR_HEIGHT) for migration in group.migrations),
        *(_mark(at_ms, axis, y + 6) for at_ms in group.finding_times_ms),
        words(unowned, WIDTH, y + 18, class_="figure", text_anchor="end"),
        href=f"#group-{place}",
    )


def _mix(mix: ProtocolMix, axis: Axis, y: float) -> Iterator[Markup]:
    x_from, x_to = axis.x(mix.from_ms), axis.x(mix.to_ms)
    members = mix.classic_members + mix.consumer_members
    title = (
        f"{mix.classic_members} classic, {mix.consumer_members} consumer members"
        f" for {duration(mix.to_ms - mix.from_ms)} from {moment(mix.from_ms)}"
    )
    if not members:
        yield box(
            x_from, x_to, y + BAR_HEIGHT / 2 - 1, 2, class_="empty", title=f"no members: {title}"
        )
        return
    filled = BAR_HEIGHT * mix.consumer_members / members
    if mix.classic_members:
        yield box(x_from, x_to, y, BAR_HEIGHT - filled, class_="classic", title=title)
    if mix.consumer_members:
        yield box(x_from, x_to, y + BAR_HEIGHT - filled, filled, class_="consumer", title=title)


def _span(migration: Migration, axis: Axis, y: float) -> Markup:
    """A line under the bar for the duration of a migration."""
    end_ms = axis.to_ms if migration.to_ms is None else migration.to_ms
    took = "goes on" if migration.to_ms is None else f"took {duration(end_ms - migration.from_ms)}"
    title = f"{migration.direction} from {moment(migration.from_ms)}, {took}"
    return box(
        axis.x(migration.from_ms) - 1, axis.x(end_ms) + 1, y + 1, 3, class_="migration", title=title
    )


def _mark(at_ms: int, axis: Axis, y: float) -> Markup:
    """A triangle that points at a finding."""
    x = axis.x(at_ms)
    return tag(
        "path",
        titled(f"finding at {moment(at_ms)}"),
        d=f"M{x - 5:.1f} {y - 5:.1f}h10l-5 9z",
        class_="finding-mark",
    )


STYLES = 2 * COLOURS
"""Plain and striped colours. Further owners reuse them; the member's number tells them apart."""

_LINE_HEIGHT = 17
_MAP_BOX_HEIGHT = 14
_MAP_TOP = 20
_DIGIT_WIDTH = 8
_OVERLAP_MORE = 2
"""The extra width at either end, so that the shortest overlap is visible."""
_SUMMARY_INTERVALS_MAX = 4


def drawn_map(group: GroupStory) -> Markup:
    """The map of one group; empty if no member ever owned a partition."""
    owned = group.ownership
    if owned is None:
        return join(())
    axis = Axis(owned.from_ms, owned.to_ms)
    numbers = {member.member_id: n for n, member in enumerate(group.members, start=1)}
    first = _MAP_TOP + BAR_HEIGHT + 10
    bottom = first + _LINE_HEIGHT * len(owned.partitions)
    lines = [
        _line(story, axis, numbers, first + _LINE_HEIGHT * n, bottom + LABELS_HEIGHT + 12)
        for n, story in enumerate(owned.partitions)
    ]
    return picture(
        bottom + LABELS_HEIGHT + 18,
        axis.drawn(_MAP_TOP - 4, bottom),
        _steps(group.steps, axis, bottom),
        row_name("members' protocol", _MAP_TOP + 12),
        bar(group.protocol_mixes, axis, _MAP_TOP),
        *lines,
        says="Owners of partitions over time",
    )


def swatch(number: int) -> Markup:
    """The colour and number of a member."""
    return tag(
        "svg",
        box(0, 26, 0, 16, class_=owner_class(number)),
        centred(str(number), 13, 12, "on-owner"),
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
        row_name(place, y + 11),
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
    drawn = box(x_from, x_to, y, _MAP_BOX_HEIGHT, class_=class_, title=title)
    text = _label(interval, numbers)
    if not text or x_to - x_from < _DIGIT_WIDTH * len(text) + 4:
        return drawn
    return join((drawn, centred(text, (x_from + x_to) / 2, y + 11, f"on-{interval.kind}")))


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
        parts.append(tag("line", class_="step", x1=x, x2=x, y1=_MAP_TOP - 6, y2=bottom))
        if x >= free:
            parts.append(centred(str(step.number), x, 10, "tick"))
            free = x + _DIGIT_WIDTH * (len(str(step.number)) + 1)
    return join((row_name("step", 10), *parts) if parts else ())
