"""Where an owner was told less than what had been committed, and nobody had reset that.

What was committed in between is consumed again; if the owner was told that there is nothing, it
begins where its own settings say, and may as well skip what nobody has consumed.

- A reset or a deletion through the gateway is told, and counts as what is stored from then on. One
  that was made at the cluster, around the gateway, cannot be told from a loss; nor can offsets that
  the cluster has forgotten.
- Only owners are compared: what somebody else asks for may cross a commit on its way. Who asks
  without a name is taken for the owner, and compared with what was stored when the partition was
  granted.
- Behind a transactional commit nothing is compared: nobody knows what became of it.
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
    """Who asked; empty if it did not say so, and was taken for the owner."""
    owner_id: str
    """The member to which the partition was granted then."""
    stored: int
    """The offset that had been committed last."""
    stored_ms: int
    """When that was."""
    told: int | None
    """The offset that the owner was told; null if it was told that there is none."""
    at_ms: int
    """When it was told."""
    gateway_id: str
    """Who told it, and by which number of which sequence (null: that of the group)."""
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
    """When it was last so."""
    in_order = Window.partitionBy(*LIFE).orderBy("at")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.last(F.when(condition, F.col("at")), ignorenulls=True).over(so_far)
