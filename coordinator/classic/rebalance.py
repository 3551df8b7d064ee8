"""The join phase of a classic group: parking joins, completing the phase, removing members.

A parked request stops its member's session, because a client that waits for an answer cannot send
heartbeats.
"""

from dataclasses import replace

from coordinator.classic.durability import store_group
from coordinator.classic.member_slots import end_slots
from coordinator.classic.protocols import select_protocol
from coordinator.classic.subscriptions import subscribed_topics
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.records import (
    ClassicGenerationBegun,
    ClassicGroupMember,
    RemovalCause,
)
from coordinator.interface.replies import JoinedMember, JoinGroupReply, SyncGroupReply
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicGroupMemberDropped,
    ClassicGroupMemberPut,
    ClassicPhase,
    DeadlineKind,
    InitialDelay,
    JoinParked,
    JoinReleased,
    ParkedJoin,
    PendingIdDropped,
    SyncReleased,
    SyncsExpected,
)
from kafka_codecs.error_codes import ErrorCode

NOBODY_JOINED_WAIT_MS_MIN = 1_000
"""A join phase without any join starts again after at least this time. With rebalance timeouts of
zero it would restart in a loop."""

INITIAL_DELAY_LEFT_MS_MIN = 1
"""What is left of the initial delay at least, so that the members that waited together for the
first decision join before it ends."""


def park_join(step: StepBuilder, event: JoinGroupReceived, member_id: str, *, is_new: bool) -> None:
    """Park the request until the join phase completes.

    DEV D33: an earlier parked request of the same member is answered. Kafka forgets it
    (KAFKA-20938).
    """
    release_join(step, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    step.disarm(DeadlineKind.SESSION, member_id)
    join = ParkedJoin(token=event.token, is_new=is_new)
    step.emit(JoinParked(member_id, join))
    if is_new:
        step.arm(
            DeadlineKind.NEW_MEMBER_JOIN,
            member_id,
            step.config.classic_new_member_join_timeout_ms,
        )


def release_join(step: StepBuilder, member_id: str, error: ErrorCode, echo_id: str = "") -> None:
    """Answer a member's parked JoinGroup with an error, if there is one."""
    parked = step.classic.joins.get(member_id)
    if parked is not None:
        step.emit(JoinReleased(member_id))
        step.disarm(DeadlineKind.NEW_MEMBER_JOIN, member_id)
        step.answer(parked.token, JoinGroupReply(error=error, member_id=echo_id))


def release_sync(step: StepBuilder, member_id: str, error: ErrorCode) -> None:
    """Answer a member's parked SyncGroup with an error, if there is one."""
    token = step.classic.syncs.get(member_id)
    if token is not None:
        step.emit(SyncReleased(member_id))
        step.answer(token, SyncGroupReply(error=error))


def restart_session(step: StepBuilder, member: ClassicGroupMember) -> None:
    """Restart the session, unless a parked request has stopped it."""
    group = step.classic
    if member.member_id not in group.joins and member.member_id not in group.syncs:
        step.arm(DeadlineKind.SESSION, member.member_id, member.session_timeout_ms)


def begin_initial_delay(step: StepBuilder, *, waited_ms: int) -> None:
    """Start the first join phase of an Empty group, which waits for more members (rule 2.5). The
    first member has waited for some of that time already."""
    delay_ms = step.config.classic_initial_rebalance_delay_ms
    longest_ms = _longest_rebalance_timeout_ms(step.classic)
    _enter_join_phase(step, InitialDelay(budget_left_ms=max(0, longest_ms - delay_ms)))
    least_ms = min(delay_ms, INITIAL_DELAY_LEFT_MS_MIN)
    step.arm(DeadlineKind.INITIAL_REBALANCE_DELAY, "", max(least_ms, delay_ms - waited_ms))


def prepare_rebalance(step: StepBuilder) -> None:
    """Start a join phase of a group with members."""
    group = step.classic
    if group.phase is ClassicPhase.COMPLETING_REBALANCE:
        _discard_assignments(step)
    end_slots(step)
    step.disarm(DeadlineKind.SYNC_PHASE)
    _enter_join_phase(step, None)
    step.arm(DeadlineKind.JOIN_PHASE, "", _longest_rebalance_timeout_ms(group))
    maybe_complete_join(step)


def rebalance_or_complete(step: StepBuilder) -> None:
    """After a change of membership, start a join phase or try to complete the running one."""
    if step.classic.phase is ClassicPhase.PREPARING_REBALANCE:
        maybe_complete_join(step)
    else:
        prepare_rebalance(step)


def is_join_phase_over(step: StepBuilder) -> bool:
    """Whether all members have joined, or the time for it has passed."""
    group = step.classic
    if group.phase is not ClassicPhase.PREPARING_REBALANCE or group.core.initial_delay:
        return False
    gathered = not group.pending_ids and len(group.joins) == len(group.members)
    return gathered or not step.is_armed(DeadlineKind.JOIN_PHASE)


def maybe_complete_join(step: StepBuilder) -> None:
    """Complete the join phase if it is over.

    DEV D34: the phase does not complete while a commit is in flight. The cluster stores the commit
    after our check, and the next generation may assign its partitions to other members.
    """
    if is_join_phase_over(step) and not step.state.commits:
        _complete_join(step)


def initial_delay_over(step: StepBuilder) -> None:
    """Extend the initial delay if new members have joined and time is left."""
    delay = step.classic.core.initial_delay
    if delay is None:
        return
    if delay.member_joined and delay.budget_left_ms > 0:
        again_ms = min(step.config.classic_initial_rebalance_delay_ms, delay.budget_left_ms)
        _set_initial_delay(step, InitialDelay(budget_left_ms=delay.budget_left_ms - again_ms))
        step.arm(DeadlineKind.INITIAL_REBALANCE_DELAY, "", again_ms)
    else:
        _set_initial_delay(step, None)
        maybe_complete_join(step)


def record_new_member(step: StepBuilder) -> None:
    """During the initial delay, remember that a new member has joined."""
    delay = step.classic.core.initial_delay
    if delay is not None and not delay.member_joined:
        _set_initial_delay(step, replace(delay, member_joined=True))


def sync_phase_over(step: StepBuilder) -> None:
    """Remove the members that never sent a SyncGroup (rule 2.5)."""
    for member_id in sorted(step.classic.unsynced):
        drop_member(step, member_id, RemovalCause.SYNC_TIMED_OUT)
    prepare_rebalance(step)


def remove_member(step: StepBuilder, member_id: str, cause: RemovalCause) -> None:
    """Remove a member and rebalance."""
    drop_member(step, member_id, cause)
    rebalance_or_complete(step)


def drop_member(step: StepBuilder, member_id: str, cause: RemovalCause) -> None:
    """Remove a member and answer its parked requests. The caller decides whether to rebalance."""
    group = step.classic
    release_join(step, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    release_sync(step, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    step.disarm(DeadlineKind.SESSION, member_id)
    step.emit(ClassicGroupMemberDropped(member_id, cause))
    if group.core.leader == member_id:
        # The next join phase elects another.
        step.emit(ClassicCoreMoved(replace(group.core, leader=None)))


def drop_pending_id(step: StepBuilder, member_id: str) -> None:
    """Forget a pending id that was used, given back, or timed out."""
    step.emit(PendingIdDropped(member_id))
    step.disarm(DeadlineKind.PENDING_ID, member_id)


def joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    """All members with their metadata for the selected protocol, as the leader gets them."""
    return tuple(
        JoinedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            metadata=member.metadata_for(group.core.protocol),
        )
        for member in group.members.values()
    )


def _complete_join(step: StepBuilder) -> None:
    group = step.classic
    step.disarm(DeadlineKind.JOIN_PHASE)
    for member in list(group.members.values()):
        # A static member may be restarting: it stays until its session expires (KIP-345).
        if member.member_id not in group.joins and member.instance_id is None:
            drop_member(step, member.member_id, RemovalCause.JOIN_TIMED_OUT)
    if not group.members:
        _become_empty(step)
    elif not group.joins:
        longest_ms = _longest_rebalance_timeout_ms(group)
        step.arm(DeadlineKind.JOIN_PHASE, "", max(longest_ms, NOBODY_JOINED_WAIT_MS_MIN))
    else:
        _start_generation(step)


def _become_empty(step: StepBuilder) -> None:
    group = step.classic
    emptied = replace(
        group.core,
        generation=group.core.generation + 1,
        protocol=None,
        leader=None,
        topics=frozenset(),
        topics_hash=None,
        unwatched_hash=None,
    )
    step.emit(ClassicCoreMoved(emptied))
    store_group(step, group.stored_value())


def _start_generation(step: StepBuilder) -> None:
    group = step.classic
    step.emit(ClassicGenerationBegun(generation=group.core.generation + 1))  # DEV D61
    core = group.core
    leader = core.leader if core.leader in group.joins else next(iter(group.joins))
    begun = replace(
        core,
        phase=ClassicPhase.COMPLETING_REBALANCE,
        protocol=select_protocol([member.protocols for member in group.members.values()]),
        leader=leader,
        unwatched_hash=None,
        older_epochs={},
        held_at_downgrade=None,
    )
    step.emit(ClassicCoreMoved(begun))
    topics = subscribed_topics(group)
    topics_hash = None if topics is None else step.topics.metadata_hash(topics)
    step.emit(ClassicCoreMoved(replace(begun, topics=topics, topics_hash=topics_hash)))
    step.emit(SyncsExpected(tuple(group.members)))
    step.arm(DeadlineKind.SYNC_PHASE, "", _longest_rebalance_timeout_ms(group))
    for member_id, parked in list(group.joins.items()):
        step.emit(JoinReleased(member_id))
        step.disarm(DeadlineKind.NEW_MEMBER_JOIN, member_id)
        restart_session(step, group.members[member_id])
        step.answer(parked.token, join_reply(group, member_id))


def join_reply(group: ClassicGroup, member_id: str) -> JoinGroupReply:
    """The current generation for this member. Only the leader's reply lists the members."""
    core = group.core
    return JoinGroupReply(
        member_id=member_id,
        generation=core.generation,
        protocol_type=core.protocol_type,
        protocol_name=core.protocol,
        leader=core.leader or "",
        members=joined_members(group) if member_id == core.leader else (),
    )


def _enter_join_phase(step: StepBuilder, initial_delay: InitialDelay | None) -> None:
    preparing = replace(
        step.classic.core,
        phase=ClassicPhase.PREPARING_REBALANCE,
        initial_delay=initial_delay,
        told_to_rejoin=frozenset(),
    )
    step.emit(ClassicCoreMoved(preparing))


def _set_initial_delay(step: StepBuilder, delay: InitialDelay | None) -> None:
    step.emit(ClassicCoreMoved(replace(step.classic.core, initial_delay=delay)))


def _discard_assignments(step: StepBuilder) -> None:
    """Discard all assignments, because a rebalance interrupts another one (rule 2.6)."""
    group = step.classic
    for member in list(group.members.values()):
        if member.assignment:
            step.emit(ClassicGroupMemberPut(replace(member, assignment=b"")))
    for member_id in list(group.syncs):
        release_sync(step, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        restart_session(step, group.members[member_id])


def _longest_rebalance_timeout_ms(group: ClassicGroup) -> int:
    return max((member.rebalance_timeout_ms for member in group.members.values()), default=0)
