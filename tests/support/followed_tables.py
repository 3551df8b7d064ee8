"""Compares what a stream has made with one batch of the same lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.pipeline.fold.rows import ALL_ROWS
from gateway.pipeline.report.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gateway.pipeline.spark.analysis import Analysis


def differences(spark: SparkSession, stream: Analysis, events: Path, at_once: Path) -> list[str]:
    """The names of the tables that differ from those of one batch, which is made in an empty
    folder, and the summary if it differs."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines
    from gateway.pipeline.spark.output import Folder

    summary = stream.summary()
    batch = Analysis(spark, Folder(spark, str(at_once)), top=summary.top)
    expected = batch.make(read_lines(spark, [str(events)]))
    names = [
        name
        for name in ALL_ROWS
        if name != "runs" and rows(stream.table(name)) != rows(batch.table(name))
    ]
    return names if figures(summary) == figures(expected) else [*names, "summary"]


def rows(table: DataFrame) -> Counter[Any]:
    """The number of equal rows. A batch names the places of lines differently."""
    names = sorted(set(table.columns) - {"file", "place", "bucket", "cluster", "day"})
    return Counter(map(repr, table.select(*names).collect()))


def figures(summary: Summary) -> Summary:
    """Everything but the evidence, whose places a batch names differently."""
    return replace(summary, unread={}, findings={}, doubts={})
