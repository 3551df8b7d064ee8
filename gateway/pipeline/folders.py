"""Folders of Parquet and files of text wherever Spark can write: put in place as a whole, or not at
all.

Owns paths and renames, by Hadoop's file systems, so that a folder may be a URL. Must not know what
is in the files.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


class Folder:
    """One folder, local or not."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self._spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._path = self._path_of(self.path)
        self._files = self._path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def __truediv__(self, name: str) -> "Folder":
        return Folder(self._spark, f"{self.path}/{name}")

    def local_path(self) -> str | None:
        """On this machine; None if it is elsewhere."""
        uri = self._files.makeQualified(self._path).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def make(self) -> None:
        """With all folders above it; nothing happens if it is there."""
        if not self._files.mkdirs(self._path):
            raise OSError(f"{self.path} cannot be made")

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def names(self) -> list[str]:
        """Of what is in it; nothing if it does not exist."""
        if not self.exists():
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._path))

    def delete(self) -> None:
        """With all that is in it; nothing happens if it does not exist."""
        self._files.delete(self._path, True)

    def replace(self, other: "Folder") -> None:
        """Become `other`, which is no more then."""
        self.delete()
        self._files.mkdirs(self._path.getParent())
        if not self._files.rename(other._path, self._path):
            raise OSError(f"{other.path} cannot be renamed to {self.path}")

    def write(self, rows: DataFrame, *partitions: str) -> None:
        """Only these rows are in it afterwards."""
        rows.write.mode("overwrite").partitionBy(*partitions).parquet(self.path)

    def write_text(self, name: str, text: str) -> None:
        """One file in it, in UTF-8; never half of it."""
        new, file = (self._path_of(self._path, each) for each in (f"{name}.new", name))
        stream = self._files.create(new, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.delete(file, False)
        if not self._files.rename(new, file):
            raise OSError(f"{self.path}/{name} cannot be written")
