"""Folds lines into tables: the groups of one name, the runs of one gateway, or all lines.

`LogFold` and `RunsFold` take lines as they come, and tell at any time what would be so if none
followed. Lines that come too late for that need all others of their group or gateway again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeAlias

from gateway.events.catalog import EVENTS
from gateway.pipeline.fold.figures import FiguresFold
from gateway.pipeline.fold.findings import Findings, SeveralLogs
from gateway.pipeline.fold.lines import (
    UNREAD_ROWS,
    Line,
    parse,
    read_envelope,
    unread_line,
)
from gateway.pipeline.fold.offsets import OffsetFold
from gateway.pipeline.fold.order import (
    NO_HOSTINGS,
    REPORT_DELAY_MS_MAX,
    EventFold,
    Hosting,
    Hostings,
    Key,
    LogHostings,
    OutOfOrderError,
    Source,
    in_memory,
    key_of,
)
from gateway.pipeline.fold.ownership import OwnershipFold
from gateway.pipeline.fold.rows import GroupRow, GroupVerdict, Tables
from gateway.pipeline.fold.sequences import (
    GroupSequences,
    RunKey,
    RunsFold,
    Succession,
    checksum_of,
    number_of,
)


class GroupFold:
    """The fold of one group in one cluster."""

    def __init__(self, cluster_id: str, group_id: str, hostings: Hostings = NO_HOSTINGS) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._tables = Tables()
        findings = self._findings = Findings(cluster_id, group_id, hostings)
        others = None if hostings is NO_HOSTINGS else SeveralLogs(hostings, findings)
        self.sequences = GroupSequences(cluster_id, group_id)
        self._figures = FiguresFold(cluster_id, group_id, self._tables)
        self._ownership = OwnershipFold(self._of, self._tables, findings, hostings, others)
        self._parts = self._ownership, OffsetFold(self._ownership, findings), self._figures
        self._hosting: Hosting | None = None
        self._latest: dict[str, Hosting] = {}
        """The hosting of the latest line of each log."""
        self._hostings_before: set[tuple[str, int, int | None]] = set()
        """The log, the run and the number of each."""
        self._first_ms: int | None = None
        self._last_ms = self._lines = 0

    def take(self, line: Line, source: Source) -> None:
        """Take the next line."""
        if self._first_ms is None:
            self._first_ms = source.at_ms
        self._last_ms = source.at_ms
        if line.unread is not None:
            self._tables.unread.append(line.unread)
        succession = self.sequences.take(line, source.number)
        if succession == "repeated":
            return
        if succession == "contradicts":
            self._ownership.doubt_grants(line.gateway_id)
            self._ownership.doubt_offsets()
            return
        self._lines += 1
        if source.hosting is not self._hosting:
            self._begin_hosting(source.hosting, line)
        if succession != "next" or line.version == 1 or line.fields is None:
            self._doubt(line, succession)
        if line.fields is not None:
            for n, handler in _HANDLERS[line.event]:
                handler(self._parts[n], source, line.fields)
            self._ownership.has_lines = True

    def _doubt(self, line: Line, succession: Succession) -> None:
        """Doubt what lines that are missing before this one may have changed."""
        gateway_id, ownership = line.gateway_id, self._ownership
        if line.version == 1:
            self._findings.has_version_1 = True
        # Grants that have not ended show that the end of the group's earlier sequence is missing.
        if succession == "begins again" and ownership.has_grants(gateway_id):
            self.sequences.add("missing", _END_MISSING, gateway_id, line.at_ms)
            ownership.forget_sequence(gateway_id)
        if succession == "behind a hole" or line.fields is None:
            ownership.doubt_offsets()
            if line.event != "group_loaded":
                ownership.doubt_grants(gateway_id)

    def _begin_hosting(self, hosting: Hosting, line: Line) -> None:
        """Compare the run with the one before in the same log."""
        self._hosting = hosting
        before = self._latest.get(hosting.gateway_id)
        self._latest[hosting.gateway_id] = hosting
        key = hosting.gateway_id, hosting.run, hosting.number
        if before is not None and before.run != hosting.run:
            # The processes of a fleet pass groups back and forth, each time for another hosting.
            has_ended = hosting.number is not None and key in self._hostings_before
            if has_ended or line.at_ms < before.last_ms:
                self.sequences.add("conflict", _SHARED, line.gateway_id, line.at_ms)
            self._ownership.begin_run(hosting.gateway_id)
        self._hostings_before.add(key)

    def finish(self) -> Tables:
        """All rows, as if nothing followed."""
        tables = self._tables
        self._ownership.finish()
        tables.findings += self._findings.rows()
        self.sequences.finish(self._last_ms)
        if self._findings.has_version_1:
            self.sequences.add("version 1", _OLD, None, self._first_ms or 0)
        tables.unread += self.sequences.rows
        self._figures.finish(self._last_ms)
        tables.groups.append(self._group_row())
        return tables

    def _group_row(self) -> GroupRow:
        verdict, reason = self._verdict()
        ownership, findings = self._ownership, self._findings
        return GroupRow(
            **self._of,
            verdict=verdict,
            reason=reason,
            faults=dict(findings.faults),
            doubts=dict(findings.doubts),
            unread=len(self._tables.unread),
            lines=self._lines,
            first_grants=ownership.first_grants,
            handovers=ownership.handovers,
            compared=ownership.compared,
            not_compared=dict(ownership.not_compared),
            is_forwarded=ownership.is_forwarded,
            **self._figures.columns(),
            from_ms=self._first_ms or 0,
            to_ms=self._last_ms,
        )

    def _verdict(self) -> tuple[GroupVerdict, str]:
        """The verdict on this group, and what it is based on."""
        ownership, findings = self._ownership, self._findings
        if findings.faults:
            return "not safe", ", ".join(sorted(findings.faults))
        if findings.doubts:
            return "not proven", ", ".join(sorted(findings.doubts))
        if self._tables.unread:
            return "not proven", "lines are missing or could not be read"
        if ownership.compared:
            return "safe", ""
        if ownership.handovers:
            return "not proven", f"not compared: {', '.join(sorted(ownership.not_compared))}"
        return "not proven", "no partition passed from one member to another"


_END_MISSING = "the end of the group's earlier sequence is missing"
_SHARED = "two processes with one state log have the group, or their clocks differ"
_OLD = "lines of version 1 do not state what ended a grant"
_NO_CLUSTER = "no line states the cluster, and several have a group with this name"
_PARTS: tuple[type[EventFold], ...] = OwnershipFold, OffsetFold, FiguresFold
_HANDLERS = {
    event: [(n, part.handlers[event]) for n, part in enumerate(_PARTS) if event in part.handlers]
    for event in EVENTS
}
"""The parts of a fold that take an event, and how, by event."""


class SourceLine(NamedTuple):
    """A line with its place in the input."""

    file: str
    place: str
    text: str


KINDS = FILE, GROUP, GATEWAY = range(3)
Item: TypeAlias = Any
"""What a line says about one thing: a group's line between its time and its place and checksum, a
`Number` of a process, or the row of another line of a file, which cannot be read, as JSON."""


class ItemKey(NamedTuple):
    """What an item is about."""

    kind: int
    name: str
    """The group, the gateway or the file."""
    run: int = 0
    process_id: str = ""


def read_items(lines: Iterable[tuple[str, str, str]]) -> Iterator[tuple[ItemKey, Item]]:
    """What these lines say: file, place and text of each. Items of a key are sortable. Lines of a
    group's own sequence only name their run, which is described once. The fields of a group's line
    are read with the group."""
    marked: set[ItemKey] = set()
    for file, place, text in lines:
        if not text or text.isspace():
            continue
        line, problem = read_envelope(text)
        fields = None
        if line is not None and line.group_id is not None:
            yield _group_key(line.group_id), (line.at_ms, text, file, place, line.content)
        elif line is not None:
            whole, problem = parse(text, line.content)
            fields = whole.fields if whole is not None else None
        if problem is not None:
            unread = unread_line(file, place, text, line, problem)
            yield ItemKey(FILE, file), (0, UNREAD_ROWS.dump_json(unread).decode())
        if line is None:
            continue
        key = _run_key(line.gateway_id, line.run or 0, line.process_id or "")
        if line.process_id is None:
            if key in marked:
                continue
            marked.add(key)
        yield key, number_of(line, fields)


@lru_cache(1 << 16)
def _group_key(group_id: str) -> ItemKey:
    return ItemKey(GROUP, group_id)


@lru_cache(1 << 10)
def _run_key(gateway_id: str, run: int, process_id: str) -> ItemKey:
    return ItemKey(GATEWAY, gateway_id, run, process_id)


def unread_rows(items: Iterable[Item]) -> Tables:
    """The rows of lines that cannot be read."""
    return Tables(unread=[UNREAD_ROWS.validate_json(text) for _order, text in items])


def share_of(name: str, count: int) -> int:
    """The share, of this many, that has the lines about this name."""
    return checksum_of(name) % count


class GroupLines(Iterable[Line]):
    """The lines of a group. They may be read again."""

    def __init__(self, items: Iterable[Item]) -> None:
        """`items`: in their order."""
        self._items = items

    def __iter__(self) -> Iterator[Line]:
        for _at_ms, text, file, place, content in self._items:
            line, problem = parse(text, content)
            assert line is not None
            line.unread = unread_line(file, place, text, line, problem) if problem else None
            yield line


def fold_lines(lines: Iterable[SourceLine]) -> Iterator[Tables]:
    """All rows of these lines. Keeps the text of all events in memory."""
    items: dict[ItemKey, list[Item]] = {}
    for key, item in read_items(lines):
        items.setdefault(key, []).append(item)
    for (kind, name), keys in groupby(sorted(items), key=attrgetter("kind", "name")):
        yield from fold_subject(kind, name, ((key, sorted(items.pop(key))) for key in keys))


def fold_subject(
    kind: int, name: str, items: Iterable[tuple[ItemKey, Iterable[Item]]]
) -> Iterator[Tables]:
    """The rows about what has this name. The items of each key are in their order."""
    if kind == GATEWAY:
        runs = RunsFold(name)
        for key, numbers in items:
            runs.take(RunKey(*key[1:]), list(numbers))
        yield Tables(unread=list(runs.finish()))
        return
    for _key, group_items in items:
        if kind == GROUP:
            yield from fold_name(name, GroupLines(group_items))
        else:
            yield unread_rows(group_items)


def fold_name(group_id: str, group_lines: Iterable[Line]) -> Iterator[Tables]:
    """The rows of the groups with this id. The lines are in the order of their times. If that is
    not enough, they are read again and all kept."""
    fold = LogFold(group_id)
    with suppress(OutOfOrderError):
        fold.take(group_lines)
        yield from fold.finish()
        return
    yield from fold_in_memory(group_id, group_lines)


def fold_in_memory(group_id: str, group_lines: Iterable[Line]) -> Iterator[Tables]:
    """The rows of the groups with this id, each in its own cluster. The lines are in any order."""
    lines = list(group_lines)
    clusters = clusters_of(lines)
    in_clusters: dict[str, list[Line]] = {}
    for line in lines:
        cluster_id = line.cluster_id or clusters[line.gateway_id]
        in_clusters.setdefault(cluster_id, []).append(line)
    del lines
    for cluster_id in sorted(in_clusters):
        cluster_lines = in_clusters.pop(cluster_id)
        placed, hostings = in_memory(cluster_lines)
        has_others = len({line.gateway_id for line in cluster_lines}) > 1
        group = GroupFold(cluster_id, group_id, hostings if has_others else NO_HOSTINGS)
        if not cluster_id and any(clusters.values()):
            first = cluster_lines[0]
            group.sequences.add("no cluster", _NO_CLUSTER, first.gateway_id, first.at_ms)
        for line, source in placed:
            group.take(line, source)
        yield group.finish()


BUFFERED_MS = REPORT_DELAY_MS_MAX + 10_000
WAITING_MIN, WAITING_MAX = 16, 1 << 16
"""How many lines that wait for earlier ones are placed together, and how many are too many."""


class LogFold:
    """The fold of a group whose lines are all in one log, and come in the order of their times."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._log = LogHostings()
        self._fold: GroupFold | None = None
        self._source: tuple[str, str | None] | None = None
        """The gateway and the cluster of all lines."""
        self._waiting: list[tuple[Key, Line]] = []
        self._until_ms = 0

    def take(self, lines: Iterable[Line]) -> None:
        """Take the next lines. Raises OutOfOrderError."""
        for line in lines:
            if self._source != (line.gateway_id, line.cluster_id):
                if self._source is not None:
                    raise OutOfOrderError
                self._source = line.gateway_id, line.cluster_id
            self._waiting.append((key_of(line), line))
            if len(self._waiting) < WAITING_MIN:
                continue
            is_long = len(self._waiting) > WAITING_MAX
            if is_long or line.at_ms > self._until_ms + 2 * BUFFERED_MS:
                self._until_ms = line.at_ms - BUFFERED_MS
                self._place(is_long=is_long)

    def _place(self, *, is_long: bool) -> None:
        self._waiting.sort(key=itemgetter(0))
        recent = (n for n, (_, line) in enumerate(self._waiting) if line.at_ms >= self._until_ms)
        ready = next(recent, len(self._waiting))
        if is_long and not ready:
            raise OutOfOrderError
        in_order, self._waiting = self._waiting[:ready], self._waiting[ready:]
        self._fold_lines(in_order)

    def _fold_lines(self, in_order: Iterable[tuple[Key, Line]]) -> None:
        for key, line in in_order:
            source = self._log.place(key, line)
            if self._fold is None:
                self._fold = GroupFold(line.cluster_id or "", self._group_id)
            self._fold.take(line, source)

    def finish(self) -> Iterator[Tables]:
        """All rows, as if nothing followed. Raises OutOfOrderError."""
        self._fold_lines(sorted(self._waiting, key=itemgetter(0)))
        if self._fold is not None:
            yield self._fold.finish()


def clusters_of(lines: Iterable[Line]) -> Mapping[str, str]:
    """The cluster of each gateway, as its lines name it. One that never learned its cluster may
    share the only one that others name."""
    named = {line.gateway_id: line.cluster_id for line in lines if line.cluster_id is not None}
    only = next(iter(named.values()), "") if len(set(named.values())) == 1 else ""
    return defaultdict(lambda: only, named)
