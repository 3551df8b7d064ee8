"""Reads lines from files, folders, patterns, and URLs that Spark supports."""

import re
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.growing_files import LINE_BYTES_MAX
from gateway.pipeline.parsing import LINE, PROBLEM, TEXT_MAX, parse

REJECTED_FILES_MAX = 1_000
"""The most files with rejected lines that are read again to number those lines."""

PASSED_OVER_BYTES = 48 << 20
"""A line of this length is skipped silently: two at once are too much for a heap of 1 GiB."""

_PATTERN = re.compile(r"[{}\[\]*?\\]")
"""Characters with a special meaning in Hadoop's paths."""


def read_lines(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    """`file`, `place` (null: see `places`) and `line` of every line, subfolders included.

    Raises PipelineError if there is no file.
    """
    text = _text(spark, inputs)
    if not text.inputFiles():
        raise PipelineError(f"no file in {', '.join(inputs)}")
    return text.select(
        F.col("_metadata.file_path").alias("file"),
        F.lit(None).cast("string").alias("place"),
        _line(),
    )


def places(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """The rejected lines of these files, parsed, with their line numbers as `place`. The files are
    read a second time, since only this needs line numbers."""
    lines = _text(spark, [_exactly(each) for each in files]).select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("id"),
        _line(),
    )
    # Within one block of a file the ids increase by one.
    blocks = lines.groupBy("file", "block").agg(
        F.min("id").alias("first"), F.count("*").alias("lines")
    )
    before = Window.partitionBy("file").orderBy("block")
    lines_before = F.sum("lines").over(before.rowsBetween(Window.unboundedPreceding, -1))
    starts = blocks.withColumn("start", F.coalesce(lines_before, F.lit(0)) - F.col("first") + 1)
    bad = parse(lines).where(F.col(PROBLEM).isNotNull())
    place = F.concat(F.lit("line "), F.col("start") + F.col("id"))
    placed = bad.join(starts.select("file", "block", "start"), ["file", "block"])
    return placed.withColumn("place", place).drop("block", "id", "start")


def _line() -> Column:
    """The line as valid UTF-8, which tables require; invalid bytes are replaced as in a stream. A
    line that is too long to pass between stages is cut."""
    is_long = F.octet_length("value") > LINE_BYTES_MAX
    cut = F.when(is_long, F.substring("value", 1, TEXT_MAX)).otherwise(F.col("value"))
    return F.make_valid_utf8(cut).alias(LINE)


def _exactly(file: str) -> str:
    """The path by which Spark finds exactly this file, whatever characters its name has."""
    return _PATTERN.sub(r"\\\g<0>", unquote(file))


def _text(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    try:
        read = spark.read.option("recursiveFileLookup", "true")
        read = read.option("ignoreMissingFiles", "true")  # gateways delete their oldest files
        read = read.option("mapreduce.input.linerecordreader.line.maxlength", PASSED_OVER_BYTES)
        return read.text(list(inputs), lineSep="\n")  # by default a stray \r ends a line too
    except AnalysisException as error:
        reason = (error.getMessage() or str(error)).partition("\n")[0]
        raise PipelineError(f"cannot read {', '.join(inputs)}: {reason}") from None
