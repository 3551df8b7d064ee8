"""Turns lines into tables, for a batch run and for a stream alike.

Each batch of lines is stored under its number. The tables of the groups in the batch are then
rebuilt from everything stored about those groups. A batch that was interrupted and is taken in
again gives the same result.
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
"""The first of these columns that is not null gives the day of a row."""


class Analysis:
    """The contents of an output folder."""

    def __init__(self, spark: SparkSession, output: Folder) -> None:
        self._spark = spark
        self._output = output
        self._new = self._output / "unfinished"
        self._tables = self._output / "tables"
        self.store = Store(spark, self._output / "stored")

    def clear(self) -> None:
        """Delete everything."""
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
        """Write a table and read it back, so that nothing is computed twice."""
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
        """All tables by name."""
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
        if not folder.exists():  # no group has a row in this table
            return self._spark.createDataFrame([], columns)
        return self._spark.read.schema(columns).parquet(folder.path)
