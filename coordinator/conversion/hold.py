"""Keeps consumers from switching to the new protocol: while an operator holds the group, and while
a group that was converted to and fro rests."""

from dataclasses import replace

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import JOIN_EPOCH, ConsumerHeartbeatReceived
from coordinator.interface.volatile_records import Conversions, ConversionsMoved
from kafka_codecs.error_codes import ErrorCode

LASTING_MS = 900_000
"""A group that has been a consumer group for this long has not been converted to and fro."""
FIRST_REST_MS = 30_000
"""The rest after the second such conversion; it doubles with each. The first is free, because an
operator may have second thoughts."""
QUICK_MAX = 20
"""Quick conversions that are counted."""


def check_not_held(step: StepBuilder, event: ConsumerHeartbeatReceived) -> None:
    """DEV D74: raises GroupError GROUP_ID_NOT_FOUND if the heartbeat would add a native member to a
    group that an operator holds. Native members may be replaced, and classic ones may come and go.

    The error ends the client, so that a deployment stops there. An answer that makes it wait would
    let the next consumers stop, too.
    """
    limit = step.config.native_members_max
    if limit is None or event.member_epoch != JOIN_EPOCH or not _has_classic_members(step.state):
        return
    group, native = step.state.group, 0
    if isinstance(group, ConsumerGroup):
        native = group.native_count
        holder_id = group.instances.get(event.instance_id or "") or event.member_id
        holder = group.members.get(holder_id)
        if holder is not None and not holder.is_classic:
            return
    if native >= limit:
        raise held_at(native)


def held_at(native: int) -> GroupError:
    """The refusal of one more native member than the hold allows."""
    return GroupError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"an operator holds the migration of this group at {native} members with the new"
        " protocol: use group.protocol=classic, or end the hold (groupferry allow)",
    )


def _has_classic_members(state: GroupState) -> bool:
    match state.group:
        case ClassicGroup() as group:
            return bool(group.members)
        case ConsumerGroup() as group:
            return bool(group.phases)
        case None:
            return False


def check_rested(step: StepBuilder) -> None:
    """DEV D76: raises GroupError COORDINATOR_LOAD_IN_PROGRESS while the group rests."""
    rest_ms = step.state.conversions.rests_until_ms - step.now_ms
    if rest_ms > 0:
        raise GroupError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"the group was converted to and fro, and stays classic for {-(-rest_ms // 1000)} s:"
            " its consumers with the new protocol do not last",
        )


def note_upgrade(step: StepBuilder) -> None:
    """The group has become a consumer group."""
    step.emit(ConversionsMoved(replace(step.state.conversions, upgraded_ms=step.now_ms)))


def note_downgrade(step: StepBuilder) -> None:
    """The group has become classic again, and may have to rest."""
    before = step.state.conversions
    has_lasted = step.now_ms - before.upgraded_ms >= LASTING_MS
    quick = 0 if has_lasted else before.quick + 1
    rest_ms = FIRST_REST_MS << (quick - 2) if quick > 1 else 0
    rest_ms = min(rest_ms, step.config.conversion_rest_max_ms)
    step.emit(
        ConversionsMoved(
            Conversions(
                upgraded_ms=before.upgraded_ms,
                quick=min(quick, QUICK_MAX),
                rests_until_ms=step.now_ms + rest_ms if rest_ms else 0,
            )
        )
    )
