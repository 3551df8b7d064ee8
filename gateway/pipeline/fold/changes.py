"""What happened in a group, event by event, with the state of group and members.

The rows are events, restarts, and sightings of members. A process that ends forgets who joined a
classic group since the end of its last rebalance: until the next one the log has only departures.
The end of a process shows only in the events of the next one. Its time is unknown, so the process
counts as ended with its last event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Literal, TypeAlias

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
from gateway.pipeline.fold.history import History, Told
from gateway.pipeline.fold.row import Row

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
    replaced it: a restart has forgotten the first one. The next record of all members does not have
    it either; the join of the other one may be told together with that record, or after it."""
    forgotten = _between_processes(told)
    holders: dict[str, str] = {}
    written: Mapping[str, str] = {}
    written_ms: int | None = None
    for each, is_kept in zip(told, _are_kept(told), strict=True):
        if written_ms is not None and each.at_ms > written_ms:
            holders = {k: holder for k, holder in holders.items() if written.get(k) != holder}
            written_ms = None
        match each.event:
            case MemberJoined(member_id=member_id, instance_id=str(instance_id)):
                holder = holders.pop(instance_id, member_id)
                if holder != member_id:
                    last = forgotten.get(holder)
                    place = each.position * PLACES if last is None else last.position * PLACES + 1
                    at_ms = (last or each).at_ms
                    yield Sighting(place, at_ms, RESTARTED, holder, is_back=False)
                if not is_kept:
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
    return frozenset(_between_processes(history.of(*CHANGES)))


def _between_processes(told: Sequence[Told]) -> Mapping[str, Told]:
    """The members that only the old one of two processes may have known, with the last event
    between the two: their join was told after its last line, or else the group was converted then.
    It may have been the new process that wrote these records, and a conversion is the one record of
    all members that needs no earlier line of its process."""
    found: dict[str, Told] = {}
    joined: list[str] = []
    """Without a record."""
    unsure: list[str] = []
    process_id: str | None = None
    before: Told | None = None
    for each, is_kept in zip(told, _are_kept(told), strict=True):
        if each.process_id is not None:
            if before is not None and process_id not in (None, each.process_id):
                found.update(dict.fromkeys(unsure, before))
                joined.clear()
            process_id = each.process_id
            unsure.clear()
        if isinstance(each.event, MemberJoined) and not is_kept:
            (unsure if each.process_id is None else joined).append(each.event.member_id)
        elif is_kept and _has_all_members(each.event):
            unsure += joined if isinstance(each.event, GroupConverted) else []
            joined.clear()
        before = each
    return found


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
            case GroupCreated(kind=kind):
                is_rebalancing = kind == CLASSIC
            case GroupStateMoved(to_state=state):
                is_rebalancing = state is not ClassicPhase.STABLE
            case _:
                pass
        is_unwritten = isinstance(each.event, MemberJoined | GroupStateMoved)
        is_unwritten &= each.at_ms == turned_ms
        is_unwritten |= is_rebalancing and isinstance(each.event, MemberJoined)
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
        case GroupStateMoved(to_state=state):
            return state in (ClassicPhase.STABLE, ClassicPhase.EMPTY)
        case _:
            return isinstance(event, GroupConverted)


Kind = Literal["classic", "consumer"]
Protocol = Literal["classic", "consumer"]
CLASSIC: Literal["classic"] = "classic"
CONSUMER: Literal["consumer"] = "consumer"
NATIVE = CONSUMER


@dataclass(slots=True, kw_only=True)
class ChangeRow(Row):
    """Everything that happened in each group: one row per event, with the state of group and
    member.

    The tables of members, rebalances and migrations are made from these rows. The beginning of a
    history may be lost: a member that appears without having joined was there before the first
    event.

    An event, or a fact that no event tells: `gateway_restarted` after the last event of a process,
    and for each change that it forgot; `member_seen` for members that were there from the start.
    """

    place: int
    """The row's place in the history of the group; places may have gaps."""
    at_ms: int
    event: str
    begun_ms: int
    """The time of the group's first known event."""
    kind: Kind | None
    """The group's protocol from here on; null if unknown."""
    state: str | None
    """The group's state from here on; null if unknown. A classic group is Empty,
    PreparingRebalance, CompletingRebalance or Stable. A consumer group is Empty, Assigning (its
    epoch has no target yet), Reconciling (until the last change in its epoch) or Stable."""
    members: int
    """Members of the group from here on."""
    classic_members: int
    """Members that speak the classic protocol."""
    member_id: str | None
    """The member that the event is about."""
    instance_id: str | None
    """The instance id of a static member then, if any event mentions it."""
    client_id: str | None
    """From the event."""
    protocol: Protocol | None
    """The member's protocol from here on; null if unknown."""
    protocol_before: Protocol | None
    """The member's protocol until then."""
    is_present: bool | None
    """Whether the member is in the group from here on."""
    was_present: bool | None
    """Whether the member was in the group until then."""
    was_there: bool | None
    """Whether the member was in the group before the first event."""
    cause: str | None
    """From the event."""
    direction: str | None
    """From the event."""
    from_state: str | None
    """From the event."""
    to_state: str | None
    """From the event."""
    epoch: int | None
    """The group epoch or the generation, if the event has one."""
    partitions: Mapping[str, tuple[int, ...]] | None
    """From the event."""
    topics: tuple[str, ...] | None
    """From the event."""


def changes(history: History) -> list[ChangeRow]:
    """See `ChangeRow`."""
    rows = [_Row(each) for each in sightings(history)]
    if not rows:
        return []
    begun_ms = min(row.seen.at_ms for row in rows)
    members = _of_members(rows)
    _tell_kinds(rows)
    for its_rows in members.values():
        _tell_presence(its_rows)
        _tell_protocols(its_rows)
    _tell_instances(rows, members)
    _tell_counts(rows, members)
    _tell_states(rows)
    return [row.told(history, begun_ms) for row in rows]


@dataclass(slots=True)
class _Row:
    """A row in the making."""

    seen: Sighting
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

    @property
    def event(self) -> GatewayEvent | None:
        """The event, unless it is a pseudo event."""
        return self.seen.event

    @property
    def is_classic(self) -> bool:
        """Whether the member is in the group with the classic protocol."""
        return self.is_present and self.protocol == CLASSIC

    @property
    def was_classic(self) -> bool:
        """Whether it was until then."""
        return self.was_present and self.protocol_before == CLASSIC

    def told(self, history: History, begun_ms: int) -> ChangeRow:
        """The finished row. Sightings come before everything else, whenever the member was seen."""
        seen, event = self.seen, self.event
        of_member = seen.member_id is not None
        fields = {} if event is None else vars(event)
        epoch = fields.get("group_epoch")
        return ChangeRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            place=seen.place,
            at_ms=begun_ms if seen.name == SEEN else seen.at_ms,
            event=seen.name,
            begun_ms=begun_ms,
            kind=self.kind,
            state=self.state,
            members=self.members,
            classic_members=self.classic_members,
            member_id=seen.member_id,
            instance_id=self.instance_id,
            client_id=fields.get("client_id"),
            protocol=self.protocol,
            protocol_before=self.protocol_before,
            is_present=self.is_present if of_member else None,
            was_present=self.was_present if of_member else None,
            was_there=self.was_there if of_member else None,
            cause=fields.get("cause"),
            direction=fields.get("direction"),
            from_state=fields.get("from_state"),
            to_state=fields.get("to_state"),
            epoch=fields.get("generation") if epoch is None else epoch,
            partitions=fields.get("partitions"),
            topics=fields.get("topics"),
        )


def _of_members(rows: Iterable[_Row]) -> Mapping[str, list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        if row.seen.member_id is not None:
            found.setdefault(row.seen.member_id, []).append(row)
    return found


def _tell_kinds(rows: Iterable[_Row]) -> None:
    """The kind before the first event that tells it is the one that this event implies."""
    kind: Kind | None = None
    unknown: list[_Row] = []
    before: Kind | None = None
    for row in rows:
        implied: Kind | None = None
        match row.event:
            case GroupConverted(direction=direction):
                was, kind = _both(direction)
                before = before or was
            case GroupCreated():
                kind = row.event.kind
            case MemberJoined(protocol="consumer") | GroupEpochBumped() | TargetComputed():
                implied = CONSUMER
            case MemberStateMoved() | PartitionsRevoked():
                implied = CONSUMER
            case GroupStateMoved():
                implied = CLASSIC
            case _:
                pass
        kind = implied or kind
        before = before or implied
        row.kind = kind
        if kind is None:
            unknown.append(row)
    for row in unknown:
        row.kind = before


def _both(direction: str) -> tuple[Kind, Kind]:
    return (CLASSIC, CONSUMER) if direction == "classic->consumer" else (CONSUMER, CLASSIC)


def _tell_presence(rows: Sequence[_Row]) -> None:
    """A member is present from its join until it goes; without a join, from the start."""
    turns = [_turn(row) for row in rows]
    first = next((turn for turn in turns if turn is not None), None)
    # A client that was seen may be about to join, or may be turned away.
    is_sighted = any(not isinstance(row.event, ClientSeen) for row in rows)
    was_there = is_sighted if first is None else not first
    is_present = was_there
    for row, turn in zip(rows, turns, strict=True):
        row.was_there, row.was_present = was_there, is_present
        is_present = is_present if turn is None else turn
        row.is_present = is_present


def _turn(row: _Row) -> bool | None:
    if isinstance(row.event, MemberJoined):
        return True
    return False if isinstance(row.event, DEPARTURES) else row.seen.is_back


def _tell_protocols(rows: Sequence[_Row]) -> None:
    """The latest protocol that was told; before, the one that the first later event implies."""
    protocol: Protocol | None = None
    implied = _implied_protocol(rows)
    before: Protocol | None = None
    for number, row in enumerate(rows):
        match row.event:
            case MemberJoined(protocol=told) | MemberSwitched(protocol=told):
                protocol = told
            case None if row.seen.name == RESTARTED:
                protocol = CLASSIC
        row.protocol = protocol or implied
        row.protocol_before = before if number and before else row.protocol
        before = row.protocol


def _implied_protocol(rows: Sequence[_Row]) -> Protocol | None:
    for row in rows:
        if isinstance(row.event, MemberSwitched):
            return CLASSIC if row.event.protocol == NATIVE else NATIVE
    seen = [row.event.protocol for row in rows if isinstance(row.event, ClientSeen)]
    if seen:
        return NATIVE if NATIVE in seen else CLASSIC
    is_classic = any(row.kind == CLASSIC or isinstance(row.event, MemberStateMoved) for row in rows)
    return CLASSIC if is_classic else None


def _tell_instances(rows: Sequence[_Row], members: Mapping[str, Sequence[_Row]]) -> None:
    """The instance id of a static member. It may take over another instance and keep its member id.
    If it joined before the first event, its replacement reveals the id: the next row is about the
    successor."""
    for row, behind in zip_longest(rows, rows[1:]):
        if isinstance(row.event, MemberJoined | ClientSeen):
            row.instance_id = row.event.instance_id
        elif (
            isinstance(row.event, MemberReplaced)
            and behind is not None
            and behind.seen.member_id == row.event.replaced_by
        ):
            row.instance_id = getattr(behind.event, "instance_id", None)
    for its_rows in members.values():
        latest = next((row.instance_id for row in its_rows if row.instance_id is not None), None)
        for row in its_rows:
            latest = row.instance_id = row.instance_id or latest


def _tell_counts(rows: Sequence[_Row], members: Mapping[str, Sequence[_Row]]) -> None:
    """Members from before the first event count from the start. What happens at one place happens
    at once."""
    firsts = [its_rows[0] for its_rows in members.values() if its_rows[0].was_there]
    count = len(firsts)
    classic = sum(row.protocol_before == CLASSIC for row in firsts)
    for _, at_once in groupby(rows, key=lambda row: row.seen.place):
        together = list(at_once)
        for row in together:
            if row.seen.member_id is not None:
                count += row.is_present - row.was_present
                classic += row.is_classic - row.was_classic
        for row in together:
            row.members, row.classic_members = count, classic


def _tell_states(rows: Sequence[_Row]) -> None:
    epochs: list[list[_Row]] = [[]]
    for row in rows:
        if isinstance(row.event, GroupEpochBumped):
            epochs.append([])
        epochs[-1].append(row)
    for number, epoch in enumerate(epochs):
        _tell_consumer_states(epoch, is_known=number > 0)
    _tell_classic_states(rows)


def _tell_consumer_states(epoch: Sequence[_Row], *, is_known: bool) -> None:
    """Kafka's names. That the group is stable shows only in the next events."""
    has_target = False
    last_change = max((row.seen.place for row in epoch if isinstance(row.event, _STEPS)), default=0)
    for row in epoch:
        has_target |= isinstance(row.event, TargetComputed)
        if row.members == 0:
            row.state = "Empty"
        elif is_known and not has_target:
            row.state = "Assigning"
        elif is_known:
            row.state = "Reconciling" if row.seen.place < last_change else "Stable"


def _tell_classic_states(rows: Sequence[_Row]) -> None:
    """A conversion, or a new process, never continues a rebalance, but may begin one."""
    moved = (row.event for row in rows if isinstance(row.event, GroupStateMoved))
    state: str | None = next((event.from_state for event in moved), None)
    for row in rows:
        is_end = row.seen.name == RESTARTED and row.seen.member_id is None
        if isinstance(row.event, GroupStateMoved):
            state = row.event.to_state
        elif isinstance(row.event, GroupConverted) or is_end:
            state = "Stable" if row.members > 0 else "Empty"
        elif isinstance(row.event, GroupCreated):
            state = "Empty"
        if row.kind == CLASSIC:
            row.state = state


_STEPS = (MemberStateMoved, PartitionsRevoked, PartitionsReleased, PartitionsAssigned)
"""The steps of a consumer group's members towards the target."""
