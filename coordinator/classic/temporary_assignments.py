"""Assigns to one member of a classic group what another one had that left (rule 3.18, DEV D85).

A rebalance makes all members rejoin, when the member leaves and when it comes back. If the member
returns as a native one, which begins a roll, both can be spared: one member alone is told to
rejoin, in the same generation, and gets what was left. The conversion takes the temporary
assignment along.

Any rebalance ends it, so a classic replacement does, and a restart.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from coordinator.classic.durability import store_group
from coordinator.classic.protocols import select_protocol
from coordinator.classic.rebalance import rebalance_or_complete
from coordinator.classic.subscriptions import has_to_rejoin, subscribes_alike, watch_topics
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.embedded_protocol import (
    list_stored_assignment,
    owned_partitions,
    version_of,
    write_assignment,
)
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.records import ClassicGroupMember
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicGroupMemberPut,
    ClassicPhase,
    DeadlineKind,
    MemberSlotMoved,
)

CANDIDATES_MAX = 100
"""Members that are looked at to find the one with fewest partitions."""


def grace_over(step: StepBuilder, member_id: str) -> None:
    """No replacement has taken the slot of a member that left, or the temporary assignment is
    over."""
    slot = step.state.member_slots[member_id]
    left = slot.member
    assert isinstance(left, ClassicGroupMember)
    is_over = bool(slot.reassigned)
    target = frozenset[Partition]() if is_over else _target_to_assign(step, left)
    owner = min(_candidates(step, left), default=None) if target else None
    if owner is None:
        rebalance_or_complete(step)
        return
    _held, owner_id = owner
    _assign(step, step.classic.members[owner_id], target)
    gone = replace(left, assignment=b"")
    step.emit(MemberSlotMoved(member_id, replace(slot, member=gone, reassigned=target)))
    step.arm(DeadlineKind.GRACE, member_id, step.config.temporary_assignment_ms)


def rejoins_alone(step: StepBuilder, before: ClassicGroupMember, now: ClassicGroupMember) -> bool:
    """Whether a member that was told to rejoin does just that, so that nothing else changes."""
    # What it has given up goes to others, in another generation.
    if has_to_rejoin(step, before):
        return False
    group = step.classic
    others = (m.protocols for id_, m in group.members.items() if id_ != now.member_id)
    return (
        before.member_id in group.core.told_to_rejoin
        and select_protocol([now.protocols, *others]) == group.core.protocol
        and subscribes_alike(group, before, now)
    )


def record_rejoined(step: StepBuilder, member_id: str) -> None:
    """A member has got its assignment."""
    core = step.classic.core
    if member_id in core.told_to_rejoin:
        asked_to_rejoin = core.told_to_rejoin - {member_id}
        step.emit(ClassicCoreMoved(replace(core, told_to_rejoin=asked_to_rejoin)))


def _target_to_assign(step: StepBuilder, left: ClassicGroupMember) -> frozenset[Partition]:
    """What a member was assigned, nothing if no other may have it. A commit in flight may be its
    last (DEV D34): only a rebalance waits for it."""
    group = step.classic
    is_possible = step.config.temporary_assignment_ms > 0 and group.phase is ClassicPhase.STABLE
    if not is_possible or group.unsynced:
        return frozenset()
    target = _partitions_assigned(group, left, step.topics) or frozenset()
    return frozenset() if any(map(step.state.committing.__contains__, target)) else target


def _partitions_assigned(
    group: ClassicGroup, member: ClassicGroupMember, topics: Topics
) -> frozenset[Partition] | None:
    """What a member is assigned. None if its bytes say more than partitions of known topics."""
    try:
        listed = list_stored_assignment(member.assignment, protocol=group.core.protocol)
    except GroupError:
        return None
    is_known = all(topic.topic in topics.by_name for topic in listed)
    return owned_partitions(listed, topics) if is_known else None


def _candidates(step: StepBuilder, left: ClassicGroupMember) -> Iterator[tuple[int, str]]:
    """Members that subscribe alike, each with the number of its partitions. Not the leader: it
    would assign the partitions again."""
    group = step.classic
    for member in islice(group.members.values(), CANDIDATES_MAX):
        held = _partitions_assigned(group, member, step.topics)
        is_leader = member.member_id == group.core.leader
        if held is not None and not is_leader and subscribes_alike(group, left, member):
            yield len(held), member.member_id


def _assign(step: StepBuilder, owner: ClassicGroupMember, target: frozenset[Partition]) -> None:
    group, topics = step.classic, step.topics
    held = _partitions_assigned(group, owner, topics) or frozenset()
    version = version_of(owner.metadata_for(group.core.protocol))
    step.emit(
        ClassicGroupMemberPut(
            replace(owner, assignment=write_assignment(held | target, version, topics))
        )
    )
    asked_to_rejoin = group.core.told_to_rejoin | {owner.member_id}
    step.emit(ClassicCoreMoved(replace(group.core, told_to_rejoin=asked_to_rejoin)))
    if group.core.leader is None:
        watch_topics(step)
    store_group(step, group.stored_value())
