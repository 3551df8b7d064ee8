"""Whether a group can be adopted, and what is adopted.

The reasons are for operators, who see all of them at once.
"""

from collections.abc import Iterator

from coordinator.handlers.adoption import obstacles
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import AdoptionState, ClassicGroupMember, ClassicGroupValue
from gateway.hosting.adoptees import LOCK_MARGIN_MS, guards_session_ms
from gateway.hosting.forwarded import STABLE, WatchedGroup, WatchedMember
from gateway.hosting.identity import AnchorJoinMetadata
from gateway.hosting.lookup_outcome import (
    STREAMS_PROTOCOL,
    BrokerTooOld,
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
)
from gateway.hosting.states import AdoptionStage
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import name_of

UNKNOWN_SESSION_MS = 45_000
UNKNOWN_REBALANCE_MS = 300_000
"""The timeouts of a member whose join this gateway has not seen: the defaults of Java's client."""

HOSTED_ALREADY = "it is hosted already: nothing to do"

OUTSIDE = "has not come through this gateway: point its bootstrap.servers at it"
"""What is known of a member that has never sent a heartbeat here: it reaches the cluster itself, or
through another gateway."""


def snapshot(described: DescribedGroup, watched: WatchedGroup) -> ClassicGroupValue:
    """The group as it would continue here. The cluster says who is in it and what each member has,
    the relayed requests say the rest."""
    return ClassicGroupValue(
        protocol_type=described.protocol_type,
        generation=-1 if watched.generation is None else watched.generation,
        protocol=described.protocol_data,
        leader=watched.leader_id,
        members=tuple(
            _member(member, watched.members.get(member.member_id), described.protocol_data)
            for member in sorted(described.members, key=lambda member: member.member_id)
        ),
    )


def why_not_found(
    outcome: LookupOutcome,
    watched: WatchedGroup | None,
    config: GroupConfig,
    now_ms: int,
    *,
    longest_session_ms: int | None = None,
) -> tuple[str, ...]:
    """Why the group cannot be adopted after a lookup, which may find no classic group of consumers
    at all. `longest_session_ms`: what the cluster admits, if it tells."""
    match outcome:
        case LiveMembers(anchored=DescribedGroup() as group):
            at = ", ".join(
                f"{member.client_id} at {member.client_host}" for member in group.members
            )
            return (
                f"another gateway holds it: release it there, or wait until that one is gone: {at}",
            )
        case LiveMembers(described=DescribedGroup() as group):
            known = watched or WatchedGroup(group_id=group.group_id, members={})
            reasons = why_not(group, known, config, now_ms)
            needed_ms = guards_session_ms(snapshot(group, known))
            if longest_session_ms is None or needed_ms <= longest_session_ms:
                return reasons
            return (*reasons, describe_lack_of_room(needed_ms))
        case LiveMembers():
            return (
                f"the cluster serves {outcome} with the new protocol: stop them, and start"
                " them with group.protocol=classic",
            )
        case OtherGroupType(kind):
            return (f"it is a {kind} group, and stays with the cluster",)
        case NoMembers():
            return ()
        case LookupFailed(reason):
            return (f"the cluster does not say who is in it: {reason}: try again",)
        case BrokerTooOld():
            return (
                "its coordinator is older than Kafka 2.3, so no anchor can hold it: update"
                " the brokers",
            )


def why_not(
    described: DescribedGroup, watched: WatchedGroup, config: GroupConfig, now_ms: int
) -> tuple[str, ...]:
    """Why the group cannot be adopted now; empty if it can."""
    return tuple(_reasons(described, watched, config, now_ms))


def describe_lack_of_room(needed_ms: int) -> str:
    """What is known of a cluster that does not admit the session of the member that guards the
    group meanwhile."""
    return (
        f"the cluster admits no session that is {LOCK_MARGIN_MS // 1000} s longer than the longest"
        f" one of its members: raise the cluster's group.max.session.timeout.ms to {needed_ms}, or"
        " give them a shorter session.timeout.ms"
    )


def is_promising(watched: WatchedGroup, now_ms: int) -> bool:
    """Whether nothing that was relayed speaks against an adoption: only then is it worth asking the
    cluster."""
    leader = watched.members.get(watched.leader_id or "")
    return (
        watched.generation is not None
        and watched.protocol not in ("", STREAMS_PROTOCOL)
        and leader is not None
        and leader.instance_id is None
        and all(is_behind(member, now_ms) for member in watched.members.values())
    )


def _reasons(
    described: DescribedGroup, watched: WatchedGroup, config: GroupConfig, now_ms: int
) -> Iterator[str]:
    if described.error_code:
        yield (
            f"the cluster does not describe it: {name_of(described.error_code)}: look at the"
            " permissions of the gateway's user, or try again"
        )
        return
    if described.group_state != STABLE:
        state = described.group_state or "of another protocol"
        yield f"the cluster says that it is {state}: try again once it is {STABLE}"
        return
    if described.protocol_data == STREAMS_PROTOCOL:
        yield "it is a group of Kafka Streams, and stays with the cluster"
    by_client = sorted(described.members, key=lambda member: (member.client_id, member.member_id))
    for member in by_client:
        who = f"{member.client_id} at {member.client_host.removeprefix('/')} ({member.member_id})"
        known = watched.members.get(member.member_id)
        if not is_behind(known, now_ms):
            silent_ms = silence_ms(known, now_ms)
            yield f"{who} {OUTSIDE if silent_ms is None else describe_silence(silent_ms)}"
        if member.member_id == watched.leader_id and member.group_instance_id is not None:
            yield (
                f"{who} is the leader and a static member: restart it under another"
                " group.instance.id, or without one"
            )
    if watched.generation is None:
        yield "its generation is unknown until a member's next heartbeat: try again in some seconds"
    yield from obstacles(snapshot(described, watched), config)


def is_behind(member: WatchedMember | None, now_ms: int) -> bool:
    """Whether this gateway has relayed a heartbeat of the member within its session."""
    silent_ms = silence_ms(member, now_ms)
    if member is None or silent_ms is None:
        return False
    return silent_ms < (member.session_timeout_ms or UNKNOWN_SESSION_MS)


def silence_ms(member: WatchedMember | None, now_ms: int) -> int | None:
    """How long ago the last heartbeat of a member was relayed; None if none ever was."""
    if member is None or member.heartbeat_ms is None:
        return None
    return max(0, now_ms - member.heartbeat_ms)


def describe_silence(silent_ms: int, *, members: int = 1) -> str:
    """What is known of a member, or several, that have stopped to send heartbeats here."""
    verb, whose = ("has", "its process") if members == 1 else ("have", "their processes")
    return f"{verb} sent no heartbeat here for {silent_ms // 1000} s: look at {whose}"


def _member(
    described: DescribedGroupMember, watched: WatchedMember | None, protocol: str
) -> ClassicGroupMember:
    known = watched or WatchedMember(member_id=described.member_id)
    return ClassicGroupMember(
        member_id=described.member_id,
        instance_id=described.group_instance_id,
        client_id=described.client_id,
        client_host=described.client_host,
        session_timeout_ms=known.session_timeout_ms or UNKNOWN_SESSION_MS,
        rebalance_timeout_ms=known.rebalance_timeout_ms or UNKNOWN_REBALANCE_MS,
        protocols=known.protocols or ((protocol, described.member_metadata),),
        assignment=described.member_assignment,
    )


def resumes_at(
    adoption: AdoptionState, group: DescribedGroup, join_metadata: AnchorJoinMetadata
) -> AdoptionStage:
    """Where the adoption of a killed process continues. Only a locked group certainly had no other
    owner."""
    there = {member.member_id for member in group.members}
    anchors = {
        member_id for member_id in there if member_id.startswith(f"{join_metadata.instance_id}-")
    }
    is_locked = adoption.lock_generation is not None
    if is_locked and there - anchors == {adoption.group.leader}:
        return AdoptionStage.ANCHORING
    if is_locked and len(there) == 1 and there == anchors:
        return AdoptionStage.HANDING_OVER
    return AdoptionStage.GIVING_BACK
