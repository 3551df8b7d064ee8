"""The events of all runs as Parquet, by groups: what every table is made from.

A batch is there as a whole or not at all, under its own number, so that storing it again changes
nothing. A stream has many small ones: they are put together now and then. No line is forgotten:
what is no event has left its place, what is wrong with it, and the beginning of its text.
"""

import re
from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from gateway.events.gateway_events import GatewayStarted
from gateway.pipeline.errors import PipelineError
from gateway.pipeline.folders import Folder
from gateway.pipeline.parsing import (
    CONTENT,
    ENVELOPE,
    FIELDS,
    LINE,
    NUMBERED,
    PROBLEM,
    is_any,
    parse,
)

BUCKETS = 16
"""Groups are spread over so many: a stream reads those again that have new events."""
BUCKET = "bucket"
NO_GROUP = -1
"""The bucket of what is about no group."""

PARTS_MERGED = 16
"""So many parts of the same length become one, so that there are never many."""

PLACE = (StructField("file", StringType()), StructField("place", StringType()))
"""Where a line is: its file or topic, and the line or the byte in it."""

_STORED = StructType(
    [
        *PLACE,
        StructField(PROBLEM, StringType()),
        StructField(LINE, StringType()),
        StructField(NUMBERED, BooleanType()),
        StructField(CONTENT, LongType()),
        *ENVELOPE,
        *FIELDS,
        StructField("batches", StringType()),
        StructField(BUCKET, IntegerType()),
    ]
)


def bucket_of(group_id: Column) -> Column:
    """Which bucket a group is in. It is the hash of Spark's own partitioning by this column: where
    there are as many partitions as buckets, each of them is one, and so is a file."""
    bucket = F.pmod(F.hash(group_id), F.lit(BUCKETS))
    return F.when(group_id.isNull(), NO_GROUP).otherwise(bucket)


class Store:
    """In a folder of its own. A part of it has the events of one batch, or of a range of them; one
    that another covers is what a merge has left behind, and does not count."""

    def __init__(self, spark: SparkSession, folder: Folder) -> None:
        self._spark = spark
        self._folder = folder
        self._new = folder / "_unfinished"

    def append(self, lines: DataFrame, batch: int) -> None:
        """Add lines: `file`, `place` and `line`; none if this batch is there already.

        Batches are numbered from 0. Raises PipelineError if it is not the next one.
        """
        self._merge(batch)
        stored = max((part.stop for part in self._parts()), default=0)
        if stored == batch + 1:
            return
        if stored != batch:
            raise PipelineError(
                f"{self._folder.path} has {stored} batches, and number {batch + 1} comes:"
                " these do not belong together, choose another folder for the report"
            )
        parsed = parse(lines).withColumn(BUCKET, bucket_of(F.col("group_id")))
        self._write(parsed, range(batch, batch + 1))

    def buckets(self, batch: int) -> list[int]:
        """Which groups' tables the last batch may change: those of which it has events; and all if
        a gateway has said whose cluster it is in front of."""
        part = range(batch, batch + 1)
        prefix = f"{BUCKET}="
        names = (self._folder / _name(part)).names()
        found = {int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)}
        if NO_GROUP in found:
            told = self._read([part]).where(F.col(BUCKET) == NO_GROUP)
            if not told.where(is_any(GatewayStarted)).isEmpty():
                return list(range(BUCKETS))
        return sorted(found - {NO_GROUP})

    def events(self, buckets: Collection[int] | None = None) -> DataFrame:
        """All lines that were stored, or those of some buckets."""
        rows = self._read(self._parts())
        return rows if buckets is None else rows.where(F.col(BUCKET).isin(sorted(buckets)))

    def _merge(self, batch: int) -> None:
        """Put the parts before a batch together, if there are many."""
        while True:
            parts = self._parts()
            for name in set(self._folder.names()) - set(map(_name, parts)):
                (self._folder / name).delete()
            newest = [part for part in parts if part.stop <= batch][-PARTS_MERGED:]
            if len(newest) < PARTS_MERGED or len({len(part) for part in newest}) > 1:
                return
            rows = self._read(newest).drop("batches").repartition(BUCKET)
            self._write(rows, range(newest[0].start, newest[-1].stop))

    def _write(self, rows: DataFrame, part: range) -> None:
        self._new.write(rows, BUCKET)
        (self._folder / _name(part)).replace(self._new)

    def _read(self, parts: Sequence[range]) -> DataFrame:
        paths = [(self._folder / _name(part)).path for part in parts]
        if not paths:
            return self._spark.createDataFrame([], _STORED)
        read = self._spark.read.schema(_STORED).option("basePath", self._folder.path)
        return read.parquet(*paths)

    def _parts(self) -> list[range]:
        """In order."""
        named = map(_PART.fullmatch, self._folder.names())
        parts = [range(int(found[1]), int(found[2]) + 1) for found in named if found]
        return sorted((part for part in parts if not _is_covered(part, parts)), key=_start)


_PART = re.compile(r"batches=(\d+)-(\d+)")


def _name(part: range) -> str:
    return f"batches={part.start}-{part.stop - 1}"


def _start(part: range) -> int:
    return part.start


def _is_covered(part: range, parts: Collection[range]) -> bool:
    return any(
        part != other and other.start <= part.start and part.stop <= other.stop for other in parts
    )
