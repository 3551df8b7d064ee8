"""Stored events: each batch once, in few parts, after any interruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.event_lines import event_line

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from gateway.pipeline.spark.output import Store


def lines(spark: SparkSession, batch: int) -> DataFrame:
    """One event of the batch's number plus one."""
    from gateway.pipeline.spark.packing import parse_lines  # needs PySpark

    row = ("f", "byte 0", None, event_line(batch + 1))
    schema = "file string, place string, block long, line string"
    return parse_lines(spark.createDataFrame([row], schema).coalesce(1))


def new_store(spark: SparkSession, folder: Path) -> Store:
    from gateway.pipeline.spark.output import (
        Folder,  # needs PySpark
        Store,
    )
    from gateway.pipeline.spark.packing import BUCKET, PARSED

    return Store(Folder(spark, str(folder)), PARSED, BUCKET)


def stored(store: Store) -> list[int]:
    from gateway.pipeline.fold.lines import parse

    found = (parse(row.line)[0] for row in store.rows().collect())
    return sorted(line.sequence for line in found if line is not None)


def test_a_batch_is_stored_once_and_in_order(spark: SparkSession, tmp_path: Path) -> None:
    """It is repeated after a kill. A batch out of order belongs to another checkpoint."""
    from gateway.pipeline import PipelineError

    store = new_store(spark, tmp_path)
    store.append(lines(spark, 0), 0)
    store.append(lines(spark, 1), 1)
    store.append(lines(spark, 1), 1)
    assert stored(store) == [1, 2]
    for batch in (0, 3):
        with pytest.raises(PipelineError, match="do not belong together"):
            store.append(lines(spark, batch), batch)


def test_parts_are_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First parts of one length are merged, then their results. Leftovers of an interrupted merge
    are not read twice. The part of the present batch stays, because the batch may be repeated."""
    from gateway.pipeline.spark import output as module

    monkeypatch.setattr(module, "PARTS_MERGED", 2)
    store = new_store(spark, tmp_path)
    for batch in range(5):
        store.append(lines(spark, batch), batch)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["batches=0-3", "batches=4-4"]
    assert stored(store) == [1, 2, 3, 4, 5]
    of_group = "group_id is not null"
    assert store.rows(range(4, 5)).where(of_group).count() == 1
    assert store.rows(range(4)).where(of_group).count() == 4
    (tmp_path / "batches=4-4").rename(tmp_path / "batches=2-3")
    assert stored(store) == [1, 2, 3, 4]


def test_a_rewrite_replaces_all_stored_batches(spark: SparkSession, tmp_path: Path) -> None:
    """As a whole, together with the present batch; a repetition changes nothing."""
    store = new_store(spark, tmp_path)
    for batch in range(3):
        store.append(lines(spark, batch), batch)
    for _ in range(2):
        store.rewrite(store.rows(range(1, 3)), 2)
        assert [each.name for each in tmp_path.glob("batches*")] == ["batches=0-2"]
        assert stored(store) == [2, 3]
    store.append(lines(spark, 3), 3)
    assert stored(store) == [2, 3, 4]
