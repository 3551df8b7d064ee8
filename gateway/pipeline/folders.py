"""Folders of Parquet and text files, on any file system that Spark can write to.

Uses Hadoop's file systems, so a folder may be a URL. Files and folders are replaced as a whole, or
not at all.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

_ROW_GROUP_BYTES = 16 << 20
"""Each task keeps one row group in memory. Parquet's default of 128 MiB suits larger heaps."""


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
        """The path on this machine; None if the folder is elsewhere."""
        uri = self._files.makeQualified(self._path).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def make(self) -> None:
        """Create the folder and its parents unless it exists."""
        if not self._files.mkdirs(self._path):
            raise OSError(f"{self.path} cannot be created")

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def names(self) -> list[str]:
        """The names of its entries; none if it does not exist."""
        if not self.exists():
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._path))

    def delete(self) -> None:
        """Delete the folder and everything in it, if it exists."""
        self._files.delete(self._path, True)

    def replace(self, other: "Folder") -> None:
        """Move `other` to the place of this folder."""
        self.delete()
        self._files.mkdirs(self._path.getParent())
        if not self._files.rename(other._path, self._path):
            raise OSError(f"{other.path} cannot be renamed to {self.path}")

    def become(self, other: "Folder") -> None:
        """Move `other` to the place of this folder; delete this one if there is no other."""
        if other.exists():
            self.replace(other)
        else:
            self.delete()

    def write(self, rows: DataFrame, *partitions: str) -> None:
        """Replace the contents with these rows."""
        write = rows.write.mode("overwrite").option("parquet.block.size", _ROW_GROUP_BYTES)
        write.partitionBy(*partitions).parquet(self.path)

    def write_text(self, name: str, text: str) -> None:
        """Write one file in UTF-8, as a whole or not at all."""
        new, file = (self._path_of(self._path, each) for each in (f"{name}.new", name))
        stream = self._files.create(new, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.delete(file, False)
        if not self._files.rename(new, file):
            raise OSError(f"{self.path}/{name} cannot be written")
