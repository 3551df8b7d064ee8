"""Reads lines: from files, folders, patterns and URLs that Spark supports, from growing files, and
from a topic.

Spark's own file source reads a file once, but a gateway keeps appending to its newest file. In the
source of growing files the offset of a stream is the number of bytes read from each file, so a
restarted stream continues where it was. Deleted files are forgotten, and new files are found, also
in subfolders. A line is read once it is complete.
"""

import contextlib
import glob
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from gateway.pipeline import PipelineError
from gateway.pipeline.fold.lines import LINE_BYTES_MAX, TEXT_MAX
from gateway.pipeline.local_files import files, text_of, uri_of
from gateway.pipeline.spark.topic import (
    EventsTopic,
    growing_topic_lines,
    require_topic,
    topic_lines,
)

PASSED_OVER_BYTES = 48 << 20
"""A line of this length is skipped silently: two at once are too much for a heap of 1 GiB."""


def read_lines(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    """`file`, `place` (null), `block` and `line` of every line, subfolders included. Spark reads a
    file in blocks; `block` is the byte at which the line's block begins.

    Raises PipelineError if there is no file.
    """
    text = _text(spark, inputs)
    if not text.inputFiles():
        raise PipelineError(f"no file in {', '.join(inputs)}")
    return text.select(
        F.col("_metadata.file_path").alias("file"),
        F.lit(None).cast("string").alias("place"),
        F.col("_metadata.file_block_start").alias("block"),
        _line(),
    )


def _line() -> Column:
    """The line as valid UTF-8, which tables require; invalid bytes are replaced as in a stream. A
    line that is too long to pass between stages is cut."""
    is_long = F.octet_length("value") > LINE_BYTES_MAX
    cut = F.when(is_long, F.substring("value", 1, TEXT_MAX)).otherwise(F.col("value"))
    return F.make_valid_utf8(cut).alias("line")


def _text(spark: SparkSession, inputs: Sequence[str]) -> DataFrame:
    try:
        read = spark.read.option("recursiveFileLookup", "true")
        read = read.option("ignoreMissingFiles", "true")  # gateways delete their oldest files
        read = read.option("mapreduce.input.linerecordreader.line.maxlength", PASSED_OVER_BYTES)
        paths = list(map(_absolute, inputs)) if is_remote() else list(inputs)
        return read.text(paths, lineSep="\n")  # by default a stray \r ends a line too
    except AnalysisException as error:
        reason = (error.getMessage() or str(error)).partition("\n")[0]
        raise PipelineError(f"cannot read {', '.join(inputs)}: {reason}") from None


def _absolute(path: str) -> str:
    """A path as another process on this machine reads it."""
    return path if "://" in path else str(Path(path).absolute())


BATCH_BYTES_MAX = 64 << 20
PARTITIONS_MAX = 16
"""The most partitions of a batch, however many files it has."""

_ROWS_MAX = 8_192
_ROWS_BYTES_MAX = 4 << 20
"""The contents of one message to Spark."""
_LOOK_BYTES = 64 << 10
_COLUMNS = pa.schema([(name, pa.string()) for name in ("file", "place", "line")])

Offset = Mapping[str, int]
"""The number of bytes read from each file."""


class Slice(InputPartition):
    """Parts of files: path, first byte, and the byte after the last."""

    def __init__(self, parts: Sequence[tuple[str, int, int]]) -> None:
        super().__init__(None)
        self.parts = parts


class GrowingFiles(DataSource):
    """Options: `inputs`, a JSON list of files, folders and patterns, and `batch_bytes_max`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "groupferry_growing_files"

    def schema(self) -> str:
        """`place` is the offset at which the line begins."""
        return ", ".join(f"{name} string" for name in _COLUMNS.names)

    def streamReader(  # noqa: N802  (Spark's name)
        self,
        schema: StructType,  # noqa: ARG002  (it is that of `schema`)
    ) -> DataSourceStreamReader:
        """A reader of these inputs."""
        inputs = json.loads(self.options["inputs"])
        return Reader(inputs, int(self.options.get("batch_bytes_max", BATCH_BYTES_MAX)))


class Reader(DataSourceStreamReader):
    """Reads one stream."""

    def __init__(self, inputs: Sequence[str], batch_bytes_max: int) -> None:
        self._inputs = inputs
        self._batch_bytes_max = batch_bytes_max

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  (Spark's name)
        """The empty offset: nothing has been read."""
        return {}

    def latestOffset(  # noqa: N802  (Spark's name)
        self,
        start: Offset,
        limit: ReadLimit,  # noqa: ARG002  (ours is an option)
    ) -> dict[str, int]:
        """The offset after as many complete lines as one batch may have."""
        room = self._batch_bytes_max
        piece = min(LINE_BYTES_MAX, room)
        end: dict[str, int] = {}
        for path in files(self._inputs):
            with contextlib.suppress(FileNotFoundError):
                begin = start.get(path, 0)
                ready = whole_lines(path, begin, room, piece) if room else 0
                end[path] = begin + ready
                room -= ready
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The same partitions for the same offsets, even if the files have changed."""
        parts = [(path, start.get(path, 0), stop) for path, stop in sorted(end.items())]
        grown = [part for part in parts if part[1] < part[2]]
        return [Slice(grown[n::PARTITIONS_MAX]) for n in range(min(PARTITIONS_MAX, len(grown)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The lines of a partition whose files still exist."""
        assert isinstance(partition, Slice)
        for path, begin, end in partition.parts:
            with contextlib.suppress(FileNotFoundError):
                yield from _rows(path, begin, end)


def whole_lines(path: str, begin: int, room: int, piece: int) -> int:
    """How many bytes from `begin` on are complete lines, at most `room`. An incomplete line of at
    least `piece` bytes counts as complete as far as it goes."""
    with Path(path).open("rb") as file:
        end = min(os.fstat(file.fileno()).st_size, begin + room)
        at = end
        while at > begin:
            look = max(begin, at - _LOOK_BYTES)
            file.seek(look)
            newline = file.read(at - look).rfind(b"\n")
            if newline >= 0:
                return look + newline + 1 - begin
            at = look
    return end - begin if end - begin >= piece else 0


def _rows(path: str, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """The lines between two offsets of a file."""
    uri = uri_of(path)
    rows: list[dict[str, Any]] = []
    with Path(path).open("rb") as file:
        file.seek(begin)
        at = sent = begin
        while at < end and (data := file.readline(end - at)):
            line = text_of(data, is_first=at == 0)
            rows.append({"file": uri, "place": f"byte {at}", "line": line})
            at += len(data)
            if len(rows) == _ROWS_MAX or at - sent >= _ROWS_BYTES_MAX:
                yield pa.RecordBatch.from_pylist(rows, _COLUMNS)
                rows, sent = [], at
    yield pa.RecordBatch.from_pylist(rows, _COLUMNS)


def growing_lines(
    spark: SparkSession, inputs: Sequence[str], batch_bytes_max: int = BATCH_BYTES_MAX
) -> DataFrame:
    """Stream the lines of local files, folders and patterns. Raises PipelineError."""
    for name in inputs:
        if "://" in name:
            raise PipelineError(f"--follow reads only folders of this machine, not {name}")
    spark.dataSource.register(GrowingFiles)
    stream = spark.readStream.format(GrowingFiles.name()).option("inputs", json.dumps(inputs))
    return (
        stream.option("batch_bytes_max", batch_bytes_max)
        .load()
        .select("file", "place", F.lit(None).cast("long").alias("block"), "line")
    )


HERE_BYTES_MAX = 16 << 20
"""About 30,000 events, also compressed ones of a few times as much."""
_FOR_SPARK = frozenset((".zst", ".snappy", ".lz4", ".deflate", ".xz", ".parquet"))
"""Files that only Spark unpacks."""
SMALL_BYTES_MAX = 256 << 20
"""About 500,000 events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """At least one of the two."""

    inputs: Sequence[str] = ()
    topic: EventsTopic | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The sources as the page names them."""
        return (*self.inputs, *([str(self.topic)] if self.topic else []))

    def require(self) -> None:
        """Check without Spark that the sources exist. Raises PipelineError."""
        if self.topic:
            require_topic(self.topic)

    def are_small(self) -> bool:
        """Whether these are known to be a few local files, which take little time."""
        if self.topic or any("://" in name for name in self.inputs):
            return False
        return sum(Path(path).stat().st_size for path in files(self.inputs)) <= SMALL_BYTES_MAX

    def fit_here(self) -> bool:
        """Whether this process makes the report itself, because Spark would take longer to
        start."""
        paths = [] if self.topic or not self.are_small() else files(self.inputs)
        is_readable = all(Path(path).suffix not in _FOR_SPARK for path in paths)
        size = sum(Path(path).stat().st_size for path in paths)
        return bool(paths) and is_readable and size <= HERE_BYTES_MAX

    def secrets(self) -> Mapping[str, str]:
        """What the JVM needs in its environment. Raises PipelineError."""
        return self.topic.secrets() if self.topic else {}

    def require_without(self, output: str) -> None:
        """Check that no source includes the output folder: tables must not be read as events.
        Raises PipelineError."""
        place = _local(output)
        ways = (Path(os.path.abspath(place)), Path(place).resolve())  # noqa: PTH100  (with links)
        folders = {folder for way in ways for folder in (way, *way.parents)}
        for name in self.inputs:
            if _has_any(name, folders):
                raise PipelineError(f"--output {output} is inside {name}: choose another folder")

    def lines(self, spark: SparkSession) -> DataFrame:
        """`file`, `place`, `block` and `line` of everything available now. Raises PipelineError."""
        files = [read_lines(spark, self.inputs)] if self.inputs else []
        records = [topic_lines(spark, self.topic)] if self.topic else []
        return reduce(lambda one, other: one.union(other), [*files, *records])

    def growing_lines(self, spark: SparkSession) -> DataFrame:
        """The same as a stream. Raises PipelineError."""
        files = [growing_lines(spark, self.inputs)] if self.inputs else []
        records = [growing_topic_lines(spark, self.topic)] if self.topic else []
        return reduce(lambda one, other: one.union(other), [*files, *records])


def _has_any(given: str, folders: Collection[Path]) -> bool:
    """Whether an input covers one of the folders: by its path, a pattern, or a link."""
    for pattern in _alternatives(_local(given)):
        known = {Path(path).resolve() for path in (pattern, *glob.glob(pattern))}  # noqa: PTH207  (any)
        absolute = os.path.abspath(pattern)  # noqa: PTH100  (with links)
        if any(folder in known or folder.match(absolute) for folder in folders):
            return True
    return False


def _alternatives(pattern: str) -> Iterator[str]:
    """Expand braces, which `glob` does not support."""
    if (braces := re.search(r"\{([^{}]*)\}", pattern)) is None:
        yield pattern
    else:
        for part in braces[1].split(","):
            yield from _alternatives(pattern[: braces.start()] + part + pattern[braces.end() :])


def _local(path: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", path)
