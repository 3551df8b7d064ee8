"""Whose an output folder is: one run at a time has it, and what a stream keeps is not a batch's.

The lock is the JVM's, which does the writing: it lives on for a moment when this process is killed.
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
"""In the output of a stream: how far it is."""
LOCK = "lock"

_KILLED_S_MAX = 20
"""How long the JVM of a killed process may need to end."""
_LOOK_INTERVAL_S = 0.25


@contextmanager
def claimed(spark: SparkSession, output: Folder, *, follows: bool) -> Iterator[None]:
    """Have the folder, for a stream or for a batch. Raises PipelineError.

    Only a local folder can be locked.
    """
    with _locked(spark, output):
        checkpoint = output / CHECKPOINT
        if checkpoint.exists() and not follows:
            raise PipelineError(f"{output.path} is kept by report --follow: choose another folder")
        if follows and not checkpoint.exists():
            if set(output.names()) - {LOCK}:
                raise PipelineError(
                    f"{output.path} is not empty, and has no checkpoint to go on from:"
                    " choose another folder, or delete it"
                )
            checkpoint.make()
        yield


@contextmanager
def _locked(spark: SparkSession, output: Folder) -> Iterator[None]:
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
    except Py4JJavaError as error:  # this very JVM has it
        if "OverlappingFileLockException" in error.java_exception.toString():
            return False
        raise
