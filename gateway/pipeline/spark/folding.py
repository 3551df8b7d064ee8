"""Makes all tables on Spark, whose Python processes fold groups.

Spark only brings the lines of a group together. One exchange sorts the rows into which they are
packed by bucket and group, and `fold` streams through them, with one group in memory at a time.
"""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby, starmap
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from gateway.loading import without_garbage_collection
from gateway.pipeline.fold.folding import (
    GATEWAY,
    GROUP,
    KINDS,
    Item,
    ItemKey,
    fold_subject,
)
from gateway.pipeline.fold.rows import Tables
from gateway.pipeline.folder import Folder, is_local_path
from gateway.pipeline.report.summary import SUMMARIES, Summary
from gateway.pipeline.spark.packing import (
    PackedRow,
    items_of,
    map_in_arrow,
    message_of,
    parse_lines,
    schema_of,
    unpack,
)
from gateway.pipeline.tables import FilesMaker, TableFile, empty_files, write_files

FILES = schema_of(folder="string", name="string", data="binary")
"""What a fold makes: files of tables, and the summary of each bucket, whose folder is null."""


def make_on_spark(spark: SparkSession, lines: DataFrame, output: Folder, top: int) -> Summary:
    """Make the tables of these lines, in an empty folder. `top` is the number of groups with a
    section. Spark folds in parallel, and stores the files in a table of its own, from which this
    process copies them. Another JVM, of a run that was killed, may write to such a table yet."""
    summary, folded = Summary(top=top), output / f"folded-{os.getpid()}"
    url = f"file:{folded.path}" if is_local_path(folded.path) else folded.path
    fold(parse_lines(lines), top).write.mode("overwrite").parquet(url)

    def files() -> Iterator[TableFile]:
        for row in spark.read.schema(FILES).parquet(url).toLocalIterator():
            if row.folder is None:
                summary.merge(SUMMARIES.validate_json(bytes(row.data)))
            else:
                yield TableFile(row.folder, row.name, bytes(row.data))

    write_files(output, empty_files())
    write_files(output, files())
    folded.delete()
    return summary


def fold(rows: DataFrame, top: int) -> DataFrame:
    """The files of all tables, and a summary for each bucket."""
    return map_in_arrow(in_order(rows), partial(_fold, top=top), FILES)


def in_order(rows: DataFrame) -> DataFrame:
    """The lines ordered by bucket and key. Most comparisons need only one number."""
    rank = F.col("bucket").cast("long") * len(KINDS) + F.col("kind")
    rank = F.shiftleft(rank, 32) + F.crc32(F.col("name").cast("binary"))
    rows = rows.select(*PackedRow._fields)
    return rows.repartition("bucket").sortWithinPartitions(rank, *ItemKey._fields[1:], "first")


def _fold(batches: Iterable[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(FILES)
    with without_garbage_collection():
        for bucket, bucket_rows in groupby(rows_of(batches), key=attrgetter("bucket")):
            maker, summary = FilesMaker(f"{bucket}"), Summary(top=top)
            for tables in _tables(bucket_rows):
                summary.add(tables)
                for file in maker.take(tables):
                    yield message_of([file], schema)
            for file in maker.finish():
                yield message_of([file], schema)
            yield message_of([(None, f"{bucket}", SUMMARIES.dump_json(summary))], schema)


def _tables(rows: Iterable[PackedRow]) -> Iterator[Tables]:
    """The rows of all tables about each key of a bucket."""
    for (kind, name), subject_rows in groupby(rows, key=attrgetter("kind", "name")):
        yield from fold_subject(kind, name, _items(kind, subject_rows))


def _items(kind: int, rows: Iterable[PackedRow]) -> Iterator[tuple[ItemKey, Iterable[Item]]]:
    for key, item_rows in groupby(rows, key=attrgetter(*ItemKey._fields)):
        if kind == GROUP:
            yield ItemKey(*key), PackedItems(item_rows)
        elif kind == GATEWAY:
            yield from ((ItemKey(*key), part) for part in unpack(item_rows))
        else:  # in no order
            yield from ((ItemKey(*key), items_of(row)) for row in item_rows)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedRow]:
    """The packed rows in these messages."""
    for batch in batches:
        values = (column.to_pylist() for column in batch.columns)
        yield from starmap(PackedRow, zip(*values, strict=True))


class PackedItems(Iterable[Item]):
    """The items of a group in their order. They may be read again."""

    def __init__(self, rows: Iterable[PackedRow]) -> None:
        """The rows are sorted by their first times."""
        self._rows = list(rows)

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(unpack(self._rows))


_LOOK_INTERVAL_S = 0.5


@contextmanager
def spark_progress(tracker: Any) -> Iterator[None]:
    """A bar of the tasks of Spark's jobs within the block. `tracker` is Spark's status tracker, or
    null."""
    if tracker is None or not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(tracker, ended), daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _watch(tracker: Any, ended: threading.Event) -> None:
    from gateway.pipeline.quick_verdict import new_progress  # needless in Spark's processes

    with new_progress("tasks") as progress:
        bar = progress.add_task("report", total=None)
        stages: dict[int, tuple[int, int]] = {}
        while not ended.wait(_LOOK_INTERVAL_S):
            for stage_id in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    stages[stage_id] = stage.numCompletedTasks, stage.numTasks
            done = sum(completed for completed, _total in stages.values())
            total = sum(total for _completed, total in stages.values())
            progress.update(bar, completed=done, total=total or None)
