"""Short constructors for events of groups and members, for hand-written histories."""

from coordinator.interface.records import EpochCause, RemovalCause
from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.events.group_events import (
    Direction,
    GroupConverted,
    GroupEpochBumped,
    TargetComputed,
)
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateChanged,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsStated,
    Protocol,
)
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from tests.support.event_writer import START_MS

TOPIC = "t"
EMPTY, STABLE = ClassicPhase.EMPTY, ClassicPhase.STABLE
PREPARING, COMPLETING = ClassicPhase.PREPARING_REBALANCE, ClassicPhase.COMPLETING_REBALANCE
REJOIN, SYNC, AT_REST = (
    MemberPhase.PREPARE_REBALANCE,
    MemberPhase.COMPLETING_REBALANCE,
    MemberPhase.STABLE,
)


def joins(
    member_id: str, protocol: Protocol = "classic", instance_id: str | None = None
) -> MemberJoined:
    return MemberJoined(
        member_id=member_id,
        client_id="c",
        client_host="/h",
        instance_id=instance_id,
        protocol=protocol,
    )


def leaves(member_id: str) -> MemberLeft:
    return MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)


def expires(member_id: str) -> MemberFenced:
    return MemberFenced(member_id=member_id, cause=RemovalCause.SESSION_EXPIRED)


def becomes(member_id: str, replaced_by: str) -> MemberReplaced:
    return MemberReplaced(member_id=member_id, replaced_by=replaced_by)


def switches(member_id: str, protocol: Protocol) -> MemberSwitched:
    return MemberSwitched(member_id=member_id, protocol=protocol)


def goes(member_id: str, was: MemberPhase, to: MemberPhase) -> MemberStateChanged:
    return MemberStateChanged(member_id=member_id, from_state=was, to_state=to)


def gets(member_id: str, *numbers: int) -> PartitionsAssigned:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={TOPIC: numbers})


def gives(member_id: str, *numbers: int) -> GrantEnded:
    return GrantEnded(
        cause="revoked", member_id=member_id, member_epoch=1, partitions={TOPIC: numbers}
    )


def says(member_id: str, *numbers: int) -> PartitionsStated:
    return PartitionsStated(member_id=member_id, member_epoch=1, partitions={TOPIC: numbers})


def speaks(member_id: str, at_s: float) -> OffsetsCommitted:
    """The member commits."""
    at_ms = START_MS + round(at_s * 1000)
    committed = CommittedOffsets(partition=0, commits=1, first=1, lowest=1, last=1)
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=at_ms,
        to_ms=at_ms,
        offsets={TOPIC: (committed,)},
    )


def bump(epoch: int, cause: EpochCause = EpochCause.MEMBER_JOINED) -> GroupEpochBumped:
    return GroupEpochBumped(group_epoch=epoch, cause=cause)


def target(epoch: int) -> TargetComputed:
    return TargetComputed(assignment_epoch=epoch, assignor="uniform", partitions_moved=0)


def converts(direction: Direction, members: int) -> GroupConverted:
    return GroupConverted(direction=direction, is_live=True, members=members, cause="")


UP: Direction = "classic->consumer"
DOWN: Direction = "consumer->classic"
