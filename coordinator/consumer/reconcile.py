"""Reconciles one member: moves its current assignment towards its target (KIP-848, rule 3.7).

Revocations come first: a member keeps its epoch until it has given up what it must. A partition is
granted only if no other member holds it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JOIN_EPOCH
from coordinator.interface.records import Assignment, CurrentAssignment, Member, MemberState
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import DeadlineKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a reconciliation. `topic_ids` are the subscribed topics; `owned` has the owned
    partitions that the client stated, or None."""

    target: frozenset[Partition]
    assignment_epoch: int
    topic_ids: frozenset[UUID]
    owned: frozenset[Partition] | None
    is_free: Callable[[Partition], bool]


def reconcile_member(
    step: StepBuilder,
    member: Member,
    owned: frozenset[Partition] | None,
    *,
    subscription_changed: bool,
) -> None:
    """Reconcile the member as far as possible now, and keep its revocation deadline."""
    group, member_id = step.consumer, member.member_id
    current = group.assignments.get(member_id, Assignment(member_epoch=0, previous_epoch=0))
    if group.is_settled(member_id) and not subscription_changed:
        return
    goal = _goal(step, member, owned)
    reconciled = reconcile(current, goal, subscription_changed=subscription_changed)
    if reconciled == current and member_id in group.assignments:
        return
    step.emit(CurrentAssignment(member_id=member_id, value=reconciled))
    _keep_revocation_deadline(step, member, current.state, reconciled.state)


def reassign_member(step: StepBuilder, member: Member) -> None:
    """Assign a rejoining member everything that it holds. Reconcile it immediately only if that
    needs no revocation.

    DEV D25: a join always states that the member owns nothing, even a delayed join whose member has
    received partitions since. In Kafka such a join frees partitions that the member must revoke and
    still uses. Here it proves nothing. The member gets back what it holds, because a member without
    partitions has nothing to acknowledge and so cannot prove a revocation. Its revocation deadline
    keeps running.
    """
    current = whole = step.consumer.assignments[member.member_id]
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        state = MemberState.UNRELEASED_PARTITIONS  # transient: the member is reconciled again
        whole = replace(
            current, state=state, assigned=current.held_partitions, pending_revocation={}
        )
    reconciled = reconcile(whole, _goal(step, member, None), subscription_changed=False)
    if reconciled.pending_revocation:
        reconciled = whole
    else:
        step.disarm(DeadlineKind.REVOCATION, member.member_id)
    if reconciled != current:
        step.emit(CurrentAssignment(member_id=member.member_id, value=reconciled))


def _goal(step: StepBuilder, member: Member, owned: frozenset[Partition] | None) -> Goal:
    group, member_id = step.consumer, member.member_id
    return Goal(
        target=group.target_of(member_id),
        assignment_epoch=group.assignment_epoch,
        topic_ids=step.topics.ids(group.topics_of(member)),
        owned=owned,
        is_free=lambda partition: step.is_free_for(partition, member_id),
    )


def reconcile(current: Assignment, goal: Goal, *, subscription_changed: bool) -> Assignment:
    """The next current assignment; unchanged if the member cannot advance."""
    match current.state:
        case MemberState.STABLE if current.member_epoch == goal.assignment_epoch:
            return _trim(current, goal) if subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS if _still_owns(current, goal):
            return _trim(current, goal) if subscription_changed else current
        case _:
            return _advance(current, goal)


def _still_owns(current: Assignment, goal: Goal) -> bool:
    """Whether the member still owns partitions that it must revoke. A heartbeat that does not state
    owned partitions is no proof of a revocation."""
    return goal.owned is None or not goal.owned.isdisjoint(current.pending_revocation)


def _advance(current: Assignment, goal: Goal) -> Assignment:
    # A topic that was just unsubscribed must not be granted from an old target (KAFKA-19431).
    target = frozenset(p for p in goal.target if p.topic_id in goal.topic_ids)
    keep = _only(current.assigned, target)
    drop = {p: epoch for p, epoch in current.assigned.items() if p not in keep}
    if drop and (goal.owned is None or not goal.owned.isdisjoint(drop)):
        return Assignment(
            member_epoch=current.member_epoch,
            previous_epoch=current.member_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=keep,
            pending_revocation=drop,
        )
    if current.member_epoch == JOIN_EPOCH:
        # DEV D68: a member that inherits partitions has had no epoch before this one.
        keep = dict.fromkeys(keep, goal.assignment_epoch)
    want = target - keep.keys()
    give = {partition: goal.assignment_epoch for partition in want if goal.is_free(partition)}
    withheld = len(give) < len(want)
    return Assignment(
        member_epoch=goal.assignment_epoch,
        previous_epoch=current.member_epoch,
        state=MemberState.UNRELEASED_PARTITIONS if withheld else MemberState.STABLE,
        assigned={**keep, **give},
    )


def _trim(current: Assignment, goal: Goal) -> Assignment:
    """Revoke topics that the member no longer subscribes to, without waiting for a new target."""
    keep = {p: e for p, e in current.assigned.items() if p.topic_id in goal.topic_ids}
    drop = {p: e for p, e in current.assigned.items() if p not in keep}
    if not drop:
        return current
    owns_some = goal.owned is None or not goal.owned.isdisjoint(drop)
    return Assignment(
        member_epoch=current.member_epoch,
        previous_epoch=current.member_epoch,
        state=MemberState.UNREVOKED_PARTITIONS if owns_some else current.state,
        assigned=keep,
        pending_revocation=(
            {**current.pending_revocation, **drop} if owns_some else current.pending_revocation
        ),
    )


def _only(
    assigned: Mapping[Partition, int], partitions: frozenset[Partition]
) -> dict[Partition, int]:
    return {p: epoch for p, epoch in assigned.items() if p in partitions}


def _keep_revocation_deadline(
    step: StepBuilder, member: Member, before: MemberState, now: MemberState
) -> None:
    """Keep the revocation deadline. Each further revocation restarts it for a native member (rule
    3.12).

    DEV D4: a classic member has the deadline too. In Kafka a cooperative client that never gives up
    a partition blocks it for ever. Rejoining does not extend the deadline.
    """
    is_running = step.is_armed(DeadlineKind.REVOCATION, member.member_id)
    has_rejoined = member.is_classic or before is not MemberState.UNREVOKED_PARTITIONS
    if now is not MemberState.UNREVOKED_PARTITIONS:
        step.disarm(DeadlineKind.REVOCATION, member.member_id)
    elif not (is_running and has_rejoined):
        step.arm(DeadlineKind.REVOCATION, member.member_id, member.rebalance_timeout_ms)


def would_change(step: StepBuilder, member_id: str) -> bool:
    """Whether the target takes a partition from the member, or has a free one for it (rule
    5.11)."""
    group = step.consumer
    target, assigned = group.target_of(member_id), group.assignments[member_id].assigned.keys()
    return not assigned <= target or any(
        step.is_free_for(partition, member_id) for partition in target - assigned
    )


def are_lacking_partitions_free(step: StepBuilder, member_id: str) -> bool:
    """Whether all target partitions that the member lacks are free (rule 5.7 row 3)."""
    group = step.consumer
    lacking = group.target_of(member_id) - group.assignments[member_id].assigned.keys()
    return all(step.is_free_for(partition, member_id) for partition in lacking)
