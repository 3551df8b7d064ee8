"""Turns what serves a group into what the board says of it: pure functions of a glance."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import read_stored_assignment
from coordinator.interface.errors import GroupError
from coordinator.interface.records import Assignment, ClassicGroupMember, Member, MemberState
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
from gateway.board.lags import GroupLag
from gateway.board.tallies import Tally
from gateway.board.views import GroupLine, GroupPage, MemberLine, Partitions
from gateway.board.words import count_members, each_partition, name_all, short, software_name
from gateway.groups.glance import Glance
from gateway.hosting.states import Mode

MEMBERS_MAX = 2_000
"""Members listed of one group."""
NO_TOPICS = Topics()

_PHASES = {
    MemberPhase.STABLE: "Stable",
    MemberPhase.PREPARE_REBALANCE: "ToldToRejoin",
    MemberPhase.COMPLETING_REBALANCE: "Syncing",
}


def group_line(
    glance: Glance, summary: GroupView | None, tally: Tally | None, lag: int | None = None
) -> GroupLine:
    """A group in the list. `summary` has what is only in the log."""
    return GroupLine(**_fields_of_line(glance, summary, tally, lag))


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
            member_epoch=self.epoch,
            owned=owned,
            lag=None if lag is None else lag.of(each_partition(owned)),
            to_give_up=self.topics.names(held - target),
            to_get=self.topics.names(target - held),
        )


def group_page(
    glance: Glance, summary: GroupView | None, tally: Tally | None, lag: int | None = None
) -> tuple[GroupPage, list[TakenMember | ClusterMember]]:
    """A group without its members, and the members that it shows."""
    taken = sorted(_members(glance, tally), key=lambda member: (member.client_id, member.member_id))
    in_cluster = glance.in_cluster
    page = GroupPage(
        **_fields_of_line(glance, summary, tally, lag),
        mode_reason=short(glance.verdict.why),
        anchor=glance.anchor,
        adoption=glance.adoption,
        described_ms=None if in_cluster is None else in_cluster.at_ms,
        assignor="" if summary is None else summary.assignor or summary.protocol,
        last_refusal=None if tally is None or tally.refusal is None else short(tally.refusal),
        next_step=None,
        last_step=None,
        lag_before=None,
        lag_history=(),
        member_list=(),
        members_left_out=max(0, len(taken) - MEMBERS_MAX),
    )
    return page, taken[:MEMBERS_MAX]


def _fields_of_line(
    glance: Glance, summary: GroupView | None, tally: Tally | None, lag: int | None
) -> dict[str, Any]:
    mode = _mode(glance, has_state=summary is not None and summary.group_type is not None)
    fields = (
        _cluster_fields(glance, read_cluster_group(glance))
        if mode == "forwarded"
        else _hosted_fields(glance, mode, summary, tally)
    )
    return {
        "group_id": glance.group_id,
        "mode": mode,
        "is_adopted": glance.is_adopted,
        "policy": glance.policy.value,
        "lag": lag,
        **fields,
    }


def _hosted_fields(
    glance: Glance, mode: "_Mode", summary: GroupView | None, tally: Tally | None
) -> dict[str, Any]:
    members, native = _counts(glance)
    kind = None if summary is None else summary.group_type
    return {
        "type": kind,
        "state": "" if summary is None or kind is None else summary.state,
        "group_epoch": 0 if summary is None else summary.group_epoch,
        "assignment_epoch": 0 if summary is None else summary.assignment_epoch,
        "members": members,
        "native_members": native,
        "stands": _stands(glance, mode, members, native) + _POLICIES[glance.policy],
        "blocker": _blocker(glance, mode),
        **(_NO_SUMS if tally is None else sums_shown(tally))._asdict(),
    }


def _cluster_fields(glance: Glance, group: ClusterGroup) -> dict[str, Any]:
    """What a forwarded group has without an owner, or twice, is for nobody here to measure."""
    return {
        "type": group.kind,
        "state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": group.members,
        "native_members": group.native_members,
        "stands": group.stands + _POLICIES[glance.policy],
        "blocker": _explain_delay(glance) or group.next_step,
        **_UNMEASURED._asdict(),
    }


class ShownSums(NamedTuple):
    """What a line shows of a tally."""

    unowned_partitions: int | None
    unowned_partition_s: float | None
    owned_twice: int | None
    disturbed: int | None
    conversions: int | None
    since_ms: int | None


_NO_SUMS = ShownSums(0, 0.0, 0, 0, 0, None)
_UNMEASURED = ShownSums(None, None, None, None, None, None)


def sums_shown(tally: Tally) -> ShownSums:
    """What a line shows of this tally."""
    return ShownSums(
        unowned_partitions=tally.unowned_count,
        unowned_partition_s=tally.unowned_partition_ms / 1000,
        owned_twice=tally.owned_twice,
        disturbed=tally.disturbed,
        conversions=tally.conversions,
        since_ms=tally.since_ms,
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


def _mode(glance: Glance, *, has_state: bool) -> _Mode:
    if glance.is_adopting:
        return "adopting"
    if glance.release is not None:
        return "releasing"
    mode = _MODES[glance.verdict.mode]
    return "hosted" if mode == "unknown" and has_state else mode


def _counts(glance: Glance) -> tuple[int, int]:
    """The members, and how many of them are native."""
    match _group(glance):
        case ConsumerGroup() as group:
            return len(group.members), group.native_count
        case ClassicGroup() as group:
            return len(group.members), 0
        case None:
            return 0, 0


def _group(glance: Glance) -> ClassicGroup | ConsumerGroup | None:
    return None if glance.state is None else glance.state.group


def _stands(glance: Glance, mode: _Mode, members: int, native: int) -> str:
    if mode in ("elsewhere", "unknown"):
        return short(glance.verdict.why)
    if not members:
        return "no members"
    if native == members:
        return f"{count_members(members)}, all with the new protocol"
    if not native:
        return f"{count_members(members)}, all with the classic protocol"
    return f"{native} of {count_members(members)} with the new protocol"


# -- what a group waits for ----------------------------------------------------------------------


def _blocker(glance: Glance, mode: _Mode) -> str | None:
    if mode == "adopting":
        return f"being adopted ({glance.adoption or 'about to begin'})"
    if mode == "releasing":
        return f"being released ({glance.release})"
    if delay := _explain_delay(glance):
        return delay
    if mode in ("elsewhere", "unknown"):
        return short(glance.verdict.why)
    match _group(glance):
        case ClassicGroup() as group:
            return _classic_blocker(group)
        case ConsumerGroup() as group:
            return _consumer_blocker(group, glance.policy)
        case None:
            return None


def _explain_delay(glance: Glance) -> str:
    if glance.release_obstacle:
        return f"not released (groups_forward): {short(glance.release_obstacle)}"
    return f"held back: {short(glance.anchor_why)}" if glance.anchor_why else ""


def _classic_blocker(group: ClassicGroup) -> str | None:
    match group.phase:
        case ClassicPhase.PREPARING_REBALANCE:
            late = [
                member for member in group.members.values() if member.member_id not in group.joins
            ]
            return f"waits for {_name_members(late)} to join" if late else "waits for more members"
        case ClassicPhase.COMPLETING_REBALANCE:
            leader = group.members.get(group.core.leader or "")
            late = [leader] if leader is not None else []
            return f"waits for its leader {_name_members(late)} to assign partitions"
        case _:
            return None


def _consumer_blocker(group: ConsumerGroup, policy: RollMode) -> str | None:
    rejoining = _in_phase(group, MemberPhase.PREPARE_REBALANCE)
    if rejoining:
        return f"waits for {_name_members(rejoining)} to rejoin"
    joined = _in_phase(group, MemberPhase.COMPLETING_REBALANCE)
    if joined:
        return f"waits for {_name_members(joined)} to sync"
    giving = _in_state(group, MemberState.UNREVOKED_PARTITIONS)
    if giving:
        return f"waits for {_name_members(giving)} to give up partitions"
    if group.members and group.epoch > group.assignment_epoch:
        if policy is RollMode.PAUSE:
            return "paused: it keeps its target assignment (groupferry allow)"
        return _next_target(group)
    late = _behind(group) if group.state != "Stable" else []
    return f"waits for the next heartbeat of {_name_members(late)}" if late else None


def _next_target(group: ConsumerGroup) -> str:
    """Who computes it, if the group itself does not."""
    if group.chosen is not None and (chosen := group.members.get(group.chosen.member_id)):
        return f"waits for {_name_members([chosen])} to compute its target assignment"
    if group.computation is not None:
        return f"waits for the plug-in {short(group.computation.assignor)} to compute its target"
    return "waits for its next target assignment"


def _in_phase(group: ConsumerGroup, phase: MemberPhase) -> list[Member]:
    return [
        member
        for member_id, its_phase in group.phases.items()
        if its_phase is phase and (member := group.members.get(member_id)) is not None
    ]


def _in_state(group: ConsumerGroup, state: MemberState) -> list[Member]:
    if not any(its_state is state for its_state, _epoch in group.standings):
        return []
    return [
        member
        for member_id, assignment in group.assignments.items()
        if assignment.state is state and (member := group.members.get(member_id)) is not None
    ]


def _behind(group: ConsumerGroup) -> list[Member]:
    return [member for member in group.members.values() if not _is_done(group, member.member_id)]


def _is_done(group: ConsumerGroup, member_id: str) -> bool:
    return group.is_settled(member_id) or group.is_unaffected(member_id)


def _name_members(members: Sequence[Member | ClassicGroupMember]) -> str:
    return name_all(member.client_id or member.member_id for member in members)


# -- members -------------------------------------------------------------------------------------


def _members(glance: Glance, tally: Tally | None) -> Iterator[TakenMember | ClusterMember]:
    match _group(glance):
        case ConsumerGroup() as group:
            for member in group.members.values():
                yield _of_consumer_group(group, member, glance.topics, tally)
        case ClassicGroup() as group:
            for classic in group.members.values():
                yield _of_classic_group(group, classic, glance.topics, tally)
        case None:
            yield from members_of(glance)


def members_by_phase(glance: Glance) -> Counter[tuple[str, str]]:
    """The members by protocol and phase."""
    match _group(glance):
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
            return Counter((member.protocol, "") for member in members_of(glance))


def _phase(group: ConsumerGroup, member: Member) -> str:
    phase = "Stable"
    if member.is_classic:
        phase = _PHASES[group.phases.get(member.member_id, MemberPhase.STABLE)]
    if phase != "Stable" or _is_done(group, member.member_id):
        return phase
    current = group.assignments.get(member.member_id)
    target = group.target_of(member.member_id)
    return (
        "GivingUp" if current is not None and current.held_partitions.keys() - target else "Waiting"
    )


def _of_consumer_group(
    group: ConsumerGroup, member: Member, topics: Topics, tally: Tally | None
) -> TakenMember:
    current = group.assignments.get(member.member_id, Assignment(member_epoch=0, previous_epoch=0))
    return TakenMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        software=_seen_software(tally, member.member_id),
        protocol="classic" if member.is_classic else "consumer",
        phase=_phase(group, member),
        epoch=current.member_epoch,
        held=lambda: frozenset(current.held_partitions),
        target=group.target_of(member.member_id),
        topics=topics,
    )


def _of_classic_group(
    group: ClassicGroup, member: ClassicGroupMember, topics: Topics, tally: Tally | None
) -> TakenMember:
    return TakenMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        software=_seen_software(tally, member.member_id),
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


def _seen_software(tally: Tally | None, member_id: str) -> str | None:
    client = None if tally is None else tally.clients.get(member_id)
    return None if client is None else software_name(client.software_name, client.software_version)


def partitions_in(partitions: Partitions) -> int:
    """The number of partitions."""
    return sum(map(len, partitions.values()))


def compact(numbers: Iterable[int]) -> str:
    """Partition numbers as ranges, such as 0-3,7."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in ranges)
