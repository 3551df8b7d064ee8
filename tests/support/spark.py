"""The Spark session that all tests of a process share: small, and on this machine.

Only functions import PySpark, so that other tests run without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.pipeline import PipelineError, installed
from tests.support.installs import install_once
from tests.support.kafka_jars import copy_jars, require_java
from tests.support.requirements import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TESTS = Path(__file__).parents[1]
_SOURCE = Path(__file__).parent / "application_jars" / "spark_source.xml"
SPARK_PATHS = {
    _TESTS / "gateway/pipeline/spark",
    _TESTS / "simulation/spark",
    _TESTS / "gateway/pipeline/report/test_page.py",
}
"""The folders and modules that need the extra `pipeline`: PySpark, or the library of the page."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Compiling a plan takes far longer than the few rows of a test.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""More than one partition, so that errors of order show. Few, because inputs are tiny."""


@cache
def why_no_spark() -> str:
    """The reason why Spark cannot run here; empty if it can."""
    try:
        installed.require()
        installed.find_java()
    except PipelineError as error:
        return str(error)
    return ""


def need_spark() -> None:
    """Skip the test, or fail it in CI, if Spark cannot run here."""
    if reason := why_no_spark():
        missing(reason, extra="pipeline")


@contextmanager
def running_spark() -> Iterator[SparkSession]:
    """A session in local mode within the block."""
    from gateway.pipeline.spark.session import open_session  # needs PySpark

    with open_session("tests", master="local[2]", settings=SETTINGS) as session:
        yield session


def kafka_source() -> list[Path]:
    """The jars of Spark's Kafka source, fetched if this machine does not have them yet."""
    require_java()
    folder = install_once(
        "spark-kafka-source", _SOURCE.read_bytes(), partial(copy_jars, _SOURCE, [])
    )
    return sorted(folder.glob("*.jar"))
