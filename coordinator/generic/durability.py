"""What of a generic group is durable: how it stood when it was stored last, and who went since.

A leader's assignment is stored with the whole group, as in Kafka, and so is a group that became
empty. DEV D61: a member that is removed in between costs one small record, or a restart would bring
it back, and its partitions would have no owner until its session ended.
"""

from coordinator.draft import Draft
from coordinator.generic.group import GenericGroup
from coordinator.records import GenericGroupMetadata, GenericGroupValue, GenericMemberRemoval
from coordinator.volatile import GenericMemberDropped


def store_group(draft: Draft, value: GenericGroupValue | None) -> None:
    """Store the group as it is now, or delete it; the removals before that count no longer."""
    removals = tuple(draft.generic.removals)
    draft.emit(GenericGroupMetadata(value=value))
    for member_id in removals:
        draft.emit(GenericMemberRemoval(member_id=member_id, cause=None))


def store_removals(draft: Draft, group: GenericGroup) -> None:
    """At the end of a step: whom it removed and did not leave out of a stored group."""
    for record in tuple(draft.records):
        if isinstance(record, GenericMemberDropped) and record.member_id in group.stored:
            draft.emit(GenericMemberRemoval(member_id=record.member_id, cause=record.cause))
