"""The join phase of a generic group: who is gathered, when it completes, who is removed.

A member's parked request stops its session: a client that waits for us cannot heartbeat.
"""

from dataclasses import replace

from coordinator.draft import Draft
from coordinator.errors import ErrorCode
from coordinator.events import JoinGroupReceived
from coordinator.generic.durability import store_group
from coordinator.generic.group import GenericGroup
from coordinator.generic.protocols import selected
from coordinator.generic.subscriptions import subscribed_topics
from coordinator.records import GenericMember, RemovalCause
from coordinator.replies import JoinedMember, JoinGroupReply, SyncGroupReply
from coordinator.volatile import (
    DeadlineKind,
    GenericCoreMoved,
    GenericMemberDropped,
    GenericMemberPut,
    GenericPhase,
    InitialDelay,
    JoinParked,
    JoinReleased,
    ParkedJoin,
    PendingIdDropped,
    SyncReleased,
    SyncsExpected,
)

NOBODY_JOINED_WAIT_MS_MIN = 1_000
"""A join phase that nobody joined begins anew, but not at once and for ever, as it would with
rebalance timeouts of zero."""


def park_join(draft: Draft, event: JoinGroupReceived, member_id: str, *, is_new: bool) -> None:
    """Keep the request until the join phase completes.

    DEV D33: a request of the same member that already waits is answered; Kafka forgets it
    (KAFKA-20938).
    """
    release_join(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.disarm(DeadlineKind.SESSION, member_id)
    join = ParkedJoin(token=event.token, is_new=is_new)
    draft.emit(JoinParked(member_id, join))
    if is_new:
        draft.arm(
            DeadlineKind.NEW_MEMBER_JOIN,
            member_id,
            draft.config.generic_new_member_join_timeout_ms,
        )


def release_join(draft: Draft, member_id: str, error: ErrorCode, echo_id: str = "") -> None:
    """Answer a member's parked JoinGroup with an error, if there is one."""
    parked = draft.generic.joins.get(member_id)
    if parked is not None:
        draft.emit(JoinReleased(member_id))
        draft.disarm(DeadlineKind.NEW_MEMBER_JOIN, member_id)
        draft.answer(parked.token, JoinGroupReply(error=error, member_id=echo_id))


def release_sync(draft: Draft, member_id: str, error: ErrorCode) -> None:
    """Answer a member's parked SyncGroup with an error, if there is one."""
    token = draft.generic.syncs.get(member_id)
    if token is not None:
        draft.emit(SyncReleased(member_id))
        draft.answer(token, SyncGroupReply(error=error))


def restart_session(draft: Draft, member: GenericMember) -> None:
    """Any sign of life restarts the session, unless a parked request has stopped it."""
    group = draft.generic
    if member.member_id not in group.joins and member.member_id not in group.syncs:
        draft.arm(DeadlineKind.SESSION, member.member_id, member.session_timeout_ms)


def prepare_rebalance(draft: Draft) -> None:
    """Start a join phase. The first one from Empty waits for more members (rule 2.5)."""
    group = draft.generic
    if group.phase is GenericPhase.COMPLETING_REBALANCE:
        _discard_assignments(draft)
    draft.disarm(DeadlineKind.SYNC_PHASE)
    if group.phase is GenericPhase.EMPTY:
        delay_ms = draft.config.generic_initial_rebalance_delay_ms
        delay = InitialDelay(budget_left_ms=max(0, _longest_rebalance_timeout_ms(group) - delay_ms))
        _move(draft, phase=GenericPhase.PREPARING_REBALANCE, initial_delay=delay)
        draft.arm(DeadlineKind.INITIAL_REBALANCE_DELAY, "", delay_ms)
    else:
        _move(draft, phase=GenericPhase.PREPARING_REBALANCE, initial_delay=None)
        draft.arm(DeadlineKind.JOIN_PHASE, "", _longest_rebalance_timeout_ms(group))
        maybe_complete_join(draft)


def rebalance_or_complete(draft: Draft) -> None:
    """The membership changed: start a join phase, or see whether the running one is complete."""
    if draft.generic.phase is GenericPhase.PREPARING_REBALANCE:
        maybe_complete_join(draft)
    else:
        prepare_rebalance(draft)


def is_join_phase_over(draft: Draft) -> bool:
    """Whether everybody is gathered, or the time for it has passed."""
    group = draft.generic
    if group.phase is not GenericPhase.PREPARING_REBALANCE or group.core.initial_delay:
        return False
    gathered = not group.pending_ids and len(group.joins) == len(group.members)
    return gathered or not draft.is_armed(DeadlineKind.JOIN_PHASE)


def maybe_complete_join(draft: Draft) -> None:
    """Complete the join phase if it is over.

    DEV D34: not while a commit is in flight, for here the cluster stores it, later than we checked
    it, and the next generation may give its partitions to others.
    """
    if is_join_phase_over(draft) and not draft.state.commits:
        _complete_join(draft)


def initial_delay_over(draft: Draft) -> None:
    """Wait once more if somebody came in the meantime and the budget allows it."""
    delay = draft.generic.core.initial_delay
    if delay is None:
        return
    if delay.member_joined and delay.budget_left_ms > 0:
        again_ms = min(draft.config.generic_initial_rebalance_delay_ms, delay.budget_left_ms)
        _move(draft, initial_delay=InitialDelay(budget_left_ms=delay.budget_left_ms - again_ms))
        draft.arm(DeadlineKind.INITIAL_REBALANCE_DELAY, "", again_ms)
    else:
        _move(draft, initial_delay=None)
        maybe_complete_join(draft)


def note_new_member(draft: Draft) -> None:
    """During the first rebalance, remember that it is worth waiting a little more."""
    delay = draft.generic.core.initial_delay
    if delay is not None and not delay.member_joined:
        _move(draft, initial_delay=replace(delay, member_joined=True))


def sync_phase_over(draft: Draft) -> None:
    """Members that never fetched their assignment are removed (rule 2.5)."""
    for member_id in sorted(draft.generic.unsynced):
        drop_member(draft, member_id, RemovalCause.SYNC_TIMED_OUT)
    prepare_rebalance(draft)


def remove_member(draft: Draft, member_id: str, cause: RemovalCause) -> None:
    """Take a member out, and rebalance."""
    drop_member(draft, member_id, cause)
    rebalance_or_complete(draft)


def drop_member(draft: Draft, member_id: str, cause: RemovalCause) -> None:
    """Take a member out; what waits for it is answered. Whether the others rebalance is up to the
    caller."""
    group = draft.generic
    release_join(draft, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    release_sync(draft, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    draft.disarm(DeadlineKind.SESSION, member_id)
    draft.emit(GenericMemberDropped(member_id, cause))
    if group.core.leader == member_id:
        _move(draft, leader=None)  # the next join phase finds another


def drop_pending_id(draft: Draft, member_id: str) -> None:
    """Forget an id that was handed out: used, given back, or too late."""
    draft.emit(PendingIdDropped(member_id))
    draft.disarm(DeadlineKind.PENDING_ID, member_id)


def joined_members(group: GenericGroup) -> tuple[JoinedMember, ...]:
    """What the leader is told: everybody's metadata for the selected protocol."""
    return tuple(
        JoinedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            metadata=member.metadata_for(group.core.protocol),
        )
        for member in group.members.values()
    )


def _complete_join(draft: Draft) -> None:
    group = draft.generic
    draft.disarm(DeadlineKind.JOIN_PHASE)
    for member in list(group.members.values()):
        # A static member may be restarting: it stays until its session expires (KIP-345).
        if member.member_id not in group.joins and member.instance_id is None:
            drop_member(draft, member.member_id, RemovalCause.JOIN_TIMED_OUT)
    if not group.members:
        _become_empty(draft)
    elif not group.joins:
        longest_ms = _longest_rebalance_timeout_ms(group)
        draft.arm(DeadlineKind.JOIN_PHASE, "", max(longest_ms, NOBODY_JOINED_WAIT_MS_MIN))
    else:
        _start_generation(draft)


def _become_empty(draft: Draft) -> None:
    core = draft.generic.core
    _move(
        draft,
        generation=core.generation + 1,
        protocol=None,
        leader=None,
        topics=frozenset(),
        topics_hash=None,
        unwatched_hash=None,
    )
    store_group(draft, draft.generic.stored_value())


def _start_generation(draft: Draft) -> None:
    group = draft.generic
    core = group.core
    leader = core.leader if core.leader in group.joins else next(iter(group.joins))
    _move(
        draft,
        phase=GenericPhase.COMPLETING_REBALANCE,
        generation=core.generation + 1,
        protocol=selected([member.protocols for member in group.members.values()]),
        leader=leader,
        unwatched_hash=None,
        held_at_downgrade=None,
    )
    topics = subscribed_topics(group)
    topics_hash = None if topics is None else draft.topics.metadata_hash(topics)
    _move(draft, topics=topics, topics_hash=topics_hash)
    draft.emit(SyncsExpected(tuple(group.members)))
    draft.arm(DeadlineKind.SYNC_PHASE, "", _longest_rebalance_timeout_ms(group))
    for member_id, parked in list(group.joins.items()):
        draft.emit(JoinReleased(member_id))
        draft.disarm(DeadlineKind.NEW_MEMBER_JOIN, member_id)
        restart_session(draft, group.members[member_id])
        draft.answer(parked.token, join_reply(group, member_id))


def join_reply(group: GenericGroup, member_id: str) -> JoinGroupReply:
    """The current generation as this member sees it; only the leader is told the members."""
    core = group.core
    return JoinGroupReply(
        member_id=member_id,
        generation=core.generation,
        protocol_type=core.protocol_type,
        protocol_name=core.protocol,
        leader=core.leader or "",
        members=joined_members(group) if member_id == core.leader else (),
    )


def _discard_assignments(draft: Draft) -> None:
    """A rebalance that interrupts another wipes what was assigned (rule 2.6)."""
    group = draft.generic
    for member in list(group.members.values()):
        if member.assignment:
            draft.emit(GenericMemberPut(replace(member, assignment=b"")))
    for member_id in list(group.syncs):
        release_sync(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        restart_session(draft, group.members[member_id])


def _longest_rebalance_timeout_ms(group: GenericGroup) -> int:
    return max((member.rebalance_timeout_ms for member in group.members.values()), default=0)


def _move(draft: Draft, **changes: object) -> None:
    draft.emit(GenericCoreMoved(replace(draft.generic.core, **changes)))  # type: ignore[arg-type]
