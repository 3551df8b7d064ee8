"""A Spark streaming source of lines from growing files. A line is read once it is complete.

Spark's own file source reads a file once, but a gateway keeps appending to its newest file. Here
the offset of a stream is the number of bytes read from each file, so a restarted stream continues
where it was. Deleted files are forgotten, and new files are found, also in subfolders. This module
runs in Spark's Python processes.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from gateway.pipeline.local_files import files, uri_of

BATCH_BYTES_MAX = 64 << 20
LINE_BYTES_MAX = 16 << 20
"""A longer line is no event, and is read in pieces."""
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
            line = data.removesuffix(b"\n").decode("utf-8", "replace")
            rows.append({"file": uri, "place": f"byte {at}", "line": line})
            at += len(data)
            if len(rows) == _ROWS_MAX or at - sent >= _ROWS_BYTES_MAX:
                yield pa.RecordBatch.from_pylist(rows, _COLUMNS)
                rows, sent = [], at
    yield pa.RecordBatch.from_pylist(rows, _COLUMNS)
