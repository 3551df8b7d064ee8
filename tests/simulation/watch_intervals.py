"""Checks the intervals between targets and between resolutions of regular expressions.

It inspects only the engine. Times are those of the gateway's clock.
"""

from coordinator.assignors import ASSIGNORS
from coordinator.consumer.selection import client_side_assignor
from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState, Record
from coordinator.interface.config import RESOLUTIONS_APART_MS, GroupConfig
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    JoinGroupReceived,
)
from coordinator.interface.records import TargetAssignmentMetadata
from coordinator.interface.volatile_records import ComputationStarted, MemberChosen
from tests.simulation.invariants import Invariant, require


class IntervalWatch:
    """A target is computed as soon as it is due, but not before the assignment interval has passed.
    Resolutions of regular expressions do not become too old (rules 3.6, 3.13)."""

    def __init__(self) -> None:
        self._computed_ms = self._earlier_ms = 0
        """The times of the last target, and of the one before it."""
        self._resolved_ms: int | None = None

    def after_step(
        self, state: GroupState, event: Event, step: Step, config: GroupConfig, now_ms: int
    ) -> None:
        for record in step.records:
            if _begins_a_target(record):
                due_ms = self._due_ms(config, now_ms)
                require(now_ms >= due_ms, Invariant.INTERVALS, record, "at", now_ms, "not", due_ms)
            if isinstance(record, TargetAssignmentMetadata) and record.epoch is not None:
                self._earlier_ms, self._computed_ms = self._computed_ms, record.timestamp_ms
        due_ms = self._due_ms(config, now_ms)
        group = state.group
        if isinstance(group, ConsumerGroup) and _is_accepted(event, step):
            is_idle = state.resolution is None and bool(group.regex_subscribers)
            require(
                not (is_idle and self._is_stale(config, now_ms)),
                Invariant.INTERVALS,
                "regular expressions were resolved at",
                self._resolved_ms,
                "but not at",
                now_ms,
            )
            require(
                group.assignment_epoch == group.epoch
                or now_ms < max(due_ms, group.retry_at_ms)
                or group.computation is not None
                or client_side_assignor(group, config) is not None
                or config.roll_policy.is_paused,
                Invariant.INTERVALS,
                "no target was computed for epoch",
                group.epoch,
                "at",
                now_ms,
            )

    def after_load(self, state: GroupState) -> None:
        self.record(state)
        self._earlier_ms = 0

    def record(self, state: GroupState) -> None:
        """The group has moved."""
        self._computed_ms, self._resolved_ms = 0, None
        if not isinstance(state.group, ConsumerGroup):
            self._earlier_ms = 0
        else:
            self._computed_ms = state.group.target_timestamp_ms
            resolved_ms = (regex.timestamp_ms for regex in state.group.regexes.values())
            self._resolved_ms = max(resolved_ms, default=None)

    def _due_ms(self, config: GroupConfig, now_ms: int) -> int:
        """When the next target is due. It is due immediately if the last one is from the future.
        DEV D83: the second one after a quiet time is, too."""
        since_ms = self._computed_ms if config.second_target_waits else self._earlier_ms
        if not 0 < since_ms <= now_ms:
            return 0
        return since_ms + config.consumer_assignment_interval_ms

    def _is_stale(self, config: GroupConfig, now_ms: int) -> bool:
        """Whether the resolution before this step has to be repeated."""
        if self._resolved_ms is None:
            return True
        age_ms = now_ms - self._resolved_ms
        oldest_ms = max(RESOLUTIONS_APART_MS, config.consumer_regex_refresh_interval_ms)
        return not 0 <= age_ms <= oldest_ms


def _begins_a_target(record: Record) -> bool:
    """Whether an assignor computes a target now. A plug-in or a member does so before its result
    arrives."""
    match record:
        case ComputationStarted(computation):
            return not computation.is_members
        case MemberChosen(chosen):
            return chosen is not None
        case TargetAssignmentMetadata(assignor=str(assignor)):
            return assignor in ASSIGNORS
        case _:
            return False


def _is_accepted(event: Event, step: Step) -> bool:
    """Whether the event is an accepted heartbeat or JoinGroup; these check the intervals."""
    match event:
        case ConsumerHeartbeatReceived(member_epoch=epoch) if epoch >= JOIN_EPOCH:
            pass
        case JoinGroupReceived():
            pass
        case _:
            return False
    return any(token == event.token and not reply.error for token, reply in step.replies)
