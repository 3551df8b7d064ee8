"""Files of the output folder: on Hadoop's file systems through Spark's JVM or, over Spark Connect,
which has no JVM here, on this machine.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from gateway.pipeline import PipelineError


class Files(Protocol):
    """One file system. A missing file or folder has no names, and deleting it does nothing."""

    def make(self, path: str) -> None:
        """Create a folder and its parents unless it exists."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""

    def names(self, path: str) -> list[str]:
        """The names in a folder, in order."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder and everything in it."""

    def move(self, path: str, to: str) -> None:
        """Give a file or folder another path, which is free."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""

    def lock(self, path: str) -> AbstractContextManager["Take"]:
        """A lock on a file, until the end of the block or of the process. A file on another machine
        can always be taken."""


Take: TypeAlias = Callable[[], bool]
"""Takes a lock, unless another process has it. Returns whether this process has it now."""


def files_of(spark: SparkSession | None, path: str) -> tuple[Files, str]:
    """The file system of a path, and the path in it. Without a session it is that of this machine.
    Raises PipelineError."""
    if spark is not None and not is_remote():
        return HadoopFiles(spark, path), path
    if "://" in path:
        raise PipelineError(
            f"over Spark Connect the output must be a folder that this machine and the server"
            f" share, not {path}"
        )
    return LocalFiles(), str(Path(path.removeprefix("file:")).absolute())


class HadoopFiles:
    """The one that Spark's JVM has for a path."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._java = jvm.java
        self._path_of = jvm.org.apache.hadoop.fs.Path
        configured = spark.sparkContext._jsc.hadoopConfiguration()
        self._files = self._path_of(path).getFileSystem(configured)

    def make(self, path: str) -> None:
        if not self._files.mkdirs(self._path_of(path)):
            raise OSError(f"{path} cannot be created")

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path_of(path)))

    def names(self, path: str) -> list[str]:
        if not self.exists(path):
            return []
        return sorted(
            file.getPath().getName() for file in self._files.listStatus(self._path_of(path))
        )

    def delete(self, path: str) -> None:
        self._files.delete(self._path_of(path), True)

    def move(self, path: str, to: str) -> None:
        target = self._path_of(to)
        self._files.mkdirs(target.getParent())
        if not self._files.rename(self._path_of(path), target):
            raise OSError(f"{path} cannot be renamed to {to}")

    def write(self, path: str, data: bytes) -> None:
        stream = self._files.create(self._path_of(path), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    @contextmanager
    def lock(self, path: str) -> Iterator[Take]:
        """The JVM holds the lock, because it does the writing, and outlives a killed Python process
        briefly."""
        uri = self._files.makeQualified(self._path_of(path)).toUri()
        if uri.getScheme() != "file":
            yield lambda: True
            return
        file = self._java.io.RandomAccessFile(str(uri.getPath()), "rw")
        try:
            yield partial(_take_in_jvm, file)
        finally:
            file.close()


def _take_in_jvm(file: Any) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:  # this JVM holds the lock already
        if "OverlappingFileLockException" in error.java_exception.toString():
            return False
        raise


class LocalFiles:
    """That of this machine."""

    def make(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def names(self, path: str) -> list[str]:
        return sorted(entry.name for entry in Path(path).iterdir()) if self.exists(path) else []

    def delete(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def move(self, path: str, to: str) -> None:
        self.make(str(Path(to).parent))
        Path(path).rename(to)

    def write(self, path: str, data: bytes) -> None:
        Path(path).write_bytes(data)

    @contextmanager
    def lock(self, path: str) -> Iterator[Take]:
        with Path(path).open("ab") as file:
            yield partial(_take, file.fileno())


def _take(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
