"""The protocol of each group over time: one bar per group, which fills as its members switch."""

from collections.abc import Iterator, Sequence

from gateway.pipeline.report.axis import LABELS_HEIGHT, Axis
from gateway.pipeline.report.markup import Markup, join, tag
from gateway.pipeline.report.model import GroupStory, Migration, Share
from gateway.pipeline.report.picture import LEFT, RIGHT, WIDTH, box, name, picture, titled, words
from gateway.pipeline.report.wording import counted, duration, number
from gateway.readable import moment

BAR_HEIGHT = 16
_ROW_HEIGHT = 30
_TOP = 22


def protocol_timeline(groups: Sequence[GroupStory], axis: Axis) -> Markup:
    """Several groups below each other, each with a link to its section."""
    bottom = _TOP + _ROW_HEIGHT * len(groups)
    rows = [
        _row(group, place, axis, _TOP + _ROW_HEIGHT * (place - 1))
        for place, group in enumerate(groups, start=1)
    ]
    return picture(
        bottom + LABELS_HEIGHT,
        words("without owner", WIDTH, 12, class_="tick", text_anchor="end"),
        axis.drawn(_TOP - 4, bottom),
        *rows,
        says=f"Protocol of {counted(len(groups), 'group')} over time",
    )


def bar(shares: Sequence[Share], axis: Axis, y: float) -> Markup:
    """The bar of one group; its lower part is the share of members on the consumer protocol."""
    return join(
        part for share in shares if not _is_outside(share, axis) for part in _share(share, axis, y)
    )


def _row(group: GroupStory, place: int, axis: Axis, y: float) -> Markup:
    unowned = f"{number(group.unowned_partition_s)} p·s"
    return tag(
        "a",
        titled(
            f"{group.group_id}: {counted(group.findings, 'finding')},"
            f" {unowned} without owner, {counted(group.rebalances, 'rebalance')}"
        ),
        box(0, WIDTH, y, _ROW_HEIGHT, class_="target"),
        name(group.group_id, y + 17),
        bar(group.shares, axis, y + 6),
        *(_span(migration, axis, y + 6 + BAR_HEIGHT) for migration in group.migrations),
        *(_mark(at_ms, axis, y + 6) for at_ms in group.finding_times_ms),
        words(unowned, WIDTH, y + 18, class_="figure", text_anchor="end"),
        href=f"#group-{place}",
    )


def _share(share: Share, axis: Axis, y: float) -> Iterator[Markup]:
    x_from, x_to = axis.x(share.from_ms), axis.x(share.to_ms)
    members = share.classic_members + share.consumer_members
    title = (
        f"{share.classic_members} classic, {share.consumer_members} consumer members"
        f" for {duration(share.to_ms - share.from_ms)} from {moment(share.from_ms)}"
    )
    if not members:
        yield box(
            x_from, x_to, y + BAR_HEIGHT / 2 - 1, 2, class_="empty", title=f"no members: {title}"
        )
        return
    filled = BAR_HEIGHT * share.consumer_members / members
    if share.classic_members:
        yield box(x_from, x_to, y, BAR_HEIGHT - filled, class_="classic", title=title)
    if share.consumer_members:
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


def _is_outside(share: Share, axis: Axis) -> bool:
    return share.to_ms < axis.from_ms or share.from_ms > axis.to_ms


def axis_of(from_ms: int, to_ms: int) -> Axis:
    """An axis as wide as the plots."""
    return Axis(from_ms=from_ms, to_ms=to_ms, left=LEFT, width=RIGHT - LEFT)
