"""Checks what keeps consumers from switching: an operator's hold and pause, and the rest after
conversions to and fro (deviations D74 to D76); and what a roll does to members that are not
restarting: one that leaves and stays connected, and one whose connection is slow (D77, D78).

It inspects only the engine. Times are those of the gateway's clock.
"""

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    LeaverStayed,
)
from coordinator.interface.records import TargetAssignmentMetadata
from coordinator.interface.replies import ConsumerHeartbeatReply
from tests.simulation.invariants import Invariant, require

SLOW_CALLS_PER_INTERVAL = 10
"""A connection is slow if its calls take longer than a tenth of the short interval."""


class RollWatch:
    """A held group with classic members gets no more native ones, a paused one no target, and one
    that rests stays classic."""

    def __init__(self) -> None:
        self._native_count = 0
        self._has_classic = self._is_classic = False
        self._rests_until_ms = 0

    def after_step(self, state: GroupState, step: Step, config: GroupConfig, now_ms: int) -> None:
        """After a step that changed the group."""
        before, had_classic, was_classic = self._native_count, self._has_classic, self._is_classic
        rests_until_ms, members_max = self._rests_until_ms, config.roll_policy.native_members_max
        self.look_up_all(state)
        require(
            members_max is None
            or not had_classic
            or self._native_count <= max(before, members_max),
            Invariant.HELD,
            self._native_count,
            "native members after",
            before,
            "and the hold allows",
            members_max,
        )
        is_upgraded = was_classic and had_classic and isinstance(state.group, ConsumerGroup)
        require(
            not is_upgraded or now_ms >= rests_until_ms,
            Invariant.HELD,
            "the group was converted at",
            now_ms,
            "though it rests until",
            rests_until_ms,
        )
        require(
            not config.roll_policy.is_paused or not any(map(_is_target, step.records)),
            Invariant.PAUSED,
            "a target was computed for epoch",
            getattr(state.group, "epoch", None),
        )

    def after_event(self, state: GroupState, event: Event, step: Step, config: GroupConfig) -> None:
        """After any step."""
        if isinstance(event, LeaverStayed):
            slot = state.member_slots.get(event.member_id)
            require(
                slot is None or bool(slot.reassigned),
                Invariant.LEFT,
                event.member_id,
                slot,
            )
        if not isinstance(event, ConsumerHeartbeatReceived):
            return
        usual_ms, short_ms = (
            config.consumer_heartbeat_interval_ms,
            config.unsettled_heartbeat_interval_ms,
        )
        if SLOW_CALLS_PER_INTERVAL * event.calls_within_ms <= short_ms:
            return
        for token, reply in step.replies:
            require(
                token != event.token
                or not isinstance(reply, ConsumerHeartbeatReply)
                or bool(reply.error)
                or event.member_epoch < JOIN_EPOCH
                or reply.heartbeat_interval_ms >= usual_ms,
                Invariant.HURRIED,
                reply,
                "though calls take",
                event.calls_within_ms,
            )

    def look_up_all(self, state: GroupState) -> None:
        """Note the group as it is, also after a load."""
        group = state.group
        self._is_classic = isinstance(group, ClassicGroup)
        self._native_count, self._has_classic = 0, False
        if isinstance(group, ConsumerGroup):
            self._native_count, self._has_classic = group.native_count, bool(group.phases)
        elif group is not None:
            self._has_classic = bool(group.members)
        self._rests_until_ms = state.conversions.rests_until_ms


def _is_target(record: object) -> bool:
    return isinstance(record, TargetAssignmentMetadata) and record.assignor is not None
