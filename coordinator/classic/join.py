"""JoinGroup on a classic group (rules 2.2 to 2.4)."""

from dataclasses import replace

from coordinator.classic.durability import store_group
from coordinator.classic.guards import known_member
from coordinator.classic.member_slots import take_slot
from coordinator.classic.protocols import is_acceptable, select_protocol
from coordinator.classic.rebalance import (
    begin_initial_delay,
    drop_pending_id,
    join_reply,
    joined_members,
    maybe_complete_join,
    park_join,
    prepare_rebalance,
    rebalance_or_complete,
    record_new_member,
    release_join,
    release_sync,
    remove_member,
    restart_session,
)
from coordinator.classic.subscriptions import (
    has_to_rejoin,
    have_topics_changed,
    subscribes_alike,
    watch_topics,
)
from coordinator.classic.temporary_assignments import rejoins_alone
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.group.stray_commits import doubt_commits
from coordinator.interface.config import CLASSIC_SIZE_LIMIT
from coordinator.interface.errors import GroupError
from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    RemovalCause,
)
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicGroupMemberDropped,
    ClassicGroupMemberPut,
    ClassicPhase,
    DeadlineKind,
    PendingIdAdded,
)
from kafka_codecs.error_codes import ErrorCode

# From JoinGroup v9 on, a returning static leader learns that it leads (KIP-814).
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9

PENDING_IDS_MAX = 1_000
"""The limit of ids handed out and not used yet. Beyond it the oldest is forgotten; its client gets
UNKNOWN_MEMBER_ID and asks for another."""


def join(step: StepBuilder, event: JoinGroupReceived, *, epoch_before: int) -> None:
    """Decide a JoinGroup; the caller knows that the group is classic or missing.

    The first JoinGroup without an id creates a missing group. DEV D55: a refused JoinGroup does
    not, because it would leave an empty group behind for every name that a client tries.

    DEV D88: the generations continue from the epoch of the consumer group that this one replaces,
    so that a late request of an earlier member never states an epoch of a present one.
    """
    was_nothing = step.state.group is None and not step.records
    if step.state.group is None:
        _create_group(step, event, epoch_before)
    elif not _has_room(step, event):
        _refuse_full_group(step, event)
        return
    if not _protocols_fit(step.classic, event):
        refusal = _wrong_protocols(event)
        if was_nothing:
            raise refusal
        step.answer(event.token, event.refuse(refusal))
    elif event.member_id:
        _join_with_id(step, event)
    else:
        _join_without_id(step, event)


def _create_group(step: StepBuilder, event: JoinGroupReceived, generation: int) -> None:
    if event.member_id:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, "the group has no members", member_id=event.member_id
        )
    value = ClassicGroupValue(protocol_type=None, generation=generation, protocol=None, leader=None)
    step.emit(ClassicGroupMetadata(value=value))


def _has_room(step: StepBuilder, event: JoinGroupReceived) -> bool:
    group, max_size = step.classic, step.config.classic_max_size
    match group.phase:
        case ClassicPhase.EMPTY:
            return True
        case ClassicPhase.PREPARING_REBALANCE:
            return event.member_id in group.joins or len(group.joins) < max_size
        case ClassicPhase.COMPLETING_REBALANCE | ClassicPhase.STABLE:
            # DEV D29: in Kafka a static member that restarts waits for its own session to end.
            return (
                event.member_id in group.members
                or event.instance_id in group.instances
                or len(group.members) < max_size
            )


def _refuse_full_group(step: StepBuilder, event: JoinGroupReceived) -> None:
    if event.member_id in step.classic.pending_ids:
        drop_pending_id(step, event.member_id)
        maybe_complete_join(step)
    elif event.member_id in step.classic.members:
        remove_member(step, event.member_id, RemovalCause.GROUP_FULL)
    limit = step.config.named_limits(CLASSIC_SIZE_LIMIT)
    reason = f"the group already has its maximum of {step.config.classic_max_size} members {limit}"
    step.answer(event.token, JoinGroupReply(error=ErrorCode.GROUP_MAX_SIZE_REACHED, reason=reason))


def _wrong_protocols(event: JoinGroupReceived) -> GroupError:
    return GroupError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "the protocol type differs from the group's, no protocol is common to all members, or one"
        " is listed twice",
        member_id=event.member_id,
    )


def _protocols_fit(group: ClassicGroup, event: JoinGroupReceived) -> bool:
    count = len(group.members)
    type_fits = event.protocol_type == group.core.protocol_type if count else event.protocol_type
    return bool(type_fits) and is_acceptable(event.protocols, group.offers, count)


def _join_without_id(step: StepBuilder, event: JoinGroupReceived) -> None:
    group = step.classic
    named_after = event.client_id if event.instance_id is None else event.instance_id
    member_id = f"{named_after}-{event.fresh_id}"
    if event.instance_id is not None and event.instance_id in group.instances:
        _replace_static_member(step, event, member_id)
    elif event.asks_for_id:
        _hand_out_id(step, event, member_id)
    else:
        _add_member(step, event, member_id)


def _hand_out_id(step: StepBuilder, event: JoinGroupReceived, member_id: str) -> None:
    """Hand out an id. It blocks the join phase until its client uses it or takes too long.

    DEV D12: that time is a setting, and the number of pending ids is limited. In Kafka each id
    blocks for a session timeout.
    """
    pending_ids = step.classic.pending_ids
    if len(pending_ids) >= PENDING_IDS_MAX:
        drop_pending_id(step, next(iter(pending_ids)))
    step.emit(PendingIdAdded(member_id))
    wait_ms = min(event.session_timeout_ms, step.config.classic_pending_id_timeout_ms)
    step.arm(DeadlineKind.PENDING_ID, member_id, wait_ms)
    step.answer(
        event.token, JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    )


def _join_with_id(step: StepBuilder, event: JoinGroupReceived) -> None:
    group = step.classic
    if event.member_id in group.pending_ids and event.instance_id is None:
        drop_pending_id(step, event.member_id)
        _add_member(step, event, event.member_id)
        return
    member = known_member(group, event.member_id, event.instance_id)
    if step.state.commits:
        doubt_commits(step, member.member_id)
    is_same_list = member.protocols == event.protocols
    match group.phase:
        case ClassicPhase.COMPLETING_REBALANCE if is_same_list:
            _repeat_answer(step, event, join_reply(group, member.member_id))
        case ClassicPhase.STABLE if is_same_list and member.member_id != group.core.leader:
            _repeat_answer(step, event, join_reply(group, member.member_id))
        case ClassicPhase.STABLE if rejoins_alone(
            step, member, _member_after_rejoin(member, event)
        ):
            step.emit(ClassicGroupMemberPut(_member_after_rejoin(member, event)))
            _learn_generation(step, member.member_id)
            store_group(step, group.stored_value())
            _repeat_answer(step, event, join_reply(group, member.member_id))
        case _:
            _rejoin(step, event, member)


def _add_member(step: StepBuilder, event: JoinGroupReceived, member_id: str) -> None:
    group = step.classic
    if step.state.member_slots and (left := take_slot(step, event)) is not None:
        leads = group.core.leader is None
        _take_over(
            step, event, member_id, replace(left, client_host=event.client_host), leads=leads
        )
        return
    if not group.members:
        core = replace(group.core, protocol_type=event.protocol_type, leader=member_id)
        step.emit(ClassicCoreMoved(core))
    step.emit(ClassicGroupMemberPut(_member_from(event, member_id)))
    record_new_member(step)
    park_join(step, event, member_id, is_new=True)
    if group.phase is ClassicPhase.EMPTY:
        begin_initial_delay(step, waited_ms=event.waited_ms)
    else:
        rebalance_or_complete(step)


def _rejoin(step: StepBuilder, event: JoinGroupReceived, member: ClassicGroupMember) -> None:
    step.emit(ClassicGroupMemberPut(_member_after_rejoin(member, event)))
    park_join(step, event, member.member_id, is_new=False)
    rebalance_or_complete(step)


def _repeat_answer(step: StepBuilder, event: JoinGroupReceived, reply: JoinGroupReply) -> None:
    """Repeat a lost answer without a rebalance."""
    if _learn_generation(step, reply.member_id):
        store_group(step, step.classic.stored_value())
    restart_session(step, step.classic.members[reply.member_id])
    step.answer(event.token, reply)


def _learn_generation(step: StepBuilder, member_id: str) -> bool:
    """Note that a member learns the generation from its answer. Returns whether it was at an older
    epoch."""
    core = step.classic.core
    if member_id not in core.older_epochs:
        return False
    step.emit(ClassicCoreMoved(core.without_older_epoch(member_id)))
    return True


def _replace_static_member(step: StepBuilder, event: JoinGroupReceived, member_id: str) -> None:
    """Replace a static member that returned under a new id (KIP-345)."""
    group = step.classic
    assert event.instance_id is not None
    old_id = group.instances[event.instance_id]
    old = group.members[old_id]
    release_join(step, old_id, ErrorCode.FENCED_INSTANCE_ID, echo_id=old_id)
    release_sync(step, old_id, ErrorCode.FENCED_INSTANCE_ID)
    step.disarm(DeadlineKind.SESSION, old_id)
    leads = group.core.leader == old_id
    step.emit(ClassicGroupMemberDropped(old_id, RemovalCause.REPLACED))
    _take_over(step, event, member_id, old, leads=leads)


def _take_over(
    step: StepBuilder,
    event: JoinGroupReceived,
    member_id: str,
    old: ClassicGroupMember,
    *,
    leads: bool,
) -> None:
    """Let a new member take over the assignment of one that was removed. A rebalance follows only
    if that changes something for the others."""
    group = step.classic
    new = replace(_member_after_rejoin(old, event), member_id=member_id)
    step.emit(ClassicGroupMemberPut(new))
    if leads:
        step.emit(ClassicCoreMoved(replace(group.core, leader=member_id)))
    protocol_before = group.core.protocol
    protocol_now = select_protocol([member.protocols for member in group.members.values()])
    # DEV D11: no other member noticed topic changes while the leader was away.
    changes_nothing = protocol_now == protocol_before and not (leads and have_topics_changed(step))
    # DEV D59: without a rebalance, the assignment would not follow the new subscription, and what
    # the old member had to give up would stay unassigned.
    if (
        group.phase is ClassicPhase.STABLE
        and changes_nothing
        and subscribes_alike(group, before=old, after=new)
        and not has_to_rejoin(step, old)
    ):
        if leads and event.version < FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
            watch_topics(step)
        if not group.unsynced:
            step.disarm(DeadlineKind.SYNC_PHASE)
        store_group(step, group.stored_value())
        _repeat_answer(step, event, _replaced_reply(group, event, old.member_id, member_id))
        return
    park_join(step, event, member_id, is_new=False)
    if group.phase is ClassicPhase.PREPARING_REBALANCE:
        maybe_complete_join(step)
    else:
        prepare_rebalance(step)


def _replaced_reply(
    group: ClassicGroup, event: JoinGroupReceived, old_id: str, member_id: str
) -> JoinGroupReply:
    reply = replace(join_reply(group, member_id), members=())
    is_leader = group.core.leader == member_id
    if event.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
        members = joined_members(group) if is_leader else ()
        return replace(reply, members=members, skip_assignment=is_leader)
    # An older client that learned that it leads would assign again: name its old id as leader.
    return replace(reply, leader=old_id) if is_leader else reply


def _member_after_rejoin(
    member: ClassicGroupMember, event: JoinGroupReceived
) -> ClassicGroupMember:
    """A member keeps its instance id and client from its first join for its whole life."""
    return replace(
        member,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
    )


def _member_from(event: JoinGroupReceived, member_id: str) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
    )
