"""What a native member's statement of its owned partitions proves (rule 3.7, DEV D90).

A client may take a partition after it has stated that it does not own it: an earlier answer is
still on its way, or the client has received the answer and not acted on it yet. A statement
therefore releases only what an answer has told the member to give up, and only if the client has
certainly received the latest answer that listed its partitions.
"""

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JOIN_EPOCH, ConsumerHeartbeatReceived
from coordinator.interface.records import Assignment
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Grant, GrantMoved


def owned_by_sender(
    group: ConsumerGroup, event: ConsumerHeartbeatReceived, member_id: str
) -> frozenset[Partition] | None:
    """The partitions that count as owned by the sender, None if it states nothing. A member that
    has just replaced another one owns nothing yet."""
    current = group.assignments.get(member_id)
    if event.owned is None or current is None or current.member_epoch == JOIN_EPOCH:
        return event.owned
    is_proof = _has_heard(group.grants.get(member_id), event)
    return event.owned.union(current.assigned if is_proof else current.held_partitions)


def record_answer(
    step: StepBuilder,
    event: ConsumerHeartbeatReceived,
    before: Assignment | None,
    current: Assignment,
    *,
    member_id: str,
) -> None:
    """Remember an answer that lists the member's partitions."""
    last = step.consumer.grants.get(member_id)
    grants_more = before is None or not current.assigned.keys() <= before.assigned.keys()
    is_doubted = event.owned is not None and not grants_more and not _has_heard(last, event)
    grant = Grant(
        connection=event.connection,
        newest_connection=event.newest_connection,
        member_epoch=current.member_epoch,
        is_doubted=is_doubted,
    )
    if grant != last:
        step.emit(GrantMoved(member_id, grant))


def _has_heard(grant: Grant | None, event: ConsumerHeartbeatReceived) -> bool:
    """Whether the sender has received that answer, or will never act on it.

    It has if it states a later epoch, or wrote on the same connection after the answer had been
    sent. On another connection, the answer may have been lost. The client then gets it again, and
    its next statement counts, also on a connection that was opened after the first had arrived. On
    any other connection, both may be late: their client may have moved to a third one, which can be
    older than theirs.
    """
    if grant is None or event.member_epoch > grant.member_epoch:
        return True
    if not event.follows_answers:
        return False
    is_new = event.connection > grant.newest_connection
    return event.connection == grant.connection or (grant.is_doubted and is_new)
