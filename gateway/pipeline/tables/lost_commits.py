"""Owners that were told less than what had been committed, although nothing had reset the offset.

The records in between are consumed again. If the owner was told that there is no offset, it begins
where its own settings say, and may skip records instead.

- A reset or a deletion through the gateway is an event, and counts as the stored offset from then
  on. One made directly at the cluster looks like a loss, and so do expired offsets.
- Only owners are compared: another client's fetch may cross a commit on its way. A fetch without a
  member id counts as the owner's, and is compared with what was stored when the partition was
  granted.
- After a transactional commit nothing is compared, because the outcome of the transaction is
  unknown.
"""

from collections.abc import Iterable

from gateway.events.offset_events import NO_MEMBER, OffsetsFetched
from gateway.pipeline.history import History
from gateway.pipeline.tables.offset_history import Step, Stored
from gateway.pipeline.tables.row import Row


class LostCommitRow(Row):
    """One answer that told an owner less than what had been committed."""

    topic: str
    partition: int
    member_id: str
    """The member that asked; empty if it did not say so and was taken for the owner."""
    owner_id: str
    """The member that the partition was granted to then."""
    stored: int
    """The latest committed offset."""
    stored_ms: int
    """The time of that commit."""
    told: int | None
    """The offset that the owner was told; null if it was told that there is none."""
    at_ms: int
    """The time of the answer."""
    gateway_id: str
    """The gateway that gave the answer; with its sequence (null: the group's) and number."""
    process_id: str | None
    sequence: int


def lost_commits(history: History, steps: Iterable[Step]) -> list[LostCommitRow]:
    """See `LostCommitRow`."""
    return [
        LostCommitRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            topic=step.topic,
            partition=step.partition,
            member_id=step.event.member_id,
            owner_id=step.owner_id or "",
            stored=step.stored.offset,
            stored_ms=step.stored.at.at_ms,
            told=step.offset,
            at_ms=step.at.at_ms,
            gateway_id=step.told.gateway_id,
            process_id=step.told.process_id,
            sequence=step.told.sequence,
        )
        for step in steps
        if isinstance(step.event, OffsetsFetched)
        and step.is_owner
        and step.stored is not None
        and step.stored.offset is not None
        and (step.offset is None or step.offset < step.stored.offset)
        and _is_sure(step, step.event, step.stored)
    ]


def _is_sure(step: Step, event: OffsetsFetched, stored: Stored) -> bool:
    is_named = event.member_id != NO_MEMBER
    was_stored = step.granted_at is not None and stored.at < step.granted_at
    is_behind_transaction = (
        step.in_transaction_at is not None and step.in_transaction_at > stored.at
    )
    return (is_named or was_stored) and not is_behind_transaction and not step.is_gone_soon
