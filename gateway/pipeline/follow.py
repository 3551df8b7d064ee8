"""`groupferry report --follow`: processes lines as they arrive, until a signal ends it.

The checkpoint names a batch before it begins, and records its end. A run that is killed in between
takes the batch in again.
"""

import json
import logging
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.folders import Folder
from gateway.pipeline.growing_files import BATCH_BYTES_MAX, GrowingFiles
from gateway.pipeline.output_lock import CHECKPOINT
from gateway.pipeline.own_code import send_own_code

_LOOK_INTERVAL_S = 0.25

TakeIn = Callable[[DataFrame, int], None]
"""Takes in the lines (`file`, `place`, `block`, `line`) of one batch, and the batch's number."""


def growing_lines(
    spark: SparkSession, inputs: Sequence[str], batch_bytes_max: int = BATCH_BYTES_MAX
) -> DataFrame:
    """Stream the lines of local files, folders and patterns. Raises PipelineError."""
    for each in inputs:
        if "://" in each:
            raise PipelineError(f"--follow reads only folders of this machine, not {each}")
    spark.dataSource.register(GrowingFiles)
    stream = spark.readStream.format(GrowingFiles.name()).option("inputs", json.dumps(inputs))
    return (
        stream.option("batch_bytes_max", batch_bytes_max)
        .load()
        .select("file", "place", F.lit(None).cast("long").alias("block"), "line")
    )


def follow(
    spark: SparkSession, lines: DataFrame, take_in: TakeIn, output: Folder, *, interval_s: float
) -> int:
    """Pass new lines to `take_in`, at most once per interval, until a signal arrives. Returns the
    signal's number. Raises whatever `take_in` raises."""
    failures: list[Exception] = []

    def kept(batch: DataFrame, number: int) -> None:
        try:
            take_in(batch, number)
        except Exception as error:
            failures.append(error)
            raise RuntimeError from None  # without the message, which Spark may choke on

    writer = lines.writeStream.foreachBatch(kept).trigger(processingTime=f"{interval_s} seconds")
    send_own_code(spark.sparkContext)
    with _quiet(), _signals() as signals:
        query = writer.option("checkpointLocation", (output / CHECKPOINT).path).start()
        try:
            # After a failure that Spark chokes on, it calls the stream active for ever.
            while query.isActive and not failures:
                with suppress(queue.Empty):
                    return signals.get(timeout=_LOOK_INTERVAL_S)
        finally:
            query.stop()
        failure = next(iter(failures), query.exception())
        assert failure is not None  # nothing else stops the stream
        raise failure


@contextmanager
def _signals() -> Iterator[queue.SimpleQueue[int]]:
    """The first Ctrl-C or SIGTERM; a second one has its usual effect. The caller checks between
    calls of Spark, because an interrupted call leaves its connection in the middle of an answer."""
    told = queue.SimpleQueue[int]()

    def note(number: int, _frame: object) -> None:
        told.put(number)
        restore()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield told
    finally:
        restore()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Py4J's log of exceptions in a batch, which are raised again here."""
    log = logging.getLogger("py4j.clientserver")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
