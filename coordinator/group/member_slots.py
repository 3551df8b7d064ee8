"""What the rules of both kinds of group share about the slots of members that left (rule 3.16).

A slot is kept for a *grace*. Where every other member would have to rejoin, it is kept for longer:
a member that leaves and comes back makes all members rejoin twice.
"""

from collections.abc import Iterable

from coordinator.group.rolls import is_rolled
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.records import Member
from coordinator.interface.volatile_records import (
    DeadlineKind,
    MemberReturned,
    MemberSlot,
    MemberSlotMoved,
)

GRACES_BEFORE_ALL_REJOIN = 3
RETURN_COUNTS_MS = 300_000
"""How long the last return says how long the next member will be away."""


def last_away_ms(state: GroupState, now_ms: int) -> int | None:
    """How long the member was away that was replaced last, None if that is long ago. The next one
    of a roll will be away as long."""
    last = state.last_return
    return last.away_ms if last is not None and now_ms - last.at_ms < RETURN_COUNTS_MS else None


def grace_ms(step: StepBuilder, *, all_rejoin: bool) -> int:
    """How long to keep the slot of a member that leaves now. 0 if its replacement is expected
    later than that, or if the group is not being rolled: the partitions need not wait."""
    if not is_rolled(step.state, step.config, step.now_ms):
        return 0
    longest_ms = step.config.replacement_grace_ms * (GRACES_BEFORE_ALL_REJOIN if all_rejoin else 1)
    away_ms = last_away_ms(step.state, step.now_ms)
    return longest_ms if away_ms is None or away_ms <= longest_ms else 0


def find_slot(
    step: StepBuilder, event: JoinGroupReceived | ConsumerHeartbeatReceived
) -> tuple[str, MemberSlot] | None:
    """The slot that the sender may take, and the id of the member that left it."""
    slots = step.state.member_slots
    left_ids: Iterable[str] = slots
    if step.config.replacement_needs_host:
        left_ids = step.state.slots_by_client.get((event.client_id, event.client_host), ())
    for left_id in left_ids:
        slot = slots[left_id]
        if _replaces(event, slot):
            return left_id, slot
    return None


def record_return(step: StepBuilder, slot: MemberSlot) -> None:
    """A slot is being taken."""
    step.emit(MemberReturned(at_ms=step.now_ms, away_ms=step.now_ms - slot.left_ms))


def forget_slot(step: StepBuilder, member_id: str) -> None:
    """Forget a slot."""
    step.disarm(DeadlineKind.GRACE, member_id)
    step.emit(MemberSlotMoved(member_id, None))


def _replaces(event: JoinGroupReceived | ConsumerHeartbeatReceived, slot: MemberSlot) -> bool:
    """Whether the sender has the client id of a member that left. Another preferred assignor would
    need another target."""
    left = slot.member
    if left is None:
        return False
    assignor = left.server_assignor if isinstance(left, Member) else None
    if isinstance(event, ConsumerHeartbeatReceived) and event.server_assignor != assignor:
        return False
    return event.client_id == left.client_id
