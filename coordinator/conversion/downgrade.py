"""Consumer to generic: no native member remains, and the classic ones go on by themselves (rule 6).

The generation of the new generic group is the epoch of the consumer group, so that it only grows.

DEV D17: as its assignment each member is given what it holds, where Kafka gives it its target.
Where the two differ a rebalance follows; but if the group converts again before that, or is loaded
from its log, somebody else may still hold what is in the target.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.consumer.regexes import forget_unused_regexes
from coordinator.consumer.removal import stop_timers
from coordinator.conversion.embedded import version_of, write_assignment
from coordinator.draft import Draft
from coordinator.events import JoinGroupReceived
from coordinator.generic.protocols import selected
from coordinator.generic.rebalance import park_join, prepare_rebalance
from coordinator.records import (
    Assignment,
    CurrentAssignment,
    EpochCause,
    GenericGroupMetadata,
    GenericGroupValue,
    GenericMember,
    GroupEpoch,
    Member,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.replies import JoinGroupReply
from coordinator.topics import Topics
from coordinator.volatile import DeadlineKind, GenericCoreMoved, MemberPhase
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE


def may_downgrade_without(draft: Draft, removed_ids: Collection[str]) -> bool:
    """Whether the group becomes generic once these members are gone (rules 6.1, 6.2)."""
    group = draft.consumer
    removed = [group.members[member_id] for member_id in removed_ids]
    remaining_count = len(group.members) - len(removed)
    return (
        draft.config.consumer_migration_policy.allows_downgrade
        and 0 < remaining_count <= draft.config.generic_max_size
        and group.native_count == sum(1 for member in removed if not member.is_classic)
    )


def downgrade_after_removal(draft: Draft, causes: Mapping[str, RemovalCause]) -> None:
    """The last native member is gone: convert, and let the members join anew (rule 6.4)."""
    held = dict(draft.consumer.assignments)
    _become_generic(draft, draft.consumer.epoch, causes, is_quiet=False)
    _rebalance_all(draft, held)


def downgrade_by_replacement(
    draft: Draft, event: JoinGroupReceived, member_id: str, *, generation: int
) -> None:
    """A classic member took the place of the last native one, a static member (rule 6.2).

    DEV D9, D10: quiet only if every member has settled, for otherwise
    somebody has yet to get its part; then the joiner waits in the rebalance like everybody. A
    member that has not fetched its assignment would name the protocol of its own JoinGroup.
    """
    group = draft.consumer
    held = dict(group.assignments)
    is_quiet = group.epoch == group.assignment_epoch and all(
        group.is_settled(id_) and group.phases[id_] is MemberPhase.STABLE for id_ in group.members
    )
    _become_generic(draft, generation, {}, is_quiet=is_quiet)
    if not is_quiet:
        park_join(draft, event, member_id, is_new=False)
        _rebalance_all(draft, held)
        return
    core = draft.generic.core
    draft.answer(
        event.token,
        JoinGroupReply(
            member_id=member_id,
            generation=core.generation,
            protocol_type=core.protocol_type,
            protocol_name=core.protocol,
        ),
    )


def _rebalance_all(draft: Draft, held: Mapping[str, Assignment]) -> None:
    """One of the members leads: if it joins again, no other does."""
    group = draft.generic
    leader = next(iter(group.members))
    draft.emit(GenericCoreMoved(replace(group.core, leader=leader, held_at_downgrade=held)))
    prepare_rebalance(draft)


def _become_generic(
    draft: Draft, generation: int, causes: Mapping[str, RemovalCause], *, is_quiet: bool
) -> None:
    """Replace the consumer group. Without a leader in the record, a rebalance is due: whoever
    loads the group before it is through begins it again."""
    group = draft.consumer
    remaining = {id_: m for id_, m in group.members.items() if id_ not in causes}
    protocol = selected([m.classic.protocols for m in remaining.values() if m.classic])
    members = tuple(
        _generic_member(member, protocol, group.assignments[member_id], draft.topics)
        for member_id, member in sorted(remaining.items())
    )
    _delete_consumer_group(draft, causes)
    draft.emit(
        GenericGroupMetadata(
            value=GenericGroupValue(
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                generation=generation,
                protocol=protocol,
                leader=members[0].member_id if is_quiet else None,
                members=members,
                unwatched_hash=group.metadata_hash if is_quiet else None,
            )
        )
    )
    for member in members:
        draft.arm(DeadlineKind.SESSION, member.member_id, member.session_timeout_ms)


def _generic_member(
    member: Member, protocol: str, current: Assignment, topics: Topics
) -> GenericMember:
    assert member.classic is not None
    version = version_of(dict(member.classic.protocols)[protocol])
    return GenericMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=member.classic.protocols,
        assignment=write_assignment(current.held, version, topics),
    )


def _delete_consumer_group(draft: Draft, causes: Mapping[str, RemovalCause]) -> None:
    """Tombstones in the order of dependency; the group's own come last (rule 8.3)."""
    group = draft.consumer
    for member_id in list(group.members):
        stop_timers(draft, member_id)
    draft.disarm(DeadlineKind.TARGET_DUE)
    for member_id in list(group.assignments):
        draft.emit(CurrentAssignment(member_id=member_id, value=None))
    for member_id in list(group.targets):
        draft.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    draft.emit(TargetAssignmentMetadata(epoch=None))
    for member_id in list(group.members):
        cause = causes.get(member_id, RemovalCause.GROUP_CONVERTED)
        draft.emit(MemberMetadata(member_id=member_id, value=None, cause=cause))
    forget_unused_regexes(draft)
    draft.emit(GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED))
