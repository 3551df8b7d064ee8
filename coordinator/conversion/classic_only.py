"""Advances consumer groups that have only classic members left.

The policy or a limit prevented a downgrade when the last native member left, or that member left
temporarily with -2. DEV D6: a timer advances such a group. In Kafka only native heartbeats and
JoinGroups compute a target, so the partitions of a member that left stay unassigned until the next
join. Kafka also downgrades a group only when a member is removed, even if a restart brought a
policy that allows it.
"""

from coordinator.consumer.selection import client_side_assignor, drop_lost_member
from coordinator.consumer.target import is_target_awaited, target_due_at_ms, update_target
from coordinator.conversion.downgrade import (
    downgrade_after_removal,
    downgrade_at_rest,
    is_at_rest,
    may_downgrade_without,
)
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.volatile_records import DeadlineKind

TARGET_RETRY_MS = 1_000
"""The delay before the group computes its target again after its assignor failed."""


def schedule(step: StepBuilder) -> None:
    """Arm the timer if such a group has something to do, and disarm it otherwise."""
    group = step.consumer
    if not group.phases:  # there are no classic members
        step.disarm(DeadlineKind.TARGET_DUE)
        return
    if group.chosen is not None and group.is_left_to_classic_members:
        drop_lost_member(step, group.chosen)  # it was the last one that could compute the target
    if may_downgrade_without(step, ()):
        wait_ms = 0 if _may_downgrade_now(step) else None
    elif (
        is_target_awaited(step)
        and group.is_left_to_classic_members
        and client_side_assignor(group, step.config) is None
    ):
        wait_ms = max(0, target_due_at_ms(group, step.config, step.now_ms) - step.now_ms)
    else:
        wait_ms = None
    if wait_ms is None:
        step.disarm(DeadlineKind.TARGET_DUE)
    elif not step.is_armed(DeadlineKind.TARGET_DUE):
        step.arm(DeadlineKind.TARGET_DUE, "", wait_ms)


def _may_downgrade_now(step: StepBuilder) -> bool:
    """DEV D85: whether no member is still moving to a target. To wait for them spares the others a
    rebalance."""
    group = step.consumer
    return (
        step.config.unaffected_members_rejoin
        or group.assignment_epoch < group.epoch
        or is_at_rest(step)
    )


def advance(step: StepBuilder) -> None:
    """Downgrade the group if the policy now allows it; otherwise compute a target."""
    if may_downgrade_without(step, ()):
        if is_at_rest(step) and not step.config.unaffected_members_rejoin:
            downgrade_at_rest(step)
        else:
            downgrade_after_removal(step, {})
        return
    try:
        update_target(step)
    except GroupError:
        # The assignor failed, and there is no request to refuse.
        step.arm(DeadlineKind.TARGET_DUE, "", TARGET_RETRY_MS)
