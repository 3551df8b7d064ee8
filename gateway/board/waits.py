"""What a group waits for, in one line for people: pure functions of a snapshot.

A member that is *silent* has sent no heartbeat for half of its session, where clients send one in a
third of it at most. It is still a member, and no other member has its partitions.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.records import ClassicGroupMember, Member, MemberState
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.volatile_records import (
    ClassicPhase,
    DeadlineKey,
    DeadlineKind,
    MemberPhase,
)
from gateway.board.words import name_all, short
from gateway.groups.group_snapshot import GroupSnapshot


def explain_wait(snapshot: GroupSnapshot, mode: str) -> str | None:
    """What a group waits for that the gateway hosts, or moves; None if for nothing. `mode`: who
    answers for it."""
    if mode == "adopting":
        return f"being adopted ({snapshot.adoption or 'about to begin'})"
    if mode == "releasing":
        return f"being released ({snapshot.release})"
    if delay := explain_delay(snapshot):
        return delay
    if mode in ("elsewhere", "unknown"):
        return short(snapshot.decision.reason)
    if snapshot.log_failed_ms is not None:
        return explain_log_failure(snapshot.log_failed_ms)
    state = snapshot.state
    if state is None:
        return None
    waits = None
    match state.group:
        case ClassicGroup() as group:
            waits = _classic_blocker(group)
        case ConsumerGroup() as group:
            waits = _consumer_blocker(group, snapshot.policy)
        case None:
            pass
    return waits or explain_absence(snapshot)


def explain_log_failure(failed_ms: int) -> str:
    """What every group waits for until a change is stored again. Only a change shows that, so the
    line has the time of the latest one."""
    at = datetime.fromtimestamp(failed_ms / 1000, UTC)
    return (
        f"the latest change, at {at:%H:%M:%S} UTC, could not be stored, and nobody joins or"
        " converts until one is: see state_log_failed in the log"
    )


def explain_delay(snapshot: GroupSnapshot) -> str:
    """What keeps the group from being served as it should be; empty if nothing does."""
    if snapshot.release_obstacle:
        return f"not released (groups_forward): {short(snapshot.release_obstacle)}"
    return f"held back: {short(snapshot.anchor_reason)}" if snapshot.anchor_reason else ""


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
    """The party that computes it, if the group itself does not."""
    if group.chosen is not None and (chosen := group.members.get(group.chosen.member_id)):
        return f"waits for {_name_members([chosen])} to compute its target assignment"
    if group.computation is not None:
        return f"waits for the plug-in {short(group.computation.assignor)} to compute its target"
    return "waits for its next target assignment"


def _in_phase(group: ConsumerGroup, phase: MemberPhase) -> list[Member]:
    return [
        member
        for member_id, member_phase in group.phases.items()
        if member_phase is phase and (member := group.members.get(member_id)) is not None
    ]


def _in_state(group: ConsumerGroup, state: MemberState) -> list[Member]:
    if not any(member_state is state for member_state, _epoch in group.statuses):
        return []
    return [
        member
        for member_id, assignment in group.assignments.items()
        if assignment.state is state and (member := group.members.get(member_id)) is not None
    ]


def _behind(group: ConsumerGroup) -> list[Member]:
    return [member for member in group.members.values() if not is_done(group, member.member_id)]


def is_done(group: ConsumerGroup, member_id: str) -> bool:
    """Whether the member has what its target says."""
    return group.is_settled(member_id) or group.is_unaffected(member_id)


def _name_members(members: Sequence[Member | ClassicGroupMember]) -> str:
    return name_all(map(_name_of, members))


# -- members that are away -----------------------------------------------------------------------


def explain_absence(snapshot: GroupSnapshot) -> str | None:
    """Who is expected back, or not heard; None if no member is. It changes as time passes."""
    state = snapshot.state
    if state is None:
        return None
    return _explain_slots(state, snapshot.now_ms) or _explain_silence(snapshot)


def _explain_slots(state: GroupState, now_ms: int) -> str:
    """Who has left in a roll, and is expected back; empty if no member is."""
    slots = [slot for slot in state.member_slots.values() if slot.member is not None]
    if not slots:
        return ""
    age_s = (now_ms - min(slot.left_ms for slot in slots)) // 1000
    names = name_all(_name_of(slot.member) for slot in slots if slot.member is not None)
    owner = "other members have" if all(slot.reassigned for slot in slots) else "nobody has"
    return f"waits for {names} to come back, gone for {age_s} s: {owner} the partitions"


def _explain_silence(snapshot: GroupSnapshot) -> str | None:
    silent = sorted(silences_ms(snapshot), key=lambda silence: silence[2])
    if not silent:
        return None
    member, silent_ms, left_ms = silent[0]
    more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
    return (
        f"waits for a heartbeat of {_name_of(member)}{more}: silent for {silent_ms // 1000} s,"
        f" removed in {max(0, left_ms) // 1000} s"
    )


def silences_ms(snapshot: GroupSnapshot) -> Iterator[tuple[Member | ClassicGroupMember, int, int]]:
    """The silent members, each with the time since its last heartbeat, and until it is removed."""
    state = snapshot.state
    group = None if state is None else state.group
    if state is None or group is None:
        return
    for member_id, member in group.members.items():
        ends_ms = state.deadlines.get(DeadlineKey(DeadlineKind.SESSION, member_id))
        if ends_ms is None:
            continue  # its JoinGroup or SyncGroup is parked, so it is waited with, not for
        session_ms = _session_ms(member, snapshot.native_session_ms)
        left_ms = ends_ms - snapshot.now_ms
        if left_ms <= session_ms // 2:
            yield member, session_ms - left_ms, left_ms


def _session_ms(member: Member | ClassicGroupMember, native_session_ms: int) -> int:
    if isinstance(member, ClassicGroupMember):
        return member.session_timeout_ms
    return native_session_ms if member.classic is None else member.classic.session_timeout_ms


def _name_of(member: Member | ClassicGroupMember) -> str:
    return member.client_id or member.member_id
