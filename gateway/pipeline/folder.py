"""The output folder: files, which are replaced as a whole or not at all, and a lock.

A folder is on this machine. One with a URL is on one of Hadoop's file systems, which Spark's JVM
reaches.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.pipeline import PipelineError

if TYPE_CHECKING:
    from typing import Self

    from pyspark.sql import SparkSession


class Folder:
    """A folder of this machine. Deleting what does not exist does nothing."""

    def __init__(self, path: str) -> None:
        self.path = str(Path(path.removeprefix("file:")).absolute())

    def __truediv__(self, name: str) -> "Self":
        child = copy(self)  # finding a file system takes as long as reading a file
        child.path = f"{self.path}/{name}"
        return child

    def exists(self) -> bool:
        """Whether there is a file or folder with this path."""
        return Path(self.path).exists()

    def names(self) -> list[str]:
        """The names of its entries in order; none if it does not exist."""
        return sorted(entry.name for entry in Path(self.path).iterdir()) if self.exists() else []

    def delete(self) -> None:
        """Delete it and everything in it."""
        if Path(self.path).is_dir():
            shutil.rmtree(self.path)
        else:
            Path(self.path).unlink(missing_ok=True)

    def replace(self, other: "Self") -> None:
        """Move `other` to the place of this folder."""
        self.delete()
        self._move(other.path)

    def read_bytes(self, name: str) -> bytes | None:
        """The contents of a file; None if there is none."""
        file = self / name
        return file._read() if file.exists() else None

    def add_file(self, name: str, data: bytes) -> None:
        """Write a new file that has no readers yet."""
        (self / name)._write(data)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write one file, as a whole or not at all."""
        new = self / f".{name}.new"  # readers of tables ignore such names
        new._write(data)
        (self / name)._move(new.path)

    def _move(self, path: str) -> None:
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).replace(self.path)

    def _read(self) -> bytes:
        return Path(self.path).read_bytes()

    def _write(self, data: bytes) -> None:
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        Path(self.path).write_bytes(data)


class HadoopFolder(Folder):
    """A folder with a URL, on a file system that Spark's JVM has for it."""

    def __init__(self, path: str, spark: "SparkSession") -> None:
        jvm: Any = spark.sparkContext._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self.path = path.rstrip("/")
        configured = spark.sparkContext._jsc.hadoopConfiguration()
        self._files = self._here().getFileSystem(configured)

    def _here(self) -> Any:
        return self._path_of(self.path)

    def exists(self) -> bool:
        return bool(self._files.exists(self._here()))

    def names(self) -> list[str]:
        entries = self._files.listStatus(self._here()) if self.exists() else ()
        return sorted(entry.getPath().getName() for entry in entries)

    def delete(self) -> None:
        self._files.delete(self._here(), True)

    def _move(self, path: str) -> None:
        self.delete()  # a rename replaces no file
        self._files.mkdirs(self._here().getParent())
        if not self._files.rename(self._path_of(path), self._here()):
            raise OSError(f"{path} cannot be renamed to {self.path}")

    def _read(self) -> bytes:
        stream = self._files.open(self._here())
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def _write(self, data: bytes) -> None:
        stream = self._files.create(self._here(), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()


def open_folder(path: str, spark: "SparkSession | None" = None) -> Folder:
    """The folder with a path or URL. `spark`: the session that reaches URLs. Raises
    PipelineError."""
    if is_local_path(path):
        return Folder(path)
    if spark is None:
        raise PipelineError(
            f"{path}: only a report on Spark with a JVM of its own writes there; choose a folder"
            " of this machine"
        )
    return HadoopFolder(path, spark)


def is_local_path(path: str) -> bool:
    """Whether a path is on this machine."""
    return "://" not in path or path.startswith("file:")


LOCK = "lock"
DATABASE = "followed.db"
"""What `--follow` keeps."""


@contextmanager
def lock(output: Folder, *, follows: bool) -> Iterator[None]:
    """Hold the folder, which `--follow` or single reports have. Only a local folder is locked.

    Raises PipelineError if another run has the folder, or if it belongs to the other kind of run.
    """
    if not is_local_path(output.path):
        yield
        return
    Path(output.path).mkdir(parents=True, exist_ok=True)
    with Path(output.path, LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another groupferry report writes to {output.path}: wait for its end"
            raise PipelineError(message) from None
        names = set(output.names()) - {LOCK}
        is_followed = DATABASE in names
        if is_followed and not follows:
            raise PipelineError(f"{output.path} belongs to report --follow: choose another folder")
        if follows and names and not is_followed:
            raise PipelineError(
                f"{output.path} is not empty and has no progress to continue from:"
                " choose another folder, or delete it"
            )
        yield
