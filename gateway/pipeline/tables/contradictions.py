"""Numbers that two lines have which do not say the same: one of them is not what was told.

A line that is written again is the same to the byte. What cannot be read is told in `rejected`.
Only blocks of numbers in which some line came again are looked at closely.
"""

from functools import reduce

from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import with_cluster
from gateway.pipeline.parsing import CONTENT, PROBLEM
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.sequences import SEQUENCE, masks, numbers, row_of


class ContradictionRow(BaseModel):
    """One number. Of its lines, the tables are made from the one with the earliest time."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cluster_id: str
    """The cluster's own id, empty if no gateway has told it."""
    group_id: str | None
    """The group whose sequence it is; null if it is that of a process."""
    gateway_id: str
    process_id: str | None
    """The process whose sequence it is; null if it is that of a group."""
    sequence: int
    """The number."""
    event: str
    """What one line says that it was."""
    other_event: str
    """What another one says, perhaps with other fields only."""
    at_ms: int
    """When it was decided, as the earliest of them says, in milliseconds since 1970 (UTC)."""


def contradictions(lines: DataFrame) -> DataFrame:
    """All of them in stored lines."""
    told = numbers(lines.where(F.col(PROBLEM).isNull()))
    again = masks(told).where(F.col("lines") > F.bit_count("mask"))
    content = F.col(CONTENT)
    found = (
        told.withColumn("row", row_of("sequence"))
        .alias("told")
        .join(again.alias("again"), _is_same(*SEQUENCE, "row"), "left_semi")
        .groupBy(*SEQUENCE, "sequence")
        .agg(
            F.min_by("event", content).alias("event"),
            F.max_by("event", content).alias("other_event"),
            F.min("at_ms").alias("at_ms"),
            (F.min(content) < F.max(content)).alias("differs"),
        )
        .where("differs")
    )
    return with_cluster(found, lines).select(*struct_of(ContradictionRow).names)


def _is_same(*names: str) -> Column:
    return reduce(
        Column.__and__, (F.col(f"told.{name}").eqNullSafe(F.col(f"again.{name}")) for name in names)
    )
