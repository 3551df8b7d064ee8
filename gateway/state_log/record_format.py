"""Encodes and decodes the records of a state log: the engine's, and the last events of a group.

Maps the engine's records to Kafka's. The cause of a tombstone is not stored, because the events of
its batch have it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never

from coordinator.interface.records import (
    AdoptionRecord,
    AdoptionState,
    Assignment,
    AssignmentMetadata,
    ClassicGenerationBegun,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMemberRemoval,
    ClassicMetadata,
    ClientAssignor,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupConfigs,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    RegularExpression,
    ReleaseRecord,
    ReleaseState,
    RemovalCause,
    ResolvedRegex,
    ServedBySetting,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    is_tombstone,
)
from coordinator.interface.topics import Partition, by_topic
from gateway.state_log.last_events import FORGOTTEN, LastEvents, LogRecord
from kafka_codecs import state_records as wire
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.errors import WireError
from kafka_codecs.state_records import RecordType

_UNLOCKED = -1
_NO_GROUP = ClassicGroupValue(protocol_type=None, generation=-1, protocol=None, leader=None)


class Entry(NamedTuple):
    """One record in bytes; a tombstone has no value."""

    key: bytes
    value: bytes | None


class StoredEntry(NamedTuple):
    """A record in bytes, with its offset in the topic."""

    offset: int
    key: bytes
    value: bytes | None


def encode_record(group_id: str, record: LogRecord) -> Entry:
    """The bytes of a record. Raises WireError if it has a value that cannot be written."""
    if isinstance(record, LastEvents):
        return _last_events_entry(group_id, record)
    key = wire.encode_key(*_key(group_id, record))
    return Entry(key, None if is_tombstone(record) else wire.encode_value(_value(record)))


def decode_record(entry: Entry) -> tuple[str, LogRecord]:
    """Decode a record. Returns its group too.

    Raises WireError for malformed bytes, or for a record of a later groupferry.
    """
    record_type, key = wire.decode_key(entry.key)
    if isinstance(key, wire.LogKey):
        raise WireError(f"{record_type.name} is not a record of a group")
    if entry.value is None:
        if record_type is RecordType.LAST_EVENTS:
            return key.group_id, FORGOTTEN
        return key.group_id, _tombstone(record_type, key)
    value = wire.decode_value(record_type, entry.value)
    try:
        if isinstance(value, wire.LastEventsValue):
            return key.group_id, _read_last_events(value)
        return key.group_id, _record(key, value)
    except ValueError as error:  # a cause or state that only a later version knows
        raise WireError(f"{record_type.name}: {error}") from None


def _last_events_entry(group_id: str, last: LastEvents) -> Entry:
    key = wire.encode_key(RecordType.LAST_EVENTS, wire.GroupKey(group_id=group_id))
    if last == FORGOTTEN:
        return Entry(key, None)
    value = wire.LastEventsValue(
        sequence=last.sequence,
        lines=tuple(line.encode() for line in last.lines),
        began=last.began_ms,
        at=last.at_ms,
    )
    return Entry(key, wire.encode_value(value))


def _read_last_events(value: wire.LastEventsValue) -> LastEvents:
    return LastEvents(
        sequence=value.sequence,
        lines=tuple(line.decode() for line in value.lines),
        began_ms=value.began,
        at_ms=value.at,
    )


def _key(group_id: str, record: DurableRecord) -> tuple[RecordType, wire.GroupsKey]:  # noqa: PLR0912  # one case for each kind of record
    match record:
        case ClassicGroupMetadata():
            return RecordType.GROUP_METADATA, wire.GroupKey(group_id=group_id)
        case ClassicMemberRemoval(member_id=member_id):
            record_type = RecordType.GROUP_MEMBER_REMOVAL
            return record_type, wire.MemberKey(group_id=group_id, member_id=member_id)
        case ClassicGenerationBegun():
            return RecordType.GROUP_GENERATION_BEGUN, wire.GroupKey(group_id=group_id)
        case GroupEpoch():
            return RecordType.CONSUMER_GROUP_METADATA, wire.GroupKey(group_id=group_id)
        case MemberMetadata(member_id=member_id):
            record_type = RecordType.CONSUMER_GROUP_MEMBER_METADATA
            return record_type, wire.MemberKey(group_id=group_id, member_id=member_id)
        case TargetAssignmentMetadata():
            record_type = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
            return record_type, wire.GroupKey(group_id=group_id)
        case TargetAssignmentMember(member_id=member_id):
            record_type = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
            return record_type, wire.MemberKey(group_id=group_id, member_id=member_id)
        case CurrentAssignment(member_id=member_id):
            record_type = RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
            return record_type, wire.MemberKey(group_id=group_id, member_id=member_id)
        case RegularExpression(regex=regex):
            record_type = RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION
            key = wire.RegularExpressionKey(group_id=group_id, regular_expression=regex)
            return record_type, key
        case AdoptionRecord():
            return RecordType.GROUP_ADOPTION, wire.GroupKey(group_id=group_id)
        case ReleaseRecord():
            return RecordType.GROUP_RELEASE, wire.GroupKey(group_id=group_id)
        case ServedBySetting():
            return RecordType.GROUP_SERVED_BY_SETTING, wire.GroupKey(group_id=group_id)
        case GroupConfigs():
            return RecordType.GROUP_CONFIGS, wire.GroupKey(group_id=group_id)
        case _:
            assert_never(record)


def _tombstone(record_type: RecordType, key: wire.GroupsKey) -> DurableRecord:  # noqa: PLR0912  # one case for each kind of record
    match record_type, key:
        case RecordType.GROUP_METADATA, _:
            return ClassicGroupMetadata(value=None)
        case RecordType.GROUP_ADOPTION, _:
            return AdoptionRecord(value=None)
        case RecordType.GROUP_RELEASE, _:
            return ReleaseRecord(value=None)
        case RecordType.GROUP_SERVED_BY_SETTING, _:
            return ServedBySetting(is_so=False)
        case RecordType.GROUP_MEMBER_REMOVAL, wire.MemberKey(member_id=member_id):
            return ClassicMemberRemoval(member_id=member_id, cause=None)
        case RecordType.GROUP_GENERATION_BEGUN, _:
            return ClassicGenerationBegun(generation=None)
        case RecordType.CONSUMER_GROUP_METADATA, _:
            return GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED)
        case RecordType.CONSUMER_GROUP_MEMBER_METADATA, wire.MemberKey(member_id=member_id):
            return MemberMetadata(member_id=member_id, value=None)
        case RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, _:
            return TargetAssignmentMetadata(epoch=None)
        case (
            RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
            wire.MemberKey(member_id=member_id),
        ):
            return TargetAssignmentMember(member_id=member_id, partitions=None)
        case (
            RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            wire.MemberKey(member_id=member_id),
        ):
            return CurrentAssignment(member_id=member_id, value=None)
        case _, wire.RegularExpressionKey(regular_expression=regex):
            return RegularExpression(regex=regex, value=None)
        case _:
            return GroupConfigs(overrides={})


# -- to the wire ---------------------------------------------------------------------------------


def _value(record: DurableRecord) -> wire.Value:  # noqa: PLR0912  # one case for each kind of record
    match record:
        case ClassicGroupMetadata(value=ClassicGroupValue() as group):
            return _classic_group(group)
        case ClassicMemberRemoval(cause=RemovalCause() as cause):
            return wire.GroupMemberRemovalValue(cause=cause.value)
        case ClassicGenerationBegun(generation=int(generation)):
            return wire.GroupGenerationBegunValue(generation=generation)
        case AdoptionRecord(value=AdoptionState() as adoption):
            return _adoption(adoption)
        case ReleaseRecord(value=ReleaseState() as release):
            return _release(release)
        case ServedBySetting(is_so=True):
            return wire.GroupServedBySettingValue()
        case GroupEpoch(epoch=int(epoch), metadata_hash=metadata_hash, cause=cause):
            return wire.ConsumerGroupMetadataValue(
                epoch=epoch, metadata_hash=metadata_hash, cause=cause.value
            )
        case MemberMetadata(value=Member() as member):
            return _member(member)
        case TargetAssignmentMetadata(epoch=int(epoch)):
            return wire.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch,
                assignment_timestamp=record.timestamp_ms,
                assignor=record.assignor,
            )
        case TargetAssignmentMember(partitions=frozenset() as partitions, metadata=metadata):
            return wire.ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=tuple(
                    wire.TargetPartitions(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in by_topic(partitions).items()
                ),
                metadata=None
                if metadata is None
                else wire.AssignmentMetadata(version=metadata.version, metadata=metadata.metadata),
            )
        case CurrentAssignment(value=Assignment() as current):
            return wire.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=current.member_epoch,
                previous_member_epoch=current.previous_epoch,
                state=current.state,
                assigned_partitions=_held_partitions(current.assigned),
                partitions_pending_revocation=_held_partitions(current.pending_revocation),
            )
        case RegularExpression(value=ResolvedRegex() as resolved):
            return wire.ConsumerGroupRegularExpressionValue(
                topics=tuple(sorted(resolved.topics)),
                version=resolved.version,
                timestamp=resolved.timestamp_ms,
            )
        case GroupConfigs(overrides=overrides):
            return wire.GroupConfigsValue(
                configs=tuple(
                    wire.GroupConfig(name=name, value=value) for name, value in overrides.items()
                )
            )
        case _:
            raise ValueError("a tombstone has no value")


def _classic_group(group: ClassicGroupValue) -> wire.GroupMetadataValue:
    return wire.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        members=_classic_group_members(group),
        unwatched_hash=wire.NO_HASH if group.unwatched_hash is None else group.unwatched_hash,
    )


def _adoption(adoption: AdoptionState) -> wire.GroupAdoptionValue:
    group, locked = adoption.group, adoption.lock_generation
    return wire.GroupAdoptionValue(
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        members=tuple(_classic_group_member(member, group.protocol) for member in group.members),
        lock_generation=_UNLOCKED if locked is None else locked,
    )


def _release(release: ReleaseState) -> wire.GroupReleaseValue:
    group = release.group or _NO_GROUP
    return wire.GroupReleaseValue(
        guard_id=release.guard_id,
        is_native_due=release.is_native_due,
        is_recalling=release.group is not None,
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        members=_classic_group_members(group),
    )


def _classic_group_members(group: ClassicGroupValue) -> tuple[wire.GroupMember, ...]:
    return tuple(
        replace(
            _classic_group_member(member, group.protocol),
            older_epoch=group.older_epochs.get(member.member_id, wire.NO_EPOCH),
        )
        for member in group.members
    )


def _classic_group_member(member: ClassicGroupMember, protocol: str | None) -> wire.GroupMember:
    subscription = member.metadata_for(protocol)
    return wire.GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=subscription,
        assignment=member.assignment,
        protocols=tuple(
            wire.OfferedProtocol(name=name, metadata=None if data == subscription else data)
            for name, data in member.protocols
        ),
    )


def _member(member: Member) -> wire.ConsumerGroupMemberMetadataValue:
    classic = None
    if member.classic is not None:
        classic = wire.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=tuple(
                wire.ClassicProtocol(name=name, metadata=data)
                for name, data in member.classic.protocols
            ),
        )
    return wire.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
        client_assignors=tuple(
            wire.ClientAssignor(
                name=assignor.name,
                minimum_version=assignor.minimum_version,
                maximum_version=assignor.maximum_version,
                reason=assignor.reason,
                version=assignor.version,
                metadata=assignor.metadata,
            )
            for assignor in member.client_assignors
        ),
    )


def _held_partitions(epochs: Mapping[Partition, int]) -> tuple[wire.HeldPartitions, ...]:
    return tuple(
        wire.HeldPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=tuple(epochs[Partition(topic_id, number)] for number in numbers),
        )
        for topic_id, numbers in by_topic(epochs).items()
    )


# -- and back ------------------------------------------------------------------------------------


def _record(key: wire.Key, value: wire.Value) -> DurableRecord:  # noqa: PLR0912  # one case for each kind of record
    match key, value:
        case _, wire.GroupMetadataValue():
            return ClassicGroupMetadata(value=_read_classic_group(value))
        case wire.MemberKey(member_id=member_id), wire.GroupMemberRemovalValue():
            return ClassicMemberRemoval(member_id=member_id, cause=RemovalCause(value.cause))
        case _, wire.GroupGenerationBegunValue(generation=generation):
            return ClassicGenerationBegun(generation=generation)
        case _, wire.GroupAdoptionValue():
            return AdoptionRecord(value=_read_adoption(value))
        case _, wire.GroupReleaseValue():
            return ReleaseRecord(value=_read_release(value))
        case _, wire.GroupServedBySettingValue():
            return ServedBySetting(is_so=True)
        case _, wire.ConsumerGroupMetadataValue():
            return GroupEpoch(
                epoch=value.epoch,
                metadata_hash=value.metadata_hash,
                cause=EpochCause(value.cause),
            )
        case wire.MemberKey(member_id=member_id), wire.ConsumerGroupMemberMetadataValue():
            return MemberMetadata(member_id=member_id, value=_read_member(member_id, value))
        case _, wire.ConsumerGroupTargetAssignmentMetadataValue():
            return TargetAssignmentMetadata(
                epoch=value.assignment_epoch,
                timestamp_ms=value.assignment_timestamp,
                assignor=value.assignor,
            )
        case wire.MemberKey(member_id=member_id), wire.ConsumerGroupTargetAssignmentMemberValue():
            partitions = frozenset(
                Partition(topic.topic_id, number)
                for topic in value.topic_partitions
                for number in topic.partitions
            )
            metadata = value.metadata
            return TargetAssignmentMember(
                member_id=member_id,
                partitions=partitions,
                metadata=None
                if metadata is None
                else AssignmentMetadata(version=metadata.version, metadata=metadata.metadata),
            )
        case wire.MemberKey(member_id=member_id), wire.ConsumerGroupCurrentMemberAssignmentValue():
            return CurrentAssignment(member_id=member_id, value=_read_assignment(value))
        case (
            wire.RegularExpressionKey(regular_expression=regex),
            wire.ConsumerGroupRegularExpressionValue(),
        ):
            resolved = ResolvedRegex(
                topics=frozenset(value.topics),
                version=value.version,
                timestamp_ms=value.timestamp,
            )
            return RegularExpression(regex=regex, value=resolved)
        case _, wire.GroupConfigsValue(configs=configs):
            return GroupConfigs(overrides={config.name: config.value for config in configs})
        case _:
            raise ValueError("key and value have different types")


def _read_classic_group(value: wire.GroupMetadataValue) -> ClassicGroupValue:
    return ClassicGroupValue(
        protocol_type=value.protocol_type or None,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        members=tuple(_read_classic_member(member) for member in value.members),
        unwatched_hash=None if value.unwatched_hash == wire.NO_HASH else value.unwatched_hash,
        older_epochs=_read_older_epochs(value.members),
    )


def _read_older_epochs(members: Iterable[wire.GroupMember]) -> Mapping[str, int]:
    return {
        member.member_id: member.older_epoch
        for member in members
        if member.older_epoch != wire.NO_EPOCH
    }


def _read_adoption(value: wire.GroupAdoptionValue) -> AdoptionState:
    group = ClassicGroupValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        members=tuple(_read_classic_member(member) for member in value.members),
    )
    locked = value.lock_generation
    return AdoptionState(group=group, lock_generation=None if locked == _UNLOCKED else locked)


def _read_release(value: wire.GroupReleaseValue) -> ReleaseState:
    if not value.is_recalling:
        return ReleaseState(guard_id=value.guard_id, is_native_due=value.is_native_due)
    group = ClassicGroupValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        members=tuple(_read_classic_member(member) for member in value.members),
        older_epochs=_read_older_epochs(value.members),
    )
    return ReleaseState(group=group, guard_id=value.guard_id, is_native_due=value.is_native_due)


def _read_classic_member(member: wire.GroupMember) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.rebalance_timeout,
        protocols=tuple(
            (offered.name, member.subscription if offered.metadata is None else offered.metadata)
            for offered in member.protocols
        ),
        assignment=member.assignment,
    )


def _read_member(member_id: str, value: wire.ConsumerGroupMemberMetadataValue) -> Member:
    classic = value.classic_member_metadata
    return Member(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topic_names=value.subscribed_topic_names,
        topic_regex=value.subscribed_topic_regex or "",
        server_assignor=value.server_assignor,
        client_assignors=tuple(
            ClientAssignor(
                name=assignor.name,
                minimum_version=assignor.minimum_version,
                maximum_version=assignor.maximum_version,
                reason=assignor.reason,
                version=assignor.version,
                metadata=assignor.metadata,
            )
            for assignor in value.client_assignors
        ),
        classic=None
        if classic is None
        else ClassicMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple(
                (protocol.name, protocol.metadata) for protocol in classic.supported_protocols
            ),
        ),
    )


def _read_assignment(value: wire.ConsumerGroupCurrentMemberAssignmentValue) -> Assignment:
    return Assignment(
        member_epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_read_held(value.assigned_partitions),
        pending_revocation=_read_held(value.partitions_pending_revocation),
    )


def _read_held(held: Iterable[wire.HeldPartitions]) -> dict[Partition, int]:
    """Raises ValueError if a topic does not have one epoch for each partition."""
    return {
        Partition(topic.topic_id, number): epoch
        for topic in held
        for number, epoch in zip(topic.partitions, topic.assignment_epochs or (), strict=True)
    }
