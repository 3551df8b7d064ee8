"""The page: one self-contained HTML file, made from the `Report` alone.

From top to bottom: the verdict and how much it saw, who can go next, the worst groups, the
evidence. The page has no script, makes no requests, and is identical for the same report.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import htpy as h
from htpy import Element, Node
from markupsafe import Markup
from pydantic import TypeAdapter

from gateway.client_versions import speaks_consumer
from gateway.pipeline.fold.rows import GroupRow, OwnershipRow, RunRow, StepRow
from gateway.pipeline.report.plots import Axis, bar, owner_class, ownership_map
from gateway.pipeline.report.summary import GroupRemark, Sample, Summary
from gateway.pipeline.report.verdict import EvidenceList, SafetyVerdict
from gateway.readable import (
    count_of,
    format_duration,
    format_timestamp,
    number,
    partition_seconds,
    visible,
)

INTERVALS_MAX = 1_500
"""Intervals of one group that are drawn."""
STEPS_MAX = 200
"""Steps of one group that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStory:
    """One group with its owners over time and the steps of its rolls."""

    group: GroupRow
    ownership: tuple[OwnershipRow, ...] = ()
    ownership_left_out: int = 0
    steps: tuple[StepRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report."""

    verdict: SafetyVerdict
    summary: Summary
    run: RunRow
    groups: tuple[GroupStory, ...] = ()
    """Worst first."""


REPORTS: TypeAdapter[Report] = TypeAdapter(Report)
"""Reports in JSON."""


def story(
    group: GroupRow, ownership: Iterable[OwnershipRow], steps: Iterable[StepRow]
) -> GroupStory:
    """The story of a group, within the limits of a page."""
    owners = sorted(ownership, key=lambda row: (row.topic, row.partition, row.from_ms or 0))
    return GroupStory(
        group=group,
        ownership=tuple(owners[:INTERVALS_MAX]),
        ownership_left_out=max(0, len(owners) - INTERVALS_MAX),
        steps=tuple(sorted(steps, key=lambda row: (row.migration, row.number))[:STEPS_MAX]),
    )


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Tells the browser to run and fetch nothing."""
_LEVELS = {"SAFE": ("good", "✓"), "NOT PROVEN": ("warning", "?"), "NOT SAFE": ("bad", "✗")}
_OPEN_GROUPS_MAX = 3
_INPUTS_MAX = 8
_MEMBERS_MAX = 64
_VERSIONS_MAX = 40


def page(report: Report) -> str:
    """The contents of the file."""
    head = h.head[
        h.meta(charset="utf-8"),
        h.meta({"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        h.meta(name="viewport", content="width=device-width, initial-scale=1"),
        h.meta({"name": "color-scheme", "content": "light dark"}),
        h.title["groupferry: was it safe?"],
        h.style[_style()],
    ]
    body = h.body[h.main[list(_sections(report))]]
    return f"{h.html(lang='en')[head, body]}\n"


def _sections(report: Report) -> Iterator[Node]:
    summary = report.summary
    yield _verdict(report)
    yield h.p(".note")[_provenance(report)]
    if summary.groups:
        yield from _next(summary)
        yield _figures(summary)
        yield from _groups(report)
    yield h.h2["Evidence"]
    yield h.p(".note")[
        "All times are UTC. The tables ",
        h.code["findings"],
        " and ",
        h.code["unread"],
        " have all rows.",
    ]
    yield from map(_evidence, report.verdict.evidence)
    yield _glossary()


def _verdict(report: Report) -> Element:
    verdict = report.verdict
    level, mark = _LEVELS[verdict.word]
    return h.section(class_=f"verdict {level}", aria_label="Verdict")[
        h.h1(".headline")[
            h.span(".mark", aria_hidden="true")[mark], h.bdi[visible(verdict.headline, 1_000)]
        ],
        h.p[visible(verdict.coverage, 1_000)],
    ]


def _provenance(report: Report) -> str:
    run = report.run
    inputs = ", ".join(visible(name, 120) for name in run.inputs[:_INPUTS_MAX])
    more = len(run.inputs) - _INPUTS_MAX
    rest = f" and {number(more)} more" if more > 0 else ""
    span = ""
    if run.from_ms is not None and run.to_ms is not None:
        span = f" {format_timestamp(run.from_ms)} to {format_timestamp(run.to_ms)}."
    took = format_duration(run.took_s * 1_000)
    source = f"From {inputs}{rest}: {count_of(run.lines, 'line')}.{span}"
    return f"{source} Made in {took} by groupferry {run.version}."


def _next(summary: Summary) -> Iterator[Node]:
    yield h.h2["Who can go next"]
    yield from _names("can convert now", summary.ready)
    yield from _names("cannot convert yet", summary.blocked)
    if not summary.ready.count and not summary.blocked.count:
        yield h.p(".note")["No line states whether a classic group can convert."]
    versions = sorted(summary.members.items(), key=lambda item: (-item[1], item[0]))
    if versions:
        yield _table(
            ("client", "members", ""),
            [
                (
                    h.bdi[visible(name.strip() or "(unnamed client)", 60)],
                    number(members),
                    _readiness(name, members, summary.consumer_members[name], versions[0][1]),
                )
                for name, members in versions[:_VERSIONS_MAX]
            ],
            "Client versions",
        )
        yield _left_out(len(versions) - _VERSIONS_MAX, "version", "clients")


def _names(what: str, groups: Sample[GroupRemark]) -> Iterator[Node]:
    if not groups.count:
        return
    yield h.p[h.strong[f"{count_of(groups.count, 'group')} {what}:"]]
    yield h.ul[
        (
            h.li[h.bdi[visible(group_id, 80)], f": {visible(reason, 200)}" if reason else ""]
            for group_id, reason in groups.rows
        )
    ]
    yield _left_out(groups.count - len(groups.rows), "group", "groups")


_READINESS = {
    True: ("ready", "can switch"),
    False: ("too-old", "version too old"),
    None: ("unknown", "unknown version"),
}
"""The class of a version's bar, and its meaning, by whether the version has the new protocol."""


def _readiness(name: str, members: int, on_consumer: int, members_max: int) -> Node:
    library, _, version = name.rpartition(" ")
    class_, meaning = _READINESS[speaks_consumer(library, version)]
    parts = (
        (on_consumer, "consumer", "on the consumer protocol"),
        (members - on_consumer, class_, "others"),
    )
    if on_consumer == members:
        meaning = "on the consumer protocol already"
    return [bar(parts, members_max), f" {meaning}"]


def _figures(summary: Summary) -> Element:
    sums = summary.sums
    figures = (
        (f"{sums['safe']:,}", f"of {count_of(summary.groups, 'group')} {_SAFE[summary.is_whole]}"),
        (number(sums["consumer"]), "groups on the consumer protocol"),
        (number(sums["mixed"]), "groups with members of both protocols"),
        (number(sums["unowned_ms"] / 1_000), "partition-seconds without an owner in rebalances"),
        (number(sums["rebalances"]), "rebalances"),
        (number(sums["members_disturbed"]), "members interrupted"),
        (
            number(sums["partitions_moved"]),
            f"partitions moved; {number(sums['least_possible'])} would have been enough",
        ),
        (number(sums["steps"]), "consumers that changed their protocol"),
    )
    return h.dl(".figures")[(h.div[h.dt[meaning], h.dd[figure]] for figure, meaning in figures)]


def _groups(report: Report) -> Iterator[Node]:
    yield h.h2["The groups, worst first"]
    for place, story in enumerate(report.groups, 1):
        group = story.group
        yield h.details(
            class_="group has-findings" if group.verdict == "not safe" else "group",
            open=place <= _OPEN_GROUPS_MAX,
        )[
            h.summary[
                h.bdi[visible(group.group_id, 80)],
                h.span(".count")[_group_figures(group, report.summary)],
            ],
            h.div(id=f"group-{place}")[list(_inside(story))],
        ]
    yield _left_out(report.summary.groups - len(report.groups), "group", "groups")


_SAFE = {True: "safe", False: "without a fault in its own lines"}
"""A group without findings, by whether all lines of the gateways are there."""


def _group_figures(group: GroupRow, summary: Summary) -> str:
    verdict = (_SAFE[summary.is_whole] if group.verdict == "safe" else group.verdict).upper()
    reason = f" ({group.reason.replace('_', ' ')})" if group.reason else ""
    return (
        f"{verdict}{reason} · {group.compared:,} of {count_of(group.handovers, 'hand-over')}"
        f" compared · {count_of(group.first_grants, 'first grant')}"
    )


def _inside(story: GroupStory) -> Iterator[Node]:
    group = story.group
    where = f"Cluster {visible(group.cluster_id, 60)}. " if group.cluster_id else ""
    kind = group.kind or "kind not known"
    unowned = partition_seconds(group.unowned_ms / 1_000)
    yield h.p(".note")[
        f"{where}{kind}; {count_of(group.members, 'member')} at the end;"
        f" {count_of(group.rebalances, 'rebalance')}, {unowned} without an owner;"
        f" {count_of(group.partitions_moved, 'partition')} moved,"
        f" {number(group.least_possible)} would have been enough."
    ]
    if story.ownership:
        members: dict[str, int] = {}
        for row in sorted(story.ownership, key=lambda row: row.from_ms or 0):
            if row.member_id is not None:
                members.setdefault(row.member_id, len(members) + 1)
        axis = Axis(group.from_ms, max(group.to_ms, group.from_ms + 1))
        yield ownership_map(story.ownership, members, axis)
        yield h.p(".legend")[
            [
                h.span(".entry", title=visible(member_id, 256))[
                    h.span(class_=f"key {owner_class(n)}")[str(n)], h.bdi[visible(member_id, 40)]
                ]
                for member_id, n in list(members.items())[:_MEMBERS_MAX]
            ],
            h.span(".entry")[h.span(".key.gap"), "no member"],
        ]
        yield _left_out(story.ownership_left_out, "interval", "ownership")
    if story.steps:
        yield _steps(story.steps)


def _steps(steps: Sequence[StepRow]) -> Element:
    unowned_ms_max = max(step.unowned_ms for step in steps) or 1
    head = (
        "step",
        "who",
        "to",
        "from",
        "lasted",
        "moved",
        "enough",
        "interrupted",
        "without owner",
    )
    return _table(
        head,
        [
            (
                f"{step.migration}.{step.number}",
                h.bdi[visible(step.instance_id or step.client_id, 40)],
                step.to_protocol,
                format_timestamp(step.from_ms),
                format_duration(max(step.to_ms - step.from_ms, 0)),
                number(step.partitions_moved),
                number(step.least_possible),
                number(step.members_disturbed),
                [
                    bar([(step.unowned_ms, "unowned", "ms")], unowned_ms_max),
                    f" {number(step.unowned_ms / 1_000)} p·s",
                ],
            )
            for step in steps
        ],
        "Steps",
    )


def _evidence(evidence: EvidenceList) -> Element:
    return h.details(open=True)[
        h.summary[evidence.title],
        h.ul[(h.li[h.bdi[visible(line, 600)]] for line in evidence.lines)],
        _left_out(evidence.left_out, "row", evidence.table),
    ]


def _table(head: Iterable[str], rows: Iterable[Iterable[Node]], label: str) -> Element:
    return h.div(".scroll", tabindex="0", role="region", aria_label=label)[
        h.table[
            h.thead[h.tr[(h.th[name] for name in head)]],
            h.tbody[(h.tr[(h.td[cell] for cell in row)] for row in rows)],
        ]
    ]


def _left_out(count: int, what: str, table: str) -> Node:
    if count <= 0:
        return None
    return h.p(".note")[f"{count_of(count, what)} more: as Parquet in tables/", h.code[table], "."]


def _glossary() -> Element:
    terms = (
        ("hand-over", "A partition passed from one member to another."),
        (
            "compared",
            "The order of both owners is known, and where the new one began was compared with what"
            " had been stored.",
        ),
        ("first grant", "A partition got its first owner that any line names."),
        (
            "partition-second",
            "One partition without an owner for one second: its new records had to wait. Also"
            " written p·s.",
        ),
        ("interrupted", "A member that had to rejoin, or whose partitions changed."),
        ("would have been enough", "The fewest partitions that had to change hands."),
    )
    return h.section(".words")[
        h.h2["Words"], h.dl[([h.dt[term], h.dd[text]] for term, text in terms)]
    ]


@cache
def _style() -> Markup:
    return Markup(files(__package__).joinpath("style.css").read_text())  # noqa: S704  (our own)
