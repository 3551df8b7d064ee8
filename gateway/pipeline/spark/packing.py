"""Parses lines in Spark's Python processes, and packs those of each group into rows.

Spark's time goes with the number of rows more than with their length. The numbers of each process
are packed as well.
"""

import types
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import pyarrow as pa
from pydantic import TypeAdapter
from pydantic_core import from_json, to_json
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.utils import is_remote
from pyspark.util import PythonEvalType

from gateway.loading import without_garbage_collection
from gateway.pipeline.fold.lines import Line, parse, unread_line
from gateway.pipeline.fold.rows import UnreadRow
from gateway.pipeline.fold.sequences import Number, RunKey, number_of, run_of

BUCKETS = 64
"""Groups and runs are spread over this many buckets, each of which one task folds at a time. How
many tasks there are is Spark's `spark.sql.shuffle.partitions`, and the folders of the output are
clusters and days."""
BUCKET = "bucket"

_ROWS_MAX = 1_024
"""Rows in one message to Spark."""
_LINES_MAX = 512
"""Lines or numbers in one row."""
_WAITING_CHARS_MAX = 16 << 20
"""Lines that wait for others of their groups. In a stream or a file, those of many groups
alternate."""
_MESSAGE_CHARS_MAX = 1 << 20
"""Lines in one message to Spark, but for the last one."""
SEPARATOR = "\x1e"
"""Between lines, as in RFC 7464: no JSON text contains it. In a topic they may have line breaks."""


class InputRow(NamedTuple):
    """Lines of one group, numbers of a run, or an unreadable line. Which columns are null depends
    on that."""

    bucket: int
    kind: int
    group_id: Any = None
    gateway_id: Any = None
    run: Any = None
    process_id: Any = None
    line: Any = None
    """Lines of a group with SEPARATOR between them, numbers of a run, or a row of `unread`."""
    times_ms: Any = None
    """The times of a group's lines, in order."""
    first: Any = None
    """The first of the times, or of the numbers."""
    at_ms: Any = None
    """The latest time."""


_TYPES: Mapping[str, DataType] = types.MappingProxyType(
    {
        **dict.fromkeys((BUCKET, "kind"), IntegerType()),
        **dict.fromkeys(("first", "at_ms", "run"), LongType()),
    }
)
PARSED = StructType(
    [StructField(name, _TYPES.get(name, StringType())) for name in InputRow._fields]
)
"""What `parse_lines` makes of lines."""

KINDS = OF_GROUP, OF_RUN, UNREAD = range(3)
"""The kinds of rows. A line may make several."""

UNREAD_ROWS: TypeAdapter[UnreadRow] = TypeAdapter(UnreadRow)
"""Rows of unreadable lines in JSON."""
KEY = ("kind", "group_id", "gateway_id", "run", "process_id")
"""Columns that name a group or a process."""

Map: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Maps the rows of one partition, in their order."""


def parse_lines(lines: DataFrame) -> DataFrame:
    """Parse lines: `file`, `place` (null in files), `block` and `line`. The place of a line in a
    file is its number, counted from the beginning of the block."""
    return map_in_arrow(lines.select("file", "place", "block", "line"), _parse, PARSED)


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(PARSED)
    with without_garbage_collection():
        for rows in _messages(_pack(batches)):
            yield message_of(rows, schema)


def message_of(rows: Iterable[InputRow], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one message to Spark."""
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(values, column.type) for values, column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _messages(rows: Iterable[InputRow]) -> Iterator[list[InputRow]]:
    batch: list[InputRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.line)
        if len(batch) == _ROWS_MAX or size >= _MESSAGE_CHARS_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[InputRow]:
    """The rows of all lines. A block is read by one task, in order."""
    groups: dict[str, list[TimedLine]] = {}
    numbers: dict[RunKey, list[Number]] = {}
    marked: set[RunKey] = set()
    at: tuple[str, int] | None = None
    count = waiting_chars = 0
    for file, place, block, text in _lines(batches):
        count = count + 1 if at == (file, block) else 1
        at = file, block
        if not text or text.isspace():
            continue
        line, problem = parse(text)
        if problem is not None:
            yield _unread(file, place or _place(count, block), text, line, problem)
        if line is None:
            continue
        if line.group_id is not None:
            lines = groups.setdefault(line.group_id, [])
            lines.append((line.at_ms, text))
            waiting_chars += len(text)
            if len(lines) == _LINES_MAX:
                yield packed_lines(line.group_id, groups.pop(line.group_id))
        if waiting_chars >= _WAITING_CHARS_MAX:
            yield from starmap(packed_lines, groups.items())
            groups.clear()
            waiting_chars = 0
        key = run_of(line)
        if line.process_id is None and key in marked:
            continue
        marked.add(key)
        its_numbers = numbers.setdefault(key, [])
        its_numbers.append(number_of(line))
        if len(its_numbers) == _LINES_MAX:
            yield packed_numbers(key, numbers.pop(key))
    yield from starmap(packed_lines, groups.items())
    yield from starmap(packed_numbers, numbers.items())


def _lines(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str | None, int, str]]:
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from zip(*columns, strict=True)


def _place(number: int, block: int) -> str:
    return f"line {number}" + (f" after byte {block}" if block else "")


def _unread(file: str, place: str, text: str, line: Line | None, problem: str) -> InputRow:
    row = unread_line(file, place, text, line, problem)
    return InputRow(bucket_of(file), UNREAD, line=UNREAD_ROWS.dump_json(row).decode())


TimedLine: TypeAlias = tuple[int, str]
"""A line, after its time."""


def packed_lines(group_id: str, lines: list[TimedLine]) -> InputRow:
    """Lines of a group in one row."""
    lines.sort(key=itemgetter(0))
    times, texts = zip(*lines, strict=True)
    return InputRow(
        bucket_of(group_id),
        OF_GROUP,
        group_id=group_id,
        line=SEPARATOR.join(texts),
        times_ms=to_json(times).decode(),
        first=times[0],
        at_ms=times[-1],
    )


def packed_numbers(key: RunKey, numbers: list[Number]) -> InputRow:
    """The numbers of a process in one row: its columns as JSON."""
    numbers.sort()
    return InputRow(
        bucket_of(key.gateway_id),
        OF_RUN,
        gateway_id=key.gateway_id,
        run=key.run,
        process_id=key.process_id,
        line=to_json(list(zip(*numbers, strict=True))).decode(),
        first=numbers[0].sequence,
        at_ms=max(number.at_ms for number in numbers),
    )


def unpacked_lines(rows: Iterable[InputRow]) -> Iterator[TimedLine]:
    """The lines of a group in their order, from rows that are sorted by their first times."""
    return _merge(
        (row.first, list(zip(from_json(row.times_ms), row.line.split(SEPARATOR), strict=True)))
        for row in rows
    )


def unpacked_numbers(rows: Iterable[InputRow]) -> Iterator[Number]:
    """The numbers of a process in their order, from rows that are sorted by their first numbers."""
    return _merge(
        (row.first, list(map(Number._make, zip(*from_json(row.line), strict=True)))) for row in rows
    )


Item = TypeVar("Item", bound=tuple[Any, ...])


def _merge(packed: Iterable[tuple[int, list[Item]]]) -> Iterator[Item]:
    """The items of all lists by their first fields, as the lists are sorted too."""
    waiting: list[Item] = []
    for first, items in packed:
        ready = bisect_left(waiting, first, key=itemgetter(0))
        yield from waiting[:ready]
        waiting = sorted((*waiting[ready:], *items)) if ready < len(waiting) else items
    yield from waiting


def map_in_arrow(rows: DataFrame, how: Map, schema: StructType) -> DataFrame:
    """`DataFrame.mapInArrow`, which demands pandas but does not use it. Spark Connect needs pandas
    anyway."""
    if is_remote():
        return rows.mapInArrow(how, schema)
    mapped = UserDefinedFunction(
        how, schema, name="groupferry", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column: Any = mapped(*(rows[name] for name in rows.columns))
    java: Any = rows._jdf
    return DataFrame(java.mapInArrow(column._jc, False, None), rows.sparkSession)


def bucket_of(name: str) -> int:
    """The bucket of a group, a run or a file."""
    return crc32(name.encode("utf-8", "surrogatepass")) % BUCKETS
