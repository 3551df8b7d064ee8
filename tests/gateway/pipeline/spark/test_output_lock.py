"""One run at a time uses an output folder, and a stream's folder is not a batch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession


def hold(spark: SparkSession, output: Path, *, follows: bool) -> AbstractContextManager[None]:
    from gateway.pipeline.spark.output import (
        Folder,
        lock,  # needs PySpark
    )

    return lock(Folder(spark, str(output)), follows=follows)


def refusal(spark: SparkSession, output: Path, *, follows: bool) -> str:
    from gateway.pipeline import PipelineError

    with pytest.raises(PipelineError) as refused, hold(spark, output, follows=follows):
        pass
    return str(refused.value)


def test_a_second_run_is_refused_unless_the_first_ends_soon(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM survives its killed process for a while."""
    from gateway.pipeline.spark import output as module

    monkeypatch.setattr(module, "_KILLED_S_MAX", 0.5)
    with hold(spark, tmp_path / "out", follows=True):
        assert "another groupferry report" in refusal(spark, tmp_path / "out", follows=True)
    with hold(spark, tmp_path / "out", follows=True):
        pass


def test_a_folder_belongs_to_a_batch_or_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A batch would delete what a stream has read, and a stream cannot continue a batch."""
    with hold(spark, tmp_path / "stream", follows=True):
        pass
    assert "belongs to report --follow" in refusal(spark, tmp_path / "stream", follows=False)
    with hold(spark, tmp_path / "batch", follows=False):
        (tmp_path / "batch" / "tables").mkdir()
    assert "no checkpoint to continue from" in refusal(spark, tmp_path / "batch", follows=True)
    with hold(spark, tmp_path / "batch", follows=False):
        pass
