"""Stores the lines that a stream has read as Parquet, by bucket. All its tables are made from them.

A batch is stored as a whole or not at all, under its own number, so storing it again changes
nothing. A stream has many small batches, which are merged from time to time. No line is forgotten:
a line that is no event is stored with its place, its problem and the beginning of its text.
"""

import re
from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.folders import Folder
from gateway.pipeline.folding import BUCKET, PARSED

PARTS_MERGED = 16
"""This many parts of equal length are merged into one, which bounds the number of parts."""

_STORED = StructType([*PARSED, StructField("batches", StringType())])


class Store:
    """The store in one folder. A part has the events of one batch or of a range of batches. A part
    that another part covers was left by a merge and does not count."""

    def __init__(self, spark: SparkSession, folder: Folder) -> None:
        self._spark = spark
        self._folder = folder
        self._new = folder / "_unfinished"

    def append(self, rows: DataFrame, batch: int) -> None:
        """Store what `parsed` makes of lines. Does nothing if this batch is stored already.

        Batches are numbered from 0. Raises PipelineError if this is not the next one.
        """
        self._merge(batch)
        stored = max((part.stop for part in self._parts()), default=0)
        if stored == batch + 1:
            return
        if stored != batch:
            raise PipelineError(
                f"{self._folder.path} has {stored} batches, but the next one is number {batch + 1}:"
                " they do not belong together, choose another folder for the report"
            )
        self._write(rows, range(batch, batch + 1))

    def buckets(self, batch: int) -> list[int]:
        """The buckets whose tables the batch may change."""
        prefix = f"{BUCKET}="
        names = (self._folder / _name(range(batch, batch + 1))).names()
        return sorted(int(name.removeprefix(prefix)) for name in names if name.startswith(prefix))

    def rows(self, buckets: Collection[int]) -> DataFrame:
        """Everything stored in these buckets."""
        return self._read(self._parts()).where(F.col(BUCKET).isin(sorted(buckets)))

    def _merge(self, batch: int) -> None:
        """Merge the parts before this batch if there are many."""
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
        """The parts in order."""
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
