"""What is missing in the sequences of the events: a line that was told, and is not there.

Only the envelope is read, so that events which this version does not know are no gap.
"""

from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import with_cluster
from gateway.pipeline.parsing import CONTENT, NUMBERED
from gateway.pipeline.spark_types import struct_of

_MASK_BITS = 64
"""So many numbers are one row, with a bit for each that there is: nothing is sorted but these."""
_ALL_BITS = -1
_BITS_OF_A_BIT = 6

SEQUENCE = ("gateway_id", "group_id", "process_id", "began_ms")
"""What names a sequence."""


class SequenceRow(BaseModel):
    """Numbers that no line has. What comes before the first line of a sequence is not missed, nor
    what comes behind the last one; but of a group it is, if an event beside its sequence shows that
    it had come before the one, or after the other."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cluster_id: str
    """The cluster's own id, empty if no gateway has told it."""
    group_id: str | None
    """The group whose sequence it is; null if it is that of a process."""
    gateway_id: str
    process_id: str | None
    """The process whose sequence it is; null if it is that of a group."""
    missing_from: int
    """The first number that is missing."""
    missing_to: int
    """The last one."""
    from_ms: int
    """When the event before them was decided, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """When the event after them was decided, in milliseconds since 1970 (UTC)."""


def sequences(lines: DataFrame) -> DataFrame:
    """All gaps in stored lines; a line that came twice changes nothing."""
    envelopes = _envelopes(lines)
    told = numbers(lines).select(*SEQUENCE, "sequence", "at_ms")
    lost = _gaps(told).unionByName(_lost_edges(envelopes))
    found = _with_times(lost, told, _words(envelopes))
    return with_cluster(found, lines).select(*struct_of(SequenceRow).names)


def numbers(lines: DataFrame) -> DataFrame:
    """Each number that a line has, and whose it is, with what the line says."""
    names = (F.when(_is_of_group(), F.col(name)).alias(name) for name in ("group_id", "began_ms"))
    return lines.where(NUMBERED).select(
        "gateway_id", *names, "process_id", "sequence", "at_ms", "event", CONTENT
    )


def masks(numbers: DataFrame) -> DataFrame:
    """Which numbers of each `row` of them there are, and how many `lines` have one."""
    bit = F.col("sequence").bitwiseAND(_MASK_BITS - 1).cast("int")
    return numbers.groupBy(*SEQUENCE, row_of("sequence").alias("row")).agg(
        F.bit_or(F.call_function("shiftleft", F.lit(1).cast("long"), bit)).alias("mask"),
        F.count("*").alias("lines"),
    )


def row_of(sequence: str) -> Column:
    """Which `row` of `masks` has a number."""
    return F.shiftright(sequence, _BITS_OF_A_BIT)


def _envelopes(lines: DataFrame) -> DataFrame:
    """Of lines that are whole, whether this version knows what they say or not."""
    return lines.where(NUMBERED).select(*SEQUENCE, "sequence", "after", "at_ms")


def _is_of_group() -> Column:
    return F.col("process_id").isNull()


def _no_process() -> Column:
    return F.lit(None).cast("string").alias("process_id")


def _words(envelopes: DataFrame) -> DataFrame:
    """The numbers that groups had reached, as events beside their sequences say."""
    beside = envelopes.where(F.col("group_id").isNotNull() & ~_is_of_group())
    sequence = F.col("after").alias("sequence")
    return beside.select("gateway_id", "group_id", _no_process(), "began_ms", sequence, "at_ms")


def _lost_edges(envelopes: DataFrame) -> DataFrame:
    """What is missing before the first line of a group, whose sequence had reached less when a
    process told something beside it; and behind the last one: it had reached more."""
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
    """The numbers of a mask, as `first` and `last` of what has no gap."""
    start = F.shiftleft("row", _BITS_OF_A_BIT)

    def run(first: Column | int, last: Column | int) -> Column:
        return F.struct((start + first).alias("first"), (start + last).alias("last"))

    bits = F.sequence(F.lit(0), F.lit(_MASK_BITS - 1))
    given = F.filter(bits, lambda bit: F.getbit("mask", bit) == 1)
    return F.when(F.col("mask") == _ALL_BITS, F.array(run(0, _MASK_BITS - 1))).otherwise(
        F.transform(given, lambda bit: run(bit, bit))
    )


def _with_times(gaps: DataFrame, told: DataFrame, words: DataFrame) -> DataFrame:
    """The moments of the events around each gap. Where there is no gap, nothing is read again."""
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
