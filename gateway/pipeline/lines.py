"""Reads lines from files, folders, patterns, and URLs that Spark supports."""

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.growing_files import LINE_BYTES_MAX
from gateway.pipeline.parsing import TEXT_MAX

PASSED_OVER_BYTES = 48 << 20
"""A line of this length is skipped silently: two at once are too much for a heap of 1 GiB."""


def read_lines(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    """`file`, `place` (null), `block` and `line` of every line, subfolders included. Spark reads a
    file in blocks; `block` is the byte at which the line's block begins.

    Raises PipelineError if there is no file.
    """
    text = _text(spark, inputs)
    if not text.inputFiles():
        raise PipelineError(f"no file in {', '.join(inputs)}")
    return text.select(
        F.col("_metadata.file_path").alias("file"),
        F.lit(None).cast("string").alias("place"),
        F.col("_metadata.file_block_start").alias("block"),
        _line(),
    )


def _line() -> Column:
    """The line as valid UTF-8, which tables require; invalid bytes are replaced as in a stream. A
    line that is too long to pass between stages is cut."""
    is_long = F.octet_length("value") > LINE_BYTES_MAX
    cut = F.when(is_long, F.substring("value", 1, TEXT_MAX)).otherwise(F.col("value"))
    return F.make_valid_utf8(cut).alias("line")


def _text(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    try:
        read = spark.read.option("recursiveFileLookup", "true")
        read = read.option("ignoreMissingFiles", "true")  # gateways delete their oldest files
        read = read.option("mapreduce.input.linerecordreader.line.maxlength", PASSED_OVER_BYTES)
        return read.text(list(inputs), lineSep="\n")  # by default a stray \r ends a line too
    except AnalysisException as error:
        reason = (error.getMessage() or str(error)).partition("\n")[0]
        raise PipelineError(f"cannot read {', '.join(inputs)}: {reason}") from None
