"""Granted intervals: from the assignment of a partition to its release by the same member.

These two events suffice for groups of either kind, with `topics_deleted`, which ends all intervals
of a topic. If one of them is missing, a hole in the history contains it. A member that went without
a release owns nothing any more either: its release may have been told beside the group's sequence,
where no hole shows, or a restart forgot the member. Nor does any member of an empty group."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.group_events import GroupDeleted, GroupStateChanged, TopicsDeleted
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
)
from gateway.pipeline.fold.changes import ChangeRow
from gateway.pipeline.fold.history import History, Moment
from gateway.pipeline.fold.sightings import PLACES, RESTARTED, perhaps_forgotten

TopicPartition: TypeAlias = tuple[str, int]

ENDLESS = (1 << 63) - 1
"""The `to_position` of an interval without an end."""

_KINDS = (
    *(GroupDeleted, GroupStateChanged, TopicsDeleted, MemberLeft, MemberFenced, MemberReplaced),
    *(PartitionsAssigned, GrantEnded),
)


@dataclass(slots=True, kw_only=True)
class Interval:
    """A member owned the partition."""

    member_id: str
    from_position: int
    from_ms: int | None
    """Null if it began before the first event."""
    to_position: int
    to_ms: int | None
    leaves_gap: bool
    """Whether no member owns the partition from the end to the next interval."""
    begun: Moment | None = None
    ended: Moment | None = None
    """The events of the beginning and the end, if there are any."""
    may_be_over: bool = False
    """Whether a restart may have forgotten the member, which no event tells, so that the end may
    have been earlier."""

    @property
    def order(self) -> tuple[int, int, str]:
        """By beginning."""
        return self.from_position, self.to_position, self.member_id

    def reaches_beyond(self, other: "Interval") -> bool:
        """Whether it ends later."""
        return self._reach > other._reach

    @property
    def _reach(self) -> tuple[int, int, int, str, bool]:
        to_ms = -1 if self.to_ms is None else self.to_ms
        from_ms = -1 if self.from_ms is None else self.from_ms
        return self.to_position, to_ms, from_ms, self.member_id, self.leaves_gap


@dataclass(slots=True)
class _Turn:
    """A partition is granted or released, with what the later events say about it."""

    member_id: str
    is_grant: bool
    here: Moment
    hole: Moment | None
    gone: Moment | None
    """The next end of the topic."""
    left: Moment | None
    """The next departure of the member."""
    empties: Moment | None
    """The next time at which the group has no member, or does not exist."""
    released: Moment | None = None
    """The member's next release of the partition."""
    lost: Moment | None = None
    """The hole that may contain the release of this grant."""
    lost_next: Moment | None = None
    """The same for this or a later grant of the member."""
    emptied: Moment | None = None
    """The latest time before at which the group had no member or did not exist, or the topic ended.
    """
    over: Moment | None = None
    """The end of the topic, or the member's departure without a release."""


def granted(
    history: History, changes: Sequence[ChangeRow]
) -> Mapping[TopicPartition, Sequence[Interval]]:
    """The intervals of each partition. They leave a gap unless the topic ended or the end was not
    seen.

    A release without an assignment means that the member had the partition since the last hole,
    since the group was empty or deleted (an adopted group has members), since the topic ended (the
    assignment of a classic member names topics, so it gets the partitions of another topic of that
    name without an event), or since before the first event. An assignment without a release ends at
    a hole if the next event after the hole concerns another member; otherwise it never ends.
    """
    found = {}
    forgotten = perhaps_forgotten(history)
    for partition, turns in _turns(history, changes).items():
        _look_ahead(turns)
        found[partition] = list(_intervals(turns, forgotten))
    return found


def _turns(history: History, changes: Sequence[ChangeRow]) -> Mapping[TopicPartition, list[_Turn]]:
    """The turns of each partition in their order, from the last event to the first."""
    found: dict[TopicPartition, list[_Turn]] = {}
    gone: dict[str, Moment] = {}
    left: dict[str, Moment] = {}
    emptied: Moment | None = None
    later: dict[str, list[_Turn]] = {}
    """The turns of each topic since its next end, or the next time at which the group was empty."""
    forgotten = [
        (change.place, change.at_ms, change.member_id)
        for change in changes
        if change.event == RESTARTED and change.member_id is not None and not change.is_present
    ]
    for told in reversed(history.of(*_KINDS)):
        while forgotten and forgotten[-1][0] > told.position * PLACES:
            place, at_ms, member_id = forgotten.pop()
            left[member_id] = Moment(place // PLACES, at_ms)
        match told.event:
            case GroupStateChanged(to_state=ClassicPhase.EMPTY) | GroupDeleted():
                emptied = told.moment
                _begin_at(emptied, chain.from_iterable(later.values()))
                later.clear()
            case TopicsDeleted(topics=topics):
                gone.update(dict.fromkeys(topics, told.moment))
                for topic in topics:
                    _begin_at(told.moment, later.pop(topic, ()))
            case MemberLeft() | MemberFenced() | MemberReplaced():
                left[told.event.member_id] = told.moment
            case PartitionsAssigned(member_id=owner_id) | GrantEnded(member_id=owner_id):
                is_grant = isinstance(told.event, PartitionsAssigned)
                for topic, numbers in told.event.partitions.items():
                    ends = gone.get(topic), left.get(owner_id), emptied
                    for number in dict.fromkeys(numbers):
                        turn = _Turn(owner_id, is_grant, told.moment, told.hole, *ends)
                        found.setdefault((topic, number), []).append(turn)
                        later.setdefault(topic, []).append(turn)
            case _:
                pass
    for turns in found.values():
        turns.reverse()
    return found


def _begin_at(moment: Moment, turns: Iterable[_Turn]) -> None:
    for turn in turns:
        turn.emptied = moment


def _look_ahead(turns: Sequence[_Turn]) -> None:
    """Fill in what later turns say. A grant is lost in a hole if the first event after the hole
    concerns another member, and the grantee afterwards never appears again, or is granted the
    partition again, or releases after another hole what it may have got there."""
    following: dict[str, _Turn] = {}
    """The next turn of each member."""
    behind: _Turn | None = None
    """The first turn after the next hole."""
    holes_before = [None, *(turn.hole for turn in turns[:-1])]
    for turn, hole_before in zip(reversed(turns), reversed(holes_before), strict=True):
        own = following.get(turn.member_id)
        has_release = own is not None and not own.is_grant
        if turn.is_grant and behind is not None and _is_lost(own, behind):
            turn.lost = behind.hole
        turn.over = turn.gone if has_release else _first(turn.gone, turn.left, turn.empties)
        if own is not None:
            turn.released = own.released if own.is_grant else own.here
        turn.lost_next = own.lost_next if turn.lost is None and own else turn.lost
        following[turn.member_id] = turn
        if turn.hole != hole_before:
            behind = turn


def _is_lost(own: _Turn | None, behind: _Turn) -> bool:
    if own is None:
        return True
    had_it = not own.is_grant and own.hole == behind.hole
    return behind.here.position < own.here.position and not had_it


def _intervals(turns: Sequence[_Turn], forgotten: AbstractSet[str]) -> Iterator[Interval]:
    latest: dict[str, _Turn] = {}
    for turn in turns:
        earlier = latest.get(turn.member_id)
        latest[turn.member_id] = turn
        if _had_it(earlier, turn):
            continue
        begun: Moment | None
        if turn.is_grant:
            begun, ended = turn.here, _first(turn.released, turn.over, turn.lost_next)
        elif earlier is None or (turn.hole and turn.hole.position >= earlier.here.position):
            begun, ended = _last(turn.hole, turn.emptied), turn.here
        else:
            continue
        yield Interval(
            member_id=turn.member_id,
            from_position=begun.position if begun else 0,
            from_ms=begun.at_ms if begun else None,
            to_position=ended.position if ended else ENDLESS,
            to_ms=ended.at_ms if ended else None,
            leaves_gap=ended not in (turn.gone, turn.lost_next),
            begun=begun,
            ended=ended,
            may_be_over=turn.member_id in forgotten and ended in (None, turn.gone, turn.empties),
        )


def _had_it(earlier: _Turn | None, turn: _Turn) -> bool:
    """Whether the member's earlier grant still held."""
    if earlier is None or not earlier.is_grant or earlier.lost is not None:
        return False
    return earlier.over is None or earlier.over.position >= turn.here.position


def _last(*moments: Moment | None) -> Moment | None:
    """The latest of the moments that are known."""
    return max(filter(None, moments), key=lambda each: each.position, default=None)


def _first(*moments: Moment | None) -> Moment | None:
    """The earliest of the moments that are known."""
    return min(filter(None, moments), key=lambda each: each.position, default=None)
