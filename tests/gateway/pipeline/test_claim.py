"""One run at a time has an output folder, and a stream's is not a batch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession


def claim(spark: SparkSession, output: Path, *, follows: bool) -> AbstractContextManager[None]:
    from gateway.pipeline.claim import claimed  # needs PySpark
    from gateway.pipeline.folders import Folder

    return claimed(spark, Folder(spark, str(output)), follows=follows)


def refusal(spark: SparkSession, output: Path, *, follows: bool) -> str:
    from gateway.pipeline.errors import PipelineError

    with pytest.raises(PipelineError) as refused, claim(spark, output, follows=follows):
        pass
    return str(refused.value)


def test_two_at_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused, unless the first one ends soon: a JVM outlives its killed process."""
    from gateway.pipeline import claim as module

    monkeypatch.setattr(module, "_KILLED_S_MAX", 0.5)
    with claim(spark, tmp_path / "out", follows=True):
        assert "another groupferry report" in refusal(spark, tmp_path / "out", follows=True)
    with claim(spark, tmp_path / "out", follows=True):
        pass


def test_whose_it_is_stays(spark: SparkSession, tmp_path: Path) -> None:
    """A batch would throw away what a stream has read; a stream cannot go on from a batch."""
    with claim(spark, tmp_path / "stream", follows=True):
        pass
    assert "belongs to report --follow" in refusal(spark, tmp_path / "stream", follows=False)
    with claim(spark, tmp_path / "batch", follows=False):
        (tmp_path / "batch" / "tables").mkdir()
    assert "no checkpoint to continue from" in refusal(spark, tmp_path / "batch", follows=True)
    with claim(spark, tmp_path / "batch", follows=False):
        pass
