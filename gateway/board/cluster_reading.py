"""Turns what is known of a forwarded group into what the board says of it.

The cluster's own description comes first, if an operator has looked; relayed requests add what it
lacks: the generation, the software of each client, and who comes through the gateway.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from coordinator.group.embedded_protocol import read_assignment
from coordinator.interface.errors import GroupError
from gateway.board.lags import GroupLag
from gateway.board.views import MemberLine, Partitions
from gateway.board.words import count_members, each_partition, name_all, short, software_name
from gateway.groups.glance import Glance
from gateway.groups.readiness import foreign_kind_of
from gateway.hosting.adoptable import is_behind
from gateway.hosting.forwarded import STABLE, WatchedGroup, WatchedMember
from gateway.hosting.standing import Nobody, Occupants, OtherKind
from kafka_codecs.consumer_group_describe import Assignment, Member, MemberType
from kafka_codecs.consumer_group_describe import DescribedGroup as ConsumerGroup

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
            member_epoch=self.epoch,
            owned=self.owned,
            lag=None if lag is None or self.owned is None else lag.of(each_partition(self.owned)),
            to_give_up=self.to_give_up,
            to_get=self.to_get,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGroup:
    """A forwarded group, as far as known. None stands for what nobody has told."""

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


def read_cluster_group(glance: Glance) -> ClusterGroup:
    """The group without its members."""
    match None if glance.in_cluster is None else glance.in_cluster.outcome:
        case Occupants(consumer_group=ConsumerGroup() as group):
            return _consumer_group(group)
        case OtherKind(kind):
            return ClusterGroup(
                stands=f"the cluster serves it, a {kind} group",
                next_step=f"stays with the cluster: it is a {kind} group",
            )
        case Nobody():
            return ClusterGroup(
                members=0,
                native_members=0,
                stands="the cluster serves it, no members",
                next_step=short(glance.verdict.why),
            )
        case _ if glance.watched is not None:
            return _classic_group(glance, glance.watched)
        case _:
            return ClusterGroup(stands="the cluster serves it", next_step=short(glance.verdict.why))


def members_of(glance: Glance) -> Iterator[ClusterMember]:
    """The members of a forwarded group, as far as known."""
    match None if glance.in_cluster is None else glance.in_cluster.outcome:
        case Occupants(consumer_group=ConsumerGroup() as group):
            yield from map(_read_described, group.members)
        case OtherKind() | Nobody():
            pass
        case _ if glance.watched is not None:
            watched = glance.watched
            for member in watched.members.values():
                yield _read_watched(watched, member)
        case _:
            pass


def _classic_group(glance: Glance, watched: WatchedGroup) -> ClusterGroup:
    members = watched.members
    direct = [member for member in members.values() if not is_behind(member, glance.now_ms)]
    through = f", {len(members) - len(direct)} of them through the gateway" if direct else ""
    return ClusterGroup(
        kind="classic",
        state=_classic_state(glance, watched),
        epoch=watched.generation,
        assignment_epoch=watched.generation,
        assignor=watched.protocol,
        members=len(members),
        native_members=0,
        stands=f"the cluster serves it, {count_members(len(members))}{through}",
        next_step=_next_step(glance, watched, direct),
    )


def _classic_state(glance: Glance, watched: WatchedGroup) -> str:
    match None if glance.in_cluster is None else glance.in_cluster.outcome:
        case Occupants(described=group) if group is not None:
            return group.group_state
        case _:
            return STABLE if watched.protocol else ""


def _next_step(glance: Glance, watched: WatchedGroup, direct: Sequence[WatchedMember]) -> str:
    if kind := foreign_kind_of(glance):
        return f"stays with the cluster: {kind}"
    if glance.is_configured:
        return "stays with the cluster, as configured (groups_forward)"
    if direct:
        names = name_all(member.client_id or member.member_id for member in direct)
        verb = "connects" if len(direct) == 1 else "connect"
        return f"{names} still {verb} to the cluster directly"
    leader = watched.members.get(watched.leader_id or "")
    if leader is not None and leader.instance_id is not None:
        return (
            f"its leader {leader.client_id} is a static member: restart it under another"
            " group.instance.id, or without one"
        )
    count = len(watched.members)
    behind = f"all {count} are" if count > 1 else f"{name_all(_client_ids(watched))} is"
    return f"{behind} behind the gateway: groupferry adopt {glance.group_id}"


def _client_ids(watched: WatchedGroup) -> Iterator[str]:
    return (member.client_id or member.member_id for member in watched.members.values())


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
