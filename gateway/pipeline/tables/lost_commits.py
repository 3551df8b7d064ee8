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

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.events.member_events import PartitionsAssigned
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted, OffsetsFetched
from gateway.pipeline.group_histories import GroupHistories
from gateway.pipeline.parsing import is_any
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.offset_history import LIFE
from gateway.pipeline.tables.offsets import with_stored
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


def lost_commits(histories: GroupHistories) -> DataFrame:
    """See `LostCommitRow`."""
    story = with_stored(histories).withColumns(
        {
            "granted_at": _last_at(is_any(PartitionsAssigned)),
            "in_transaction_at": _last_at(is_any(OffsetsCommitted) & F.col("is_transactional")),
        }
    )
    return (
        story.where(is_any(OffsetsFetched) & F.coalesce(_is_lost(), F.lit(False)))
        .withColumns(
            {
                "told": F.col("offset"),
                "at_ms": F.col("at.at_ms"),
                "stored_ms": F.col("stored.at.at_ms"),
                "stored": F.col("stored.offset"),
            }
        )
        .select(*struct_of(LostCommitRow).names)
    )


def _is_lost() -> Column:
    is_less = F.col("offset").isNull() | (F.col("offset") < F.col("stored.offset"))
    is_sure = (F.col("member_id") != NO_MEMBER) | (F.col("stored.at") < F.col("granted_at"))
    is_behind_transaction = F.coalesce(
        F.col("in_transaction_at") > F.col("stored.at"), F.lit(False)
    )
    return (
        F.col("is_owner")
        & F.col("stored.offset").isNotNull()
        & is_less
        & is_sure
        & ~is_behind_transaction
        & ~F.col("is_gone_soon")
    )


def _last_at(condition: Column) -> Column:
    """When the condition was last true."""
    in_order = Window.partitionBy(*LIFE).orderBy("at")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.last(F.when(condition, F.col("at")), ignorenulls=True).over(so_far)
