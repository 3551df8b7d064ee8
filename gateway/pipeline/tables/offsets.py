"""What was committed for each partition, and which of it went back.

An owner may go back within what it has consumed itself: a seek. It is non-monotonic if another
member commits a lower offset, or if an owner goes back behind its predecessor. So is
a lower commit of a member while the partition has no owner.

- No event says whether a transaction was committed. It may have been aborted and its records
  consumed again, so nothing is compared with a transactional commit. The commit itself is compared
  with its owner's start and with other commits: a member that continues where the group is never
  goes below those, whatever becomes of the transaction.
- The owner of a partition is known from the first event that names it. Without one (the files start
  later, or the cluster's own coordinator has the group) nothing counts as non-monotonic.
- An owner's commit is compared with its own latest one if another client has committed since. That
  commit is in `differences`.
- An owner that has neither fetched nor committed yet begins with what is reset under it: the reset
  was under way when it joined.
- A recreated topic and a deleted group start over, without an earlier offset.
- An owner that was told less than what had been stored continues from there, which is not going
  back. The loss is in `wrong_starts`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.pipeline.tables.row import Row

Finding: TypeAlias = Literal["seek", "reset", "non_monotonic"]


@dataclass(slots=True, kw_only=True)
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
    owners of the partition are known), or the topic was recreated. `non_monotonic`: a member
    other than the owner went back, also while the partition had no owner; or the owner went back
    behind its start."""
    gateway_id: str
    """The gateway that told of it; with its sequence (null: the group's) and number."""
    process_id: str | None
    sequence: int
