"""Recognises a heartbeat that finds nothing to do and only prolongs the member's session.

Nearly every heartbeat is one. It is recognised on the group itself, by reading a few of its fields;
the rules would reach the same step on a copy. Where anything is in doubt, the rules decide.
"""

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived, HeartbeatReceived, Request
from coordinator.interface.replies import ConsumerHeartbeatReply, HeartbeatReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import (
    ClassicPhase,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
)
from kafka_codecs.error_codes import ErrorCode

Prolongation = tuple[DeadlineSet, HeartbeatReply | ConsumerHeartbeatReply]
"""The new deadline of the session, and the reply."""


def prolong(
    state: GroupState, event: Request, *, config: GroupConfig, topics: Topics, now_ms: int
) -> Prolongation | None:
    """The whole step of a steady heartbeat, None for any other event."""
    group = state.group
    if isinstance(event, HeartbeatReceived):
        if isinstance(group, ClassicGroup):
            return _classic(group, event, topics, now_ms)
        if isinstance(group, ConsumerGroup) and _is_steady(group, topics):
            return _mixed(group, event, now_ms)
    elif (
        isinstance(event, ConsumerHeartbeatReceived)
        and isinstance(group, ConsumerGroup)
        and _is_steady(group, topics)
    ):
        return _native(group, event, config, now_ms)
    return None


def _classic(
    group: ClassicGroup, event: HeartbeatReceived, topics: Topics, now_ms: int
) -> Prolongation | None:
    """A heartbeat of the current generation, from a member without a parked request."""
    core, member_id = group.core, event.member_id
    member = group.members.get(member_id)
    if member is None or event.generation != core.generation:
        return None
    if not _holds(group, event.instance_id, member_id):
        return None
    if member_id in group.joins or member_id in group.syncs:
        return None
    if core.phase is ClassicPhase.PREPARING_REBALANCE:
        reply = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    elif core.unwatched_hash is None or core.topics_checked == topics.version:
        reply = HeartbeatReply()
    else:  # nobody has compared the topics yet
        return None
    return _session(member_id, now_ms + member.session_timeout_ms), reply


def _is_steady(group: ConsumerGroup, topics: Topics) -> bool:
    """Whether the group has its target for the present topics, and a native member, so that it is
    not about to become classic."""
    return (
        group.assignment_epoch == group.epoch
        and group.topics_checked == topics.version
        and group.has_native_members
    )


def _mixed(group: ConsumerGroup, event: HeartbeatReceived, now_ms: int) -> Prolongation | None:
    """A heartbeat of a classic member that has its target."""
    member_id = event.member_id
    member = group.members.get(member_id)
    if member is None or member.classic is None or not _holds(group, event.instance_id, member_id):
        return None
    if event.generation != group.epoch or not group.is_settled(member_id):
        return None
    return _session(member_id, now_ms + member.classic.session_timeout_ms), HeartbeatReply()


def _native(
    group: ConsumerGroup, event: ConsumerHeartbeatReceived, config: GroupConfig, now_ms: int
) -> Prolongation | None:
    """A heartbeat that states nothing, from a native member that has its target and has received
    it."""
    member_id = event.member_id
    member = group.members.get(member_id)
    if member is None or member.is_classic or event.member_epoch != group.epoch:
        return None
    states_something = (
        event.owned is not None
        or event.topic_names is not None
        or event.topic_regex is not None
        or event.server_assignor is not None
        or event.rack_id is not None
        or event.rebalance_timeout_ms != -1
        or event.client_id != member.client_id
        or event.client_host != member.client_host
    )
    if states_something or not _holds(group, event.instance_id, member_id):
        return None
    # A heartbeat may be the occasion to resolve regular expressions.
    if not group.is_settled(member_id) or member_id in group.repetitions or group.regex_subscribers:
        return None
    reply = ConsumerHeartbeatReply(
        member_id=member_id,
        member_epoch=group.epoch,
        heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
    )
    return _session(member_id, now_ms + config.consumer_session_timeout_ms), reply


def _holds(group: ClassicGroup | ConsumerGroup, instance_id: str | None, member_id: str) -> bool:
    return instance_id is None or group.instances.get(instance_id) == member_id


def _session(member_id: str, at_ms: int) -> DeadlineSet:
    return DeadlineSet(DeadlineKey(DeadlineKind.SESSION, member_id), at_ms)
