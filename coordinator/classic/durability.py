"""Stores classic groups: the whole group at certain times, and removals of members in between.

As in Kafka, the whole group is stored when its leader distributes an assignment and when it becomes
empty. DEV D61: each removal in between writes one small record. Without it a restart would bring
the member back, and its partitions would have no owner until its session expired.
"""

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMemberRemoval,
    RemovalCause,
)
from coordinator.interface.volatile_records import ClassicGroupMemberDropped


def store_group(step: StepBuilder, value: ClassicGroupValue | None) -> None:
    """Store the group as it is now, or delete it. Earlier removals become obsolete.

    Those of members whose place is kept are written again: after a restart they begin a rebalance
    (rule 3.16)."""
    kept = step.state.places if value is not None else ()
    removals = tuple(step.classic.removals)
    step.emit(ClassicGroupMetadata(value=value))
    for member_id in removals:
        cause = RemovalCause.LEFT if member_id in kept else None
        step.emit(ClassicMemberRemoval(member_id=member_id, cause=cause))


def store_removals(step: StepBuilder, group: ClassicGroup) -> None:
    """At the end of a step, store the removals that no stored group covers."""
    for record in tuple(step.records):
        if isinstance(record, ClassicGroupMemberDropped) and record.member_id in group.stored:
            step.emit(ClassicMemberRemoval(member_id=record.member_id, cause=record.cause))
