"""ConsumerGroupHeartbeat: join, stay, acknowledge and leave in one request (rules 3.2 to 3.10)."""

from collections.abc import Set

from coordinator.consumer.admission import admit
from coordinator.consumer.client_side import is_told_to_compute
from coordinator.consumer.group_epoch import bump_epoch_if_needed
from coordinator.consumer.member_ids import member_id_from
from coordinator.consumer.member_slots import returns_in_person
from coordinator.consumer.phases import end_phase
from coordinator.consumer.reconcile import reassign_member, reconcile_member
from coordinator.consumer.selection import check_versions
from coordinator.consumer.subscription import has_changed, put_member
from coordinator.consumer.target import may_be_uneven, update_target
from coordinator.consumer.validation import check_heartbeat
from coordinator.conversion.upgrade import enter_consumer_group
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.rolls import record_join
from coordinator.group.step_builder import StepBuilder
from coordinator.group.stray_commits import doubt_commits
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import JOIN_EPOCH, ConsumerHeartbeatReceived
from coordinator.interface.records import Assignment, EpochCause, Member
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import DeadlineKind, Repetition, RepetitionMoved
from coordinator.native.heartbeat_interval import next_interval_ms
from coordinator.native.leave import leave
from coordinator.native.statements import owned_by_sender, record_answer
from kafka_codecs.error_codes import ErrorCode


def heartbeat(step: StepBuilder, event: ConsumerHeartbeatReceived) -> None:
    """Decide a ConsumerGroupHeartbeat on a group of either kind, or on none."""
    check_heartbeat(event, step.config)
    if event.member_epoch < JOIN_EPOCH:
        leave(step, event)
        return
    _check_not_held(step, event)
    needs_target = enter_consumer_group(step, event)
    member_id = event.member_id or member_id_from(event.fresh_id)
    if event.member_epoch == JOIN_EPOCH and step.state.commits:
        doubt_commits(step, member_id)
    if step.state.member_slots or step.state.departed:
        needs_target |= returns_in_person(step, member_id, event)
    before = admit(step, event, member_id)
    if event.member_epoch == JOIN_EPOCH and step.state.group is not None:
        record_join(step, event, before)
    after = _describe_member(event, member_id, before, step.config)
    check_versions(step, before, after)
    why_else = EpochCause.REBALANCE_INTERRUPTED if needs_target else None
    if before is not None:
        # A native member receives its assignment in heartbeats, so it need not rejoin.
        end_phase(step, member_id)
    put_member(step, before, after, why_else=why_else)
    if before is not None and _stays_uneven(step, before):
        bump_epoch_if_needed(step, EpochCause.LOADS_UNEVEN)
    update_target(step)
    current_before = step.consumer.assignments.get(member_id)
    # A member that repeats its previous epoch has not received the current one: it cannot advance.
    is_behind = current_before is not None and current_before.member_epoch != event.member_epoch
    if not is_behind:
        owned = owned_by_sender(step.consumer, event, member_id)
        reconcile_member(step, after, owned, subscription_changed=has_changed(before, after))
    elif event.member_epoch == JOIN_EPOCH:
        reassign_member(step, after)
    step.arm(DeadlineKind.SESSION, member_id, step.config.consumer_session_timeout_ms)
    _answer(step, event, after, current_before, is_behind=is_behind)


def _answer(
    step: StepBuilder,
    event: ConsumerHeartbeatReceived,
    member: Member,
    current_before: Assignment | None,
    *,
    is_behind: bool,
) -> None:
    """Answer a heartbeat that was accepted. The answer lists the assignment if the member may not
    know it; `current_before` is what it had before."""
    group, member_id = step.consumer, member.member_id
    current = group.assignments[member_id]
    is_changed = current is not current_before and _partitions_assigned(
        current
    ) != _partitions_assigned(current_before)
    is_new_epoch = current_before is None or current_before.member_epoch != current.member_epoch
    repetition = group.repetitions.get(member_id)
    is_awaited = _awaits_acknowledgement(
        step, event, current, is_changed=is_changed, is_new_epoch=is_new_epoch
    )
    must_state_owned = repetition is not None and repetition.must_state_owned
    if must_state_owned and event.owned is None and not is_changed:
        reason = "the next heartbeat must state the owned partitions, because answers may be lost"
        step.answer(
            event.token, event.refuse(GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason))
        )
        return
    # `check_heartbeat` ensures that a joining heartbeat is full.
    # What the assignor says belongs to the epoch of its target. A member that still gives up
    # partitions has another one, and was told what belongs to that.
    is_current = current.member_epoch == group.assignment_epoch
    metadata = group.target_metadata.get(member_id) if is_current else None
    must_list = event.is_full or is_behind or is_changed or is_awaited
    # An assignor may have something new to say about the same partitions.
    must_list |= metadata is not None and current.member_epoch != event.member_epoch
    if must_list:
        record_answer(step, event, current_before, current, member_id=member_id)
    step.answer(
        event.token,
        ConsumerHeartbeatReply(
            member_id=member_id,
            member_epoch=current.member_epoch,
            heartbeat_interval_ms=next_interval_ms(
                step.state,
                group,
                step.config,
                calls_within_ms=event.calls_within_ms,
                answers_within_ms=event.answers_within_ms,
                now_ms=step.now_ms,
            ),
            should_compute=is_told_to_compute(step, member),
            assignment=frozenset(_partitions_assigned(current)) if must_list else None,
            assignment_metadata=metadata if must_list else None,
            assignment_error=group.assignment_error if must_list else 0,
        ),
    )


def _stays_uneven(step: StepBuilder, before: Member) -> bool:
    """Whether the member has made the group native, no eager member has to be spared (rule 9.4),
    and no new target is due."""
    group = step.consumer
    has_turned_native = before.is_classic and not group.phases
    return has_turned_native and group.assignment_epoch == group.epoch and may_be_uneven(step)


def _awaits_acknowledgement(
    step: StepBuilder,
    event: ConsumerHeartbeatReceived,
    current: Assignment,
    *,
    is_changed: bool,
    is_new_epoch: bool,
) -> bool:
    """Whether the member may not have received its assignment.

    DEV D53: an assignment that changes without the epoch is repeated until the member states that
    it owns exactly that. The answer may be lost, and nothing else would reveal it; a join may even
    be late, and its client no longer waits for the answer. An assignment that changes with the
    epoch needs no repetition: a member that states the new epoch has received the answer.

    DEV D67: a partition may be revoked before the member acknowledged it, or even received it. The
    member then sees no change and acknowledges nothing, so it must state what it owns. DEV D90: so
    must one that states exactly its assignment, and has not proved yet that it gave up the rest.
    """
    member_id, now_ms = event.member_id, step.now_ms
    before = step.consumer.repetitions.get(member_id)
    is_open = before is not None and (before.until_ms is None or now_ms < before.until_ms)
    is_acknowledged = event.owned == _partitions_assigned(current)
    has_proved = not current.pending_revocation
    is_awaited = not (is_acknowledged and has_proved) and (
        is_open or is_changed or event.owned is not None
    )
    after = before if is_open else None
    if is_acknowledged and not has_proved:
        after = Repetition(must_state_owned=True)
    elif is_acknowledged or is_new_epoch:
        after = None
    elif event.owned is not None:
        after = Repetition()
    elif is_changed:
        after = Repetition(must_state_owned=is_open and bool(current.pending_revocation))
    if after != before:
        step.emit(RepetitionMoved(member_id, after))
    return is_awaited


def _partitions_assigned(current: Assignment | None) -> Set[Partition]:
    return current.assigned.keys() if current is not None else frozenset()


def _check_not_held(step: StepBuilder, event: ConsumerHeartbeatReceived) -> None:
    """DEV D74: raises GroupError if the heartbeat would add a native member too many."""
    policy = step.config.roll_policy
    if policy.native_members_max is None or event.member_epoch != JOIN_EPOCH:
        return
    native, group = 0, step.state.group
    has_classic = isinstance(group, ClassicGroup) and bool(group.members)
    if isinstance(group, ConsumerGroup):
        native, has_classic = group.native_count, bool(group.phases)
        holder_id = group.instances.get(event.instance_id or "") or event.member_id
        holder = group.members.get(holder_id)
        if holder is not None and not holder.is_classic:
            return
    if (refusal := policy.refusal_of_native(native, has_classic=has_classic)) is not None:
        raise refusal


def _describe_member(
    event: ConsumerHeartbeatReceived, member_id: str, before: Member | None, config: GroupConfig
) -> Member:
    """The member after this heartbeat; absent fields keep their value.

    A native heartbeat makes a classic member native. One kind of assignor replaces the other.
    """
    keep = before or Member(
        member_id=member_id, client_id="", client_host="", rebalance_timeout_ms=-1
    )
    names = event.topic_names
    assignors = event.client_assignors if config.client_side_assignors else None
    return Member(
        member_id=member_id,
        instance_id=event.instance_id or keep.instance_id,
        rack_id=event.rack_id or keep.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=(
            keep.rebalance_timeout_ms
            if event.rebalance_timeout_ms == -1
            else event.rebalance_timeout_ms
        ),
        topic_names=keep.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=keep.topic_regex if event.topic_regex is None else event.topic_regex,
        server_assignor=event.server_assignor or (None if assignors else keep.server_assignor),
        client_assignors=(
            (() if event.server_assignor else keep.client_assignors)
            if assignors is None
            else assignors
        ),
        classic=None,
    )
