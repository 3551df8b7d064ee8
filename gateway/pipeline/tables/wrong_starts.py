"""Owners that were told another offset than the one that had been committed, although nothing had
reset it.

`lost`: the owner was told less, and consumes the records in between again; or it was told that
there is no offset, and begins where its own settings say. `skipped`: a new owner was told more. It
skips the records in between, unless they were consumed and the answer to their commit was lost.

- A reset or a deletion through the gateway is an event, and counts as the stored offset from then
  on. One made directly at the cluster looks like a loss or a skip. So do expired offsets, and a
  reset whose client had gone before the answer.
- Only owners are compared: another client's fetch may cross a commit on its way. A fetch without a
  member id counts as the owner's, and is compared with what was stored when the partition was
  granted.
- After a transactional commit nothing is compared, because the outcome of the transaction is
  unknown.
- A skip needs both events from one process, because a process that is killed does not report its
  last commits; and no other commit may have been on its way at the time.
"""

from dataclasses import dataclass
from typing import Literal

from gateway.pipeline.tables.row import Row


@dataclass(slots=True, kw_only=True)
class WrongStartRow(Row):
    """One answer that told an owner another offset than the committed one."""

    topic: str
    partition: int
    finding: Literal["lost", "skipped"]
    """Whether the owner was told less, or more."""
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
