"""Reads lines in Spark: from files, folders, patterns and URLs that it supports, and from a
topic."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.utils import is_remote

from gateway.cluster.access import PLAIN_ACCESS
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.lines import LINE_BYTES_MAX, TEXT_MAX
from gateway.pipeline.sources import Sources
from gateway.pipeline.spark.packing import map_in_arrow, message_of, schema_of
from gateway.pipeline.topic import EventsTopic, Span, read_span

PASSED_OVER_BYTES = 48 << 20
"""A line of this length is skipped silently: two at a time are too much for a heap of 1 GiB."""
SPAN_RECORDS_MAX = 100_000
"""Records of a topic that one task reads."""
_ROWS_MAX = 1_024
"""Rows in one message to Spark."""


def lines_of(spark: SparkSession, sources: Sources) -> DataFrame:
    """`file`, `place`, `block` and `line` of everything available now. Raises PipelineError."""
    files = [read_lines(spark, sources.inputs)] if sources.inputs else []
    records = [topic_lines(spark, sources.topic)] if sources.topic else []
    return reduce(DataFrame.union, [*files, *records])


def read_lines(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    """`file`, `place` (null), `block` and `line` of every line, subfolders included. Spark reads a
    file in blocks; `block` is the byte at which the line's block begins.

    Raises PipelineError if there is no file.
    """
    text = _text(spark, inputs)
    if not text.inputFiles():
        raise PipelineError(f"no file in {', '.join(inputs)}: give the folder events of a gateway")
    return text.select(
        F.col("_metadata.file_path").alias("file"),
        F.lit(None).cast("string").alias("place"),
        F.col("_metadata.file_block_start").alias("block"),
        _line(),
    )


def _line() -> Column:
    """The bytes of the line. One that is too long to pass between stages is cut."""
    is_long = F.octet_length("value") > LINE_BYTES_MAX
    cut = F.when(is_long, F.substring("value", 1, TEXT_MAX))
    return cut.otherwise(F.col("value")).alias("line")


def _text(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    try:
        read = spark.read.option("recursiveFileLookup", "true")
        read = read.option("ignoreMissingFiles", "true")  # gateways delete their oldest files
        read = read.option("mapreduce.input.linerecordreader.line.maxlength", PASSED_OVER_BYTES)
        paths = list(map(_absolute, inputs)) if is_remote() else list(inputs)
        return read.text(paths, lineSep="\n")  # by default a stray \r ends a line too
    except AnalysisException as error:
        reason = (error.getMessage() or str(error)).partition("\n")[0]
        raise PipelineError(
            f"cannot read {', '.join(inputs)}, look at the path: {reason}"
        ) from None


def _absolute(path: str) -> str:
    """A path as another process on this machine reads it."""
    return path if "://" in path else str(Path(path).absolute())


_SPANS = "name string, partition long, begin long, end long"
_LINES = schema_of(file="string", place="string", block="long", line="string")


def topic_lines(spark: SparkSession, topic: EventsTopic) -> DataFrame:
    """`file`, `place`, `block` (null) and `line` of all current records. Raises PipelineError."""
    if topic.access.credentials and (
        is_remote() or not str(spark.sparkContext.master).startswith("local")
    ):
        raise PipelineError(
            f"{topic} needs SASL: read it in local mode, so that no secret leaves this machine"
        )
    spans = [
        Span(name, number, first, min(first + SPAN_RECORDS_MAX, end))
        for name, number, begin, end in topic.spans()
        for first in range(begin, end, SPAN_RECORDS_MAX)
    ]
    rows = spark.createDataFrame(spans, _SPANS).repartition(max(1, len(spans)))
    public = replace(topic, access=PLAIN_ACCESS)  # the configuration has what a client needs
    read = partial(_read_spans, topic=public, config=topic.config())
    return map_in_arrow(rows, read, _LINES)


def _read_spans(
    batches: Iterable[pa.RecordBatch], topic: EventsTopic, config: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(_LINES)
    for batch in batches:
        for row in batch.to_pylist():
            records = read_span(topic, config, Span(**row))
            while rows := [(file, at, None, text) for file, at, text in islice(records, _ROWS_MAX)]:
                yield message_of(rows, schema)
