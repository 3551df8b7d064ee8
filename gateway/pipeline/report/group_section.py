"""The section of one group: its figures, its ownership map, and the cost of each migration step."""

from collections.abc import Iterator, Sequence

from gateway.pipeline.report.evidence import left_out
from gateway.pipeline.report.markup import Markup, join, shortened, tag
from gateway.pipeline.report.model import GroupStory, MemberName, MigrationStep, OwnershipMap
from gateway.pipeline.report.ownership_map import ownership_map, swatch
from gateway.pipeline.report.wording import counted, duration, number
from gateway.readable import moment

_NAME_LENGTH_MAX = 80
_MEMBERS_MAX = 64
"""Members in the legend."""
_BAR_WIDTH = 160


def group_section(group: GroupStory, place: int, *, is_open: bool) -> Markup:
    """The section, folded up unless `is_open`. Links to it go to `group-<place>`."""
    return tag(
        "details",
        tag(
            "summary",
            tag("bdi", shortened(group.group_id, _NAME_LENGTH_MAX)),
            tag("span", _figures(group), class_="count"),
        ),
        tag("div", *_inside(group), id=f"group-{place}"),
        class_="group" + (" has-findings" if group.findings else ""),
        open="" if is_open else None,
    )


def _figures(group: GroupStory) -> str:
    parts = [f"{number(group.unowned_partition_s)} p·s without owner"]
    parts += [counted(len(group.migrations) + group.migrations_left_out, "migration")]
    parts += [counted(group.rebalances, "rebalance")]
    if group.findings:
        parts.insert(0, counted(group.findings, "finding"))
    return " · ".join(parts)


def _inside(group: GroupStory) -> Iterator[Markup]:
    yield tag("p", _sentence(group), class_="note")
    if group.ownership is None:
        yield tag("p", "Nobody ever owned a partition.", class_="note")
    else:
        yield tag("p", _time_shown(group.ownership), class_="note")
        yield ownership_map(group)
        yield _members(group.members)
        yield left_out(group.ownership.partitions_left_out, "partition", "ownership")
        yield left_out(group.ownership.intervals_left_out, "interval", "ownership")
    if group.steps:
        yield _steps(group.steps)
    yield left_out(group.steps_left_out, "step", "timeline")
    yield left_out(group.shares_left_out, "change of members", "timeline")


def _sentence(group: GroupStory) -> str:
    where = f"Cluster {group.cluster_id}. " if group.cluster_id else ""
    left = ""
    if group.unowned_at_end:
        left = f" {counted(group.unowned_at_end, 'partition')} without an owner at the end."
    return (
        f"{where}{counted(group.partitions, 'partition')};"
        f" {counted(group.members_disturbed, 'member')} interrupted,"
        f" {counted(group.partitions_moved, 'partition')} moved where"
        f" {number(group.partitions_moved_least)} would have been enough.{left}"
    )


def _time_shown(told: OwnershipMap) -> str:
    length = duration(told.to_ms - told.from_ms)
    lasted = f"{moment(told.from_ms)} to {moment(told.to_ms)} ({length})"
    if told.is_all:
        return f"Who owned each partition, {lasted}:"
    return f"Who owned each partition around migrations and findings, {lasted}:"


def _members(members: Sequence[MemberName]) -> Markup:
    entries = [
        tag(
            "span",
            swatch(n),
            tag("bdi", shortened(member.instance_id or member.member_id, 40)),
            f" ({member.protocol})" if member.protocol else "",
            class_="entry",
            title=member.member_id,
        )
        for n, member in enumerate(members[:_MEMBERS_MAX], start=1)
    ]
    more = len(members) - len(entries)
    return tag(
        "p",
        *entries,
        tag("span", tag("span", class_="key gap"), "nobody", class_="entry"),
        tag("span", tag("span", class_="key overlap"), "two at once", class_="entry"),
        f" and {counted(more, 'more member')}" if more else "",
        class_="legend",
    )


def _steps(steps: Sequence[MigrationStep]) -> Markup:
    most = max(step.unowned_partition_s for step in steps) or 1.0
    migrations = {step.migration for step in steps}
    head = ["step", "from", "lasted", "classic members", "consumer members", "without owner"]
    rows = [
        tag(
            "tr",
            tag(
                "td",
                f"{step.migration}.{step.number}" if len(migrations) > 1 else str(step.number),
                class_="number",
            ),
            tag("td", moment(step.from_ms), class_="moment"),
            tag("td", duration(step.to_ms - step.from_ms), class_="number"),
            tag("td", number(step.classic_members), class_="number"),
            tag("td", number(step.consumer_members), class_="number"),
            tag("td", _bar(step.unowned_partition_s / most), " ", _unowned(step)),
        )
        for step in steps
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", *(tag("th", each) for each in head))),
            tag("tbody", *rows),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Steps",
    )


def _unowned(step: MigrationStep) -> Markup:
    return tag("span", f"{number(step.unowned_partition_s)} p·s")


def _bar(share: float) -> Markup:
    if not share:
        return join(())
    return tag("span", class_="bar unowned", style=f"width:{_BAR_WIDTH * share:.0f}px")
