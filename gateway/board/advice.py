"""The step of a roll that comes next, with what it will cost, and what the last one did cost."""

from collections.abc import Iterator

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.rolls import is_rolled
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.board.reading import decode_embedded
from gateway.board.words import count_members, short
from gateway.events.group_events import StepEnded
from gateway.groups.glance import Glance

STEP_S = "1 to 2 s"
"""The time that the partitions of a restarted consumer are without an owner (rolls.md: one second
between the processes, and what it takes to join)."""
KAFKA_STEP = "Kafka's own migration, measured: 3 s for each partition, most others disturbed"
"""A step of the same roll through Kafka 4.3 alone (rolls.md: idle partition-seconds)."""


def next_step(glance: Glance, config: GroupConfig) -> str | None:
    """The next consumer to restart with the new protocol, and what that will cost. None if nothing
    is left to do, or if something else comes first. `config`: that of the group, with what it
    overrides."""
    state = glance.state
    if state is None or glance.policy is not RollMode.ALLOW:
        return None
    first = min(_classic_members(state, glance.topics), default=None)
    if first is None:
        return None
    client_id, member_id, partitions = first
    name = short(client_id or member_id)
    if not is_rolled(state, config, glance.now_ms):
        group_id = short(glance.group_id)
        return (
            f"next: groupferry roll {group_id}, so that nobody else is disturbed; then restart"
            f" {name} with group.protocol=consumer"
        )
    noun = "partition" if partitions == 1 else "partitions"
    return (
        f"next: restart {name} with group.protocol=consumer; expected {STEP_S} without an owner for"
        f" its {partitions} {noun}, nobody else disturbed"
    )


def last_step(step: StepEnded | None) -> str | None:
    """What the latest step did cost, beside Kafka's own migration; None before the first one."""
    if step is None:
        return None
    others = step.members_disturbed
    disturbed = f"{count_members(others)} disturbed" if others else "nobody else disturbed"
    return (
        f"last: {short(step.client_id)}, {step.unowned_ms / 1000:.1f} partition-seconds without an"
        f" owner, {disturbed} ({KAFKA_STEP})"
    )


def _classic_members(state: GroupState, topics: Topics) -> Iterator[tuple[str, str, int]]:
    """The client id, the member id and the number of partitions of each classic member."""
    match state.group:
        case ConsumerGroup() as group:
            for member_id, member in group.members.items():
                if member.is_classic:
                    assignment = group.assignments.get(member_id)
                    count = 0 if assignment is None else len(assignment.held_partitions)
                    yield member.client_id, member_id, count
        case ClassicGroup() as group:
            for member_id, classic in group.members.items():
                held = decode_embedded(classic.assignment, topics, group.core.protocol)
                yield classic.client_id, member_id, len(held)
        case None:
            pass
