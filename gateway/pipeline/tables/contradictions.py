"""Sequence numbers with two lines that differ: only one of them can be what the gateway wrote.

A repeated line is identical to the byte. Unreadable lines are in `rejected`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from gateway.pipeline.tables.row import BaseRow
from gateway.pipeline.tables.sequences import Number, SequenceKey


@dataclass(slots=True, kw_only=True)
class ContradictionRow(BaseRow):
    """One number. The tables use the one of its lines with the earliest time."""

    cluster_id: str
    """The cluster's own id, empty if no gateway has named it."""
    group_id: str | None
    """The group whose sequence it is; null for the sequence of a process."""
    gateway_id: str
    process_id: str | None
    """The process whose sequence it is; null for the sequence of a group."""
    sequence: int
    """The sequence number."""
    event: str
    """The event in one of the lines."""
    other_event: str
    """The event in another line; it may have the same name and differ in its fields."""
    at_ms: int
    """The earliest time in those lines, in milliseconds since 1970 (UTC)."""


def contradictions(
    cluster_id: str, key: SequenceKey, numbers: Iterable[Number]
) -> Iterator[ContradictionRow]:
    """The contradictions in one sequence, whose numbers are sorted."""
    good = (number for number in numbers if number.is_good)
    for sequence, some in groupby(good, key=lambda number: number.sequence):
        in_order = sorted(some, key=lambda number: number.content)
        if in_order[0].content == in_order[-1].content:
            continue
        yield ContradictionRow(
            cluster_id=cluster_id,
            group_id=key.group_id,
            gateway_id=key.gateway_id,
            process_id=key.process_id,
            sequence=sequence,
            event=in_order[0].event,
            other_event=in_order[-1].event,
            at_ms=min(number.at_ms for number in in_order),
        )
