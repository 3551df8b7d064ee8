"""The rows behind the tables of groups and members: events, restarts, and sightings of members.

A process that ends forgets who joined a classic group since the end of its last rebalance: until
the next one the log has only departures. The end of a process shows only in the events of the next
one. Its time is unknown, so the process counts as ended with its last event.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    GroupStateMoved,
    TargetComputed,
    TopicsGone,
)
from gateway.events.member_events import (
    ClientSeen,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateMoved,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
)
from gateway.events.offset_events import NO_MEMBER
from gateway.pipeline.history import History, Told

CHANGES = (
    GroupCreated,
    GroupConverted,
    GroupEpochBumped,
    TargetComputed,
    GroupStateMoved,
    TopicsGone,
    ClientSeen,
    MemberJoined,
    MemberLeft,
    MemberFenced,
    MemberReplaced,
    MemberSwitched,
    MemberStateMoved,
    PartitionsRevoked,
    PartitionsReleased,
    PartitionsAssigned,
)
DEPARTURES = (MemberLeft, MemberFenced, MemberReplaced)

RESTARTED = "gateway_restarted"
"""A pseudo event: another process continued with the group, or undid this change."""
PLACES = 3
"""The distance between the places of two events."""
SEEN = "member_seen"
"""A pseudo event: the member was there."""


@dataclass(slots=True)
class Sighting:
    """An event of CHANGES, or a pseudo event."""

    place: int
    at_ms: int
    name: str
    member_id: str | None
    event: GatewayEvent | None = None
    """Null for a pseudo event."""
    is_back: bool | None = None
    """Whether a restart brought the member back (true) or removed it (false)."""


def sightings(history: History) -> list[Sighting]:
    """Everything that happened, in the order of `place`. A seen member's place is the beginning."""
    told = history.of(*CHANGES)
    restarts = list(_restarts(told))
    forgotten = {row.member_id for row in restarts if row.is_back is False}
    displaced = (row for row in _displaced(told) if row.member_id not in forgotten)
    rows = [*_seen(history), *map(_itself, told), *restarts, *displaced]
    rows.sort(key=lambda row: row.place)
    return rows


def _itself(told: Told) -> Sighting:
    event = told.event
    member_id: str | None = getattr(event, "member_id", None)
    return Sighting(told.position * PLACES, told.at_ms, event.name, member_id, event)


def _seen(history: History) -> Iterator[Sighting]:
    """Members that appear without having joined, perhaps in frequent events that change nothing."""
    for member_id, at_ms in sorted(history.seen_ms.items()):
        if member_id != NO_MEMBER:
            yield Sighting(0, at_ms, SEEN, member_id)


@dataclass(slots=True)
class _End:
    """The last row of a process, and the first one of the next."""

    told: Told
    resumed: int


Ahead: TypeAlias = tuple[_End | None, int | None]
"""The next end of a process, and the position of the next record of all members."""


def _restarts(told: Sequence[Told]) -> Iterator[Sighting]:
    """A row for the end of each process, and one for each change that it forgot."""
    undone: set[tuple[str, int]] = set()
    are_kept = list(_are_kept(told))
    ahead = _ahead(told, are_kept)
    for each, is_kept, (end, completed) in zip(told, are_kept, ahead, strict=True):
        if end is None:
            continue
        place, at_ms = end.told.position * PLACES, end.told.at_ms
        if end.told is each:
            yield Sighting(place + 2, at_ms, RESTARTED, None)
        if (
            is_kept
            or not isinstance(each.event, MemberJoined | MemberLeft | MemberFenced | MemberReplaced)
            # Records between the two processes may be of either. But only a group that a member has
            # rejoined completes a rebalance, and its join would have been told earlier.
            or (completed is not None and completed <= end.resumed)
        ):
            continue
        # Of a member's forgotten changes only the first matters: what was true before it.
        member_id = each.event.member_id
        if (member_id, place) not in undone:
            undone.add((member_id, place))
            is_back = not isinstance(each.event, MemberJoined)
            yield Sighting(place + 1, at_ms, RESTARTED, member_id, is_back=is_back)


def _displaced(told: Sequence[Told]) -> Iterator[Sighting]:
    """A row for each member without a record whose instance another member has, without having
    replaced it: a restart has forgotten the first one."""
    holders: dict[str, str] = {}
    for each, is_kept in zip(told, _are_kept(told), strict=True):
        match each.event:
            case MemberJoined(member_id=member_id, instance_id=str(instance_id)):
                holder = holders.pop(instance_id, member_id)
                if holder != member_id:
                    place = each.position * PLACES
                    yield Sighting(place, each.at_ms, RESTARTED, holder, is_back=False)
                if not is_kept:
                    holders[instance_id] = member_id
            case MemberLeft() | MemberFenced() | MemberReplaced():
                gone = each.event.member_id
                holders = {name: holder for name, holder in holders.items() if holder != gone}
            case event if is_kept and _has_all_members(event):
                holders.clear()
            case _:
                pass


def perhaps_forgotten(history: History) -> frozenset[str]:
    """Members without a record whose join was told after the last line of a process and before the
    first of the next. If it was the old one that let them join, the restart forgot them."""
    found: set[str] = set()
    waiting: set[str] = set()
    process_id: str | None = None
    told = history.of(*CHANGES)
    for each, is_kept in zip(told, _are_kept(told), strict=True):
        if each.process_id is not None:
            if process_id not in (None, each.process_id):
                found |= waiting
            process_id = each.process_id
            waiting.clear()
        elif isinstance(each.event, MemberJoined) and not is_kept:
            waiting.add(each.event.member_id)
        elif is_kept and _has_all_members(each.event):
            waiting.clear()
    return frozenset(found)


def _are_kept(told: Iterable[Told]) -> Iterator[bool]:
    """Whether each event was written with its records. A member that joins a classic group has none
    before the end of a rebalance, although its event may be told together with a record: that a
    static member was replaced, or that an empty consumer group turned classic."""
    turned_ms: int | None = None
    is_rebalancing = False
    for each in told:
        match each.event:
            case GroupConverted(direction="consumer->classic", is_live=False):
                turned_ms, is_rebalancing = each.at_ms, False
            case GroupConverted():
                is_rebalancing = False
            case GroupStateMoved(to_state=state):
                is_rebalancing = state in _REBALANCING
            case _:
                pass
        is_unwritten = isinstance(each.event, MemberJoined | GroupStateMoved)
        is_unwritten &= each.at_ms == turned_ms
        is_unwritten |= is_rebalancing and isinstance(each.event, MemberJoined)
        yield each.process_id is None and not is_unwritten


_REBALANCING = (ClassicPhase.PREPARING_REBALANCE, ClassicPhase.COMPLETING_REBALANCE)


def _ahead(told: Sequence[Told], are_kept: Sequence[bool]) -> list[Ahead]:
    """What comes after each event; an end includes the event itself."""
    found: list[Ahead] = []
    end: _End | None = None
    completed: int | None = None
    next_process: str | None = None
    resumed = 0
    for each, is_kept in zip(reversed(told), reversed(are_kept), strict=True):
        if each.process_id is not None and next_process not in (None, each.process_id):
            end = _End(each, resumed)
        found.append((end, completed))
        if is_kept and _has_all_members(each.event):
            completed = each.position
        if each.process_id is not None:
            next_process, resumed = each.process_id, each.position
    found.reverse()
    return found


def _has_all_members(event: GatewayEvent) -> bool:
    """Whether it was written with a record of each member."""
    match event:
        case GroupStateMoved(to_state=state):
            return state is ClassicPhase.STABLE
        case _:
            return isinstance(event, GroupConverted)
