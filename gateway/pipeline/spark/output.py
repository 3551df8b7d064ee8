"""The output folder: Parquet and text files, a lock, and the rows of a stream by batch.

A folder may be a URL. Files and folders are replaced as a whole, or not at all. A batch is stored
under its own number, so storing it again changes nothing.
"""

import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from operator import attrgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

from gateway.pipeline import PipelineError
from gateway.pipeline.spark.files import files_of
from gateway.pipeline.spark.packing import BUCKET

_WRITING = {
    # Each task keeps one row group in memory. Parquet's default of 128 MiB suits larger heaps.
    "parquet.block.size": f"{16 << 20}",
    # It looks at its size after 100 to 10,000 rows, as the first rows suggest. But packed rows are
    # long, and a page is compressed in buffers of its size.
    **dict.fromkeys(("parquet.block.size.row.check.min", "parquet.page.size.row.check.min"), "1"),
    **dict.fromkeys(("parquet.block.size.row.check.max", "parquet.page.size.row.check.max"), "16"),
    "parquet.writer.version": "v2",
}


class Folder:
    """One folder, local or not."""

    def __init__(self, spark: SparkSession | None, path: str) -> None:
        """Raises PipelineError."""
        self._session = spark
        self._files, self.path = files_of(spark, path.rstrip("/"))

    def __truediv__(self, name: str) -> "Folder":
        below = copy(self)  # finding the file system takes as long as reading a file
        below.path = f"{self.path}/{name}"
        return below

    @property
    def _spark(self) -> SparkSession:
        assert self._session is not None  # only Spark reads and writes rows
        return self._session

    def make(self) -> None:
        """Create the folder and its parents unless it exists."""
        self._files.make(self.path)

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def names(self) -> list[str]:
        """The names of its entries; none if it does not exist."""
        return self._files.names(self.path)

    def delete(self) -> None:
        """Delete the folder and everything in it, if it exists."""
        self._files.delete(self.path)

    def replace(self, other: "Folder") -> None:
        """Move `other` to the place of this folder."""
        self.delete()
        self._files.move(other.path, self.path)

    def write(self, rows: DataFrame, *partitions: str) -> None:
        """Replace the contents with these rows."""
        # Offsets and times grow from row to row: few bytes tell the differences, without a search.
        numbers = (column.name for column in rows.schema if isinstance(column.dataType, LongType))
        as_differences = {f"parquet.enable.dictionary#{name}": "false" for name in numbers}
        write = rows.write.mode("overwrite").options(**_WRITING, **as_differences)
        write.partitionBy(*partitions).parquet(self.path)

    def read(self, schema: StructType, parts: Iterable[str]) -> DataFrame:
        """The rows in these subfolders, whose names may be values of columns."""
        paths = [f"{self.path}/{part}" for part in parts]
        if not paths:
            return self._spark.createDataFrame([], schema)
        read = self._spark.read.schema(schema).option("basePath", self.path)
        return read.parquet(*paths).select(*schema.names)

    def write_text(self, name: str, text: str) -> None:
        """Write one file in UTF-8, as a whole or not at all."""
        self.write_bytes(name, text.encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write one file, as a whole or not at all."""
        file = f"{self.path}/{name}"
        self._files.write(f"{file}.new", data)
        self._files.delete(file)
        self._files.move(f"{file}.new", file)

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold a lock in the folder, unless it is on another machine. Raises PipelineError."""
        with self._files.lock(f"{self.path}/{name}") as take:
            until_s = time.monotonic() + _KILLED_S_MAX
            while not take():
                if time.monotonic() > until_s:
                    raise PipelineError(f"another groupferry report writes to {self.path}")
                time.sleep(_LOOK_INTERVAL_S)
            yield


CHECKPOINT = "checkpoint"
"""A stream's progress, in its output folder."""
LOCK = "lock"

_KILLED_S_MAX = 20
"""How long the JVM of a killed process may take to end."""
_LOOK_INTERVAL_S = 0.25


@contextmanager
def lock(output: Folder, *, follows: bool) -> Iterator[None]:
    """Hold the folder for a stream or for a batch run. Only a local folder is locked.

    Raises PipelineError if another run has the folder, or if it belongs to the other kind of run.
    """
    output.make()
    with output.hold(LOCK):
        checkpoint = output / CHECKPOINT
        if checkpoint.exists() and not follows:
            raise PipelineError(f"{output.path} belongs to report --follow: choose another folder")
        if follows and not checkpoint.exists():
            if set(output.names()) - {LOCK}:
                raise PipelineError(
                    f"{output.path} is not empty and has no checkpoint to continue from:"
                    " choose another folder, or delete it"
                )
            checkpoint.make()
        yield


PARTS_MERGED = 16
"""This many parts of equal length are merged into one, which bounds the number of parts."""
BATCHES = "batches"
"""Names the folder of a part."""


class Store:
    """Rows that are never changed, in one folder. A part has those of one batch or of a range of
    batches; a stream has many small batches, which are merged from time to time. A part that
    another part covers was left by a merge and does not count."""

    def __init__(self, folder: Folder, schema: StructType, *partitions: str) -> None:
        """`partitions` are columns that name subfolders."""
        self._folder = folder
        self._new = folder / "_unfinished"
        self._schema = schema
        self._partitions = partitions

    def append(self, rows: DataFrame, batch: int) -> None:
        """Store rows. Does nothing if this batch is stored already.

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

    def rewrite(self, rows: DataFrame, batch: int) -> None:
        """Replace everything up to this batch. Does nothing if that has been done: `rows` may be
        what the replaced parts had."""
        if range(batch + 1) not in self._parts():
            self._write(rows, range(batch + 1))
        self._clean()

    def rows(self, of: range | None = None) -> DataFrame:
        """Everything, or the rows of these batches."""
        parts = self._parts()
        return self._read(part for part in parts if of is None or _is_within(part, of))

    def _merge(self, batch: int) -> None:
        """Merge the parts before this batch if there are many."""
        while True:
            parts = self._clean()
            newest = [part for part in parts if part.stop <= batch][-PARTS_MERGED:]
            if len(newest) < PARTS_MERGED or len({len(part) for part in newest}) > 1:
                return
            rows = self._read(newest).repartition(BUCKET)
            self._write(rows, range(newest[0].start, newest[-1].stop))

    def _clean(self) -> list[range]:
        """Delete the parts that do not count. Returns the others."""
        parts = self._parts()
        for name in set(filter(_PART.fullmatch, self._folder.names())) - set(map(_name, parts)):
            (self._folder / name).delete()
        return parts

    def _write(self, rows: DataFrame, part: range) -> None:
        self._new.write(rows, *self._partitions)
        (self._folder / _name(part)).replace(self._new)

    def _read(self, parts: Iterable[range]) -> DataFrame:
        return self._folder.read(self._schema, map(_name, parts))

    def _parts(self) -> list[range]:
        """The parts in order."""
        named = map(_PART.fullmatch, self._folder.names())
        parts = [range(int(name[1]), int(name[2]) + 1) for name in named if name]
        counting = (part for part in parts if not _is_covered(part, parts))
        return sorted(counting, key=attrgetter("start"))


_PART = re.compile(r"batches=(\d+)-(\d+)")


def _name(part: range) -> str:
    return f"{BATCHES}={part.start}-{part.stop - 1}"


def _is_covered(part: range, parts: Collection[range]) -> bool:
    return any(part != other and _is_within(part, other) for other in parts)


def _is_within(part: range, other: range) -> bool:
    return other.start <= part.start and part.stop <= other.stop
