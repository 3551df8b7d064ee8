"""A source for Spark's streams: the lines of files that grow, each once it is whole.

Spark's own source of files reads a file once, and a gateway appends to its newest one. Here a
stream's offset is how many bytes of each file were read, so that it goes on where it was. A file
that is gone is forgotten; one that comes later is read, also in folders below. Owns which bytes are
a batch. Runs in Python processes of Spark; must not know what a line says.
"""

import contextlib
import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

BATCH_BYTES_MAX = 64 << 20
LINE_BYTES_MAX = 16 << 20
"""What is longer is no event, and read in pieces."""
PARTITIONS_MAX = 16
"""Of a batch, however many files it is of."""

_ROWS_MAX = 8_192
_ROWS_BYTES_MAX = 4 << 20
"""What one message to Spark has."""
_LOOK_BYTES = 64 << 10
_COLUMNS = pa.schema([(name, pa.string()) for name in ("file", "place", "line")])

Offset = Mapping[str, int]
"""Files, and the bytes of them that were read."""


class Slice(InputPartition):
    """Parts of files: path, first byte, and the one after the last."""

    def __init__(self, parts: Sequence[tuple[str, int, int]]) -> None:
        super().__init__(None)
        self.parts = parts


class GrowingFiles(DataSource):
    """Options: `inputs`, a JSON list of files, folders and patterns, and `batch_bytes_max`."""

    @classmethod
    def name(cls) -> str:
        """As `format` takes it."""
        return "groupferry_growing_files"

    def schema(self) -> str:
        """`place` is where the line begins."""
        return ", ".join(f"{name} string" for name in _COLUMNS.names)

    def streamReader(  # noqa: N802  (Spark's name)
        self,
        schema: StructType,  # noqa: ARG002  (it is that of `schema`)
    ) -> DataSourceStreamReader:
        """Of these inputs."""
        inputs = json.loads(self.options["inputs"])
        return Reader(inputs, int(self.options.get("batch_bytes_max", BATCH_BYTES_MAX)))


class Reader(DataSourceStreamReader):
    """Of one stream."""

    def __init__(self, inputs: Sequence[str], batch_bytes_max: int) -> None:
        self._inputs = inputs
        self._batch_bytes_max = batch_bytes_max

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  (Spark's name)
        """Nothing was read."""
        return {}

    def latestOffset(  # noqa: N802  (Spark's name)
        self,
        start: Offset,
        limit: ReadLimit,  # noqa: ARG002  (ours is an option)
    ) -> dict[str, int]:
        """As many whole lines as a batch may have."""
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
        """The same for the same offsets, whatever became of the files."""
        parts = [(path, start.get(path, 0), stop) for path, stop in sorted(end.items())]
        grown = [part for part in parts if part[1] < part[2]]
        return [Slice(grown[n::PARTITIONS_MAX]) for n in range(min(PARTITIONS_MAX, len(grown)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Whatever of it is still there."""
        assert isinstance(partition, Slice)
        for path, begin, end in partition.parts:
            with contextlib.suppress(FileNotFoundError):
                yield from _rows(path, begin, end)


def files(inputs: Sequence[str]) -> list[str]:
    """What there is now; like Spark, without what has a name that begins with `.` or `_`."""
    found: set[str] = set()
    for each in inputs:
        for path in map(os.path.abspath, glob.glob(each) or [each]):  # noqa: PTH207  (absolute)
            if Path(path).is_file():
                found.add(path)
            for folder, below, names in os.walk(path):
                below[:] = filter(_is_shown, below)
                found.update(f"{folder}/{name}" for name in names if _is_shown(name))
    return sorted(found)


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def whole_lines(path: str, begin: int, room: int, piece: int) -> int:
    """How many bytes from `begin` on are whole lines, at most `room`. A line that is no shorter
    than `piece` counts as whole so far as it is there."""
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
    """Of the lines of a file from one byte to another."""
    uri = Path(path).as_uri().replace("file://", "file:", 1)  # as Spark writes it
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
