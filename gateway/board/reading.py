"""Turns what serves a group into what the board says of it: pure functions of a snapshot."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import read_stored_assignment
from coordinator.interface.errors import GroupError
from coordinator.interface.records import Assignment, ClassicGroupMember, Member
from coordinator.interface.replies import GroupView
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.board.cluster_reading import (
    ClusterGroup,
    ClusterMember,
    members_of,
    read_cluster_group,
)
from gateway.board.group_stats import GroupStats
from gateway.board.lags import FRESH_MS, GroupLag, ShownLag
from gateway.board.views import GroupLine, GroupPage, MemberLine, PartitionLine
from gateway.board.waits import explain_delay, explain_wait, is_done, silences_ms
from gateway.board.words import count_members, each_partition, short, software_name
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.groups_elsewhere import GroupElsewhere
from gateway.hosting.states import Mode

MEMBERS_MAX = 2_000
"""Members listed of one group."""
PARTITIONS_MAX = 2_000
"""Partitions listed of one group."""
NO_TOPICS = Topics()

_PHASES = {
    MemberPhase.STABLE: "Stable",
    MemberPhase.PREPARE_REBALANCE: "ToldToRejoin",
    MemberPhase.COMPLETING_REBALANCE: "Syncing",
}


def group_line(
    snapshot: GroupSnapshot,
    summary: GroupView | None,
    stats: GroupStats | None,
    lag: ShownLag | None = None,
) -> GroupLine:
    """A group in the list. `summary` has what is only in the log."""
    return GroupLine(**_fields_of_line(snapshot, summary, stats, lag))


@dataclass(frozen=True, slots=True)
class TakenMember:
    """A member at one moment. What takes time is left to `line`, so that a large group need not be
    read at once, and still is as it was at that moment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    software: str | None
    protocol: Literal["classic", "consumer"]
    phase: str
    epoch: int = 0
    held: Callable[[], frozenset[Partition]] = frozenset
    target: frozenset[Partition] | None = None
    """None of a member of a classic group: its leader assigns what it holds."""
    topics: Topics = NO_TOPICS
    silent_ms: int | None = None
    """The time since its last heartbeat, if that is long."""

    def line(self, lag: GroupLag | None = None) -> MemberLine:
        """The member as the board shows it. `lag`: of its group, if known."""
        held = self.held()
        target = held if self.target is None else self.target
        owned = self.topics.names(held)
        return MemberLine(
            member_id=short(self.member_id),
            instance_id=None if self.instance_id is None else short(self.instance_id),
            client_id=short(self.client_id),
            client_host=self.client_host,
            software=self.software,
            protocol=self.protocol,
            phase=self.phase,
            silent_ms=self.silent_ms,
            member_epoch=self.epoch,
            owned=owned,
            lag=None if lag is None else lag.of(each_partition(owned)),
            to_give_up=self.topics.names(held - target),
            to_get=self.topics.names(target - held),
        )


def group_page(
    snapshot: GroupSnapshot,
    summary: GroupView | None,
    stats: GroupStats | None,
    lag: ShownLag | None = None,
) -> tuple[GroupPage, list[TakenMember | ClusterMember]]:
    """A group without its members, and the members that it shows."""
    taken = sorted(
        _members(snapshot, stats), key=lambda member: (member.client_id, member.member_id)
    )
    in_cluster = snapshot.in_cluster
    page = GroupPage(
        **_fields_of_line(snapshot, summary, stats, lag),
        mode_reason=short(snapshot.decision.reason),
        anchor=snapshot.anchor,
        adoption=snapshot.adoption,
        described_ms=None if in_cluster is None else in_cluster.at_ms,
        assignor="" if summary is None else summary.assignor or summary.protocol,
        last_refusal=None if stats is None or stats.refusal is None else short(stats.refusal),
        next_step=None,
        last_step=None,
        lag_before=None,
        lag_history=(),
        member_list=(),
        partitions=(),
        members_left_out=max(0, len(taken) - MEMBERS_MAX),
    )
    return page, taken[:MEMBERS_MAX]


def partition_lines(
    lag: GroupLag, members: Iterable[MemberLine], now_ms: int
) -> Iterator[PartitionLine]:
    """The partitions in which the group has committed, each with its owner among the members. An
    end that was looked at too long ago is not known."""
    owners = {
        partition: member.client_id or member.member_id
        for member in members
        for partition in each_partition(member.owned or {})
    }
    for partition in sorted(lag.committed)[:PARTITIONS_MAX]:
        known = lag.partition(partition)
        if known is not None and now_ms - known.at_ms > FRESH_MS:
            known = None
        topic, number = partition
        yield PartitionLine(
            topic=short(topic),
            partition=number,
            owner=owners.get(partition),
            committed=lag.committed[partition] if known is None else known.committed,
            end=None if known is None else known.end,
            lag=None if known is None else max(0, known.end - known.committed),
            behind_ms=None if known is None else known.behind_ms,
        )


def _fields_of_line(
    snapshot: GroupSnapshot,
    summary: GroupView | None,
    stats: GroupStats | None,
    lag: ShownLag | None,
) -> dict[str, Any]:
    mode = _mode(snapshot, has_state=summary is not None and summary.group_type is not None)
    fields = (
        _cluster_fields(snapshot, read_cluster_group(snapshot))
        if mode == "forwarded"
        else _hosted_fields(snapshot, mode, summary, stats)
    )
    return {
        "group_id": snapshot.group_id,
        "mode": mode,
        "is_adopted": snapshot.is_adopted,
        "policy": snapshot.policy.value,
        "lag": None if lag is None else lag.records,
        "behind_ms": None if lag is None else lag.behind_ms,
        "lag_at_ms": None if lag is None else lag.at_ms,
        **fields,
    }


def line_elsewhere(group_id: str, group: GroupElsewhere) -> GroupLine:
    """A group that a gateway on another machine has."""
    return GroupLine(
        group_id=group_id,
        mode="elsewhere",
        gateway=short(group.gateway),
        type=group.type,
        state=group.state,
        group_epoch=None,
        assignment_epoch=None,
        members=None,
        native_members=None,
        policy=None,
        stands=f"at the gateway {short(group.gateway)}",
        blocker=None,
        lag=None,
        behind_ms=None,
        lag_at_ms=None,
        **_UNMEASURED._asdict(),
    )


def _hosted_fields(
    snapshot: GroupSnapshot, mode: "_Mode", summary: GroupView | None, stats: GroupStats | None
) -> dict[str, Any]:
    members, native = _counts(snapshot)
    kind = None if summary is None else summary.group_type
    return {
        "type": kind,
        "state": "" if summary is None or kind is None else summary.state,
        "group_epoch": 0 if summary is None else summary.group_epoch,
        "assignment_epoch": 0 if summary is None else summary.assignment_epoch,
        "members": members,
        "native_members": native,
        "stands": _stands(snapshot, mode, members, native) + _POLICIES[snapshot.policy],
        "blocker": explain_wait(snapshot, mode),
        **(_NO_SUMS if stats is None else sums_shown(stats))._asdict(),
    }


def _cluster_fields(snapshot: GroupSnapshot, group: ClusterGroup) -> dict[str, Any]:
    """The gateway cannot measure which partitions of a forwarded group have no owner, or two."""
    return {
        "type": group.kind,
        "state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": group.members,
        "native_members": group.native_members,
        "stands": group.stands + _POLICIES[snapshot.policy],
        "blocker": explain_delay(snapshot) or group.next_step,
        **_UNMEASURED._asdict(),
    }


class ShownSums(NamedTuple):
    """What a line shows of the sums of a group."""

    unowned_partitions: int | None
    unowned_partition_s: float | None
    owned_twice: int | None
    disturbed: int | None
    conversions: int | None
    since_ms: int | None


_NO_SUMS = ShownSums(0, 0.0, 0, 0, 0, None)
_UNMEASURED = ShownSums(None, None, None, None, None, None)


def sums_shown(stats: GroupStats) -> ShownSums:
    """What a line shows of these sums."""
    return ShownSums(
        unowned_partitions=stats.unowned_count,
        unowned_partition_s=stats.unowned_partition_ms / 1000,
        owned_twice=stats.owned_twice,
        disturbed=stats.disturbed,
        conversions=stats.conversions,
        since_ms=stats.since_ms,
    )


_POLICIES = {
    RollMode.ALLOW: "",
    RollMode.HOLD: "; on hold",
    RollMode.PAUSE: "; paused",
}
_Mode = Literal["hosted", "adopting", "releasing", "forwarded", "elsewhere", "unknown"]
_MODES: Mapping[Mode, _Mode] = {
    Mode.HOSTED: "hosted",
    Mode.FORWARDED: "forwarded",
    Mode.ELSEWHERE: "elsewhere",
    Mode.UNKNOWN: "unknown",
}


def _mode(snapshot: GroupSnapshot, *, has_state: bool) -> _Mode:
    if snapshot.is_adopting:
        return "adopting"
    if snapshot.release is not None:
        return "releasing"
    mode = _MODES[snapshot.decision.mode]
    return "hosted" if mode == "unknown" and has_state else mode


def _counts(snapshot: GroupSnapshot) -> tuple[int, int]:
    """The members, and how many of them are native."""
    match _group(snapshot):
        case ConsumerGroup() as group:
            return len(group.members), group.native_count
        case ClassicGroup() as group:
            return len(group.members), 0
        case None:
            return 0, 0


def _group(snapshot: GroupSnapshot) -> ClassicGroup | ConsumerGroup | None:
    return None if snapshot.state is None else snapshot.state.group


def _stands(snapshot: GroupSnapshot, mode: _Mode, members: int, native: int) -> str:
    if mode in ("elsewhere", "unknown"):
        return short(snapshot.decision.reason)
    if not members:
        return "no members"
    if native == members:
        return f"{count_members(members)}, all with the new protocol"
    if not native:
        return f"{count_members(members)}, all with the classic protocol"
    return f"{native} of {count_members(members)} with the new protocol"


# -- members -------------------------------------------------------------------------------------


def _members(
    snapshot: GroupSnapshot, stats: GroupStats | None, client_id: str | None = None
) -> Iterator[TakenMember | ClusterMember]:
    """The members of a group, or those that a client is: others are not even read."""
    group = _group(snapshot)
    if group is None:
        yield from members_of(snapshot, client_id)
        return
    wanted = [
        member_id
        for member_id, member in group.members.items()
        if client_id is None or member.client_id == client_id
    ]
    if not wanted:
        return
    silent = {member.member_id: age_ms for member, age_ms, _left_ms in silences_ms(snapshot)}
    for member_id in wanted:
        taken = _take_member(group, member_id, snapshot.topics, stats)
        yield replace(taken, silent_ms=silent.get(member_id))


def _take_member(
    group: ClassicGroup | ConsumerGroup, member_id: str, topics: Topics, stats: GroupStats | None
) -> TakenMember:
    if isinstance(group, ConsumerGroup):
        return _take_consumer_member(group, group.members[member_id], topics, stats)
    return _take_classic_member(group, group.members[member_id], topics, stats)


def members_of_client(
    snapshot: GroupSnapshot, stats: GroupStats | None, client_id: str, lag: GroupLag | None
) -> Iterator[MemberLine]:
    """The members of a group that a client is."""
    for member in _members(snapshot, stats, client_id):
        yield member.line(lag)


def members_by_phase(snapshot: GroupSnapshot) -> Counter[tuple[str, str]]:
    """The members by protocol and phase."""
    match _group(snapshot):
        case ConsumerGroup() as group:
            return Counter(
                ("classic" if member.is_classic else "consumer", _phase(group, member))
                for member in group.members.values()
            )
        case ClassicGroup() as group:
            return Counter(
                ("classic", _classic_phase(group, member_id)) for member_id in group.members
            )
        case None:
            return Counter((member.protocol, "") for member in members_of(snapshot))


def _phase(group: ConsumerGroup, member: Member) -> str:
    phase = "Stable"
    if member.is_classic:
        phase = _PHASES[group.phases.get(member.member_id, MemberPhase.STABLE)]
    if phase != "Stable" or is_done(group, member.member_id):
        return phase
    current = group.assignments.get(member.member_id)
    target = group.target_of(member.member_id)
    return (
        "GivingUp" if current is not None and current.held_partitions.keys() - target else "Waiting"
    )


def _take_consumer_member(
    group: ConsumerGroup, member: Member, topics: Topics, stats: GroupStats | None
) -> TakenMember:
    current = group.assignments.get(member.member_id, Assignment(member_epoch=0, previous_epoch=0))
    return TakenMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        software=_seen_software(stats, member.member_id),
        protocol="classic" if member.is_classic else "consumer",
        phase=_phase(group, member),
        epoch=current.member_epoch,
        held=lambda: frozenset(current.held_partitions),
        target=group.target_of(member.member_id),
        topics=topics,
    )


def _take_classic_member(
    group: ClassicGroup, member: ClassicGroupMember, topics: Topics, stats: GroupStats | None
) -> TakenMember:
    return TakenMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        software=_seen_software(stats, member.member_id),
        protocol="classic",
        phase=_classic_phase(group, member.member_id),
        epoch=group.core.generation,
        held=partial(decode_embedded, member.assignment, topics, group.core.protocol),
        topics=topics,
    )


def _classic_phase(group: ClassicGroup, member_id: str) -> str:
    match group.phase:
        case ClassicPhase.PREPARING_REBALANCE:
            return "Joining" if member_id in group.joins else "ToldToRejoin"
        case ClassicPhase.COMPLETING_REBALANCE:
            return "Syncing"
        case _:
            return "Stable"


def decode_embedded(
    assignment: bytes, topics: Topics, protocol: str | None
) -> frozenset[Partition]:
    """The partitions of a classic member; none if its format is a custom one."""
    try:
        return read_stored_assignment(assignment, topics, protocol=protocol)
    except GroupError:  # a custom format
        return frozenset()


def _seen_software(stats: GroupStats | None, member_id: str) -> str | None:
    client = None if stats is None else stats.clients.get(member_id)
    return None if client is None else software_name(client.software_name, client.software_version)
