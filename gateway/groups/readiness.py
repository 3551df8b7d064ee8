"""Whether a group can change its protocol, and what is in the way.

The one rule behind `groupferry readiness`, the board, and the event `readiness_changed`. A pure
function of what is known of the group; the report only shows the event.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from coordinator.conversion.upgrade import group_obstacles, member_obstacle, protocol_in_force
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import read_subscription
from coordinator.interface.config import CLASSIC_SIZE_LIMIT, GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.records import ClassicGroupMember, ClassicGroupValue
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.events.group_events import Blocker, ReadinessChanged
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.lookup_outcome import LiveMembers, foreign_kind
from gateway.hosting.states import Mode
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.error_codes import ErrorCode

BLOCKERS_NAMED_MAX = 10
"""Blockers that an event names; the others are only counted."""

NOT_SEEN = "its subscription is unknown until it joins through the gateway"


def assess_conversion(snapshot: GroupSnapshot, config: GroupConfig) -> ReadinessChanged:
    """The state of a group's readiness, with the first few blockers."""
    group = None if snapshot.state is None else snapshot.state.group
    is_consumer = isinstance(group, ConsumerGroup) and bool(group.members)
    blockers = tuple(blockers_of(snapshot, config))
    return ReadinessChanged(
        can_convert=not blockers,
        direction="consumer->classic" if is_consumer else "classic->consumer",
        blocked_by=blockers[:BLOCKERS_NAMED_MAX],
        blockers=len(blockers),
    )


def blockers_of(snapshot: GroupSnapshot, config: GroupConfig) -> Iterator[Blocker]:
    """All that is in the way of the group's conversion, each with the member that it concerns."""
    group = None if snapshot.state is None else snapshot.state.group
    watched = snapshot.watched
    if isinstance(group, ConsumerGroup) and group.members:
        yield from _blockers_of_downgrade(group, config)
    elif snapshot.decision.mode in (Mode.ELSEWHERE, Mode.UNKNOWN):
        yield _of_group(snapshot.decision.reason)
    elif kind := foreign_kind_of(snapshot):
        yield _of_group(f"it stays with the cluster: {kind}")
    elif (classic := classic_group_of(snapshot)) is not None:
        if snapshot.policy in (RollMode.HOLD, RollMode.PAUSE):
            yield _of_group(
                f"an operator lets no further consumer switch (policy {snapshot.policy})"
            )
        yield from _blockers_of_upgrade(classic, config, is_watched=watched is not None)
    elif _is_native_in_cluster(snapshot):
        yield _of_group("the cluster serves it, and it has the new protocol already")
    elif snapshot.decision.mode is Mode.FORWARDED:
        yield _of_group(f"the cluster serves it: {snapshot.decision.reason}")


def classic_group_of(snapshot: GroupSnapshot) -> ClassicGroupValue | None:
    """The classic group, hosted or watched; None for any other."""
    match None if snapshot.state is None else snapshot.state.group:
        case ClassicGroup() as group if group.members:
            value = group.stored_value()
            members = tuple(group.members.values())
            return replace(value, protocol=protocol_in_force(group), members=members)
        case None if snapshot.watched is not None and not foreign_kind_of(snapshot):
            return _watched_group(snapshot.watched)
        case _:
            return None


def foreign_kind_of(snapshot: GroupSnapshot) -> str:
    """What a watched group is that is none of consumers; empty if it is one, as far as known."""
    watched = snapshot.watched
    return "" if watched is None else foreign_kind(watched.protocol_type, watched.protocol)


def _is_native_in_cluster(snapshot: GroupSnapshot) -> bool:
    match None if snapshot.in_cluster is None else snapshot.in_cluster.outcome:
        case LiveMembers(consumer_group=group):
            return group is not None
        case _:
            return False


def starved_members(group: ClassicGroupValue, topics: Topics) -> Iterator[str]:
    """The subscriptions of members that cannot all get a partition, while others of the group
    subscribe to something else."""
    subscriptions: Counter[frozenset[str]] = Counter()
    for member in group.members:
        try:
            metadata = member.metadata_for(group.protocol)
            read = read_subscription(metadata, refuse_with=ErrorCode.GROUP_ID_NOT_FOUND)
        except GroupError:
            return
        subscriptions[frozenset(read[1].topics)] += 1
    if len(subscriptions) == 1:
        return
    for names in sorted(subscriptions, key=sorted):
        if not topics.by_name.keys() >= names:
            continue
        partitions = sum(topics.by_name[name].partition_count for name in names)
        members = sum(n for subscribed, n in subscriptions.items() if subscribed <= names)
        if members > partitions:
            yield (
                f"{members} members subscribe only to {', '.join(sorted(names))}, which has"
                f" {partitions} partitions, so some of them get none; members of one group should"
                " subscribe to the same topics"
            )


def _blockers_of_downgrade(group: ConsumerGroup, config: GroupConfig) -> Iterator[Blocker]:
    policy = config.consumer_migration_policy
    if not policy.allows_downgrade:
        yield _of_group(
            f"the migration policy {policy} does not allow the group to become a classic group"
        )
    if len(group.members) > config.classic_max_size:
        yield _of_group(
            f"the group's {len(group.members)} members exceed the maximum size of a classic group,"
            f" {config.classic_max_size} {config.named_limits(CLASSIC_SIZE_LIMIT)}"
        )


def _blockers_of_upgrade(
    group: ClassicGroupValue, config: GroupConfig, *, is_watched: bool
) -> Iterator[Blocker]:
    for reason in group_obstacles(group.protocol_type, len(group.members), config):
        yield _of_group(reason)
    for member in group.members:
        if is_watched and not member.metadata_for(group.protocol):
            yield _of_member(member, NOT_SEEN)
        elif (obstacle := member_obstacle(member, group.protocol)) is not None:
            yield _of_member(member, obstacle)


def _of_group(reason: str) -> Blocker:
    return Blocker(client_id="", client_host="", member_id="", reason=reason)


def _of_member(member: ClassicGroupMember, reason: str) -> Blocker:
    return Blocker(
        client_id=member.client_id,
        client_host=member.client_host,
        member_id=member.member_id,
        reason=reason,
    )


def _watched_group(watched: WatchedGroup) -> ClassicGroupValue:
    members = tuple(
        ClassicGroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms or 0,
            rebalance_timeout_ms=member.rebalance_timeout_ms or 0,
            protocols=member.protocols,
            assignment=member.assignment,
        )
        for member in watched.members.values()
    )
    return ClassicGroupValue(
        protocol_type=watched.protocol_type or CONSUMER_PROTOCOL_TYPE,
        generation=watched.generation or 0,
        protocol=watched.protocol or _likely_protocol(members),
        leader=watched.leader_id,
        members=members,
    )


def _likely_protocol(members: tuple[ClassicGroupMember, ...]) -> str:
    """The protocol that most members offer: during a rebalance none is in force."""
    offered: Mapping[str, int] = Counter(
        name for member in members for name in dict(member.protocols)
    )
    return max(sorted(offered), key=lambda name: offered[name], default="")
