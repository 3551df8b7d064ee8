"""Lets Spark's Python processes fold groups.

Spark only brings the lines of a group together. One exchange sorts the rows into which they are
packed by bucket and group, and `folded` streams through them, with one group in memory at a time.
`continued` does the same with new lines and the states in which earlier folds stopped.
"""

import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, groupby, starmap
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
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from gateway.events.gateway_events import GatewayStarted
from gateway.loading import without_garbage_collection
from gateway.pipeline.fold.history import LateLineError, clusters
from gateway.pipeline.fold.lines import Line, RejectedRow, parse
from gateway.pipeline.fold.row import BaseRow, columns
from gateway.pipeline.fold.sequences import PROCESS_STATES, SequenceKey
from gateway.pipeline.fold.tables import (
    ALL_ROWS,
    STATES,
    Key,
    Part,
    Tables,
    fold_name,
    fold_process,
    go_on,
    pieces_of,
)
from gateway.pipeline.report.digest import Digest
from gateway.pipeline.spark.packing import (
    BUCKET,
    DIGEST,
    GATEWAY,
    INPUT,
    KEY,
    KINDS,
    OF_GROUP,
    OF_PROCESS,
    PARSED,
    REJECTED,
    SEPARATOR,
    InputRow,
    map_in_arrow,
    unpacked_lines,
    unpacked_numbers,
)

_PLAIN: Mapping[type, DataType] = types.MappingProxyType(
    {str: StringType(), bool: BooleanType(), int: LongType(), float: DoubleType()}
)


def struct_of(row: type[BaseRow]) -> StructType:
    """The columns in their order, all nullable."""
    hints = typing.get_type_hints(row)
    return StructType([StructField(name, type_of(hints[name])) for name in columns(row)])


def type_of(annotation: Any) -> DataType:
    """The Spark type of a column. Raises TypeError if there is none."""
    choices = typing.get_args(annotation)
    if type(None) in choices and len(choices) == 2:
        annotation = next(each for each in choices if each is not type(None))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal and all(isinstance(each, str) for each in arguments):
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
_KEPT_MAX = 64
"""The same for kept rows, which may be long."""


KEPT = "kept"
"""The column with kept rows in what a fold makes; the others are named after tables."""
IS_CLOSED = "is_closed"
"""The column that tells whether no later line changes the row."""
IS_NEW = "is_new"
"""The column that tells whether a fold has changed the row that it keeps; null for new lines."""
KEPT_ROW = StructType(
    [each for each in INPUT if each.name in (*KEY, "line", "state", "closed", "digest", IS_NEW)]
)
"""What is kept of a group or process: its `state`, and digests of its closed rows and of all. Of
others either a line or a digest is kept."""
FOLDED = StructType(
    [
        StructField(BUCKET, IntegerType()),
        StructField(IS_CLOSED, BooleanType()),
        *(StructField(name, BinaryType()) for name in ALL_ROWS),
        StructField(KEPT, KEPT_ROW),
    ]
)
"""What a fold makes. Rows of a table are packed as Arrow packs them: Spark would spend more time on
the empty columns of all other tables than on everything else."""


def folded(rows: DataFrame, top: int) -> DataFrame:
    """The rows of all tables, each in the column of its table, and a digest for each bucket."""
    return map_in_arrow(_in_order(rows), partial(_fold, top=top), FOLDED)


def continued(rows: DataFrame, top: int) -> DataFrame:
    """The same from new lines and states, with the states after the lines. If a line came too late
    for a group or process, its only row has no state: the caller folds all of its lines again."""
    return map_in_arrow(_in_order(rows), partial(_continue, top=top), FOLDED)


def unpacked(rows: DataFrame, name: str) -> DataFrame:
    """The rows of one table among those that a fold makes, with their bucket."""
    packed = rows.where(F.col(name).isNotNull()).select(BUCKET, name)
    schema = StructType([*struct_of(ALL_ROWS[name]), PARSED[BUCKET]])
    return map_in_arrow(packed, partial(_unpack, schema=_SCHEMA_OF[name]), schema)


def _unpack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for bucket, packed in zip(*batch.columns, strict=True):
            rows = pa.ipc.read_record_batch(packed.as_buffer(), schema)
            yield rows.append_column(BUCKET, pa.repeat(bucket, rows.num_rows))


def _in_order(rows: DataFrame) -> DataFrame:
    """By bucket and kind, which one number tells: most comparisons need no other column. The rows
    of a group are sorted by time alone."""
    name = F.coalesce("group_id", "process_id", F.lit(""))
    rank = F.col(BUCKET).cast("long") * len(KINDS) + F.col("kind")
    rank = F.shiftleft(rank, 32) + F.crc32(name.cast("binary"))
    rows = rows.select(*(each for each in InputRow._fields if each in rows.columns))
    return rows.repartition(BUCKET).sortWithinPartitions(rank, *KEY[1:], "first")


def _fold(batches: Iterable[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    with without_garbage_collection():
        for bucket, of_bucket in groupby(_rows(batches), key=attrgetter(BUCKET)):
            out, digest = _Out(bucket), Digest(top=top)
            for part in _parts(of_bucket):
                digest.add(part.key, part.tables, is_last=part.is_last)
                yield from out.take(part)
            yield from out.finish(digest)


def _parts(rows: Iterable[InputRow]) -> Iterator[Part]:
    """The rows of each group and process in a bucket."""
    cluster_of: Mapping[str, str] = {}
    for kind, of_kind in groupby(rows, key=attrgetter("kind")):
        if kind == GATEWAY:
            cluster_of = clusters(map(_start, of_kind))
        elif kind == OF_GROUP:
            for group_id, of_group in groupby(of_kind, key=attrgetter("group_id")):
                with closing(Pieces(of_group)) as pieces:
                    yield from fold_name(group_id, pieces, cluster_of)
        elif kind == OF_PROCESS:
            for key, of_process in groupby(of_kind, key=_sequence_key):
                cluster_id = cluster_of.get(key.gateway_id, "")
                yield fold_process(cluster_id, key, unpacked_numbers(of_process))
        else:
            yield from _rejections(of_kind)


def _continue(batches: Iterable[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    with without_garbage_collection():
        for bucket, of_bucket in groupby(_rows(batches), key=attrgetter(BUCKET)):
            out, digest = _Out(bucket), Digest(top=top)
            yield from _Continued(out, digest).take(of_bucket)
            yield from out.finish(digest)


class _Continued:
    """Goes on with the folds of one bucket. What is kept of a group or process without new lines
    stays as it is."""

    def __init__(self, out: "_Out", digest: Digest) -> None:
        self._out = out
        self._digest = digest
        self._cluster_of: Mapping[str, str] = {}
        self._have_moved = False
        """Whether the new lines name another cluster for any gateway."""

    def take(self, rows: Iterable[InputRow]) -> Iterator[pa.RecordBatch]:
        """Take new lines, and what is kept from earlier ones."""
        for kind, of_kind in groupby(rows, key=attrgetter("kind")):
            if kind == GATEWAY:
                self._take_starts(list(of_kind))
            elif kind == OF_GROUP:
                for group_id, of_group in groupby(of_kind, key=attrgetter("group_id")):
                    yield from self._go_on(of_group, partial(self._fold_group, group_id))
            elif kind == OF_PROCESS:
                for key, of_process in groupby(of_kind, key=_sequence_key):
                    yield from self._go_on(of_process, partial(self._fold_process, key))
            else:
                yield from self._take_rejected(of_kind)

    def _take_starts(self, rows: Sequence[InputRow]) -> None:
        starts = [(*_start(row), row) for row in rows]
        starts.sort(key=lambda each: (each[0].at_ms, each[0].sequence))
        self._cluster_of = clusters((line, event) for line, event, _row in starts)
        before = clusters((line, event) for line, event, row in starts if row.is_new is not None)
        self._have_moved = before != self._cluster_of
        for row in {line.gateway_id: row for line, _event, row in starts}.values():
            self._out.keep(row)

    def _go_on(
        self,
        rows: Iterable[InputRow],
        fold: Callable[[Sequence[InputRow], Iterator[InputRow]], Iterator[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch]:
        kept, lines = _divided(rows)
        if lines is not None or self._have_moved:
            yield from fold(kept, lines or iter(()))
            return
        for row in kept:
            self._out.keep(row, is_new=False)
            self._digest.merge(Digest.model_validate_json(row.digest))
        yield from self._out.take_kept()

    def _fold_group(
        self, group_id: str, kept: Sequence[InputRow], lines: Iterator[InputRow]
    ) -> Iterator[pa.RecordBatch]:
        row = InputRow(self._out.bucket, OF_GROUP, group_id)
        digests: dict[Key | None, Digest] = {}
        folds = [STATES.validate_json(row.state) for row in kept]
        for fold, its_row in zip(folds, kept, strict=True):
            digests[fold.key] = Digest.model_validate_json(its_row.closed)
        try:
            with closing(Pieces(lines)) as pieces:
                if folds:
                    parts = go_on(group_id, folds, chain.from_iterable(pieces), self._cluster_of)
                else:
                    parts = fold_name(group_id, pieces, self._cluster_of, keeps_state=True)
                for part in parts:
                    its = digests.setdefault(part.key, Digest(top=1))
                    closed = its.model_dump_json() if part.is_last else None
                    its.add(part.key, part.tables, is_last=part.is_last)
                    if part.is_last:
                        digest = its.model_dump_json()
                        self._out.keep(row._replace(state=part.state, closed=closed, digest=digest))
                        self._digest.merge(its)
                    yield from self._out.take(part)
        except LateLineError:
            self._out.keep(row)

    def _fold_process(
        self, key: SequenceKey, kept: Sequence[InputRow], lines: Iterator[InputRow]
    ) -> Iterator[pa.RecordBatch]:
        fold = PROCESS_STATES.validate_json(kept[0].state) if kept else None
        row = InputRow(self._out.bucket, OF_PROCESS, None, key.gateway_id, key.process_id)
        cluster_id = self._cluster_of.get(key.gateway_id, "")
        try:
            part = fold_process(cluster_id, key, unpacked_numbers(lines), fold)
        except LateLineError:
            self._out.keep(row)
            return
        its = Digest(top=1)
        its.add(None, part.tables)
        self._out.keep(row._replace(state=part.state, digest=its.model_dump_json()))
        self._digest.merge(its)
        yield from self._out.take(part)

    def _take_rejected(self, rows: Iterable[InputRow]) -> Iterator[pa.RecordBatch]:
        its = Digest(top=1)
        for part in _rejections(_without_sums(rows, its)):
            its.add(None, part.tables)
            yield from self._out.take(part)
        self._out.keep(InputRow(self._out.bucket, REJECTED, digest=its.model_dump_json()))
        self._digest.merge(its)


def _divided(rows: Iterable[InputRow]) -> tuple[list[InputRow], Iterator[InputRow] | None]:
    """What is kept, which comes first, and the lines; None if there are no lines."""
    rest = iter(rows)
    kept: list[InputRow] = []
    for row in rest:
        if row.state is None:
            return kept, chain([row], rest)
        kept.append(row)
    return kept, None


def _without_sums(rows: Iterable[InputRow], digest: Digest) -> Iterator[InputRow]:
    """Add what is kept of earlier rejected lines to the digest."""
    for row in rows:
        if row.digest is None:
            yield row
        else:
            digest.merge(Digest.model_validate_json(row.digest))


def _rejections(rows: Iterable[InputRow]) -> Iterator[Part]:
    for some in _chunks(rows):
        yield Part(None, Tables(rejected=list(map(_rejected, some))))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[InputRow]:
    for batch in batches:
        columns = (each.to_pylist() for each in batch.columns)
        yield from starmap(InputRow, zip(*columns, strict=True))


def _sequence_key(row: InputRow) -> SequenceKey:
    return SequenceKey(row.gateway_id, None, row.process_id, None)


class Pieces(Collection[list[Line]]):
    """The lines of a group in pieces, which may be read several times. Only the piece being read is
    in memory: if there are several, the lines are in a temporary file."""

    def __init__(self, rows: Iterable[InputRow]) -> None:
        """The rows are sorted by their first times."""
        lines = pieces_of(unpacked_lines(rows), itemgetter(0))
        pieces = ([text for _at_ms, text in some] for some in lines)
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
        return any(piece == each for each in self)

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()


def _line(text: str) -> Line:
    line, _problem = parse(text)
    assert line is not None  # or it would not have been passed on
    return line


def _start(row: InputRow) -> tuple[Line, GatewayStarted]:
    line = _line(row.line)
    assert isinstance(line.fields, GatewayStarted)
    return line, line.fields


def _rejected(row: InputRow) -> RejectedRow:
    return RejectedRow(
        file=row.file,
        place=row.place,
        problem=row.problem,
        line=row.line,
        group_id=row.group_id,
    )


class _Out:
    """Collects the rows of one bucket into messages to Spark."""

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self._rows: dict[tuple[str, bool], list[BaseRow]] = {}
        self._kept: list[Mapping[str, Any]] = []

    def take(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Add rows of all tables."""
        for name in ALL_ROWS:
            is_closed = not part.is_last or name in CLOSED_AT_ONCE
            waiting = self._rows.setdefault((name, is_closed), [])
            waiting += getattr(part.tables, name)
            while len(waiting) >= _ROWS_MAX:
                yield self._message(name, waiting[:_ROWS_MAX], is_closed=is_closed)
                del waiting[:_ROWS_MAX]
        yield from self.take_kept()

    def keep(self, row: InputRow, *, is_new: bool = True) -> None:
        """Add a kept row."""
        self._kept.append({**{name: getattr(row, name) for name in KEPT_ROW.names}, IS_NEW: is_new})

    def take_kept(self) -> Iterator[pa.RecordBatch]:
        """The kept rows, if they are enough for a message."""
        if len(self._kept) >= _KEPT_MAX:
            yield self._batch(KEPT, self._kept, is_closed=False)
            self._kept = []

    def finish(self, digest: Digest) -> Iterator[pa.RecordBatch]:
        """Everything else, with the digest of the bucket."""
        for (name, is_closed), rows in self._rows.items():
            if rows:
                yield self._message(name, rows, is_closed=is_closed)
        digest.cut()
        self.keep(InputRow(self.bucket, DIGEST, digest=digest.model_dump_json()))
        yield self._batch(KEPT, self._kept, is_closed=False)

    def _message(self, name: str, rows: list[BaseRow], *, is_closed: bool) -> pa.RecordBatch:
        schema = _SCHEMA_OF[name]
        columns = zip(*map(attrgetter(*schema.names), rows), strict=True)
        arrays = [_array(values, each.type) for values, each in zip(columns, schema, strict=True)]
        packed = pa.RecordBatch.from_arrays(arrays, schema=schema)
        parts = packed.nbytes // _PACKED_BYTES_MAX + 1
        size = -(-len(rows) // parts)
        some = (packed.slice(first, size) for first in range(0, len(rows), size))
        return self._batch(
            name, [each.serialize().to_pybytes() for each in some], is_closed=is_closed
        )

    def _batch(self, name: str, column: Any, *, is_closed: bool) -> pa.RecordBatch:
        """A message with one column besides the bucket."""
        size = len(column)
        told = {BUCKET: [self.bucket] * size, IS_CLOSED: [is_closed] * size, name: column}
        arrays = [
            pa.array(told[each.name], each.type) if each.name in told else pa.nulls(size, each.type)
            for each in _SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


_SCHEMA = to_arrow_schema(FOLDED)
_SCHEMA_OF = {name: to_arrow_schema(struct_of(row)) for name, row in ALL_ROWS.items()}
CLOSED_AT_ONCE = ("rejected",)
"""Tables whose rows no later line changes."""


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_map(kind):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, kind)


R = TypeVar("R")


def _chunks(rows: Iterable[R]) -> Iterator[list[R]]:
    chunk: list[R] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _ROWS_MAX:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
