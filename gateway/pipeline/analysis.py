"""From lines to tables: the one way, for a batch and for a stream.

Each batch of lines is stored under its number, and the tables are made anew for the groups that it
is about, from all that was ever stored of these. Taken in again after it was interrupted, a batch
leaves the same. Owns the folders in the output.
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType

from gateway.pipeline.folders import Folder
from gateway.pipeline.group_histories import GroupHistories
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.store import BUCKET, Store, bucket_of
from gateway.pipeline.tables.catalog import TABLES, WHOLE_TABLES

DAY = "day"
_TIMES = ("from_ms", "at_ms", "to_ms")
"""The first of them that a row has says which day it is of."""


class Analysis:
    """What an output folder holds."""

    def __init__(self, spark: SparkSession, output: Folder) -> None:
        self._spark = spark
        self._output = output
        self._new = self._output / "unfinished"
        self._tables = self._output / "tables"
        self.store = Store(spark, self._output / "stored")

    def clear(self) -> None:
        """Forget everything."""
        for folder in (self._output / "stored", self._tables, self._new):
            folder.delete()

    def take_in(self, lines: DataFrame, batch: int) -> None:
        """Store lines (`file`, `place`, `line`), and bring the tables up to date."""
        self._new.delete()
        self.store.append(lines, batch)
        buckets = self.store.buckets(batch)
        histories = GroupHistories(self.store.events(buckets), self.store.events())
        made: dict[str, DataFrame] = {}
        with histories.kept():
            for table in TABLES:
                made[table.name] = self._write(table.name, table.row, table.make(histories, made))
        for table in TABLES:
            self._put_in_place(table.name, buckets)
        events = self.store.events()
        for whole in WHOLE_TABLES:
            self.write_whole(whole.name, whole.make(events))
        self._new.delete()

    def _write(self, name: str, row: type[BaseModel], rows: DataFrame) -> DataFrame:
        """Write a table and read it, so that nothing is computed twice."""
        columns = struct_of(row)
        times = [time for time in _TIMES if time in columns.names]
        day = F.to_date(F.timestamp_millis(F.coalesce(*times)))
        placed = rows.select(
            *columns.names, bucket_of(F.col("group_id")).alias(BUCKET), day.alias(DAY)
        )
        (self._new / name).write(placed, BUCKET, DAY)
        return self._read(self._new / name, row)

    def _put_in_place(self, name: str, buckets: Sequence[int]) -> None:
        for bucket in buckets:
            part = f"{BUCKET}={bucket}"
            found = self._new / name / part
            if found.exists():
                (self._tables / name / part).replace(found)
            else:
                (self._tables / name / part).delete()

    def write_whole(self, name: str, rows: DataFrame) -> None:
        """Replace a table that is not made group by group."""
        (self._new / name).write(rows)
        (self._tables / name).replace(self._new / name)

    def tables(self) -> Mapping[str, DataFrame]:
        """Everything that there is, by the tables' names."""
        of_groups = {
            table.name: self._read(self._tables / table.name, table.row) for table in TABLES
        }
        whole = {
            table.name: self._spark.read.schema(struct_of(table.row)).parquet(
                (self._tables / table.name).path
            )
            for table in WHOLE_TABLES
        }
        return {**of_groups, **whole}

    def _read(self, folder: Folder, row: type[BaseModel]) -> DataFrame:
        columns = struct_of(row).add(BUCKET, IntegerType()).add(DAY, DateType())
        if not folder.exists():  # no group of it had a row
            return self._spark.createDataFrame([], columns)
        return self._spark.read.schema(columns).parquet(folder.path)
