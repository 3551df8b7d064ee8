"""groupferry's own code on executors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_executors_use_the_shipped_code(spark: SparkSession) -> None:
    """The shipped code precedes an installed version. This process keeps its own."""
    from gateway.pipeline.spark.session import send_own_code

    def place(_zero: int) -> str:
        import kafka_codecs  # the entry that the working folder never adds

        return str(kafka_codecs.__path__[0])

    searched = list(sys.path)
    send_own_code(spark.sparkContext)
    paths = spark.sparkContext.parallelize([0], 1).map(place).collect()
    assert sys.path == searched
    assert paths[0].endswith("groupferry.zip/kafka_codecs")


def test_all_three_packages_are_shipped(tmp_path: Path) -> None:
    """Each has its own name."""
    from gateway.pipeline.spark.session import pack

    pack(tmp_path / "all.zip")
    wanted = {"coordinator/engine.py", "gateway/commands/release.py", "kafka_codecs/codec.py"}
    assert wanted <= set(ZipFile(tmp_path / "all.zip").namelist())
