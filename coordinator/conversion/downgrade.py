"""Downgrades a consumer group without native members to a classic group (rule 6).

The generation of the classic group is the epoch of the consumer group, so it never goes back.

DEV D17: the assignment of each member is what it holds; Kafka uses its target. Where the two
differ, a rebalance follows. But if the group converts again before that, or is loaded from its log,
another member may still hold partitions of that target.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.classic.protocols import select_protocol
from coordinator.classic.rebalance import park_join, prepare_rebalance
from coordinator.consumer.member_slots import end_slots
from coordinator.consumer.regexes import forget_unused_regexes
from coordinator.consumer.removal import stop_timers
from coordinator.consumer.target import may_be_uneven
from coordinator.group.consumer_group import ConsumerGroupState
from coordinator.group.embedded_protocol import version_of, write_assignment
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.records import (
    Assignment,
    AssignmentMetadata,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    CurrentAssignment,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ConversionsMoved,
    DeadlineKind,
    MemberPhase,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE


def may_downgrade_without(step: StepBuilder, removed_ids: Collection[str]) -> bool:
    """Whether removing these members downgrades the group (rules 6.1, 6.2). A slot that is kept
    may be taken by a native member."""
    group = step.consumer
    return (
        group.native_count == sum(not group.members[id_].is_classic for id_ in removed_ids)
        and step.config.consumer_migration_policy.allows_downgrade
        and not step.state.member_slots
        and 0 < len(group.members) - len(removed_ids) <= step.config.classic_max_size
    )


def downgrade_after_removal(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
    """Downgrade after the last native member left, and rebalance (rule 6.4)."""
    held = dict(step.consumer.assignments)
    _become_classic(step, step.consumer.epoch, causes, without_rebalance=False)
    _rebalance_all(step, held)


def downgrade_by_replacement(
    step: StepBuilder, event: JoinGroupReceived, member_id: str, *, generation: int
) -> None:
    """Downgrade after a classic member replaced the last native member, which is static (rule 6.2).

    DEV D9, D10: no rebalance follows if every member has its target. Otherwise some member still
    lacks partitions, and the joiner waits in the rebalance like the others. A member that has not
    synced yet would name the protocol of its own JoinGroup. DEV D81: the group does not stay uneven
    either. A member with an older epoch (DEV D79) keeps that one.
    """
    held = dict(step.consumer.assignments)
    without_rebalance = is_at_rest(step) and not may_be_uneven(step)
    _become_classic(step, generation, {}, without_rebalance=without_rebalance)
    if not without_rebalance:
        park_join(step, event, member_id, is_new=False)
        _rebalance_all(step, held)
        return
    core = step.classic.core
    step.answer(
        event.token,
        JoinGroupReply(
            member_id=member_id,
            generation=core.generation,
            protocol_type=core.protocol_type,
            protocol_name=core.protocol,
        ),
    )


def downgrade_at_rest(step: StepBuilder) -> None:
    """Downgrade a group whose last native member was replaced, once a temporary assignment has
    ended (rule 6.2), without a rebalance unless the group is uneven."""
    held = dict(step.consumer.assignments)
    without_rebalance = not may_be_uneven(step)
    _become_classic(step, step.consumer.epoch, {}, without_rebalance=without_rebalance)
    if not without_rebalance:
        _rebalance_all(step, held)


def is_at_rest(step: StepBuilder) -> bool:
    """Whether every member of a group without native ones has its target, and knows it."""
    group = step.consumer
    return (
        group.epoch == group.assignment_epoch
        and group.state is ConsumerGroupState.STABLE
        and all(group.phases[id_] is MemberPhase.STABLE for id_ in group.members)
    )


def _rebalance_all(step: StepBuilder, held: Mapping[str, Assignment]) -> None:
    """Start a rebalance, with one of the members as leader."""
    group = step.classic
    leader = next(iter(group.members))
    step.emit(ClassicCoreMoved(replace(group.core, leader=leader, held_at_downgrade=held)))
    prepare_rebalance(step)


def _become_classic(
    step: StepBuilder,
    generation: int,
    causes: Mapping[str, RemovalCause],
    *,
    without_rebalance: bool,
) -> None:
    """Replace the consumer group. A record without a leader means that a rebalance is due: if the
    group is loaded before it completes, the rebalance starts again."""
    group = step.consumer
    remaining = {id_: m for id_, m in group.members.items() if id_ not in causes}
    protocol = select_protocol([m.classic.protocols for m in remaining.values() if m.classic])
    # Until they rejoin, members with an older epoch keep that one (DEV D79), or are told to
    # rejoin without losing their partitions (DEV D8), also after a restart.
    epochs = {member_id: group.assignments[member_id].member_epoch for member_id in remaining}
    older_epochs = {
        member_id: epoch
        for member_id, epoch in epochs.items()
        if epoch != generation or not without_rebalance
    }
    # Metadata of another assignor means nothing to the members.
    target_metadata = group.target_metadata if group.assignor in (None, protocol) else {}
    members = tuple(
        _classic_group_member(
            member,
            protocol,
            group.assignments[member_id],
            step.topics,
            target_metadata.get(member_id),
        )
        for member_id, member in sorted(remaining.items())
    )
    delete_consumer_group(step, causes)
    conversions = step.config.roll_policy.after_downgrade(step.state.conversions, step.now_ms)
    step.emit(ConversionsMoved(conversions))
    step.emit(
        ClassicGroupMetadata(
            value=ClassicGroupValue(
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                generation=generation,
                protocol=protocol,
                leader=members[0].member_id if without_rebalance else None,
                members=members,
                unwatched_hash=group.metadata_hash if without_rebalance else None,
                older_epochs=older_epochs,
            )
        )
    )
    for member in members:
        step.arm(DeadlineKind.SESSION, member.member_id, member.session_timeout_ms)


def _classic_group_member(
    member: Member,
    protocol: str,
    current: Assignment,
    topics: Topics,
    target_metadata: AssignmentMetadata | None,
) -> ClassicGroupMember:
    assert member.classic is not None
    version = version_of(dict(member.classic.protocols)[protocol])
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=member.classic.protocols,
        assignment=write_assignment(
            current.held_partitions,
            version,
            topics,
            target_metadata.metadata if target_metadata else None,
        ),
    )


def delete_consumer_group(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
    """Write tombstones in order of dependency, those of the group last (rule 8.3). Members without
    a cause remain, in a classic group."""
    group = step.consumer
    for member_id in list(group.members):
        stop_timers(step, member_id)
    step.disarm(DeadlineKind.TARGET_DUE)
    for member_id in list(group.assignments):
        step.emit(CurrentAssignment(member_id=member_id, value=None))
    for member_id in list(group.targets):
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    end_slots(step)
    step.emit(TargetAssignmentMetadata(epoch=None))
    for member_id in list(group.members):
        cause = causes.get(member_id, RemovalCause.GROUP_CONVERTED)
        step.emit(MemberMetadata(member_id=member_id, value=None, cause=cause))
    forget_unused_regexes(step)
    step.emit(GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED))
