"""Lets Spark's Python processes parse lines and fold groups.

Spark only brings the lines of a group together: `parsed` finds the bucket of each line, one
exchange sorts the lines by bucket and group, and `folded` streams through them, with one group in
memory at a time.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from gateway.events.gateway_events import GatewayStarted
from gateway.loading import without_garbage_collection
from gateway.pipeline.fold import Part, fold_name, fold_process, pieces_of
from gateway.pipeline.history import Numbered, clusters
from gateway.pipeline.parsing import TEXT_MAX, Line, content_of, parse
from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.catalog import ALL_ROWS, Tables
from gateway.pipeline.tables.rejected import RejectedRow
from gateway.pipeline.tables.row import BaseRow
from gateway.pipeline.tables.sequences import Number, SequenceKey

BUCKETS = 16
"""Groups are spread over this many buckets. A stream folds the buckets with new events again."""
BUCKET = "bucket"

_ROWS_MAX = 4_096
"""Rows in one message to Spark."""

PARSED = StructType(
    [
        StructField(BUCKET, IntegerType()),
        StructField("kind", IntegerType()),
        *(StructField(name, StringType()) for name in ("group_id", "gateway_id", "process_id")),
        *(StructField(name, LongType()) for name in ("sequence", "at_ms", "content")),
        StructField("is_good", BooleanType()),
        *(StructField(name, StringType()) for name in ("event", "line")),
        *(StructField(name, StringType()) for name in ("file", "place", "problem")),
    ]
)
"""What `parsed` makes of lines."""

_GATEWAY, _OF_GROUP, _OF_PROCESS, _REJECTED = range(4)
"""The kinds of parsed rows, in the order in which `folded` needs them. The start of a gateway names
its cluster, and goes to every bucket. A line may make several rows."""

DIGEST = "digest"
"""The column with digests in what `folded` makes; the others are named after tables."""
FOLDED = StructType(
    [
        StructField(BUCKET, IntegerType()),
        *(StructField(name, struct_of(row)) for name, row in ALL_ROWS.items()),
        StructField(DIGEST, StringType()),
    ]
)

_ORDER = (BUCKET, "kind", "group_id", "gateway_id", "process_id", "sequence", "at_ms")
"""The lines of a group are sorted by time alone."""

_Row: TypeAlias = Mapping[str, Any]


Map: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Maps the rows of one partition, in their order."""


def parsed(lines: DataFrame) -> DataFrame:
    """Parse lines: `file`, `place` (null in files), `block` and `line`. The place of a line in a
    file is its number, counted from the beginning of the block."""
    return map_in_arrow(lines.select("file", "place", "block", "line"), _parse, PARSED)


def folded(rows: DataFrame, top: int) -> DataFrame:
    """The rows of all tables, each in the column of its table, and a digest for each bucket."""
    in_order = rows.repartition(BUCKET).sortWithinPartitions(*_ORDER)
    return map_in_arrow(in_order, partial(_fold, top=top), FOLDED)


def map_in_arrow(rows: DataFrame, how: Map, schema: StructType) -> DataFrame:
    """`DataFrame.mapInArrow`, which demands pandas but does not use it."""
    mapped = UserDefinedFunction(
        how, schema, name="groupferry", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column: Any = mapped(*(rows[name] for name in rows.columns))
    java: Any = rows._jdf
    return DataFrame(java.mapInArrow(column._jc, False, None), rows.sparkSession)


def bucket_of(name: str) -> int:
    """The bucket of a group, a process or a file."""
    return crc32(name.encode("utf-8", "surrogatepass")) % BUCKETS


# -- parsing ---------------------------------------------------------------------------------------


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(PARSED)
    with without_garbage_collection():
        for rows in _chunks(each for row in _numbered(batches) for each in _rows_of(row)):
            yield pa.RecordBatch.from_pylist(rows, schema)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[_Row]:
    """The lines with their places. A block is read by one task, in order."""
    at: tuple[str, int] | None = None
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            if row["place"] is None:
                here = row["file"], row["block"]
                number = number + 1 if here == at else 1
                at = here
                row["place"] = f"line {number}" + (f" after byte {here[1]}" if here[1] else "")
            yield row


def _rows_of(row: _Row) -> Iterator[_Row]:
    text: str = row["line"]
    line, problem = parse(text)
    if problem is not None:
        yield {
            BUCKET: bucket_of(row["file"]),
            "kind": _REJECTED,
            "group_id": line.group_id if line and line.is_known else None,
            "line": text[:TEXT_MAX],
            "file": row["file"],
            "place": row["place"],
            "problem": problem,
        }
    if line is None:
        return
    if line.group_id is not None:
        yield {
            BUCKET: bucket_of(line.group_id),
            "kind": _OF_GROUP,
            "group_id": line.group_id,
            "at_ms": line.at_ms,
            "line": text,
        }
    if line.process_id is not None:
        yield {
            BUCKET: bucket_of(line.process_id),
            "kind": _OF_PROCESS,
            "gateway_id": line.gateway_id,
            "process_id": line.process_id,
            "sequence": line.sequence,
            "at_ms": line.at_ms,
            "event": line.event[:TEXT_MAX],
            "content": content_of(text),
            "is_good": line.fields is not None,
        }
    if isinstance(line.fields, GatewayStarted):
        for bucket in range(BUCKETS):
            yield {BUCKET: bucket, "kind": _GATEWAY, "line": text}


# -- folding ---------------------------------------------------------------------------------------


def _fold(batches: Iterable[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    out = _Out()
    rows = (row for batch in batches for row in batch.to_pylist())
    with without_garbage_collection():
        for bucket, of_bucket in groupby(rows, key=itemgetter(BUCKET)):
            digest = Digest(top=top)
            for part in _parts(of_bucket):
                digest.add(part.key, part.tables, is_last=part.is_last)
                for name in ALL_ROWS:
                    yield from out.take(bucket, name, getattr(part.tables, name))
            for name in ALL_ROWS:
                yield from out.flush(bucket, name)
            digest.cut()
            yield out.batch(bucket, DIGEST, [digest.model_dump_json()])


def _parts(rows: Iterable[_Row]) -> Iterator[Part]:
    """The rows of each group and process in a bucket."""
    cluster_of: Mapping[str, str] = {}
    for kind, of_kind in groupby(rows, key=itemgetter("kind")):
        if kind == _GATEWAY:
            cluster_of = clusters(_starts(of_kind))
        elif kind == _OF_GROUP:
            for group_id, of_group in groupby(of_kind, key=itemgetter("group_id")):
                with closing(Pieces(of_group)) as pieces:
                    yield from fold_name(group_id, pieces, cluster_of)
        elif kind == _OF_PROCESS:
            for at, of_process in groupby(of_kind, key=itemgetter("gateway_id", "process_id")):
                key = SequenceKey(at[0], None, at[1], None)
                numbers = (
                    Number(*itemgetter("sequence", "at_ms", "event", "content", "is_good")(row))
                    for row in of_process
                )
                yield from fold_process(cluster_of.get(at[0], ""), key, numbers)
        else:
            for some in _chunks(of_kind):
                yield Part(None, Tables(rejected=list(map(_rejected, some))))


class Pieces(Collection[list[Numbered]]):
    """The lines of a group in pieces, which may be read several times. Only the piece being read is
    in memory: if there are several, the lines are in a temporary file."""

    def __init__(self, rows: Iterable[_Row]) -> None:
        """The rows are sorted by time."""
        pieces = ([row["line"] for row in some] for some in pieces_of(rows, itemgetter("at_ms")))
        self._first = next(pieces)
        self._sizes: list[int] = []
        self._file: IO[bytes] | None = None
        for piece in pieces:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115  (see `close`)
            self._sizes.append(self._file.write("\n".join(piece).encode()))

    def __iter__(self) -> Iterator[list[Numbered]]:
        yield list(map(_numbered_line, self._first))
        at = 0
        for size in self._sizes:
            assert self._file is not None
            self._file.seek(at)
            at += size
            yield list(map(_numbered_line, self._file.read(size).decode().split("\n")))

    def __len__(self) -> int:
        return 1 + len(self._sizes)

    def __contains__(self, piece: object) -> bool:
        return any(piece == each for each in self)

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()


def _numbered_line(text: str) -> Numbered:
    line, _problem = parse(text)
    assert line is not None  # or it would have no group
    return Numbered(line, content_of(text))


def _starts(rows: Iterable[_Row]) -> Iterator[tuple[Line, GatewayStarted]]:
    for row in rows:
        line, _problem = parse(row["line"])
        if line is not None and isinstance(line.fields, GatewayStarted):
            yield line, line.fields


def _rejected(row: _Row) -> RejectedRow:
    return RejectedRow(
        file=row["file"],
        place=row["place"],
        problem=row["problem"],
        line=row["line"],
        group_id=row["group_id"],
    )


class _Out:
    """Collects the rows of each table into messages to Spark."""

    def __init__(self) -> None:
        self._schema = to_arrow_schema(FOLDED)
        self._rows: dict[str, list[BaseRow]] = {name: [] for name in ALL_ROWS}

    def take(self, bucket: int, name: str, rows: list[BaseRow]) -> Iterator[pa.RecordBatch]:
        """Add rows to a table."""
        waiting = self._rows[name]
        waiting += rows
        while len(waiting) >= _ROWS_MAX:
            yield self._message(bucket, name, waiting[:_ROWS_MAX])
            del waiting[:_ROWS_MAX]

    def flush(self, bucket: int, name: str) -> Iterator[pa.RecordBatch]:
        """The rest of a table."""
        if self._rows[name]:
            yield self._message(bucket, name, self._rows[name])
            self._rows[name] = []

    def _message(self, bucket: int, name: str, rows: list[BaseRow]) -> pa.RecordBatch:
        kind = self._schema.field(name).type
        columns = [pa.array(_values(rows, each), each.type) for each in kind]
        return self.batch(bucket, name, pa.StructArray.from_arrays(columns, fields=list(kind)))

    def batch(self, bucket: int, name: str, column: Any) -> pa.RecordBatch:
        """A message with one column besides the bucket."""
        size = len(column)
        arrays = [
            pa.array([bucket] * size, each.type)
            if each.name == BUCKET
            else pa.array(column, each.type)
            if each.name == name
            else pa.nulls(size, each.type)
            for each in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _values(rows: Iterable[BaseRow], column: pa.Field) -> list[Any]:
    """A column of these rows, as Arrow takes it."""
    values = list(map(attrgetter(column.name), rows))
    if pa.types.is_map(column.type):
        return [None if value is None else list(value.items()) for value in values]
    return values


def _chunks(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    chunk: list[_Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _ROWS_MAX:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
