"""Turns lines into tables and a summary, for a batch run and for a stream alike.

A stream keeps the lines. A batch folds the buckets that it is about once more, from all of their
lines, and replaces their folders once all new ones are complete. A batch that was interrupted is
taken in again, from its beginning.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from gateway.pipeline.fold.rows import ALL_ROWS, SCHEMA_VERSION, TIMES, RunRow, Tables, columns
from gateway.pipeline.report.summary import SUMMARIES, Summary
from gateway.pipeline.report.wording import DAY_MS, date_time
from gateway.pipeline.spark.folding import (
    FOLDED,
    SUMMARY,
    fold,
    record_batch,
    struct_of,
    unpack,
)
from gateway.pipeline.spark.output import Folder, Store
from gateway.pipeline.spark.packing import BUCKET, PARSED, parse_lines
from gateway.pipeline.spark.retention import without_old_lines

ROWS_MAX = 100_000
"""Rows of one table that the page is made from."""
CLUSTER, DAY = "cluster", "day"
"""The columns that name the folders of a table."""
NO_NAME = "unknown"
"""The folder of rows whose cluster or day is not known."""
FOLDED_TABLES = tuple(name for name in ALL_ROWS if name != "runs")
_SUMMARY = StructType([StructField(SUMMARY, StringType()), PARSED[BUCKET]])


class SmallAnalysis:
    """The tables of few lines, made in this process."""

    def __init__(self, output: Folder, top: int) -> None:
        """`top` is the number of groups with a section."""
        self._top = top
        self._folder = output / "tables"
        self._rows = Tables()

    def make(self, parts: Iterable[Tables]) -> Summary:
        """Make all tables of these rows, in an empty folder."""
        summary = Summary(top=self._top)
        for tables in parts:
            summary.add(tables)
            self._rows.extend(tables)
        for name in FOLDED_TABLES:
            rows = getattr(self._rows, name)
            write_here(self._folder / name, name, [record_batch(name, rows)])
        return summary

    def add_run(self, row: RunRow) -> None:
        """Write the row of this run."""
        write_here(self._folder / "runs", "runs", [record_batch("runs", [row])])

    def rows_of(self, name: str, group_ids: Collection[str]) -> Iterator[Any]:
        """Rows of a table about these groups."""
        return (row for row in getattr(self._rows, name) if row.group_id in group_ids)


class Analysis:
    """The contents of an output folder."""

    def __init__(
        self, spark: SparkSession, output: Folder, top: int, keep_days: int | None = None
    ) -> None:
        """`top` is the number of groups with a section, and `keep_days` how long a stream keeps
        lines (null: for ever)."""
        self._spark = spark
        self._top = top
        self._keep_days = keep_days
        self._new = output / "unfinished"
        self._tables = output / "tables"
        self._lines = Store(output / "lines", PARSED, BUCKET)
        self._summaries = output / "summaries"

    def make(self, lines: DataFrame) -> Summary:
        """Make all tables from these lines alone, in an empty folder."""
        rows = self._fold(parse_lines(lines))
        summary = self._sum(rows)
        for name in FOLDED_TABLES:
            if summary.rows[name]:
                table = in_folders(unpack(rows, name), name).drop(BUCKET)
                (self._tables / name).write(table, CLUSTER, DAY)
            else:
                write_here(self._tables / name, name, [])
        self._new.delete()
        return summary

    def take_in(self, lines: DataFrame, batch: int) -> Summary:
        """Take in the lines of a batch. The batches are numbered from 0."""
        self._new.delete()
        self._lines.append(parse_lines(lines), batch)
        new = self._lines.rows(range(batch, batch + 1))
        touched = sorted(row.bucket for row in new.select(BUCKET).distinct().collect())
        self._renew(touched)
        self._trim(batch)
        self._new.delete()
        return self.summary()

    def summary(self) -> Summary:
        """The summary of everything stored."""
        parts = [name for name in self._summaries.names() if name.startswith(BUCKET)]
        return self._sum(self._summaries.read(_SUMMARY, parts))

    def add_run(self, row: RunRow) -> None:
        """Write the row of this run."""
        write_here(self._tables / "runs", "runs", [record_batch("runs", [row])])

    def rows_of(self, name: str, group_ids: Collection[str]) -> Iterator[Any]:
        """Rows of a table about these groups."""
        model = ALL_ROWS[name]
        table = self.table(name).where(F.col("group_id").isin(*group_ids)).select(*columns(model))
        return (model(**row.asDict()) for row in table.limit(ROWS_MAX).collect())

    def table(self, name: str) -> DataFrame:
        """The rows of one table."""
        schema = struct_of(ALL_ROWS[name])
        return self._spark.read.schema(schema).parquet((self._tables / name).path)

    def _fold(self, rows: DataFrame) -> DataFrame:
        """Fold once, and read the rows from Parquet for each table: only its own column. Spark's
        cache would keep a hundred batches of four megabytes in memory for each task."""
        folder = self._new / "folded"
        folder.write(fold(rows, self._top))
        return self._spark.read.schema(FOLDED).parquet(folder.path)

    def _renew(self, touched: list[int]) -> None:
        """Fold the buckets from all of their lines, and replace them in all tables."""
        for name in FOLDED_TABLES:
            if not (self._tables / name).exists():
                write_here(self._tables / name / f"{BUCKET}=-1", name, [])
        if not touched:
            return
        rows = self._fold(self._lines.rows().where(F.col(BUCKET).isin(touched)))
        new = self._new / "buckets"
        for name in FOLDED_TABLES:
            table = in_folders(unpack(rows, name), name)
            (new / name).write(table, BUCKET, CLUSTER, DAY)
        sums = rows.where(F.col(SUMMARY).isNotNull()).select(SUMMARY, BUCKET)
        (new / "summaries").write(sums, BUCKET)
        for name in (*FOLDED_TABLES, "summaries"):
            table_folder = self._summaries if name == "summaries" else self._tables / name
            for bucket in (f"{BUCKET}={number}" for number in touched):
                if (new / name / bucket).exists():
                    (table_folder / bucket).replace(new / name / bucket)
                else:
                    (table_folder / bucket).delete()

    def _trim(self, batch: int) -> None:
        """Delete what is older than `keep_days`, once for each day: each group then begins with
        what it had at its last `group_loaded` before."""
        if self._keep_days is None or batch == 0:  # a store does not replace its only part
            return
        if (to_ms := self.summary().to_ms) is None:
            return
        to_ms = min(to_ms, int(time.time() * 1000))  # a gateway's clock may be far ahead
        from_ms = (to_ms // DAY_MS - self._keep_days) * DAY_MS
        mark = self._summaries / f"from_ms={from_ms}"
        if mark.exists():
            return
        self._lines.rewrite(without_old_lines(self._lines.rows(), from_ms), batch)
        names = [name.partition("=") for name in self._summaries.names()]
        self._renew([int(number) for name, _, number in names if name == BUCKET])
        for name, _, number in names:
            if name == "from_ms":
                (self._summaries / f"from_ms={number}").delete()
        mark.make()

    def _sum(self, rows: DataFrame) -> Summary:
        total = Summary(top=self._top)
        for row in rows.where(F.col(SUMMARY).isNotNull()).select(SUMMARY).collect():
            total.merge(SUMMARIES.validate_json(row.summary))
        return total


def write_here(output: Folder, name: str, batches: list[pa.RecordBatch]) -> None:
    """Write a small table in this process, which takes Spark a second. One without rows has a
    file with its columns."""
    table = pa.Table.from_batches([record_batch(name, []), *batches])
    table = table.replace_schema_metadata({"schema_version": str(SCHEMA_VERSION)})
    places: dict[tuple[str, str], list[int]] = {} if len(table) else {(NO_NAME, NO_NAME): []}
    names = ["cluster_id", *_times(name)]
    for number, row in enumerate(table.select(names).to_pylist()):
        cluster_id, *times = row.values()
        at_ms = next((time for time in times if time is not None), None)
        day = NO_NAME if at_ms is None else f"{date_time(at_ms):%Y-%m-%d}"
        places.setdefault((cluster_id or NO_NAME, day), []).append(number)
    output.delete()
    for (cluster, day), numbers in places.items():
        sink = pa.BufferOutputStream()
        pq.write_table(table.take(pa.array(numbers, pa.int64())), sink)
        folder = output / f"{CLUSTER}={quote(cluster, '')}" / f"{DAY}={day}"
        folder.make()
        folder.write_bytes("rows.parquet", sink.getvalue().to_pybytes())


def _times(name: str) -> list[str]:
    return [time for time in TIMES if time in columns(ALL_ROWS[name])]


def in_folders(rows: DataFrame, name: str) -> DataFrame:
    """Rows of a table with the columns that name their folders."""
    times: list[Column] = [F.col(time) for time in _times(name)]
    moment = F.timestamp_millis(F.coalesce(*times))
    day = F.coalesce(F.date_format(moment, "yyyy-MM-dd"), F.lit(NO_NAME))
    cluster = F.when(F.col("cluster_id") == "", NO_NAME).otherwise(F.col("cluster_id"))
    return rows.withColumns({CLUSTER: cluster, DAY: day})
