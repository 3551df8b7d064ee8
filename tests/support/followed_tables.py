"""Compares what a stream has made with one batch of the same lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.pipeline.report.digest import Digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gateway.pipeline.spark.analysis import Analysis


def differences(spark: SparkSession, stream: Analysis, events: Path, at_once: Path) -> list[str]:
    """The names of the tables that differ from those of one batch, which is made in an empty
    folder, and the digest if it differs."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines
    from gateway.pipeline.spark.output import Folder

    digest = stream.digest()
    batch = Analysis(spark, Folder(spark, str(at_once)), top=digest.top)
    expected = batch.make(read_lines(spark, [str(events)]))
    of_stream, of_batch = stream.tables(), batch.tables()
    assert of_stream.keys() == of_batch.keys()
    found = [name for name in of_batch if rows(of_stream[name]) != rows(of_batch[name])]
    return found if figures(digest) == figures(expected) else [*found, "digest"]


def rows(table: DataFrame) -> Counter[Any]:
    """The number of equal rows. A batch names the places of lines differently."""
    names = sorted(set(table.columns) - {"file", "place", "day", "bucket"})
    return Counter(map(repr, table.select(*names).collect()))


def figures(digest: Digest) -> Any:
    """Everything but the evidence, whose places a batch names differently."""
    return {
        **digest.model_dump(exclude={"findings", "versions"}),
        "versions": sorted(digest.versions, key=repr),
    }
