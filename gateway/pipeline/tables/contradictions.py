"""Sequence numbers with two lines that differ: only one of them can be what the gateway wrote.

A repeated line is identical to the byte. Unreadable lines are in `rejected`. Only blocks of numbers
with a repeated line are compared.
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
    """One number. The tables use the one of its lines with the earliest time."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cluster_id: str
    """The cluster's own id, empty if no gateway has named it."""
    group_id: str | None
    """The group whose sequence it is; null for the sequence of a process."""
    gateway_id: str
    process_id: str | None
    """The process whose sequence it is; null for the sequence of a group."""
    sequence: int
    """The sequence number."""
    event: str
    """The event in one of the lines."""
    other_event: str
    """The event in another line; it may have the same name and differ in its fields."""
    at_ms: int
    """The earliest time in those lines, in milliseconds since 1970 (UTC)."""


def contradictions(lines: DataFrame) -> DataFrame:
    """All contradictions in stored lines."""
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
