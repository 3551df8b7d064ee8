"""Recognises heartbeats, commits and ends of commits that meet a group at rest.

Such a heartbeat only prolongs the member's session, such a commit only becomes in flight, and
nearly all of them are such. They are recognised on the group itself, by reading a few of its
fields; the rules would reach the same step on a copy. Where anything is in doubt, the rules decide.
"""

from coordinator.consumer.target import target_due_at_ms
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    HeartbeatReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
)
from coordinator.interface.replies import ConsumerHeartbeatReply, HeartbeatReply, OffsetReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import (
    ClassicPhase,
    CommitEnded,
    CommitInFlight,
    CommitStarted,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
)
from coordinator.native.heartbeat_interval import next_interval_ms
from kafka_codecs.error_codes import ErrorCode

SteadyRecord = DeadlineSet | CommitStarted | CommitEnded
SteadyStep = tuple[
    tuple[SteadyRecord, ...], HeartbeatReply | ConsumerHeartbeatReply | OffsetReply | None
]
"""The records, all volatile, and the reply, None if the event is no request."""

STEADY_REQUESTS = (HeartbeatReceived, ConsumerHeartbeatReceived)
"""Requests that may be answered at rest."""

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_STABLE, _PREPARING = ClassicPhase.STABLE, ClassicPhase.PREPARING_REBALANCE
_SESSION = DeadlineKind.SESSION

_ALIVE = HeartbeatReply()
_REBALANCING = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
_ACCEPTED = OffsetReply()


def decide(
    state: GroupState,
    event: Event,
    *,
    config: GroupConfig,
    topics: Topics,
    now_ms: int,
    answers_within_ms: int = 0,
) -> SteadyStep | None:
    """The whole step of an event that meets a group at rest, None for any other event.
    `answers_within_ms` is that of `ConsumerHeartbeatReceived`, for an event that lacks it."""
    group = state.group
    if isinstance(event, HeartbeatReceived):
        if isinstance(group, ClassicGroup):
            return _classic(group, event, topics, now_ms)
        if isinstance(group, ConsumerGroup) and _is_steady(group, topics):
            return _answer_mixed(group, event, config, now_ms)
    elif isinstance(event, ConsumerHeartbeatReceived):
        if (
            isinstance(group, ConsumerGroup)
            and not state.member_slots  # the sender may be the consumer that a slot is kept for
            and (_is_steady(group, topics) or _is_between_targets(group, config, topics, now_ms))
        ):
            return _native(
                state, group, event, config, now_ms=now_ms, answers_within_ms=answers_within_ms
            )
    elif isinstance(event, OffsetCommitReceived):
        return _commit(state, event, topics, now_ms)
    elif isinstance(event, OffsetCommitEnded):
        return _commit_ended(state, event, topics)
    return None


def _classic(
    group: ClassicGroup, event: HeartbeatReceived, topics: Topics, now_ms: int
) -> SteadyStep | None:
    """A heartbeat of the current generation, from a member without a parked request."""
    core, member_id = group.core, event.member_id
    member = group.members.get(member_id)
    if member is None or event.generation != core.generation:
        return None
    if not _holds(group, event.instance_id, member_id):
        return None
    if member_id in group.joins or member_id in group.syncs or member_id in core.told_to_rejoin:
        return None
    if core.phase is _PREPARING:
        reply = _REBALANCING
    elif core.unwatched_hash is None or core.topics_checked == topics.version:
        reply = _ALIVE
    else:  # nobody has compared the topics yet
        return None
    return (_session(member_id, now_ms + member.session_timeout_ms),), reply


def _is_steady(group: ConsumerGroup, topics: Topics) -> bool:
    """Whether the group has its target for the present topics, and a native member, so that it is
    not about to become classic."""
    return (
        group.assignment_epoch == group.epoch
        and group.topics_checked == topics.version
        and group.has_native_members
    )


def _is_between_targets(
    group: ConsumerGroup, config: GroupConfig, topics: Topics, now_ms: int
) -> bool:
    """Whether the group needs another target, which is not due yet. Its members keep what they
    have meanwhile."""
    return (
        JOIN_EPOCH < group.assignment_epoch < group.epoch
        and group.chosen is None
        and group.topics_checked == topics.version
        and group.has_native_members
        and now_ms < target_due_at_ms(group, config, now_ms)
    )


def _answer_mixed(
    group: ConsumerGroup, event: HeartbeatReceived, config: GroupConfig, now_ms: int
) -> SteadyStep | None:
    """A heartbeat of a classic member that need not rejoin."""
    member_id = event.member_id
    member = group.members.get(member_id)
    if member is None or member.classic is None or not _holds(group, event.instance_id, member_id):
        return None
    if event.generation != group.assignments[member_id].member_epoch:
        return None
    if not group.is_settled(member_id) and (
        config.unaffected_members_rejoin or not group.is_unaffected(member_id)
    ):
        return None
    return (_session(member_id, now_ms + member.classic.session_timeout_ms),), _ALIVE


def _native(
    state: GroupState,
    group: ConsumerGroup,
    event: ConsumerHeartbeatReceived,
    config: GroupConfig,
    *,
    now_ms: int,
    answers_within_ms: int,
) -> SteadyStep | None:
    """A heartbeat that states nothing new, from a native member that has its target and has
    received it."""
    member_id = event.member_id
    member = group.members.get(member_id)
    if member is None or member.is_classic or event.member_epoch != group.assignment_epoch:
        return None
    if not group.is_settled(member_id) or not _holds(group, event.instance_id, member_id):
        return None
    # A heartbeat may be the occasion to resolve regular expressions.
    if member_id in group.repetitions or group.regex_subscribers:
        return None
    owned, names = event.owned, event.topic_names
    states_something_new = (
        event.client_id != member.client_id
        or event.client_host != member.client_host
        or event.rebalance_timeout_ms not in (-1, member.rebalance_timeout_ms)
        or event.topic_regex is not None
        or event.client_assignors is not None
        or event.server_assignor not in (None, member.server_assignor)
        or event.rack_id not in (None, member.rack_id)
        or (names is not None and tuple(sorted(set(names))) != member.topic_names)
        or (owned is not None and owned != group.assignments[member_id].assigned.keys())
    )
    # The answer to a full one lists the partitions, and has to wait for the anchor's confirmation.
    if states_something_new or (owned is not None and event.is_full):
        return None
    reply = ConsumerHeartbeatReply(
        member_id=member_id,
        member_epoch=group.assignment_epoch,
        heartbeat_interval_ms=next_interval_ms(
            state,
            group,
            config,
            calls_within_ms=event.calls_within_ms,
            answers_within_ms=max(event.answers_within_ms, answers_within_ms),
            now_ms=now_ms,
        ),
    )
    return (_session(member_id, now_ms + config.consumer_session_timeout_ms),), reply


def _commit(
    state: GroupState, event: OffsetCommitReceived, topics: Topics, now_ms: int
) -> SteadyStep | None:
    """A commit by a member, at its epoch, of partitions that no commit in flight has."""
    group, member_id = state.group, event.member_id
    if event.is_transactional or not state.committing.keys().isdisjoint(event.partitions):
        return None
    records: tuple[SteadyRecord, ...] = ()
    if isinstance(group, ClassicGroup):
        member = group.members.get(member_id)
        if member is None or event.epoch != group.core.generation:
            return None
        if group.core.phase is not _STABLE:
            return None
        records = (_session(member_id, now_ms + member.session_timeout_ms),)
    elif not (isinstance(group, ConsumerGroup) and _is_steady_commit(group, event, topics)):
        return None
    if not _holds(group, event.instance_id, member_id):
        return None
    in_flight = CommitInFlight(
        member_id=member_id, partitions=event.partitions, held=event.partitions
    )
    return (*records, CommitStarted(event.token, in_flight)), _ACCEPTED


def _is_steady_commit(group: ConsumerGroup, event: OffsetCommitReceived, topics: Topics) -> bool:
    """Whether a member that has its target commits partitions of it, none of a deleted topic."""
    if not (_is_steady(group, topics) and group.is_settled(event.member_id)):
        return False
    if not (event.knows_member_epochs or group.members[event.member_id].is_classic):
        return False
    current = group.assignments[event.member_id]
    return event.epoch == current.member_epoch and event.partitions <= current.assigned.keys()


def _commit_ended(state: GroupState, event: OffsetCommitEnded, topics: Topics) -> SteadyStep | None:
    """The end of a commit that nothing waits for."""
    group, in_flight = state.group, state.commits.get(event.commit)
    if in_flight is None or in_flight.answer_lost or event.answer_lost:
        return None
    if isinstance(group, ClassicGroup):
        if group.core.phase is not _STABLE:
            return None
    elif not (isinstance(group, ConsumerGroup) and _is_steady(group, topics)):
        return None
    return (CommitEnded(event.commit),), None


def _holds(group: ClassicGroup | ConsumerGroup, instance_id: str | None, member_id: str) -> bool:
    return instance_id is None or group.instances.get(instance_id) == member_id


def _session(member_id: str, at_ms: int) -> DeadlineSet:
    return DeadlineSet(DeadlineKey(_SESSION, member_id), at_ms)
