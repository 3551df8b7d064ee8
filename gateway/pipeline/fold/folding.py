"""Folds lines into tables: the groups of one name, the runs of one gateway, or all lines."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from gateway.pipeline.fold.group import GroupFold
from gateway.pipeline.fold.lines import Line, parse, unread_line
from gateway.pipeline.fold.order import NO_HOSTINGS, OutOfOrderError, in_memory, in_stream
from gateway.pipeline.fold.rows import Tables
from gateway.pipeline.fold.sequences import Number, RunKey, fold_runs, number_of, run_of

IN_MEMORY_MAX = 20_000
"""The lines of a group that are held at a time, unless their times do not order them."""


class SourceLine(NamedTuple):
    """A line with its place in the input."""

    file: str
    place: str
    text: str


def fold_lines(lines: Iterable[SourceLine]) -> Iterator[Tables]:
    """All rows of these lines. Keeps all events in memory."""
    unread = Tables()
    groups: dict[str, list[Line]] = {}
    processes: dict[RunKey, list[Number]] = {}
    for file, place, text in lines:
        if not text.strip():
            continue
        line, problem = parse(text)
        if problem is not None:
            unread.unread.append(unread_line(file, place, text, line, problem))
        if line is None:
            continue
        if line.group_id is not None:
            groups.setdefault(line.group_id, []).append(line)
        key = run_of(line)
        numbers = processes.setdefault(key, [])
        if key.process_id or not numbers:
            numbers.append(number_of(line))
    yield unread
    for group_id in sorted(groups):
        yield from fold_name(group_id, [groups.pop(group_id)])
    in_order = ((key, sorted(numbers)) for key, numbers in sorted(processes.items()))
    yield Tables(unread=list(fold_runs(in_order)))


def fold_name(group_id: str, pieces: Collection[Sequence[Line]]) -> Iterator[Tables]:
    """The rows of the groups with this id, each in its own cluster. `pieces` have all lines in the
    order of their times, and are read once or twice. Each is held at a time if there are many."""
    if len(pieces) > 1:
        with suppress(OutOfOrderError):
            yield from list(_fold_stream(group_id, pieces))
            return
    lines = list(chain.from_iterable(pieces))
    clusters = _clusters(lines)
    in_clusters: dict[str, list[Line]] = {}
    for line in lines:
        cluster_id = line.cluster_id or clusters[line.gateway_id]
        in_clusters.setdefault(cluster_id, []).append(line)
    del lines
    for cluster_id in sorted(in_clusters):
        its_lines = in_clusters.pop(cluster_id)
        unread = sum(line.fields is None for line in its_lines)
        placed, hostings = in_memory(its_lines)
        has_others = len({line.gateway_id for line in its_lines}) > 1
        fold = GroupFold(cluster_id, group_id, hostings if has_others else NO_HOSTINGS)
        for place in placed:
            if (made := fold.take(place)) is not None:
                yield made
        yield fold.finish(unread)


def _fold_stream(group_id: str, pieces: Iterable[Sequence[Line]]) -> Iterator[Tables]:
    """The rows of a long history in one log."""
    fold: GroupFold | None = None
    cluster_id: str | None = None
    unread = 0
    for place in in_stream(chain.from_iterable(pieces)):
        line = place.line
        unread += line.fields is None
        if fold is None:
            cluster_id = line.cluster_id
            fold = GroupFold(cluster_id or "", group_id)
        elif line.cluster_id != cluster_id:
            raise OutOfOrderError
        if (made := fold.take(place)) is not None:
            yield made
    if fold is not None:
        yield fold.finish(unread)


def _clusters(lines: Sequence[Line]) -> Mapping[str, str]:
    """The cluster of each gateway, as its lines name it. One that never learned its cluster may
    share the only one that others name."""
    named = {line.gateway_id: line.cluster_id for line in lines if line.cluster_id is not None}
    only = next(iter(named.values()), "") if len(set(named.values())) == 1 else ""
    return defaultdict(lambda: only, named)
