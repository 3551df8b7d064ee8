"""The step of a roll that comes next, with what it will cost, and what the last one did cost."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.rolls import is_rolled
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.board.reading import decode_embedded
from gateway.board.words import count_members, name_all, short
from gateway.client_versions import explain_lack, speaks_consumer
from gateway.events.group_events import StepEnded
from gateway.events.member_events import ClientSeen
from gateway.groups.group_snapshot import GroupSnapshot

STEP_S = "1 to 2 s"
"""The time that the partitions of a restarted consumer are without an owner (rolls.md: one second
between the processes, and what it takes to join)."""
NO_CLIENTS: Mapping[str, ClientSeen] = MappingProxyType({})
KAFKA_STEP = "Kafka's own migration, measured: 3 s for each partition, most others disturbed"
"""A step of the same roll through Kafka 4.3 alone (rolls.md: idle partition-seconds)."""


def next_step(
    snapshot: GroupSnapshot, config: GroupConfig, clients: Mapping[str, ClientSeen] = NO_CLIENTS
) -> str | None:
    """The next consumer to restart with the new protocol, and what that will cost. None if nothing
    is left to do, or if something else comes first. `config`: that of the group, with what it
    overrides; `clients`: what the members' clients said of themselves, by member id."""
    state = snapshot.state
    if state is None or snapshot.policy is not RollMode.ALLOW:
        return None
    left = sorted(_classic_members(state, snapshot.topics))
    able = [member for member in left if _may_switch(clients.get(member.member_id))]
    if not able:
        return _explain_rest(left, clients)
    client_id, member_id, partitions = able[0]
    name = short(client_id or member_id)
    if not is_rolled(state, config, snapshot.now_ms):
        group_id = short(snapshot.group_id)
        return (
            f"next: groupferry roll {group_id}, so that nobody else is disturbed; then restart"
            f" {name} with group.protocol=consumer"
        )
    noun = "partition" if partitions == 1 else "partitions"
    return (
        f"next: restart {name} with group.protocol=consumer; expected {STEP_S} without an owner for"
        f" its {partitions} {noun}, nobody else disturbed"
    )


def _may_switch(client: ClientSeen | None) -> bool:
    """Whether a client may have the new protocol, as far as known."""
    if client is None:
        return True
    return speaks_consumer(client.software_name, client.software_version) is not False


def _explain_rest(
    left: Sequence["_ClassicMember"], clients: Mapping[str, ClientSeen]
) -> str | None:
    """What becomes of members whose clients do not have the new protocol."""
    if not left:
        return None
    lacks = sorted(
        {
            explain_lack(client.software_name, client.software_version)
            for member in left
            if (client := clients.get(member.member_id)) is not None
        }
    )
    names = name_all(member.client_id or member.member_id for member in left)
    verb = "stays" if len(left) == 1 else "stay"
    return f"next: {names} {verb} classic: {'; '.join(lacks)} (clients.md)"


def last_step(step: StepEnded | None) -> str | None:
    """What the latest step cost, compared with Kafka's own migration; None before the first one."""
    if step is None:
        return None
    others = step.members_disturbed
    disturbed = f"{count_members(others)} disturbed" if others else "nobody else disturbed"
    return (
        f"last: {short(step.client_id)}, {step.unowned_ms / 1000:.1f} partition-seconds without an"
        f" owner, {disturbed} ({KAFKA_STEP})"
    )


class _ClassicMember(NamedTuple):
    client_id: str
    member_id: str
    partitions: int


def _classic_members(state: GroupState, topics: Topics) -> Iterator[_ClassicMember]:
    match state.group:
        case ConsumerGroup() as group:
            for member_id, member in group.members.items():
                if member.is_classic:
                    assignment = group.assignments.get(member_id)
                    count = 0 if assignment is None else len(assignment.held_partitions)
                    yield _ClassicMember(member.client_id, member_id, count)
        case ClassicGroup() as group:
            for member_id, classic in group.members.items():
                held = decode_embedded(classic.assignment, topics, group.core.protocol)
                yield _ClassicMember(classic.client_id, member_id, len(held))
        case None:
            pass
