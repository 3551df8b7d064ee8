"""Assigns each change of a group to a rebalance.

A rebalance of a consumer group begins with a new group epoch, one of a classic group when the group
leaves Empty or Stable. Each lasts until the next one. Members whose arrival or departure in the
same millisecond caused it belong to its beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.events.group_events import (
    GroupConverted,
    GroupEpochBumped,
    GroupStateMoved,
    TopicsGone,
)
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PartitionsReleased,
)
from gateway.pipeline.tables.changes import ChangeRow

Release: TypeAlias = Literal["replaced", "went"]

_TURNS = frozenset(
    {
        TopicsGone.name,
        MemberJoined.name,
        MemberLeft.name,
        MemberFenced.name,
        MemberReplaced.name,
    }
)


@dataclass(slots=True)
class Step:
    """A change in a rebalance."""

    change: ChangeRow
    is_begin: bool
    """Whether it begins the rebalance."""
    release: Release | None
    """Why a release was not requested by a rebalance."""
    round: int = 0
    """The number of the rebalance; 0 before the first known one."""
    is_prelude: bool = False
    """Whether it caused the rebalance."""

    @property
    def actor(self) -> str | None:
        """The same for all ids of a static member."""
        change = self.change
        return change.member_id if change.instance_id is None else change.instance_id


def steps(changes: Sequence[ChangeRow]) -> list[Step]:
    """The changes with their rebalances."""
    found = [
        Step(change, _begins(change), release)
        for change, release in zip(changes, _releases(changes), strict=True)
    ]
    begun = 0
    moment: tuple[int, int] | None = None
    has_converted = False
    for step, next_ms in zip(found, _next_begins(found), strict=True):
        begun += step.is_begin
        if moment != (step.change.at_ms, begun):
            moment, has_converted = (step.change.at_ms, begun), False
        # What a conversion assigns and releases is told after it, before the rebalance that it
        # begins.
        has_converted |= step.change.event == GroupConverted.name
        step.is_prelude = step.change.at_ms == next_ms and (
            step.change.event in _TURNS or has_converted or step.release == "went"
        )
        step.round = begun + step.is_prelude
    return found


def _begins(change: ChangeRow) -> bool:
    if change.event == GroupStateMoved.name:
        return change.to_state == "PreparingRebalance" and change.from_state in ("Empty", "Stable")
    return change.event == GroupEpochBumped.name


def _next_begins(found: Sequence[Step]) -> list[int | None]:
    """When the next rebalance after each change begins."""
    next_ms: int | None = None
    times: list[int | None] = []
    for step in reversed(found):
        times.append(next_ms)
        if step.is_begin:
            next_ms = step.change.at_ms
    times.reverse()
    return times


def _releases(changes: Sequence[ChangeRow]) -> list[Release | None]:
    """Whether the member goes, or continues under another id: its next event tells."""
    following: dict[str, ChangeRow] = {}
    found: list[Release | None] = []
    for change in reversed(changes):
        found.append(None)
        if change.member_id is None:
            continue
        after = following.get(change.member_id)
        following[change.member_id] = change
        if change.event != PartitionsReleased.name or after is None or after.at_ms != change.at_ms:
            continue
        if after.event in (MemberLeft.name, MemberFenced.name):
            found[-1] = "went"
        elif after.event == MemberReplaced.name:
            found[-1] = "replaced"
    found.reverse()
    return found
