"""Locks an output folder: one run at a time uses it, and a batch run does not use a stream's
folder.

The JVM holds the lock, because it does the writing, and outlives a killed Python process briefly.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.folders import Folder

CHECKPOINT = "checkpoint"
"""A stream's progress, in its output folder."""
LOCK = "lock"

_KILLED_S_MAX = 20
"""How long the JVM of a killed process may take to end."""
_LOOK_INTERVAL_S = 0.25


@contextmanager
def locked(spark: SparkSession, output: Folder, *, follows: bool) -> Iterator[None]:
    """Hold the folder for a stream or for a batch run. Only a local folder is locked.

    Raises PipelineError if another run has the folder, or if it belongs to the other kind of run.
    """
    with _holding(spark, output):
        checkpoint = output / CHECKPOINT
        if checkpoint.exists() and not follows:
            raise PipelineError(f"{output.path} belongs to report --follow: choose another folder")
        if follows and not checkpoint.exists():
            if set(output.names()) - {LOCK}:
                raise PipelineError(
                    f"{output.path} is not empty and has no checkpoint to continue from:"
                    " choose another folder, or delete it"
                )
            checkpoint.make()
        yield


@contextmanager
def _holding(spark: SparkSession, output: Folder) -> Iterator[None]:
    output.make()
    path = (output / LOCK).local_path()
    if path is None:
        yield
        return
    jvm: Any = spark.sparkContext._jvm
    file = jvm.java.io.RandomAccessFile(path, "rw")
    try:
        until_s = time.monotonic() + _KILLED_S_MAX
        while not _try_lock(file):
            if time.monotonic() > until_s:
                raise PipelineError(f"another groupferry report writes to {output.path}")
            time.sleep(_LOOK_INTERVAL_S)
        yield
    finally:
        file.close()


def _try_lock(file: Any) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:  # this JVM holds the lock already
        if "OverlappingFileLockException" in error.java_exception.toString():
            return False
        raise
