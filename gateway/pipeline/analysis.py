"""Turns lines into tables and a digest, for a batch run and for a stream alike.

A stream stores each batch of lines under its number. The buckets of the batch are then folded again
from everything stored in them. A batch that was interrupted and is taken in again gives the same
result.
"""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType

from gateway.pipeline.drawing import Drawing, draw
from gateway.pipeline.fold import Key
from gateway.pipeline.folders import Folder
from gateway.pipeline.folding import BUCKET, DIGEST, FOLDED, folded, parsed
from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.store import Store
from gateway.pipeline.tables.catalog import ALL_ROWS
from gateway.pipeline.tables.row import BaseRow, columns

DAY = "day"
_TIMES = ("from_ms", "at_ms", "to_ms")
"""The first of these columns that is not null gives the day of a row."""


class Analysis:
    """The contents of an output folder."""

    def __init__(self, spark: SparkSession, output: Folder, top: int) -> None:
        """`top` is the number of groups with a section."""
        self._spark = spark
        self._top = top
        self._new = output / "unfinished"
        self._tables = output / "tables"
        self._digests = output / "digests"
        self._store = Store(spark, output / "stored")

    def make(self, lines: DataFrame) -> Digest:
        """Make all tables from these lines alone, in an empty folder."""
        rows = self._folded(parsed(lines))
        digest = _sum(self._top, _digests(rows))
        self._write(rows, self._tables, digest.rows)
        self._new.delete()
        return digest

    def take_in(self, lines: DataFrame, batch: int) -> Digest:
        """Store lines, and bring the tables of their buckets up to date."""
        self._new.delete()
        self._store.append(parsed(lines), batch)
        buckets = self._store.buckets(batch)
        rows = self._folded(self._store.rows(buckets))
        (self._new / DIGEST).write(_with_digests(rows).select(BUCKET, DIGEST), BUCKET)
        self._write(rows, self._new, _sum(self._top, _digests(rows)).rows)
        for bucket in buckets:
            part = f"{BUCKET}={bucket}"
            for name in ALL_ROWS:
                (self._tables / name / part).become(self._new / name / part)
            (self._digests / part).become(self._new / DIGEST / part)
        self._new.delete()
        return self.digest()

    def digest(self) -> Digest:
        """The digest of everything stored."""
        if not self._digests.exists():
            return Digest(top=self._top)
        stored = self._spark.read.schema(f"{DIGEST} string").parquet(self._digests.path)
        return _sum(self._top, _digests(stored))

    def drawn(self, digest: Digest) -> Mapping[Key, Drawing]:
        """The ownership maps of the digest's worst groups."""
        return draw(self.tables(), digest)

    def tables(self) -> Mapping[str, DataFrame]:
        """All tables by name."""
        return {name: self._read(self._tables / name, row) for name, row in ALL_ROWS.items()}

    def _folded(self, rows: DataFrame) -> DataFrame:
        """Fold once, and read the rows from Parquet for each table: only its own column. Spark's
        cache would keep a hundred batches of four megabytes in memory for each task."""
        folder = self._new / "folded"
        folder.write(folded(rows, self._top))
        return self._spark.read.schema(FOLDED).parquet(folder.path)

    def _write(self, rows: DataFrame, folder: Folder, counts: Mapping[str, int]) -> None:
        """Write each table that has rows."""
        for name, row in ALL_ROWS.items():
            if counts.get(name):
                of_table = rows.where(F.col(name).isNotNull()).select(BUCKET, f"{name}.*")
                times = [F.col(time) for time in _TIMES if time in columns(row)]
                parts = [BUCKET]
                if times:
                    day = F.to_date(F.timestamp_millis(F.coalesce(*times)))
                    of_table = of_table.withColumn(DAY, day)
                    parts.append(DAY)
                (folder / name).write(of_table, *parts)

    def _read(self, folder: Folder, row: type[BaseRow]) -> DataFrame:
        schema = struct_of(row).add(BUCKET, IntegerType())
        if not folder.exists():  # the table has no row
            return self._spark.createDataFrame([], schema)
        if any(time in columns(row) for time in _TIMES):
            schema = schema.add(DAY, DateType())
        return self._spark.read.schema(schema).parquet(folder.path)


def _with_digests(rows: DataFrame) -> DataFrame:
    return rows.where(F.col(DIGEST).isNotNull())


def _digests(rows: DataFrame) -> Iterable[str]:
    return (row.digest for row in _with_digests(rows).select(DIGEST).collect())


def _sum(top: int, digests: Iterable[str]) -> Digest:
    total = Digest(top=top)
    for each in digests:
        total.merge(Digest.model_validate_json(each))
    return total
