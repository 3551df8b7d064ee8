"""Pending revocations: partitions that members were told to give up and have not given up yet.

A revocation ends with the next event of the partition (it is released, or the member may keep it),
or with the end of its topic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.events.group_events import TopicsGone
from gateway.events.member_events import (
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
)
from gateway.pipeline.tables.changes import ChangeRow

MOVES = frozenset({PartitionsRevoked.name, PartitionsReleased.name, PartitionsAssigned.name})
"""The events that move partitions."""


@dataclass(slots=True)
class Pending:
    """A change in a member's number of pending revocations."""

    member_id: str
    change: ChangeRow
    more: int


def revocations(changes: Iterable[ChangeRow]) -> list[Pending]:
    """The changes in their order; at most one for each member and place."""
    pending: dict[tuple[str, str, int], None] = {}
    found: list[Pending] = []

    def tell(change: ChangeRow, more: Mapping[str, int]) -> None:
        found.extend(Pending(member_id, change, count) for member_id, count in more.items())

    for change in changes:
        more: dict[str, int] = {}
        if change.event in MOVES and change.member_id is not None:
            for topic, numbers in (change.partitions or {}).items():
                for number in dict.fromkeys(numbers):
                    key = change.member_id, topic, number
                    if key in pending:
                        del pending[key]
                        more[change.member_id] = more.get(change.member_id, 0) - 1
                    if change.event == PartitionsRevoked.name:
                        pending[key] = None
                        more[change.member_id] = more.get(change.member_id, 0) + 1
        elif change.event == TopicsGone.name:
            for key in [key for key in pending if key[1] in (change.topics or ())]:
                del pending[key]
                more[key[0]] = more.get(key[0], 0) - 1
        tell(change, more)
    return found
