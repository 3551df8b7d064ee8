"""Members are removed on the coordinator's initiative, or because they left (rule 3.11).

If only classic members remain, the group becomes a generic one instead (rule 6.1).
"""

from collections.abc import Mapping

from coordinator.consumer.regexes import forget_unused_regexes
from coordinator.consumer.removal import delete_member
from coordinator.conversion.downgrade import downgrade_after_removal, may_downgrade_without
from coordinator.draft import Draft
from coordinator.records import EpochCause, GroupEpoch, RemovalCause


def fence(draft: Draft, causes: Mapping[str, RemovalCause]) -> None:
    """Remove these members, each for its cause: one epoch bump for all of them, or a downgrade."""
    if may_downgrade_without(draft, causes):
        downgrade_after_removal(draft, causes)
        return
    for member_id, cause in causes.items():
        delete_member(draft, member_id, cause)
    forget_unused_regexes(draft)
    group = draft.consumer
    draft.emit(
        GroupEpoch(
            epoch=group.epoch + 1,
            metadata_hash=draft.topics.metadata_hash(group.subscribers),
            cause=EpochCause.MEMBER_REMOVED,
        )
    )
