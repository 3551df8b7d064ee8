"""The tables as Parquet files: one folder for each cluster and day.

All reports write and read them here, whether Spark, `--follow` or this process folds the lines.
"""

import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from gateway.pipeline.fold.rows import ALL_ROWS, SCHEMA_VERSION, TIMES, Row, RunRow, Tables, columns
from gateway.pipeline.folder import Folder
from gateway.readable import DAY_MS, date_time

CLUSTER, DAY = "cluster", "day"
"""The columns that name the folders of a table."""
NO_NAME = "unknown"
"""The folder of rows whose cluster or day is not known."""
FOLDED_TABLES = tuple(name for name in ALL_ROWS if name != "runs")
WAITING_MAX = 1 << 15
"""Rows of one table that wait for others of their files."""
FILE_BYTES_MAX = 8 << 20
"""The rows of one file before they are compressed."""

_TYPES: Mapping[Any, pa.DataType] = types.MappingProxyType(
    {
        **{str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()},
        tuple[str, ...]: pa.list_(pa.string()),
        Mapping[str, int]: pa.map_(pa.string(), pa.int64()),
    }
)


def _type_of(annotation: Any) -> pa.DataType:
    """The type of a column, which may have nulls."""
    choices = typing.get_args(annotation)
    if type(None) in choices:
        (annotation,) = set(choices) - {type(None)}
    return pa.string() if typing.get_origin(annotation) is typing.Literal else _TYPES[annotation]


def _schema_of(row: type[Row]) -> pa.Schema:
    """The columns in their order, with what they mean."""
    hints, meanings = typing.get_type_hints(row), TypeAdapter(row).json_schema()["properties"]
    comments = {
        name: {"comment": " ".join(meanings[name].get("description", "").split())}
        for name in columns(row)
    }
    fields = [pa.field(name, _type_of(hints[name]), metadata=comments[name]) for name in comments]
    return pa.schema(fields, {"schema_version": str(SCHEMA_VERSION)})


SCHEMAS: Mapping[str, pa.Schema] = {name: _schema_of(row) for name, row in ALL_ROWS.items()}


def arrow_table(name: str, rows: Sequence[Any]) -> pa.Table:
    """Rows of a table as Arrow has them."""
    schema = SCHEMAS[name]
    values = zip(*map(attrgetter(*schema.names), rows), strict=True) if rows else [()] * len(schema)
    arrays = [_array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_map(kind):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, kind)


def parquet_of(rows: pa.Table) -> bytes:
    """The contents of a file."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return bytes(sink.getvalue().to_pybytes())


class Place(NamedTuple):
    """The folder of rows: a table has one for each cluster and day."""

    table: str
    cluster: str
    day: str

    @property
    def path(self) -> str:
        """The path in the output folder."""
        return f"tables/{self.table}/{CLUSTER}={quote(self.cluster, '')}/{DAY}={self.day}"


def place_of(name: str, row: Any) -> Place:
    """Where a row is."""
    times = (getattr(row, time) for time in _TIMES_OF[name])
    at_ms = next((time for time in times if time is not None), None)
    day = NO_NAME if at_ms is None else _day(at_ms // DAY_MS)
    return Place(name, row.cluster_id or NO_NAME, day)


_TIMES_OF = {
    name: tuple(time for time in TIMES if time in columns(row)) for name, row in ALL_ROWS.items()
}


@lru_cache
def _day(number: int) -> str:
    return f"{date_time(number * DAY_MS):%Y-%m-%d}"


def by_place(name: str, rows: Iterable[Any]) -> dict[Place, list[Any]]:
    """Rows of a table by where they are."""
    at_places: dict[Place, list[Any]] = {}
    for row in rows:
        at_places.setdefault(place_of(name, row), []).append(row)
    return at_places


class TableFile(NamedTuple):
    """A file with rows of a table."""

    folder: str
    """The path in the output folder."""
    name: str
    data: bytes


class FilesMaker:
    """Makes files of the rows of all tables."""

    def __init__(self, name: str) -> None:
        """`name` begins the names of the files."""
        self._name = name
        self._count = 0
        self._waiting = Tables()

    def take(self, tables: Tables) -> Iterator[TableFile]:
        """Take further rows. Makes the files that are long enough."""
        self._waiting.extend(tables)
        for name in FOLDED_TABLES:
            if len(getattr(self._waiting, name)) >= WAITING_MAX:
                yield from self._make(name)

    def finish(self) -> Iterator[TableFile]:
        """Make the files of all other rows."""
        for name in FOLDED_TABLES:
            yield from self._make(name)

    def _make(self, name: str) -> Iterator[TableFile]:
        rows = getattr(self._waiting, name)
        setattr(self._waiting, name, [])
        for place, place_rows in by_place(name, rows).items():
            table = arrow_table(name, place_rows)
            length = -(-table.num_rows // (table.nbytes // FILE_BYTES_MAX + 1))
            for first in range(0, table.num_rows, length):
                self._count += 1
                data = parquet_of(table.slice(first, length))
                yield TableFile(place.path, f"{self._name}-{self._count}.parquet", data)


def empty_files() -> Iterator[TableFile]:
    """A file for each table: one without rows has its columns."""
    for name in FOLDED_TABLES:
        folder = Place(name, NO_NAME, NO_NAME).path
        yield TableFile(folder, "empty.parquet", parquet_of(arrow_table(name, [])))


def write_files(output: Folder, files: Iterable[TableFile]) -> None:
    """Write files into an empty output folder."""
    for file in files:
        (output / file.folder).add_file(file.name, file.data)


def write_run(output: Folder, run: RunRow) -> None:
    """Replace the table with the row of the run."""
    (output / "tables/runs").delete()
    data = parquet_of(arrow_table("runs", [run]))
    (output / place_of("runs", run).path).write_bytes("rows.parquet", data)


def list_files(output: Folder, name: str) -> Iterator[tuple[Place, list[str]]]:
    """The folders of a table with the names of their files."""
    table = output / "tables" / name
    for cluster in table.names():
        for day in (table / cluster).names():
            values = (unquote(folder.partition("=")[2]) for folder in (cluster, day))
            yield Place(name, *values), (table / cluster / day).names()


def read_file(folder: Folder, name: str, **how: Any) -> pa.Table | None:
    """The rows of a Parquet file; null if there is none."""
    data = folder.read_bytes(name)
    if data is None:
        return None
    return pq.read_table(pa.BufferReader(data), use_threads=False, **how)


def read_rows(output: Folder, name: str, group_ids: Collection[str]) -> Iterator[Any]:
    """The rows of a table about these groups."""
    filters = [("group_id", "in", list(group_ids))]
    for place, files in list_files(output, name):
        for file in files:
            rows = read_file(output / place.path, file, filters=filters)
            if rows is not None:
                for values in rows.to_pylist(maps_as_pydicts="strict"):
                    yield ALL_ROWS[name](**values)
