"""Compares what a stream has made with one batch of the same lines."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.pipeline.report.summary import Summary
from gateway.pipeline.tables import FOLDED_TABLES
from tests.support.stored_tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def offsets_of(output: Path) -> Mapping[str, int]:
    """How far the sources have been read, while another process follows them."""
    from gateway.pipeline.folder import DATABASE

    with suppress(sqlite3.OperationalError):  # not there yet
        database = sqlite3.connect(f"file:{output / DATABASE}?mode=ro", uri=True)
        for (progress,) in database.execute("select json from progress"):
            offsets: Mapping[str, int] = json.loads(progress)[0]
            return offsets
    return {}


def differences(spark: SparkSession, output: Path, events: Path, at_once: Path) -> list[str]:
    """The names of the tables that differ from those of one batch, which is made in an empty
    folder, and the summary if it differs."""
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.following import Following
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines

    summary = Following(Folder(f"{output}"), top=1).summary()
    lines, batch = read_lines(spark, [str(events)]), Folder(str(at_once))
    expected = make_on_spark(spark, lines, batch, top=summary.top)
    names = [
        name
        for name in FOLDED_TABLES
        if rows(table(spark, output, name)) != rows(table(spark, at_once, name))
    ]
    return names if figures(summary) == figures(expected) else [*names, "summary"]


def rows(stored: DataFrame) -> Counter[Any]:
    """The number of equal rows. A batch names the places of lines differently."""
    names = sorted(set(stored.columns) - {"file", "place", "bucket", "cluster", "day"})
    return Counter(map(repr, stored.select(*names).collect()))


def figures(summary: Summary) -> Summary:
    """Everything but the evidence, whose places a batch names differently."""
    return replace(summary, unread={}, findings={}, doubts={})
