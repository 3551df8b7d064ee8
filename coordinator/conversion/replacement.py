"""An empty consumer group gives way to a classic joiner, whatever the policy (spec 6.6).

The mirror image, an empty generic group and a native joiner, is in `upgrade.py`.
"""

from coordinator.draft import Draft
from coordinator.errors import ErrorCode, GroupError
from coordinator.events import JoinGroupReceived
from coordinator.records import (
    EpochCause,
    GenericGroupMetadata,
    GenericGroupValue,
    GroupEpoch,
    TargetAssignmentMetadata,
)
from coordinator.volatile import DeadlineKind


def replace_empty_consumer_group(draft: Draft, event: JoinGroupReceived) -> None:
    """Leave an empty generic group. Raises GroupError UNKNOWN_MEMBER_ID if the joiner names
    a member id: nobody can have one here."""
    if event.member_id:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, "the group has no members", member_id=event.member_id
        )
    value = GenericGroupValue(protocol_type=None, generation=0, protocol=None, leader=None)
    remove_empty_consumer_group(draft)
    draft.emit(GenericGroupMetadata(value=value))


def remove_empty_consumer_group(draft: Draft) -> None:
    """Tombstones for all that a consumer group without members still has."""
    draft.disarm(DeadlineKind.TARGET_DUE)
    draft.emit(
        TargetAssignmentMetadata(epoch=None),
        GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
    )
