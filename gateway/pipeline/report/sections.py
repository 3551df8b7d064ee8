"""The sections of the page: each group with its figures, map and steps, and the evidence behind the
verdict, which is rows of the tables, unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from gateway.pipeline.report.figures import FINDINGS
from gateway.pipeline.report.markup import Markup, join, shortened, tag
from gateway.pipeline.report.model import (
    Cell,
    CommitProgress,
    Evidence,
    GroupStory,
    MemberName,
    MigrationStep,
    OwnershipMap,
)
from gateway.pipeline.report.plots import drawn_map, swatch
from gateway.pipeline.report.wording import beginning, counted, duration, number
from gateway.readable import moment

RebalanceRows: TypeAlias = Mapping[tuple[Cell, Cell, Cell], str]
"""Ids of rows on the page, by cluster, group and beginning."""

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "overlaps": "Partitions owned twice",
        "unsure": "Partitions perhaps owned twice",
        "non_monotonic": "Committed offsets that went back",
        "lost_commits": "Commits that were lost",
        "unsure_commits": "Committed offsets that perhaps went back",
        "unsure_starts": "Commits that were perhaps lost",
        "skips": "Starts that may have skipped records",
        "differences": "Members that claimed partitions not granted to them",
        "missing_events": "Missing events",
        "contradictions": "Events with two versions",
        "moves_back": "Seeks and resets",
        "migrations": "Migrations",
        "worse_steps": "Steps after which a group fell behind",
        "rebalances": "Rebalances",
        "readiness": "Readiness",
        "rejected_lines": "Lines that could not be read",
    }
)
"""Titles by key, in the order of the page."""

_ABOUT_SAFETY = (*FINDINGS, "skips")
_MOMENTS = ("at_ms", "from_ms", "to_ms", "seen_ms", "stored_ms")
"""Columns that end like this are times; others in milliseconds are durations."""
_BEGINNING = "from_ms"
"""A null here means that the fact was true before the first event."""
_TEXT_LENGTH_MAX = 200
_UNBROKEN_LENGTH_MAX = 44
"""Longer text is wrapped."""


def evidence_section(key: str, evidence: Evidence) -> Markup:
    """One table, folded up unless it is about safety and has rows."""
    return tag(
        "details",
        tag(
            "summary", TITLES[key], " ", tag("span", f"({number(evidence.count)})", class_="count")
        ),
        _table(key, evidence) if evidence.rows else note("None."),
        left_out(evidence.left_out, "row", evidence.table),
        id=f"evidence-{key}",
        open="" if evidence.rows and key in _ABOUT_SAFETY else None,
    )


def left_out(count: int, what: str, folder: str) -> Markup:
    """How many rows a limit has kept off the page; empty if none."""
    if not count:
        return join(())
    return note(f"{counted(count, what)} more: as Parquet in the folder ", tag("code", folder), ".")


def note(*parts: str) -> Markup:
    """A paragraph of small print."""
    return tag("p", *parts, class_="note")


def rebalance_rows(evidence: Mapping[str, Evidence]) -> RebalanceRows:
    """The ids of the rows about rebalances on the page."""
    shown = evidence["rebalances"].rows if "rebalances" in evidence else ()
    return {
        (row.get("cluster_id"), row.get("group_id"), row.get("from_ms")): f"rebalances-{place}"
        for place, row in enumerate(shown, start=1)
    }


def _table(key: str, evidence: Evidence) -> Markup:
    """A scrollable table, without columns that are empty in every row. Its rows have ids."""
    columns = [
        column
        for column in evidence.columns
        if any(row.get(column.name) not in (None, "") for row in evidence.rows)
        or column.name == _BEGINNING
    ]
    head = (tag("th", _heading(each.name), title=each.meaning) for each in columns)
    rows = (
        tag("tr", *(_cell(each.name, row.get(each.name)) for each in columns), id=f"{key}-{place}")
        for place, row in enumerate(evidence.rows, start=1)
    )
    return _scrolled(evidence.table, head, rows)


def _heading(column: str) -> str:
    """The column's name without the unit, which the cells show."""
    name, _, unit = column.rpartition("_")
    words = name if unit == "ms" else column
    return words.replace("_", " ")


def _cell(column: str, value: Cell) -> Markup:
    if value is None and column == _BEGINNING:
        return tag("td", beginning(None), class_="moment")
    if value is None or value == "":
        return tag("td")
    if isinstance(value, bool):
        return tag("td", "yes" if value else "no")
    if isinstance(value, str):
        text = shortened(value, _TEXT_LENGTH_MAX)
        class_ = "short" if len(text) <= _UNBROKEN_LENGTH_MAX else "long"
        return tag("td", tag("bdi", text), class_=class_, title=value if text != value else None)
    if column.endswith(_MOMENTS):
        return tag("td", moment(int(value)), class_="moment")
    if column.endswith("_ms"):
        return tag("td", duration(value), class_="number")
    return tag("td", number(value), class_="number")


_NAME_LENGTH_MAX = 80
_CLIENT_LENGTH_MAX = 40
_MEMBERS_MAX = 64
"""Members in the legend."""
_BAR_WIDTH = 160


def group_section(
    group: GroupStory, place: int, rebalances: RebalanceRows, *, is_open: bool
) -> Markup:
    """The section, folded up unless `is_open`. Links to it go to `group-<place>`."""
    classes = {
        "group": True,
        "has-findings": group.findings > 0,
        "has-migrations": bool(group.migrations),
    }
    return tag(
        "details",
        tag(
            "summary",
            tag("bdi", shortened(group.group_id, _NAME_LENGTH_MAX)),
            tag("span", _figures(group), class_="count"),
        ),
        tag("div", *_inside(group, rebalances), id=f"group-{place}"),
        class_=" ".join(name for name, is_so in classes.items() if is_so),
        open="" if is_open else None,
    )


def _figures(group: GroupStory) -> str:
    parts = [f"{number(group.unowned_partition_s)} p·s without owner"]
    parts += [counted(len(group.migrations) + group.migrations_left_out, "migration")]
    parts += [counted(group.rebalances, "rebalance")]
    if group.findings:
        parts.insert(0, counted(group.findings, "finding"))
    return " · ".join(parts)


def _inside(group: GroupStory, rebalances: RebalanceRows) -> Iterator[Markup]:
    yield note(_sentence(group))
    if group.ownership is None:
        yield note("Nobody ever owned a partition.")
    else:
        yield note(_time_shown(group.ownership))
        yield drawn_map(group)
        yield _members(group.members)
        yield left_out(group.ownership.partitions_left_out, "partition", "ownership")
        yield left_out(group.ownership.intervals_left_out, "interval", "ownership")
    if group.steps:
        yield _steps(group, rebalances)
    yield left_out(group.steps_left_out, "step", "timeline")
    yield left_out(group.protocol_mixes_left_out, "change of members", "timeline")
    if group.commits:
        yield _commits(group)
    if group.commits_compared_max is None:
        yield left_out(group.commits_left_out, "partition", "offsets")
    else:
        first = counted(group.commits_compared_max, "partition")
        yield note(
            f"Only the first {first} by name are compared. All commits: as Parquet in the folder ",
            tag("code", "offsets"),
            ".",
        )


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


def _time_shown(drawn: OwnershipMap) -> str:
    where = "" if drawn.is_all else " around migrations and findings"
    when = f"{moment(drawn.from_ms)} to {moment(drawn.to_ms)}"
    return f"Who owned each partition{where}, {when} ({duration(drawn.to_ms - drawn.from_ms)}):"


def _members(members: Sequence[MemberName]) -> Markup:
    entries = [
        tag(
            "span",
            swatch(n),
            tag("bdi", shortened(member.instance_id or member.member_id, _CLIENT_LENGTH_MAX)),
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


def _steps(group: GroupStory, rebalance_rows: RebalanceRows) -> Markup:
    steps = group.steps
    most = max(step.unowned_partition_s for step in steps) or 1.0
    migrations = {step.migration for step in steps}
    head = ["step", "who", "from", "lasted", "classic members", "consumer members"]
    head += ["rebalances", "without owner"]
    rows = [
        tag(
            "tr",
            tag(
                "td",
                f"{step.migration}.{step.number}" if len(migrations) > 1 else str(step.number),
                class_="number",
            ),
            tag("td", tag("bdi", _who(step))),
            tag("td", moment(step.from_ms), class_="moment"),
            tag("td", duration(step.to_ms - step.from_ms), class_="number"),
            tag("td", number(step.classic_members), class_="number"),
            tag("td", number(step.consumer_members), class_="number"),
            tag("td", *_rebalances(group, step, rebalance_rows)),
            tag(
                "td",
                _bar(step.unowned_partition_s / most),
                " ",
                tag("span", f"{number(step.unowned_partition_s)} p·s"),
            ),
        )
        for step in steps
    ]
    return _scrolled("Steps", (tag("th", each) for each in head), rows)


def _commits(group: GroupStory) -> Markup:
    """How far the group is in each partition; one that stands still comes first."""
    head = ["partition", "committed offset", "records per second", "latest commit"]
    rows = [
        tag(
            "tr",
            tag("td", tag("bdi", f"{each.topic}-{each.partition}")),
            tag("td", number(each.last), class_="number"),
            tag("td", _rate(each), class_="number"),
            tag("td", moment(each.to_ms), class_="moment"),
        )
        for each in group.commits
    ]
    return _scrolled("Commits", (tag("th", each) for each in head), rows)


def _rate(commits: CommitProgress) -> str:
    """What was consumed between the first and the latest commit; empty if that is unknown."""
    if commits.to_ms <= commits.from_ms or commits.last < commits.first:
        return ""
    return number((commits.last - commits.first) * 1000 / (commits.to_ms - commits.from_ms))


def _scrolled(label: str, head: Iterable[Markup], rows: Iterable[Markup]) -> Markup:
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=label,
    )


def _who(step: MigrationStep) -> str:
    """The clients that left and arrived; one name if they are the same."""
    left, arrived = (
        ", ".join(shortened(name, _CLIENT_LENGTH_MAX) for name in names)
        for names in (step.left, step.arrived)
    )
    return arrived if left in ("", arrived) else f"{left} → {arrived}"


def _rebalances(group: GroupStory, step: MigrationStep, rows: RebalanceRows) -> Iterator[str]:
    """Their number, with links to those that are among the evidence."""
    yield number(step.rebalances)
    for at_ms in step.rebalances_ms:
        if (row := rows.get((group.cluster_id, group.group_id, at_ms))) is not None:
            yield join((" ", tag("a", "↓", href=f"#{row}", title=moment(at_ms))))


def _bar(share: float) -> Markup:
    if not share:
        return join(())
    return tag("span", class_="bar unowned", style=f"width:{_BAR_WIDTH * share:.0f}px")
