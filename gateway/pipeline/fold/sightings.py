"""What is known to have happened in a group, in its order: events, restarts, members that appear.

A process that ends forgets who joined a classic group since the end of its last rebalance: until
the next one the log has only departures. The end of a process shows only in the events of the next
one. Its time is unknown, so the process counts as ended with its last event.

While the cluster serves a group, no event tells who is in it. A member is there from its first sign
on. It goes when another client comes in its place, or when the gateway takes over a group that does
not have it.
"""

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, TypeAlias

from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupAdopted,
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    GroupForwarded,
    GroupStateChanged,
    TargetComputed,
    TopicsDeleted,
)
from gateway.events.member_events import (
    ClientSeen,
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateChanged,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsRevoked,
)
from gateway.pipeline.fold.history import TURNS, History, Told, Words

Kind = Literal["classic", "consumer"]
Protocol = Literal["classic", "consumer"]
CLASSIC: Literal["classic"] = "classic"
CONSUMER: Literal["consumer"] = "consumer"
NATIVE = CONSUMER

CHANGES = (
    GroupCreated,
    GroupConverted,
    GroupEpochBumped,
    TargetComputed,
    GroupStateChanged,
    TopicsDeleted,
    ClientSeen,
    MemberJoined,
    MemberLeft,
    MemberFenced,
    MemberReplaced,
    MemberSwitched,
    MemberStateChanged,
    PartitionsRevoked,
    GrantEnded,
    PartitionsAssigned,
)
DEPARTURES = (MemberLeft, MemberFenced, MemberReplaced)

RESTARTED = "gateway_restarted"
"""A pseudo event: another process continued with the group, or undid this change."""
PLACES = 3
"""The distance between the places of two events."""
SEEN = "member_seen"
"""A pseudo event: the member is there."""
_POSITION = attrgetter("position")


@dataclass(slots=True)
class Sighting:
    """An event of CHANGES, or a pseudo event; `changes` fills in what is true from then on."""

    place: int
    at_ms: int
    name: str
    member_id: str | None
    event: GatewayEvent | None = None
    """Null for a pseudo event."""
    arrives: bool | None = None
    """Whether a pseudo event tells that the member is there from now on (true), or gone (false)."""
    kind: Kind | None = None
    state: str | None = None
    members: int = 0
    classic_members: int = 0
    instance_id: str | None = None
    protocol: Protocol | None = None
    protocol_before: Protocol | None = None
    is_present: bool = False
    was_present: bool = False
    was_there: bool = False


def sightings(history: History) -> list[Sighting]:
    """Everything that happened, in the order of `place`. A member that was there from the start has
    its place at the beginning."""
    told = history.of(*CHANGES)
    away = list(_away(history, told))
    served = [spell.part_of(told) for spell in away]
    in_cluster = {each.position for some in served for each in some}
    are_kept = [
        is_kept or each.position in in_cluster
        for each, is_kept in zip(told, _are_kept(told), strict=True)
    ]
    restarts = [
        row
        for row in _restarts(told, are_kept)
        if row.member_id is not None or row.place // PLACES not in in_cluster
    ]
    forgotten = {row.member_id for row in restarts if row.arrives is False}
    displaced = (row for row in _displaced(told, are_kept) if row.member_id not in forgotten)
    came = [*_there_before(history, away), *_in_the_cluster(told, zip(away, served, strict=True))]
    rows = [*came, *map(_itself, told), *restarts, *displaced]
    rows.sort(key=attrgetter("place"))
    return rows


def _itself(told: Told) -> Sighting:
    event = told.event
    member_id: str | None = getattr(event, "member_id", None)
    return Sighting(told.position * PLACES, told.at_ms, event.name, member_id, event)


def _there_before(history: History, away: Sequence["_Away"]) -> Iterator[Sighting]:
    """Members that speak of partitions without having joined, except those that came while the
    cluster served the group."""
    came = {member_id for spell in away for member_id in spell.words}
    for words in history.words:
        for member_id, its in sorted(words.items()):
            if member_id not in came:
                came.add(member_id)
                yield Sighting(0, its.first_ms, SEEN, member_id)


@dataclass(slots=True)
class _Away:
    """A time in which the cluster served the group."""

    begun: Told | None
    """Null if it had begun before the first event."""
    is_first: bool
    """Whether no event tells of the group before."""
    words: dict[str, Words] = field(default_factory=dict)
    ended: Told | None = None

    def part_of(self, told: Sequence[Told]) -> Sequence[Told]:
        """The events of that time."""
        first = 0 if self.begun is None else bisect_left(told, self.begun.position, key=_POSITION)
        if self.ended is None:
            return told[first:]
        return told[first : bisect_left(told, self.ended.position, key=_POSITION)]


def _away(history: History, told: Iterable[Told]) -> Iterator[_Away]:
    """All such times. A group that the gateway took over had been in the cluster until then."""
    turns = history.of(*TURNS)
    positions = (each.position for each in told if not isinstance(each.event, ClientSeen))
    first_position = next(positions, None)
    # An adoption is told twice: the gateway hosts the group, and has adopted it.
    told_first = [turn.event for turn in turns[:2] if turn.at_ms == turns[0].at_ms]
    was_away = any(isinstance(event, GroupAdopted) for event in told_first)
    spell: _Away | None = None
    for turn, words in zip([None, *turns], history.words, strict=True):
        if was_away if turn is None else isinstance(turn.event, GroupForwarded):
            position = 0 if turn is None else turn.position
            if spell is None:
                spell = _Away(turn, first_position is None or position < first_position)
            for member_id, its in words.items():
                known = spell.words.get(member_id, its)
                spell.words[member_id] = Words(known.first, known.first_ms, its.last)
        elif spell is not None:
            spell.ended = turn
            yield spell
            spell = None
    if spell is not None:
        yield spell


def _in_the_cluster(
    told: Iterable[Told], away: Iterable[tuple[_Away, Sequence[Told]]]
) -> Iterator[Sighting]:
    """Members who spoke of partitions while the cluster served the group, as they come and go."""
    joined: dict[str, int] = {}
    """The latest positions of joins that the gateway served."""
    clients: dict[str, ClientSeen] = {}
    for each in told:
        if isinstance(each.event, MemberJoined):
            joined[each.event.member_id] = each.position
        elif isinstance(each.event, ClientSeen):
            clients.setdefault(each.event.member_id, each.event)
    for spell, served in away:
        present = yield from _arrivals(spell, served, clients)
        end = spell.ended
        if end is not None:
            name, place = end.event.name, end.position * PLACES
            for member_id, its in present.items():
                if joined.get(member_id, 0) < its.first:
                    yield Sighting(place, end.at_ms, name, member_id, arrives=False)


def _arrivals(
    spell: _Away, told: Iterable[Told], clients: Mapping[str, ClientSeen]
) -> Generator[Sighting, None, Mapping[str, Words]]:
    """The members as they come, and those whose places they take. Returns those who stay."""
    introduced: dict[str, Told] = {}
    left: dict[str, int] = {}
    """The positions of departures that were told."""
    for each in told:
        if isinstance(each.event, ClientSeen):
            introduced.setdefault(each.event.member_id, each)
        elif isinstance(each.event, DEPARTURES):
            left.setdefault(each.event.member_id, each.position)
    arrivals = sorted(
        (min(its.first, introduced[name].position) if name in introduced else its.first, name)
        for name, its in spell.words.items()
    )
    present: dict[str, Words] = {}
    alike: dict[tuple[str | None, ...], list[str]] = {}
    for position, member_id in arrivals:
        its, place = spell.words[member_id], position * PLACES
        at_ms = its.first_ms if position == its.first else introduced[member_id].at_ms
        was_there = spell.is_first and position == its.first
        yield Sighting(0 if was_there else place, at_ms, SEEN, member_id, arrives=True)
        if member_id in clients:
            others = alike.setdefault(_identity(clients[member_id]), [])
            silent = [
                (present[other].last, other)
                for other in others
                if other in present
                and (present[other].last < position or clients[member_id].instance_id is not None)
                and left.get(other, position) >= position
            ]
            if silent and member_id in introduced:
                replaced = min(silent)[1]
                del present[replaced]
                yield Sighting(place, at_ms, ClientSeen.name, replaced, arrives=False)
            others.append(member_id)
        present[member_id] = its
    return {name: its for name, its in present.items() if name not in left}


def _identity(client: ClientSeen) -> tuple[str | None, ...]:
    """The same for a client that comes in the place of another one."""
    if client.instance_id is not None:
        return (client.instance_id,)
    return client.client_id, client.client_host


@dataclass(slots=True)
class _End:
    """The last row of a process, and the first one of the next."""

    told: Told
    resumed: int


Ahead: TypeAlias = tuple[_End | None, int | None]
"""The next end of a process, and the position of the next record of all members."""


def _restarts(told: Sequence[Told], are_kept: Sequence[bool]) -> Iterator[Sighting]:
    """A row for the end of each process, and one for each change that it forgot."""
    undone: set[tuple[str, int]] = set()
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
            arrives = not isinstance(each.event, MemberJoined)
            yield Sighting(place + 1, at_ms, RESTARTED, member_id, arrives=arrives)


def _displaced(told: Sequence[Told], are_kept: Sequence[bool]) -> Iterator[Sighting]:
    """A row for each member without a record whose instance another member has, without having
    replaced it: a restart has forgotten the first one. The next record of all members does not have
    it either; the join of the other one may be told together with that record, or after it.

    A classic member may have no record even if no rebalance was told: if the place of a member that
    had left was kept, the next process begins a rebalance when it starts (DEV D61)."""
    forgotten, _ = _between_processes(told, are_kept)
    holders: dict[str, str] = {}
    written: Mapping[str, str] = {}
    written_ms: int | None = None
    for each, is_kept in zip(told, are_kept, strict=True):
        if written_ms is not None and each.at_ms > written_ms:
            holders = {k: holder for k, holder in holders.items() if written.get(k) != holder}
            written_ms = None
        match each.event:
            case MemberJoined(member_id=member_id, instance_id=str(instance_id), protocol=protocol):
                holder = holders.pop(instance_id, member_id)
                if holder != member_id:
                    last = forgotten.get(holder)
                    place = each.position * PLACES if last is None else last.position * PLACES + 1
                    at_ms = (last or each).at_ms
                    yield Sighting(place, at_ms, RESTARTED, holder, arrives=False)
                if not is_kept or protocol == CLASSIC:
                    holders[instance_id] = member_id
            case MemberLeft() | MemberFenced() | MemberReplaced():
                gone = each.event.member_id
                holders = {name: holder for name, holder in holders.items() if holder != gone}
            case event if is_kept and _has_all_members(event):
                written = {k: holder for k, holder in holders.items() if holder not in forgotten}
                written_ms = each.at_ms
            case _:
                pass


def perhaps_forgotten(history: History) -> frozenset[str]:
    """Members that a restart may have forgotten, which no event tells."""
    told = history.of(*CHANGES)
    are_kept = list(_are_kept(told))
    forgotten, unsure = _between_processes(told, are_kept)
    return frozenset({*forgotten, *unsure, *_perhaps_without_a_record(told, are_kept)})


def _between_processes(
    told: Sequence[Told], are_kept: Iterable[bool]
) -> tuple[Mapping[str, Told], Sequence[str]]:
    """The members that only the old one of two processes may have known, with the last event
    between the two: their join was told after its last line, or else the next record of all members
    was written then. It may have been the new process that wrote these records. Only a conversion
    needs no earlier line of its process, and a generation that a static replacement has begun: its
    line is among the records, and other members rejoin without one.

    The second result has members that may also be forgotten: after the lines of one process, the
    last records may come from another that has told no line yet."""
    found: dict[str, Told] = {}
    joined: list[str] = []
    """Without a record."""
    unsure: list[str] = []
    process_id: str | None = None
    before: Told | None = None
    is_known = True
    """Whether the process that began the generation is."""
    for each, is_kept in zip(told, are_kept, strict=True):
        match each.event:
            case GroupStateChanged(to_state=ClassicPhase.COMPLETING_REBALANCE):
                is_known = each.process_id is not None
            case GroupConverted():
                is_known = False
            case _:
                pass
        if each.process_id is not None:
            if before is not None and process_id not in (None, each.process_id):
                found.update(dict.fromkeys(unsure, before))
                joined.clear()
            else:
                joined += unsure
            process_id = each.process_id
            unsure.clear()
        if isinstance(each.event, MemberJoined) and not is_kept:
            (unsure if each.process_id is None else joined).append(each.event.member_id)
        elif is_kept and _has_all_members(each.event):
            unsure += [] if is_known else joined
            joined.clear()
        before = each
    return found, [] if process_id is None else unsure


def _perhaps_without_a_record(told: Sequence[Told], are_kept: Iterable[bool]) -> Iterator[str]:
    """Members that joined a group that seemed to be stable, so that their joins seem to have
    records, but that the next record of all members may lack.

    A rebalance may have begun unseen: with its process (DEV D61), or just before its process ended.
    Its end shows that. A conversion ends it, too, and does not show it. Then only a process that
    told a line both before and after is known to have been the only one."""
    is_stable = False
    process_id: str | None = None
    joined: list[str] = []
    latest: list[str] = []
    """Those that have joined since the last line of a process."""
    converted: list[str] = []
    """Those of them that the group's conversion may lack."""
    written_ms: int | None = None
    """When all members were written, also those of an adopted group, who are told behind."""
    for each, is_kept in zip(told, are_kept, strict=True):
        if each.process_id is not None:
            if each.process_id != process_id:
                joined += latest
                yield from converted
            process_id = each.process_id
            latest.clear()
            converted.clear()
        match each.event:
            case MemberJoined(member_id=member_id) if is_kept and is_stable:
                if each.at_ms != written_ms:
                    latest.append(member_id)
            case GroupStateChanged(from_state=begun, to_state=state):
                if is_stable and begun is ClassicPhase.PREPARING_REBALANCE:
                    yield from (*joined, *latest)
                is_stable = state is ClassicPhase.STABLE
            case GroupConverted(direction=direction, is_live=is_live):
                if is_stable:
                    yield from joined
                    converted += latest
                is_stable = direction == "consumer->classic" and is_live
            case _:
                pass
        if is_kept and _has_all_members(each.event):
            joined.clear()
            latest.clear()
            written_ms = each.at_ms
    if process_id is not None:
        yield from converted


def _are_kept(told: Sequence[Told]) -> Iterator[bool]:
    """Whether each event was written with its records. A member that joins a classic group has none
    before the end of a rebalance, which its join may begin, although its event may be told together
    with a record: that a static member was replaced, or that an empty consumer group turned
    classic."""
    begins = {
        each.at_ms: each.position
        for each in told
        if isinstance(each.event, GroupStateChanged)
        and each.event.to_state is ClassicPhase.PREPARING_REBALANCE
    }
    turned_ms: int | None = None
    is_rebalancing = False
    for each in told:
        match each.event:
            case GroupConverted(direction="consumer->classic", is_live=False):
                turned_ms, is_rebalancing = each.at_ms, False
            case GroupConverted():
                turned_ms, is_rebalancing = None, False
            case GroupCreated(kind=kind):
                is_rebalancing = kind == CLASSIC
            case GroupStateChanged(to_state=ClassicPhase.STABLE):
                turned_ms, is_rebalancing = None, False
            case GroupStateChanged():
                is_rebalancing = True
            case _:
                pass
        is_unwritten = isinstance(each.event, MemberJoined | GroupStateChanged)
        is_unwritten &= each.at_ms == turned_ms
        is_in_rebalance = is_rebalancing or each.position < begins.get(each.at_ms, 0)
        is_unwritten |= is_in_rebalance and isinstance(each.event, MemberJoined)
        yield each.process_id is None and not is_unwritten


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
        case GroupStateChanged(to_state=state):
            return state in (ClassicPhase.STABLE, ClassicPhase.EMPTY)
        case _:
            return isinstance(event, GroupConverted)
