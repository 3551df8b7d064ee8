"""Short constructors for events of groups and members, for hand-written histories."""

from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.group_events import Direction
from gateway.events.member_events import MemberJoined, MemberLeft, Protocol

EMPTY, STABLE = ClassicPhase.EMPTY, ClassicPhase.STABLE
PREPARING = ClassicPhase.PREPARING_REBALANCE
UP: Direction = "classic->consumer"


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
