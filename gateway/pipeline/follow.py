"""`groupferry report --follow`: lines as they come, until somebody ends it.

Owns the stream and its end. What a batch has and how far the stream is, is in the checkpoint before
the batch begins, and that it is done after its end: killed in between, it is taken in again.
"""

import json
import logging
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession

from gateway.pipeline.claim import CHECKPOINT
from gateway.pipeline.errors import PipelineError
from gateway.pipeline.folders import Folder
from gateway.pipeline.growing_files import BATCH_BYTES_MAX, GrowingFiles
from gateway.pipeline.own_code import send_own_code

_LOOK_INTERVAL_S = 0.25

TakeIn = Callable[[DataFrame, int], None]
"""Lines (`file`, `place`, `line`), and the number of their batch."""


def growing_lines(
    spark: SparkSession, inputs: Sequence[str], batch_bytes_max: int = BATCH_BYTES_MAX
) -> DataFrame:
    """The stream of the lines of local files, folders and patterns. Raises PipelineError."""
    for each in inputs:
        if "://" in each:
            raise PipelineError(f"--follow reads folders of this machine only, and not {each}")
    spark.dataSource.register(GrowingFiles)
    stream = spark.readStream.format(GrowingFiles.name()).option("inputs", json.dumps(inputs))
    return stream.option("batch_bytes_max", batch_bytes_max).load()


def follow(
    spark: SparkSession, lines: DataFrame, take_in: TakeIn, output: Folder, *, interval_s: float
) -> int:
    """Give what comes to `take_in`, at most once in an interval, until there is a signal to end;
    which one. Raises what is raised there."""
    failures: list[Exception] = []

    def kept(batch: DataFrame, number: int) -> None:
        try:
            take_in(batch, number)
        except Exception as error:
            failures.append(error)
            raise RuntimeError from None  # without the text, which Spark may choke on

    writer = lines.writeStream.foreachBatch(kept).trigger(processingTime=f"{interval_s} seconds")
    send_own_code(spark.sparkContext)
    with _quiet(), _signals() as signals:
        query = writer.option("checkpointLocation", (output / CHECKPOINT).path).start()
        try:
            # Where Spark chokes on a failure, it calls the stream active for ever.
            while query.isActive and not failures:
                with suppress(queue.Empty):
                    return signals.get(timeout=_LOOK_INTERVAL_S)
        finally:
            query.stop()
        failure = next(iter(failures), query.exception())
        assert failure is not None  # nobody else stops it
        raise failure


@contextmanager
def _signals() -> Iterator[queue.SimpleQueue[int]]:
    """Ctrl-C or SIGTERM, the first of them; the second is as without us. To be looked at between
    calls of Spark: one that is interrupted leaves its connection in the middle of an answer."""
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
    """Py4J logs what is raised in a batch, and we raise it again."""
    log = logging.getLogger("py4j.clientserver")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
