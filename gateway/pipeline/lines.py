"""Lines of files: in folders, by a pattern, or behind a URL that Spark can read.

Owns where a line is. Must not know what a line says.
"""

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
"""Files whose lines are counted, to say which of them were rejected."""

PASSED_OVER_BYTES = 48 << 20
"""A line of so many is not even rejected: two at once are too much for a heap of 1 GiB."""

_PATTERN = re.compile(r"[{}\[\]*?\\]")
"""What means something else in a path of Hadoop's."""


def read_lines(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    """`file`, `place` (null: see `places`) and `line` of every line, from folders also below them.

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
    """`file`, `place`, and what `parse` says, of what is no event in these files: they are read
    once more, because only this needs to count lines."""
    lines = _text(spark, [_exactly(each) for each in files]).select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("id"),
        _line(),
    )
    # Within one block of a file the ids grow by one.
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
    """Without what is too long to go from one stage to the next; always text, as tables must have
    it, with the same in place of what is none as a stream puts there."""
    is_long = F.octet_length("value") > LINE_BYTES_MAX
    cut = F.when(is_long, F.substring("value", 1, TEXT_MAX)).otherwise(F.col("value"))
    return F.make_valid_utf8(cut).alias(LINE)


def _exactly(file: str) -> str:
    """The path by which Spark finds just this file, whatever characters its name has."""
    return _PATTERN.sub(r"\\\g<0>", unquote(file))


def _text(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    try:
        read = spark.read.option("recursiveFileLookup", "true")
        read = read.option("ignoreMissingFiles", "true")  # a gateway deletes its oldest ones
        read = read.option("mapreduce.input.linerecordreader.line.maxlength", PASSED_OVER_BYTES)
        return read.text(list(inputs), lineSep="\n")  # or a stray \r would end a line too
    except AnalysisException as error:
        reason = (error.getMessage() or str(error)).partition("\n")[0]
        raise PipelineError(f"cannot read {', '.join(inputs)}: {reason}") from None
