"""What was committed for each partition, and which of it went back.

An owner may go back within what it has consumed itself: a seek. It is a regression if another
member commits a lower offset, or if an owner goes back behind its predecessor. It is also a
regression if a member goes back while the partition has no owner.

- No event says whether a transaction was committed. It may have been aborted and its records
  consumed again, so nothing is compared with a transactional commit. The commit itself is compared
  with its owner's start and with other commits: a member that continues where the group is never
  goes below those, whatever becomes of the transaction.
- The owner of a partition is known from the first event that names it. Without one (the files start
  later, or the cluster's own coordinator has the group) nothing counts as a regression.
- A recreated topic and a deleted group start over, without an earlier offset.
- An owner that was told less than what had been stored continues from there, which is not going
  back. The loss is in `lost_commits`.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from gateway.events.offset_events import NO_MEMBER, CommittedOffsets, OffsetsCommitted
from gateway.pipeline.history import History
from gateway.pipeline.tables.offset_history import Step
from gateway.pipeline.tables.row import Row

Finding: TypeAlias = Literal["seek", "reset", "regression"]


class OffsetRow(Row):
    """The commits of one member for a partition within some seconds, from one event."""

    topic: str
    partition: int
    member_id: str
    """The member that committed; empty if it is not in the group, as when an admin resets
    offsets."""
    owner_id: str | None
    """The member that the partition was granted to then; null if there was none, or it is
    unknown."""
    is_transactional: bool
    """Whether the commits count only if their transaction is committed, which is unknown."""
    commits: int
    """The number of stored commits."""
    first: int
    """The offset of the first commit."""
    lowest: int
    last: int
    from_ms: int
    """When the first one was stored, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """When the last one was stored, in milliseconds since 1970 (UTC)."""
    before: int | None
    """The offset in force before, as last committed or fetched; null if there was none, or it is
    unknown."""
    started_at: int | None
    """The committed offset from which the owner continued when it got the partition; null if there
    was none, or it is unknown. If the owner did not fetch it, the offset in force then."""
    finding: Finding | None
    """What went back. `seek`: an owner went back within what it has consumed itself, or a member
    that may be the owner did. `reset`: the offset was set from outside the group (also forwards, if
    owners of the partition are known), or the topic was recreated. `regression`: a member other
    than the owner went back, also while the partition had no owner; or the owner went back behind
    its start."""
    gateway_id: str
    """The gateway that told of it; with its sequence (null: the group's) and number."""
    process_id: str | None
    sequence: int


def offsets(history: History, steps: Iterable[Step]) -> list[OffsetRow]:
    """All commits."""
    return [
        _row(history, step, step.event, step.committed)
        for step in steps
        if isinstance(step.event, OffsetsCommitted) and step.committed is not None
    ]


def _row(
    history: History, step: Step, event: OffsetsCommitted, committed: CommittedOffsets
) -> OffsetRow:
    from_ms, to_ms = step.told.span_ms(event)
    return OffsetRow(
        cluster_id=history.cluster_id,
        group_id=history.group_id,
        topic=step.topic,
        partition=step.partition,
        member_id=event.member_id,
        owner_id=step.owner_id,
        is_transactional=event.is_transactional,
        commits=committed.commits,
        first=committed.first,
        lowest=committed.lowest,
        last=committed.last,
        from_ms=from_ms,
        to_ms=to_ms,
        before=step.before,
        started_at=_started_at(step),
        finding=_finding(step, event, committed),
        gateway_id=step.told.gateway_id,
        process_id=step.told.process_id,
        sequence=step.told.sequence,
    )


def _has_start(step: Step) -> bool:
    """Whether the owner acted and was told where to start."""
    is_told = step.start is not None and step.began is not None and step.start.at > step.began
    return step.is_owner and is_told


def _started_at(step: Step) -> int | None:
    """Where the owner continued from: the latest earlier commit unless it was told."""
    if _has_start(step):
        return step.start.offset if step.start else None
    return step.found if step.is_owner else None


def _finding(step: Step, event: OffsetsCommitted, committed: CommittedOffsets) -> Finding | None:
    lowest = committed.lowest
    turns_back = not event.is_transactional and lowest < committed.first
    is_lower = turns_back or _is_less(lowest, step.before)
    is_behind = _is_less(lowest, _started_at(step))
    goes_back = turns_back or _is_less(lowest, step.stored.offset if step.stored else None)
    if step.is_gone_soon and (is_lower or is_behind or goes_back):
        return "reset"
    has_no_owner = step.is_owner_known and step.owner_id is None
    is_named = event.member_id != NO_MEMBER
    if has_no_owner and is_named:
        return "regression" if is_lower else None
    if step.owner_id is not None and step.acting_id != step.owner_id:
        return "regression" if is_lower else None
    if is_behind:
        return "regression"
    if step.owner_id is None and not is_named and not event.is_transactional:
        return "reset" if has_no_owner or is_lower else None
    return "seek" if goes_back and not _started_lower(step) else None


def _started_lower(step: Step) -> bool:
    """Whether the owner was told less than what had been stored when it began."""
    if not _has_start(step) or step.stored is None or step.stored.offset is None:
        return False
    told = step.start.offset if step.start and step.start.offset is not None else -1
    return step.began is not None and step.stored.at < step.began and told < step.stored.offset


def _is_less(offset: int, other: int | None) -> bool:
    """False if the other one is unknown."""
    return other is not None and offset < other
