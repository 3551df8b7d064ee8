"""Reads the tables of an output folder with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def table(spark: SparkSession, output: Path | str, name: str) -> DataFrame:
    return spark.read.parquet(f"{output}/tables/{name}")
