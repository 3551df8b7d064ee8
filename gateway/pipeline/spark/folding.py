"""Lets Spark's Python processes fold groups.

Spark only brings the lines of a group together. One exchange sorts the rows into which they are
packed by bucket and group, and `fold` streams through them, with one group in memory at a time.
"""

import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby, starmap
from operator import attrgetter, itemgetter
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from gateway.json_schemas import json_schema
from gateway.loading import without_garbage_collection
from gateway.pipeline.fold.folding import fold_name
from gateway.pipeline.fold.lines import Line, parse
from gateway.pipeline.fold.rows import ALL_ROWS, SCHEMA_VERSION, Row, Tables, columns
from gateway.pipeline.fold.sequences import Number, RunKey, fold_runs
from gateway.pipeline.report.summary import SUMMARIES, Summary
from gateway.pipeline.spark.packing import (
    BUCKET,
    KEY,
    KINDS,
    OF_GROUP,
    OF_RUN,
    PARSED,
    SEPARATOR,
    UNREAD_ROWS,
    InputRow,
    map_in_arrow,
    unpacked_lines,
    unpacked_numbers,
)

_PLAIN: Mapping[type, DataType] = types.MappingProxyType(
    {str: StringType(), bool: BooleanType(), int: LongType(), float: DoubleType()}
)


def struct_of(row: type[Row]) -> StructType:
    """The columns in their order, all nullable, with what they mean."""
    hints = typing.get_type_hints(row)
    meanings = json_schema(row)["properties"]
    return StructType(
        [
            StructField(
                name,
                type_of(hints[name]),
                metadata={
                    "comment": " ".join(meanings[name].get("description", "").split()),
                    "schema_version": SCHEMA_VERSION,
                },
            )
            for name in columns(row)
        ]
    )


def type_of(annotation: Any) -> DataType:
    """The Spark type of a column. Raises TypeError if there is none."""
    choices = typing.get_args(annotation)
    if type(None) in choices and len(choices) == 2:
        annotation = next(choice for choice in choices if choice is not type(None))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal and all(isinstance(value, str) for value in arguments):
        return StringType()
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ArrayType(type_of(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapType(type_of(arguments[0]), type_of(arguments[1]))
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    raise TypeError(f"no column of a table can be a {annotation}")


_ROWS_MAX = 1_024
"""Rows in one message to Spark."""
_PACKED_BYTES_MAX = 256 << 10
"""Rows that are packed together, which Spark's heap has several times."""

SUMMARY = "summary"
"""The column with the summary of a bucket in what a fold makes; the others are named after
tables."""
FOLDED = StructType(
    [
        PARSED[BUCKET],
        *(StructField(name, BinaryType()) for name in ALL_ROWS),
        StructField(SUMMARY, StringType()),
    ]
)
"""What a fold makes. Rows of a table are packed as Arrow packs them: Spark would spend more time on
the empty columns of all other tables than on everything else."""


def fold(rows: DataFrame, top: int) -> DataFrame:
    """The rows of all tables, each in the column of its table, and a summary for each bucket."""
    return map_in_arrow(in_order(rows), partial(_fold, top=top), FOLDED)


def unpack(rows: DataFrame, name: str) -> DataFrame:
    """The rows of one table among those that a fold makes, with their bucket."""
    packed = rows.where(F.col(name).isNotNull()).select(BUCKET, name)
    schema = StructType([*struct_of(ALL_ROWS[name]), PARSED[BUCKET]])
    return map_in_arrow(packed, partial(_unpack, schema=_SCHEMA_OF[name]), schema)


def _unpack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for bucket, packed in zip(*batch.columns, strict=True):
            rows = pa.ipc.read_record_batch(packed.as_buffer(), schema)
            yield rows.append_column(BUCKET, pa.repeat(bucket, rows.num_rows))


def in_order(rows: DataFrame) -> DataFrame:
    """By bucket and kind, which one number tells: most comparisons need no other column. The rows
    of a group are sorted by time alone."""
    name = F.coalesce("group_id", "gateway_id", F.lit(""))
    rank = F.col(BUCKET).cast("long") * len(KINDS) + F.col("kind")
    rank = F.shiftleft(rank, 32) + F.crc32(name.cast("binary"))
    rows = rows.select(*InputRow._fields)
    return rows.repartition(BUCKET).sortWithinPartitions(rank, *KEY[1:], "first")


def _fold(batches: Iterable[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    with without_garbage_collection():
        for bucket, of_bucket in groupby(rows_of(batches), key=attrgetter(BUCKET)):
            out, summary = _Out(bucket), Summary(top=top)
            for tables in _tables(of_bucket):
                summary.add(tables)
                yield from out.take(tables)
            yield from out.finish(summary)


def _tables(rows: Iterable[InputRow]) -> Iterator[Tables]:
    """The rows of each group and run in a bucket."""
    for kind, of_kind in groupby(rows, key=attrgetter("kind")):
        if kind == OF_GROUP:
            for group_id, of_group in groupby(of_kind, key=attrgetter("group_id")):
                with closing(Pieces(of_group)) as pieces:
                    yield from fold_name(group_id, pieces)
        elif kind == OF_RUN:
            for chunk in _chunks(fold_runs(_numbers(of_kind))):
                yield Tables(unread=chunk)
        else:
            for chunk in _chunks(UNREAD_ROWS.validate_json(row.line) for row in of_kind):
                yield Tables(unread=chunk)


def _numbers(rows: Iterable[InputRow]) -> Iterator[tuple[RunKey, Iterator[Number]]]:
    for key, of_process in groupby(rows, key=attrgetter("gateway_id", "run", "process_id")):
        yield RunKey(*key), unpacked_numbers(of_process)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[InputRow]:
    """The parsed rows in these messages."""
    for batch in batches:
        values = (column.to_pylist() for column in batch.columns)
        yield from starmap(InputRow, zip(*values, strict=True))


PIECE_MIN = 4_096
"""The length of the pieces in which long histories are folded."""


class Pieces(Collection[list[Line]]):
    """The lines of a group in pieces, which may be read several times. Only the piece being read is
    in memory: if there are several, the lines are in a temporary file."""

    def __init__(self, rows: Iterable[InputRow]) -> None:
        """The rows are sorted by their first times."""
        pieces = ([text for _at_ms, text in piece] for piece in _pieces(unpacked_lines(rows)))
        self._first = next(pieces, [])
        self._sizes: list[int] = []
        self._file: IO[bytes] | None = None
        for piece in pieces:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115  (see `close`)
            self._sizes.append(self._file.write(SEPARATOR.join(piece).encode()))

    def __iter__(self) -> Iterator[list[Line]]:
        yield list(map(_line, self._first))
        at = 0
        for size in self._sizes:
            assert self._file is not None
            self._file.seek(at)
            at += size
            yield list(map(_line, self._file.read(size).decode().split(SEPARATOR)))

    def __len__(self) -> int:
        return 1 + len(self._sizes)

    def __contains__(self, piece: object) -> bool:
        return any(piece == other for other in self)

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()


def _line(text: str) -> Line:
    line, _problem = parse(text)
    assert line is not None
    return line


class _Out:
    """Collects the rows of one bucket into messages to Spark."""

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self._waiting: dict[str, list[Row]] = {name: [] for name in ALL_ROWS}

    def take(self, tables: Tables) -> Iterator[pa.RecordBatch]:
        """Add rows of all tables."""
        for name, waiting in self._waiting.items():
            waiting.extend(getattr(tables, name))
            while len(waiting) >= _ROWS_MAX:
                yield self._message(name, waiting[:_ROWS_MAX])
                del waiting[:_ROWS_MAX]

    def finish(self, summary: Summary) -> Iterator[pa.RecordBatch]:
        """Everything else, with the summary of the bucket."""
        for name, waiting in self._waiting.items():
            if waiting:
                yield self._message(name, waiting)
        yield self._batch(SUMMARY, [SUMMARIES.dump_json(summary).decode()])

    def _message(self, name: str, rows: list[Row]) -> pa.RecordBatch:
        packed = record_batch(name, rows)
        parts = packed.nbytes // _PACKED_BYTES_MAX + 1
        size = -(-len(rows) // parts)
        slices = (packed.slice(first, size) for first in range(0, len(rows), size))
        return self._batch(name, [part.serialize().to_pybytes() for part in slices])

    def _batch(self, name: str, values: Sequence[Any]) -> pa.RecordBatch:
        """A message with one column and the bucket."""
        size = len(values)
        filled = {BUCKET: [self.bucket] * size, name: values}
        arrays = [
            pa.array(filled[column.name], column.type)
            if column.name in filled
            else pa.nulls(size, column.type)
            for column in _SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


_SCHEMA = to_arrow_schema(FOLDED)
_SCHEMA_OF = {name: to_arrow_schema(struct_of(row)) for name, row in ALL_ROWS.items()}


def record_batch(name: str, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of a table as Arrow has them."""
    schema = _SCHEMA_OF[name]
    if not rows:
        return pa.RecordBatch.from_pylist([], schema)
    values = zip(*map(attrgetter(*schema.names), rows), strict=True)
    arrays = [_array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_map(kind):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, kind)


R = TypeVar("R")
T = TypeVar("T", bound=tuple[Any, ...])


def _pieces(items: Iterable[T]) -> Iterator[list[T]]:
    """Lists of at least PIECE_MIN items but the last; those of one time are in one list."""
    piece: list[T] = []
    for _time, of_time in groupby(items, key=itemgetter(0)):
        piece += of_time
        if len(piece) >= PIECE_MIN:
            yield piece
            piece = []
    if piece:
        yield piece


def _chunks(rows: Iterable[R]) -> Iterator[list[R]]:
    chunk: list[R] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _ROWS_MAX:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
