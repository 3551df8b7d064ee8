"""Compares what a stream has made with one batch of the same lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.pipeline.report.digest import Digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gateway.pipeline.spark.analysis import Analysis


def differences(
    spark: SparkSession, stream: Analysis, events: Path, at_once: Path, from_ms: int = 0
) -> list[str]:
    """The names of the tables that differ from those of one batch, which is made in an empty
    folder, and the digest if it differs. Earlier rows than `from_ms` may have been deleted."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines
    from gateway.pipeline.spark.output import Folder

    digest = stream.digest()
    batch = Analysis(spark, Folder(spark, str(at_once)), top=digest.top)
    expected = batch.make(read_lines(spark, [str(events)]))
    of_stream, of_batch = stream.tables(), batch.tables()
    assert of_stream.keys() == of_batch.keys()
    found = [
        name
        for name in of_batch
        if _rows_from(of_stream[name], from_ms) != _rows_from(of_batch[name], from_ms)
    ]
    return found if figures(digest) == figures(expected) else [*found, "digest"]


def _rows_from(table: DataFrame, from_ms: int) -> Counter[Any]:
    time = next((name for name in ("from_ms", "at_ms") if name in table.columns), None)
    return rows(table.where(f"{time} is null or {time} >= {from_ms}") if time else table)


def rows(table: DataFrame) -> Counter[Any]:
    """The number of equal rows. A batch names the places of lines differently."""
    names = sorted(set(table.columns) - {"file", "place", "bucket"})
    return Counter(map(repr, table.select(*names).collect()))


def figures(digest: Digest) -> Any:
    """Everything but the evidence, whose places a batch names differently. Sums of fractions depend
    on their order."""
    return _rounded(_figures(digest))


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 3)
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
        case _:
            return value


def _figures(digest: Digest) -> Any:
    return {
        **digest.model_dump(exclude={"findings", "versions"}),
        "versions": sorted(digest.versions, key=repr),
        "findings": {name: found.count for name, found in digest.findings},
    }
