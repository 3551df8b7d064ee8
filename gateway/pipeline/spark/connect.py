"""Opens a session on a server of Spark Connect, which has the JVM."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession

from gateway.pipeline import PipelineError

SCHEME = "sc://"
"""Begins the URL of a server."""


@contextmanager
def connected(app_name: str, url: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, which ends with the block. PySpark notes in the environment that it is remote.
    Raises PipelineError."""
    before = dict(os.environ)
    try:
        session = SparkSession.builder.remote(url).appName(app_name).getOrCreate()
        try:
            for name, value in settings.items():
                session.conf.set(name, value)
            yield session
        finally:
            session.stop()
    except PySparkImportError as error:
        raise PipelineError(f"Spark Connect needs the extra connect: {error}") from None
    finally:
        os.environ.clear()
        os.environ.update(before)
