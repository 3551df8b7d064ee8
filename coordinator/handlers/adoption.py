"""Taking over a classic group that another coordinator has served (rule 2.11).

The members continue without noticing: with the same ids, generation, leader and assignments. The
gateway makes sure that the other coordinator no longer serves any member, see
`gateway/docs/adoption.md`. DEV D70: in Kafka a group only moves between brokers that share a log.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from coordinator.conversion.downgrade import delete_consumer_group
from coordinator.conversion.upgrade import remove_classic_group
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers.size_limits import MEMBER_BYTES_MAX
from coordinator.interface.config import CLASSIC_SIZE_LIMIT, SESSION_TIMEOUT_LIMITS, GroupConfig
from coordinator.interface.errors import ensure
from coordinator.interface.events import AdoptionMoved
from coordinator.interface.records import (
    AdoptionRecord,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ReleaseRecord,
    ServedBySetting,
)
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)


def obstacles(group: ClassicGroupValue, config: GroupConfig) -> tuple[str, ...]:
    """Why the group cannot be taken over as it is, a phrase each; empty if it can."""
    return tuple(_obstacles(group, config))


def record(step: StepBuilder, event: AdoptionMoved) -> None:
    """Store how far an adoption has come."""
    ensure(not _has_members(step), "a group with members cannot be adopted a second time")
    if event.adoption != step.state.adoption:
        step.emit(AdoptionRecord(value=event.adoption))


def adopt(step: StepBuilder) -> None:
    """Make the other coordinator's group the group here, in one batch with the end of the
    adoption. Sessions start at full length."""
    adoption = step.state.adoption
    if adoption is None:
        return  # repeated, because the answer of the log was lost
    ensure(adoption.lock_generation is not None, "a group is adopted before it is locked")
    ensure(not obstacles(adoption.group, step.config), "a group is adopted despite an obstacle")
    _delete_empty_group(step)
    step.emit(ClassicGroupMetadata(value=adoption.group), AdoptionRecord(value=None))
    if step.state.release is not None:
        step.emit(ReleaseRecord(value=None))
    if step.state.is_served_by_setting:
        step.emit(ServedBySetting(is_so=False))
    for member in adoption.group.members:
        step.arm(DeadlineKind.SESSION, member.member_id, member.session_timeout_ms)


def _has_members(step: StepBuilder) -> bool:
    group = step.state.group
    return group is not None and bool(group.members)


def _delete_empty_group(step: StepBuilder) -> None:
    """Delete what is left of the group from the time when it was served here."""
    match step.state.group:
        case ConsumerGroup() as group:
            ensure(not group.members, "a group with members cannot be replaced")
            delete_consumer_group(step, {})
        case ClassicGroup() as group:
            ensure(not group.members, "a group with members cannot be replaced")
            remove_classic_group(step)  # clients with pending ids come back without them
        case None:
            pass


def _obstacles(group: ClassicGroupValue, config: GroupConfig) -> Iterator[str]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        yield f"its protocol type is {group.protocol_type!r}, so it stays with the cluster"
    if not group.members:
        yield "it has no members: start its consumers"
    if len(group.members) > config.classic_max_size:
        limit = config.named_limits(CLASSIC_SIZE_LIMIT)
        yield f"it has more than {config.classic_max_size} members {limit}: raise that limit"
    if group.leader not in {member.member_id for member in group.members}:
        yield "its leader is unknown until the next member joins: restart one of its consumers"
    yield from _find_repetitions("member id", (member.member_id for member in group.members))
    yield from _find_repetitions(
        "instance id", (m.instance_id for m in group.members if m.instance_id is not None)
    )
    for member in group.members:
        for obstacle in _obstacles_of(member, group.protocol, config):
            yield f"{member.member_id}: {obstacle}"
    yield from _owned_twice(group)


def _obstacles_of(
    member: ClassicGroupMember, protocol: str | None, config: GroupConfig
) -> Iterator[str]:
    low, high = config.classic_min_session_timeout_ms, config.classic_max_session_timeout_ms
    if not low <= member.session_timeout_ms <= high:
        limits = config.named_limits(*SESSION_TIMEOUT_LIMITS)
        yield (
            f"its session timeout of {member.session_timeout_ms} ms is not within {low} to {high}"
            f" {limits}"
        )
    offered = dict(member.protocols)
    if len(offered) < len(member.protocols):
        yield "it lists a protocol twice"
    if protocol not in offered:
        yield f"it does not offer the group's protocol {protocol!r}"
        return
    if sum(len(part) for protocol in member.protocols for part in protocol) > MEMBER_BYTES_MAX:
        yield f"its description exceeds {MEMBER_BYTES_MAX} bytes"
    try:
        decode_subscription(offered[protocol or ""])
    except WireError as broken:
        yield f"its subscription is malformed: {broken}"
    try:
        if member.assignment:
            decode_assignment(member.assignment)
    except WireError as broken:
        yield f"its assignment is malformed: {broken}"


def _find_repetitions(what: str, values: Iterable[str]) -> Iterator[str]:
    for value, count in Counter(values).items():
        if count > 1:
            yield f"{count} of its members have the {what} {value}"


def _owned_twice(group: ClassicGroupValue) -> Iterator[str]:
    owners: dict[tuple[str, int], str] = {}
    for member in group.members:
        for partition in _partitions_assigned(member):
            other = owners.setdefault(partition, member.member_id)
            if other != member.member_id:
                topic, number = partition
                yield f"{topic}-{number} is assigned to {other} and to {member.member_id}"


def _partitions_assigned(member: ClassicGroupMember) -> Iterator[tuple[str, int]]:
    if not member.assignment:
        return
    try:
        _version, decoded = decode_assignment(member.assignment)
    except WireError:
        return  # an obstacle of its own
    for topic in decoded.assigned_partitions:
        for number in topic.partitions:
            yield topic.topic, number
