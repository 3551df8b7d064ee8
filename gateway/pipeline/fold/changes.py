"""What happened in a group, event by event, with the state of group and members."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import TypeVar

from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    GroupStateChanged,
    TargetComputed,
)
from gateway.events.member_events import (
    ClientSeen,
    GrantEnded,
    MemberJoined,
    MemberReplaced,
    MemberStateChanged,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsRevoked,
)
from gateway.pipeline.fold.history import History
from gateway.pipeline.fold.row import Row
from gateway.pipeline.fold.sightings import (
    CLASSIC,
    CONSUMER,
    DEPARTURES,
    NATIVE,
    RESTARTED,
    Kind,
    Protocol,
    Sighting,
    sightings,
)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ChangeRow(Row):
    """Everything that happened in each group: one row per event, with the state of group and
    member.

    The tables of members, rebalances and migrations are made from these rows. The beginning of a
    history may be lost: a member that appears without having joined was there before the first
    event.

    An event, or a fact that no event tells: `gateway_restarted` after the last event of a process,
    and for each change that it forgot; `member_seen` for members that were there from the start, or
    that came while the cluster served the group. Then `client_seen` also tells that a member has
    gone, in whose place the client came; and so does `hosting_started` or `group_adopted`.
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


def ends_of_moments(in_order: Iterable[T]) -> Iterator[T]:
    """What comes last of everything with the same `at_ms`."""
    for _, at_once in groupby(in_order, key=attrgetter("at_ms")):
        *_, last = at_once
        yield last


def changes(history: History) -> list[ChangeRow]:
    """See `ChangeRow`."""
    rows = sightings(history)
    if not rows:
        return []
    begun_ms = min(row.at_ms for row in rows)
    members = _of_members(rows)
    _tell_kinds(rows)
    for its_rows in members.values():
        _tell_presence(its_rows)
        _tell_protocols(its_rows)
    _tell_instances(rows, members)
    _tell_counts(rows, members)
    _tell_states(rows)
    return [_change(row, history, begun_ms) for row in rows]


def _change(row: Sighting, history: History, begun_ms: int) -> ChangeRow:
    """The finished row. Sightings come before everything else, whenever the member was seen."""
    of_member = row.member_id is not None
    fields = {} if row.event is None else vars(row.event)
    epoch = fields.get("group_epoch")
    return ChangeRow(
        cluster_id=history.cluster_id,
        group_id=history.group_id,
        place=row.place,
        at_ms=row.at_ms if row.place else begun_ms,
        event=row.name,
        begun_ms=begun_ms,
        kind=row.kind,
        state=row.state,
        members=row.members,
        classic_members=row.classic_members,
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=fields.get("client_id"),
        protocol=row.protocol,
        protocol_before=row.protocol_before,
        is_present=row.is_present if of_member else None,
        was_present=row.was_present if of_member else None,
        was_there=row.was_there if of_member else None,
        cause=fields.get("cause"),
        direction=fields.get("direction"),
        from_state=fields.get("from_state"),
        to_state=fields.get("to_state"),
        epoch=fields.get("generation") if epoch is None else epoch,
        partitions=fields.get("partitions"),
        topics=fields.get("topics"),
    )


def _of_members(rows: Iterable[Sighting]) -> Mapping[str, list[Sighting]]:
    found: dict[str, list[Sighting]] = {}
    for row in rows:
        if row.member_id is not None:
            found.setdefault(row.member_id, []).append(row)
    return found


def _tell_kinds(rows: Iterable[Sighting]) -> None:
    """The kind before the first event that tells it is the one that this event implies."""
    kind: Kind | None = None
    unknown: list[Sighting] = []
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
            case MemberStateChanged() | PartitionsRevoked():
                implied = CONSUMER
            case GroupStateChanged():
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


def _tell_presence(rows: Sequence[Sighting]) -> None:
    """A member is present from its join until it goes; without a join, from the start."""
    turns = [_turn(row) for row in rows]
    place, first = next(
        ((row.place, turn) for row, turn in zip(rows, turns, strict=True) if turn is not None),
        (None, None),
    )
    # A client that was seen may be about to join, or may be turned away.
    is_sighted = any(not isinstance(row.event, ClientSeen) for row in rows)
    was_there = is_sighted if first is None else not first or place == 0
    is_present = was_there
    for row, turn in zip(rows, turns, strict=True):
        row.was_there, row.was_present = was_there, is_present
        is_present = is_present if turn is None else turn
        row.is_present = is_present


def _turn(row: Sighting) -> bool | None:
    if isinstance(row.event, MemberJoined):
        return True
    return False if isinstance(row.event, DEPARTURES) else row.arrives


def _tell_protocols(rows: Sequence[Sighting]) -> None:
    """The latest protocol that was told; before, the one that the first later event implies."""
    protocol: Protocol | None = None
    implied = _implied_protocol(rows)
    before: Protocol | None = None
    for number, row in enumerate(rows):
        match row.event:
            case MemberJoined(protocol=told) | MemberSwitched(protocol=told):
                protocol = told
            case None if row.name == RESTARTED:
                protocol = CLASSIC
        row.protocol = protocol or implied
        row.protocol_before = before if number and before else row.protocol
        before = row.protocol


def _implied_protocol(rows: Sequence[Sighting]) -> Protocol | None:
    for row in rows:
        if isinstance(row.event, MemberSwitched):
            return CLASSIC if row.event.protocol == NATIVE else NATIVE
    seen = [row.event.protocol for row in rows if isinstance(row.event, ClientSeen)]
    if seen:
        return NATIVE if NATIVE in seen else CLASSIC
    is_classic = any(
        row.kind == CLASSIC or isinstance(row.event, MemberStateChanged) for row in rows
    )
    return CLASSIC if is_classic else None


def _tell_instances(rows: Sequence[Sighting], members: Mapping[str, Sequence[Sighting]]) -> None:
    """The instance id of a static member. It may take over another instance and keep its member id.
    If it joined before the first event, its replacement reveals the id: the next row is about the
    successor."""
    for row, behind in zip_longest(rows, rows[1:]):
        if isinstance(row.event, MemberJoined | ClientSeen):
            row.instance_id = row.event.instance_id
        elif (
            isinstance(row.event, MemberReplaced)
            and behind is not None
            and behind.member_id == row.event.replaced_by
        ):
            row.instance_id = getattr(behind.event, "instance_id", None)
    for its_rows in members.values():
        latest = next((row.instance_id for row in its_rows if row.instance_id is not None), None)
        for row in its_rows:
            latest = row.instance_id = row.instance_id or latest


def _tell_counts(rows: Sequence[Sighting], members: Mapping[str, Sequence[Sighting]]) -> None:
    """Members from before the first event count from the start. What happens at one place happens
    at once."""
    firsts = [its_rows[0] for its_rows in members.values() if its_rows[0].was_there]
    count = len(firsts)
    classic = sum(row.protocol_before == CLASSIC for row in firsts)
    for _, at_once in groupby(rows, key=lambda row: row.place):
        together = list(at_once)
        for row in together:
            if row.member_id is not None:
                count += row.is_present - row.was_present
                is_classic = row.is_present and row.protocol == CLASSIC
                classic += is_classic - (row.was_present and row.protocol_before == CLASSIC)
        for row in together:
            row.members, row.classic_members = count, classic


def _tell_states(rows: Sequence[Sighting]) -> None:
    epochs: list[list[Sighting]] = [[]]
    for row in rows:
        if isinstance(row.event, GroupEpochBumped):
            epochs.append([])
        epochs[-1].append(row)
    for number, epoch in enumerate(epochs):
        _tell_consumer_states(epoch, is_known=number > 0)
    _tell_classic_states(rows)


def _tell_consumer_states(epoch: Sequence[Sighting], *, is_known: bool) -> None:
    """Kafka's names. That the group is stable shows only in the next events."""
    has_target = False
    last_change = max((row.place for row in epoch if isinstance(row.event, _STEPS)), default=0)
    for row in epoch:
        has_target |= isinstance(row.event, TargetComputed)
        if row.members == 0:
            row.state = "Empty"
        elif is_known and not has_target:
            row.state = "Assigning"
        elif is_known:
            row.state = "Reconciling" if row.place < last_change else "Stable"


def _tell_classic_states(rows: Sequence[Sighting]) -> None:
    """A conversion, or a new process, never continues a rebalance, but may begin one. Only an
    adopted group goes from Empty to Stable at once; its state in the cluster is unknown."""
    moved = (row.event for row in rows if isinstance(row.event, GroupStateChanged))
    first = next(((event.from_state, event.to_state) for event in moved), None)
    state: str | None = None if first in (None, ("Empty", "Stable")) else first[0]
    for row in rows:
        is_end = row.name == RESTARTED and row.member_id is None
        if isinstance(row.event, GroupStateChanged):
            state = row.event.to_state
        elif isinstance(row.event, GroupConverted) or is_end:
            state = "Stable" if row.members > 0 else "Empty"
        elif isinstance(row.event, GroupCreated):
            state = "Empty"
        if row.kind == CLASSIC:
            row.state = state


_STEPS = (MemberStateChanged, PartitionsRevoked, GrantEnded, PartitionsAssigned)
"""The steps of a consumer group's members towards the target."""
