"""Removes members that left or were fenced (rule 3.11).

If only classic members remain, the group is downgraded instead (rule 6.1).
"""

from collections.abc import Mapping

from coordinator.consumer.regexes import forget_unused_regexes
from coordinator.consumer.removal import delete_member
from coordinator.conversion.downgrade import downgrade_after_removal, may_downgrade_without
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import EpochCause, GroupEpoch, RemovalCause


def fence(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
    """Remove these members, each with its cause, with one epoch bump or a downgrade."""
    if may_downgrade_without(step, causes):
        downgrade_after_removal(step, causes)
        return
    for member_id, cause in causes.items():
        delete_member(step, member_id, cause)
    forget_unused_regexes(step)
    group = step.consumer
    step.emit(
        GroupEpoch(
            epoch=group.epoch + 1,
            metadata_hash=step.topics.metadata_hash(group.subscribers),
            cause=EpochCause.MEMBER_REMOVED,
        )
    )
