"""Gaps in the sequences of events: numbers of lines that were written but are not there.

Only the envelope is read, so an event that this version does not know is not a gap.
"""

from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import with_cluster
from gateway.pipeline.parsing import CONTENT, NUMBERED
from gateway.pipeline.spark_types import struct_of

_MASK_BITS = 64
"""This many numbers share one row, with a bit for each that exists: only these rows are sorted."""
_ALL_BITS = -1
_BITS_OF_A_BIT = 6

SEQUENCE = ("gateway_id", "group_id", "process_id", "began_ms")
"""The key of a sequence."""


class SequenceRow(BaseModel):
    """Numbers without a line. Numbers before the first line of a sequence, or after the last, are
    not missed, unless it is a group's sequence and an event beside it shows that the sequence had
    begun earlier, or had gone further."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cluster_id: str
    """The cluster's own id, empty if no gateway has named it."""
    group_id: str | None
    """The group whose sequence it is; null for the sequence of a process."""
    gateway_id: str
    process_id: str | None
    """The process whose sequence it is; null for the sequence of a group."""
    missing_from: int
    """The first missing number."""
    missing_to: int
    """The last missing number."""
    from_ms: int
    """The time of the event before them, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """The time of the event after them, in milliseconds since 1970 (UTC)."""


def sequences(lines: DataFrame) -> DataFrame:
    """All gaps in stored lines; repeated lines change nothing."""
    envelopes = _envelopes(lines)
    told = numbers(lines).select(*SEQUENCE, "sequence", "at_ms")
    lost = _gaps(told).unionByName(_lost_edges(envelopes))
    found = _with_times(lost, told, _reached_numbers(envelopes))
    return with_cluster(found, lines).select(*struct_of(SequenceRow).names)


def numbers(lines: DataFrame) -> DataFrame:
    """Each number that a line has, with its sequence and contents."""
    names = (F.when(_is_of_group(), F.col(name)).alias(name) for name in ("group_id", "began_ms"))
    return lines.where(NUMBERED).select(
        "gateway_id", *names, "process_id", "sequence", "at_ms", "event", CONTENT
    )


def masks(numbers: DataFrame) -> DataFrame:
    """Which numbers exist in each `row` of 64, and how many `lines` have one."""
    bit = F.col("sequence").bitwiseAND(_MASK_BITS - 1).cast("int")
    return numbers.groupBy(*SEQUENCE, row_of("sequence").alias("row")).agg(
        F.bit_or(F.call_function("shiftleft", F.lit(1).cast("long"), bit)).alias("mask"),
        F.count("*").alias("lines"),
    )


def row_of(sequence: str) -> Column:
    """The `row` of `masks` for a number."""
    return F.shiftright(sequence, _BITS_OF_A_BIT)


def _envelopes(lines: DataFrame) -> DataFrame:
    """The complete envelopes, of known and unknown events."""
    return lines.where(NUMBERED).select(*SEQUENCE, "sequence", "after", "at_ms")


def _is_of_group() -> Column:
    return F.col("process_id").isNull()


def _no_process() -> Column:
    return F.lit(None).cast("string").alias("process_id")


def _reached_numbers(envelopes: DataFrame) -> DataFrame:
    """The numbers that groups had reached, according to events beside their sequences."""
    beside = envelopes.where(F.col("group_id").isNotNull() & ~_is_of_group())
    sequence = F.col("after").alias("sequence")
    return beside.select("gateway_id", "group_id", _no_process(), "began_ms", sequence, "at_ms")


def _lost_edges(envelopes: DataFrame) -> DataFrame:
    """Numbers missing before a group's first line, if an event beside the sequence shows a lower
    number; and after its last line, if one shows a higher number."""
    number = F.when(_is_of_group(), F.col("sequence"))
    word = F.when(~_is_of_group() & (F.col("after") >= 0), F.col("after"))
    ends = {"first": F.min(number), "last": F.max(number), "low": F.min(word), "high": F.max(word)}

    def missing(before: str, behind: Column) -> Column:
        missing_from = F.try_add(before, F.lit(1))
        lost = F.struct(missing_from.alias("missing_from"), behind.alias("missing_to"))
        return F.when(missing_from <= behind, lost)

    return (
        envelopes.where(F.col("group_id").isNotNull())
        .groupBy("gateway_id", "group_id", "began_ms")
        .agg(*(end.alias(name) for name, end in ends.items()))
        .select(
            "gateway_id",
            "group_id",
            _no_process(),
            "began_ms",
            F.inline(
                F.array_compact(
                    F.array(missing("low", F.col("first") - 1), missing("last", F.col("high")))
                )
            ),
        )
    )


def _gaps(told: DataFrame) -> DataFrame:
    """`missing_from` and `missing_to` of each gap."""
    in_order = Window.partitionBy(*SEQUENCE).orderBy("first")
    missing_from = F.lag("last").over(in_order) + 1
    return (
        masks(told)
        .select(*SEQUENCE, F.inline(_runs()))
        .withColumn("missing_from", missing_from)
        .where(F.col("missing_from") < F.col("first"))
        .select(*SEQUENCE, "missing_from", (F.col("first") - 1).alias("missing_to"))
    )


def _runs() -> Column:
    """The numbers of a mask as runs without gaps, `first` to `last`."""
    start = F.shiftleft("row", _BITS_OF_A_BIT)

    def run(first: Column | int, last: Column | int) -> Column:
        return F.struct((start + first).alias("first"), (start + last).alias("last"))

    bits = F.sequence(F.lit(0), F.lit(_MASK_BITS - 1))
    given = F.filter(bits, lambda bit: F.getbit("mask", bit) == 1)
    return F.when(F.col("mask") == _ALL_BITS, F.array(run(0, _MASK_BITS - 1))).otherwise(
        F.transform(given, lambda bit: run(bit, bit))
    )


def _with_times(gaps: DataFrame, told: DataFrame, words: DataFrame) -> DataFrame:
    """Adds the times of the events around each gap. Without gaps, nothing is read again."""
    behind = F.try_add("missing_to", F.lit(1))
    ends = gaps.select(
        "*",
        F.inline(
            F.array(
                _end(F.col("missing_from") - 1, is_word=False),
                _end(F.col("missing_from") - 1, is_word=True),
                _end(behind, is_word=False),
                _end(F.col("missing_to"), is_word=True),
            )
        ),
    )
    marks = told.withColumn("is_word", F.lit(False)).unionByName(
        words.withColumn("is_word", F.lit(True))
    )
    is_same = (F.col("ends.number") == F.col("marks.sequence")) & (
        F.col("ends.is_word") == F.col("marks.is_word")
    )
    for name in SEQUENCE:
        is_same &= F.col(f"ends.{name}").eqNullSafe(F.col(f"marks.{name}"))
    is_before = F.col("number") < F.col("missing_from")
    return (
        ends.alias("ends")
        .join(marks.alias("marks"), is_same)
        .select("ends.*", "at_ms")
        .groupBy(*SEQUENCE, "missing_from", "missing_to")
        .agg(
            F.min(F.when(is_before, F.col("at_ms"))).alias("from_ms"),
            F.min(F.when(~is_before, F.col("at_ms"))).alias("to_ms"),
        )
    )


def _end(number: Column, *, is_word: bool) -> Column:
    return F.struct(number.alias("number"), F.lit(is_word).alias("is_word"))
