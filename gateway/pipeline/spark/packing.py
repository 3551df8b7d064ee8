"""Parses lines in Spark's Python processes, and packs what they say about one thing into rows.

Spark's time goes with the number of rows more than with their length.
"""

import marshal
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat, starmap
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.utils import is_remote
from pyspark.util import PythonEvalType

from gateway.loading import without_garbage_collection
from gateway.pipeline.fold.folding import GROUP, Item, ItemKey, read_items, share_of

BUCKETS = 64
"""Groups and gateways are spread over this many buckets. A task folds one bucket at a time. How
many tasks there are is Spark's `spark.sql.shuffle.partitions`, and the folders of the output are
clusters and days."""

_ROWS_MAX = 1_024
"""Rows in one message to Spark."""
_ITEMS_MAX = 512
"""Items in one row."""
_WAITING_CHARS_MAX = 16 << 20
"""Lines that wait for others of their groups. In a stream or a file, those of many groups
alternate."""
_COMPRESSION = "lz4"
"""The lines of a group resemble each other: what Spark copies and sorts is a seventh of them."""
_MESSAGE_BYTES_MAX = 1 << 20
"""Items in one message to Spark, but for the last row."""


class PackedRow(NamedTuple):
    """Items of one key."""

    bucket: int
    kind: int
    name: str
    run: int
    process_id: str
    first: int
    """What the first item begins with, and is ordered by."""
    data: bytes
    """The items in their order."""


def schema_of(**columns: str) -> StructType:
    """The schema with these types."""
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    return schema


PACKED = schema_of(
    **dict.fromkeys(("bucket", "kind"), "integer"),
    name="string",
    run="long",
    process_id="string",
    first="long",
    data="binary",
)
Map: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Maps the rows of one partition, in their order."""


def parse_lines(lines: DataFrame) -> DataFrame:
    """Parse lines: `file`, `place` (null in files), `block` and `line`. The place of a line in a
    file is its number, counted from the beginning of the block."""
    return map_in_arrow(lines.select("file", "place", "block", "line"), _parse, PACKED)


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(PACKED)
    with without_garbage_collection():
        message: list[PackedRow] = []
        size = 0
        for row in starmap(pack, _gather(read_items(_lines(batches)))):
            message.append(row)
            size += len(row.data)
            if len(message) == _ROWS_MAX or size >= _MESSAGE_BYTES_MAX:
                yield message_of(message, schema)
                message, size = [], 0
        if message:
            yield message_of(message, schema)


def message_of(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one message to Spark."""
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(values, column.type) for values, column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _gather(items: Iterable[tuple[ItemKey, Item]]) -> Iterator[tuple[ItemKey, list[Item]]]:
    """Items by their keys. A block is read by one task, in order."""
    waiting = defaultdict[ItemKey, list[Item]](list)
    waiting_chars = 0
    for key, item in items:
        key_items = waiting[key]
        key_items.append(item)
        waiting_chars += len(item[1]) if key.kind == GROUP else 0
        if len(key_items) == _ITEMS_MAX:
            yield key, waiting.pop(key)
        if waiting_chars >= _WAITING_CHARS_MAX:
            yield from waiting.items()
            waiting.clear()
            waiting_chars = 0
    yield from waiting.items()


def _lines(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str, str]]:
    """The lines of one task as `SourceLine`s have them."""
    in_file, in_block, count = None, None, 0
    for batch in batches:
        *place_columns, texts = batch.columns
        columns = *map(_values, place_columns), texts_of(texts)
        for file, place, block, text in zip(*columns, strict=True):
            if file != in_file or block != in_block:
                in_file, in_block, count = file, block, 0
            count += 1
            yield file, place or _place(count, block), text


def _values(column: pa.Array) -> Iterable[Any]:
    """The values of a column, which mostly has one."""
    is_one = len(column) > 0 and len(column.unique()) == 1
    return repeat(column[0].as_py(), len(column)) if is_one else column.to_pylist()


def texts_of(column: pa.Array) -> list[str]:
    """The texts of lines. Invalid bytes are replaced as in a stream."""
    try:
        texts: list[str] = column.to_pylist()
    except UnicodeDecodeError:
        return [data.decode("utf-8", "replace") for data in column.cast(pa.binary()).to_pylist()]
    return texts


def _place(number: int, block: int) -> str:
    return f"line {number}" + (f" after byte {block}" if block else "")


def pack(key: ItemKey, items: list[Item]) -> PackedRow:
    """Items in one row."""
    items.sort()
    data = pa.compress(marshal.dumps(list(map(tuple, items))), _COMPRESSION, asbytes=True)
    return PackedRow(share_of(key.name, BUCKETS), *key, items[0][0], data)


def items_of(row: PackedRow) -> list[Item]:
    """The items of one row."""
    stream = pa.CompressedInputStream(pa.py_buffer(row.data), _COMPRESSION)
    items: list[Item] = marshal.loads(stream.read())  # noqa: S302  (a Python process of this run wrote it)
    return items


def unpack(rows: Iterable[PackedRow]) -> Iterator[list[Item]]:
    """The items of a key in their order, part by part, from rows that are sorted by `first`."""
    waiting: list[Item] = []
    for row in rows:
        items = items_of(row)
        ready = bisect_left(waiting, row.first, key=itemgetter(0))
        if ready:
            yield waiting[:ready]
        waiting = sorted((*waiting[ready:], *items)) if ready < len(waiting) else items
    yield waiting


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
