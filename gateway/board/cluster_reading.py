"""Turns what is known of a forwarded group into what the board says of it.

The cluster's own description comes first, if an operator has looked; relayed requests add what it
lacks: the generation, the software of each client, and who comes through the gateway.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from coordinator.group.embedded_protocol import read_assignment
from coordinator.interface.errors import GroupError
from gateway.board.lags import GroupLag
from gateway.board.views import MemberLine, Partitions
from gateway.board.words import count_members, each_partition, name_all, short, software_name
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.readiness import foreign_kind_of
from gateway.hosting.adoptable import describe_silence, is_behind, silence_ms
from gateway.hosting.forwarded import STABLE, WatchedGroup, WatchedMember
from gateway.hosting.lookup_outcome import LiveMembers, NoMembers, OtherGroupType
from kafka_codecs.consumer_group_describe import Assignment, Member, MemberType
from kafka_codecs.consumer_group_describe import DescribedGroup as ConsumerGroup

OLD_MS = 10_000
"""An older description is shown with its age. Each view requests a new one every few seconds."""
Kind = Literal["classic", "consumer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember:
    """A member of a forwarded group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    software: tuple[str | None, str | None] = (None, None)
    protocol: Kind
    epoch: int | None = None
    owned: Partitions | None = None
    to_give_up: Partitions = field(default_factory=dict)
    to_get: Partitions = field(default_factory=dict)

    def line(self, lag: GroupLag | None = None) -> MemberLine:
        """The member as the board shows it. `lag`: of its group, if known."""
        return MemberLine(
            member_id=short(self.member_id),
            instance_id=None if self.instance_id is None else short(self.instance_id),
            client_id=short(self.client_id),
            client_host=self.client_host,
            software=software_name(*self.software),
            protocol=self.protocol,
            phase="",
            silent_ms=None,
            member_epoch=self.epoch,
            owned=self.owned,
            lag=None if lag is None or self.owned is None else lag.of(each_partition(self.owned)),
            to_give_up=self.to_give_up,
            to_get=self.to_get,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGroup:
    """A forwarded group, as far as it is known. A field is None where neither the cluster nor a
    relayed request has shown it."""

    kind: Kind | None = None
    state: str = ""
    epoch: int | None = None
    assignment_epoch: int | None = None
    assignor: str = ""
    members: int | None = None
    native_members: int | None = None
    stands: str
    next_step: str
    """What an operator has to know or to do before the gateway can host the group."""


def read_cluster_group(snapshot: GroupSnapshot) -> ClusterGroup:
    """The group without its members. If the cluster no longer answers, that comes first."""
    group = _read_group(snapshot)
    if snapshot.in_cluster is None:
        return group
    age_ms = snapshot.now_ms - snapshot.in_cluster.at_ms
    if age_ms < OLD_MS:
        return group
    return replace(
        group,
        next_step=f"the cluster has not described it for {age_ms // 1000} s: it may have changed",
    )


def _read_group(snapshot: GroupSnapshot) -> ClusterGroup:
    match None if snapshot.in_cluster is None else snapshot.in_cluster.outcome:
        case LiveMembers(consumer_group=ConsumerGroup() as group):
            return _consumer_group(group)
        case OtherGroupType(kind):
            return ClusterGroup(
                stands=f"the cluster serves it, a {kind} group",
                next_step=f"stays with the cluster: it is a {kind} group",
            )
        case NoMembers():
            return ClusterGroup(
                members=0,
                native_members=0,
                stands="the cluster serves it, no members",
                next_step=short(snapshot.decision.reason),
            )
        case _ if snapshot.watched is not None:
            return _classic_group(snapshot, snapshot.watched)
        case _:
            return ClusterGroup(
                stands="the cluster serves it", next_step=short(snapshot.decision.reason)
            )


def members_of(snapshot: GroupSnapshot, client_id: str | None = None) -> Iterator[ClusterMember]:
    """The members of a forwarded group, as far as known; or those that a client is."""
    match None if snapshot.in_cluster is None else snapshot.in_cluster.outcome:
        case LiveMembers(consumer_group=ConsumerGroup() as group):
            for described in group.members:
                if client_id is None or described.client_id == client_id:
                    yield _read_described(described)
        case OtherGroupType() | NoMembers():
            pass
        case _ if snapshot.watched is not None:
            watched = snapshot.watched
            for member in watched.members.values():
                if client_id is None or member.client_id == client_id:
                    yield _read_watched(watched, member)
        case _:
            pass


def _classic_group(snapshot: GroupSnapshot, watched: WatchedGroup) -> ClusterGroup:
    members = watched.members
    direct = [member for member in members.values() if not is_behind(member, snapshot.now_ms)]
    through = f", {len(members) - len(direct)} of them through the gateway" if direct else ""
    return ClusterGroup(
        kind="classic",
        state=_classic_state(snapshot, watched),
        epoch=watched.generation,
        assignment_epoch=watched.generation,
        assignor=watched.protocol,
        members=len(members),
        native_members=0,
        stands=f"the cluster serves it, {count_members(len(members))}{through}",
        next_step=_next_step(snapshot, watched, direct),
    )


def _classic_state(snapshot: GroupSnapshot, watched: WatchedGroup) -> str:
    match None if snapshot.in_cluster is None else snapshot.in_cluster.outcome:
        case LiveMembers(described=group) if group is not None:
            return group.group_state
        case _:
            return STABLE if watched.protocol else ""


def _next_step(
    snapshot: GroupSnapshot, watched: WatchedGroup, direct: Sequence[WatchedMember]
) -> str:
    if kind := foreign_kind_of(snapshot):
        return f"stays with the cluster: {kind}"
    if snapshot.is_configured:
        return "stays with the cluster, as configured (groups_forward)"
    if direct:
        return _explain_direct(direct, snapshot.now_ms)
    leader = watched.members.get(watched.leader_id or "")
    if leader is not None and leader.instance_id is not None:
        return (
            f"its leader {leader.client_id} is a static member: restart it under another"
            " group.instance.id, or without one"
        )
    if leader is None:
        return "its leader is unknown until the next member joins: restart one of its consumers"
    count = len(watched.members)
    behind = f"all {count} are" if count > 1 else f"{_names(watched.members.values())} is"
    return f"{behind} behind the gateway: groupferry adopt {snapshot.group_id}"


def _explain_direct(direct: Sequence[WatchedMember], now_ms: int) -> str:
    """What is known of members whose heartbeats do not come through the gateway now."""
    silences_ms = {member.member_id: silence_ms(member, now_ms) for member in direct}
    outside = [member for member in direct if silences_ms[member.member_id] is None]
    if outside:
        verb = "has" if len(outside) == 1 else "have"
        return f"{_names(outside)} {verb} not come through this gateway yet"
    longest_ms = max(silent_ms or 0 for silent_ms in silences_ms.values())
    return f"{_names(direct)} {describe_silence(longest_ms, members=len(direct))}"


def _names(members: Iterable[WatchedMember]) -> str:
    return name_all(member.client_id or member.member_id for member in members)


def _read_watched(group: WatchedGroup, member: WatchedMember) -> ClusterMember:
    return ClusterMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        software=(member.software_name, member.software_version),
        protocol="classic",
        epoch=group.generation,
        owned=_read_owned(group, member),
    )


def _read_owned(group: WatchedGroup, member: WatchedMember) -> Partitions | None:
    """None during a rebalance, and if the assignment is not one of consumers."""
    if not group.protocol:
        return None
    try:
        assigned = read_assignment(member.assignment).assigned_partitions
    except GroupError:
        return None
    return {entry.topic: tuple(sorted(entry.partitions)) for entry in assigned}


def _consumer_group(group: ConsumerGroup) -> ClusterGroup:
    count = len(group.members)
    classic = sum(member.member_type == MemberType.CLASSIC for member in group.members)
    who = (
        f"{count - classic} of {count_members(count)}"
        if classic
        else f"{count_members(count)}, all"
    )
    return ClusterGroup(
        kind="consumer",
        state=group.group_state,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor_name,
        members=count,
        native_members=count - classic,
        stands=f"the cluster serves it, {who} with the new protocol",
        next_step="stays with the cluster: a group of the new protocol cannot be adopted",
    )


def _read_described(member: Member) -> ClusterMember:
    held, target = _by_topic(member.assignment), _by_topic(member.target_assignment)
    return ClusterMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        protocol="classic" if member.member_type == MemberType.CLASSIC else "consumer",
        epoch=member.member_epoch,
        owned=held,
        to_give_up=_without(held, target),
        to_get=_without(target, held),
    )


def _by_topic(assignment: Assignment) -> Partitions:
    return {
        topic.topic_name: tuple(sorted(topic.partitions)) for topic in assignment.topic_partitions
    }


def _without(partitions: Partitions, others: Partitions) -> Partitions:
    rest: Mapping[str, tuple[int, ...]] = {
        topic: tuple(number for number in numbers if number not in others.get(topic, ()))
        for topic, numbers in partitions.items()
    }
    return {topic: numbers for topic, numbers in rest.items() if numbers}
