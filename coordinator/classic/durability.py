"""What of a classic group is durable: how it stood when it was stored last, and who went since.

A leader's assignment is stored with the whole group, as in Kafka, and so is a group that became
empty. DEV D61: a member that is removed in between costs one small record, or a restart would bring
it back, and its partitions would have no owner until its session ended.
"""

from coordinator.classic.group import ClassicGroup
from coordinator.records import ClassicGroupMetadata, ClassicGroupValue, ClassicMemberRemoval
from coordinator.step_builder import StepBuilder
from coordinator.volatile import ClassicGroupMemberDropped


def store_group(step: StepBuilder, value: ClassicGroupValue | None) -> None:
    """Store the group as it is now, or delete it; the removals before that count no longer."""
    removals = tuple(step.classic.removals)
    step.emit(ClassicGroupMetadata(value=value))
    for member_id in removals:
        step.emit(ClassicMemberRemoval(member_id=member_id, cause=None))


def store_removals(step: StepBuilder, group: ClassicGroup) -> None:
    """At the end of a step: whom it removed and did not leave out of a stored group."""
    for record in tuple(step.records):
        if isinstance(record, ClassicGroupMemberDropped) and record.member_id in group.stored:
            step.emit(ClassicMemberRemoval(member_id=record.member_id, cause=record.cause))
