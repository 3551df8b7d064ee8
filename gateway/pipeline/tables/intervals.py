"""Compares the intervals of owners: finds overlaps, and gaps between them.

Intervals have `from_position` and `to_position` besides their times, because events of one
millisecond still have an order.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

ENDLESS = (1 << 63) - 1
"""The `to_position` of an interval without an end."""


def side_by_side(intervals: DataFrame, *, of: Sequence[str]) -> DataFrame:
    """The intervals of each thing (`kind` is "owner"), with an "overlap" where an interval begins
    before an earlier one of another owner has ended, and a "gap" from the end of all earlier
    intervals to the next one. If the last interval `leaves_gap`, the gap after it never ends."""
    earlier = Window.partitionBy(*of).orderBy("from_position", "to_position", "member_id")
    reach = F.struct("to_position", "to_ms", "from_ms", "member_id", "leaves_gap")
    reached = F.max(reach).over(earlier.rowsBetween(Window.unboundedPreceding, -1))
    known = intervals.withColumns(
        {
            "reached": reached,
            "all_reached": F.greatest(F.coalesce(reached, reach), reach),
            "next": F.lead("from_position").over(earlier),
        }
    )
    return known.select(*of, F.inline(F.array_compact(_kinds()))).select(*of, *_NAMES)


_NAMES = ("kind", "member_id", "other_member_id", "from_ms", "to_ms")


def _kinds() -> Column:
    owner = _row("owner", F.col("member_id"), None, F.col("from_ms"), F.col("to_ms"))
    overlap = _row(
        "overlap",
        F.col("member_id"),
        F.col("reached.member_id"),
        F.coalesce("from_ms", "reached.from_ms"),
        F.least("to_ms", "reached.to_ms"),
    )
    gap = _row("gap", None, None, F.col("reached.to_ms"), F.col("from_ms"))
    rest = _row("gap", None, None, F.col("all_reached.to_ms"), None)
    is_shared = (F.col("reached.to_position") > F.col("from_position")) & (
        F.col("reached.member_id") != F.col("member_id")
    )
    is_apart = (F.col("reached.to_position") < F.col("from_position")) & (
        F.col("reached.to_ms") < F.col("from_ms")
    )
    is_last = F.col("next").isNull() & (F.col("all_reached.to_position") < ENDLESS)
    return F.array(
        owner,
        F.when(is_shared, overlap),
        F.when(is_apart & F.col("reached.leaves_gap"), gap),
        F.when(is_last & F.col("all_reached.leaves_gap"), rest),
    )


def _row(
    kind: str,
    member_id: Column | None,
    other: Column | None,
    from_ms: Column,
    to_ms: Column | None,
) -> Column:
    values = (
        F.lit(kind),
        F.lit(None).cast("string") if member_id is None else member_id,
        F.lit(None).cast("string") if other is None else other,
        from_ms,
        F.lit(None).cast("long") if to_ms is None else to_ms,
    )
    return F.struct(*(value.alias(name) for name, value in zip(_NAMES, values, strict=True)))
