"""Stores classic groups: the whole group at certain times, and what happens in between.

As in Kafka, the whole group is stored when its leader distributes an assignment and when it becomes
empty. DEV D61: each removal in between writes one small record. Without it a restart would bring
the member back, and its partitions would have no owner until its session expired. So does each
generation that begins. Without it a restart would begin the same one again, and a client that slept
meanwhile could commit in the one with its answer from the other.
"""

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import (
    ClassicGenerationBegun,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMemberRemoval,
    RemovalCause,
)
from coordinator.interface.volatile_records import ClassicGroupMemberDropped


def store_group(step: StepBuilder, value: ClassicGroupValue | None) -> None:
    """Store the group as it is now, or delete it. Earlier records of removals, and of a generation
    that has begun, become obsolete.

    Those of members whose slot is kept are written again: after a restart they begin a rebalance
    (rule 3.16)."""
    kept_slots = step.state.member_slots if value is not None else ()
    removals, has_begun = tuple(step.classic.removals), step.classic.core.has_begun
    step.emit(ClassicGroupMetadata(value=value))
    if has_begun:
        step.emit(ClassicGenerationBegun(generation=None))
    for member_id in removals:
        cause = RemovalCause.LEFT if member_id in kept_slots else None
        step.emit(ClassicMemberRemoval(member_id=member_id, cause=cause))


def store_removals(step: StepBuilder, group: ClassicGroup) -> None:
    """At the end of a step, store the removals that no stored group covers."""
    for record in tuple(step.records):
        if isinstance(record, ClassicGroupMemberDropped) and record.member_id in group.stored:
            step.emit(ClassicMemberRemoval(member_id=record.member_id, cause=record.cause))
