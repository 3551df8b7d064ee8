"""Pending revocations: partitions that members were told to give up and have not given up yet.

A revocation ends with the next event of the partition (it is released, or the member may keep it),
or with the end of its topic.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.events.group_events import TopicsGone
from gateway.events.member_events import (
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRevoked,
)
from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.parsing import is_any
from gateway.pipeline.tables.windows import from_here, newest, so_far

_MOMENT = ("place", "at_ms", "event")


def revocations(changes: DataFrame) -> DataFrame:
    """The change in each member's number of pending revocations at each moment (`revocations`)."""
    here = F.struct(*_MOMENT)
    revoked = (
        _of_partitions(changes)
        .select(
            "*",
            here.alias("begun"),
            F.lead(here).over(so_far("member_id", "topic", "partition")).alias("next"),
            newest(F.when(is_any(TopicsGone), here), from_here("topic")).alias("gone"),
        )
        .where(is_any(PartitionsRevoked))
        .withColumn("ended", F.least("next", "gone"))
    )
    more = F.struct("begun.*", F.lit(1).alias("revocations"))
    less = F.struct("ended.*", F.lit(-1).alias("revocations"))
    both = F.array(more, F.when(F.col("ended").isNotNull(), less))
    return (
        revoked.select(*GROUP, "member_id", F.inline(F.array_compact(both)))
        .groupBy(*GROUP, "member_id", *_MOMENT)
        .agg(F.sum("revocations").alias("revocations"))
    )


def _of_partitions(changes: DataFrame) -> DataFrame:
    """One row for each partition of an event; for the end of a topic, one for the topic."""
    moved = changes.where(is_any(PartitionsRevoked, PartitionsReleased, PartitionsAssigned))
    topics = moved.select(
        *GROUP, "member_id", *_MOMENT, F.explode("partitions").alias("topic", "numbers")
    )
    gone = changes.where(is_any(TopicsGone))
    return (
        topics.select("*", F.explode("numbers").alias("partition"))
        .drop("numbers")
        .unionByName(
            gone.select(*GROUP, *_MOMENT, F.explode("topics").alias("topic")),
            allowMissingColumns=True,
        )
    )
