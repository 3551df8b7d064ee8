"""Leaves out old lines: each group begins with its last `group_loaded` before a time, which states
what it had then."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from gateway.pipeline.fold.lines import parse
from gateway.pipeline.fold.sequences import RunKey
from gateway.pipeline.spark.folding import in_order, rows_of
from gateway.pipeline.spark.packing import (
    OF_GROUP,
    OF_RUN,
    PARSED,
    InputRow,
    TimedLine,
    map_in_arrow,
    message_of,
    packed_lines,
    packed_numbers,
    unpacked_lines,
    unpacked_numbers,
)

_LINES_MAX = 512
_KEY = itemgetter(*map(InputRow._fields.index, ("kind", "group_id", "gateway_id", "run")))


def without_old_lines(rows: DataFrame, from_ms: int) -> DataFrame:
    """Parsed rows without what is not needed to judge what happened since."""
    return map_in_arrow(in_order(rows), partial(_cut, from_ms=from_ms), PARSED)


def _cut(batches: Iterable[pa.RecordBatch], from_ms: int) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(PARSED)
    for (kind, group_id, *_key), of_key in groupby(rows_of(batches), key=_KEY):
        if kind == OF_GROUP:
            lines = since_loaded(list(unpacked_lines(of_key)), from_ms)
            for first in range(0, len(lines), _LINES_MAX):
                row = packed_lines(group_id, lines[first : first + _LINES_MAX])
                yield message_of([row], schema)
        elif kind == OF_RUN:
            for process_id, of_process in groupby(of_key, key=lambda row: row.process_id):
                for row in _numbers_since(process_id, list(of_process), from_ms):
                    yield message_of([row], schema)
        else:
            yield from (message_of([row], schema) for row in of_key)


def since_loaded(lines: list[TimedLine], from_ms: int) -> list[TimedLine]:
    """The lines of a group from its last `group_loaded` before a time; all if there is none."""
    for place in range(len(lines) - 1, -1, -1):
        at_ms, text = lines[place]
        if at_ms < from_ms:
            line, _problem = parse(text)
            if line is not None and line.event == "group_loaded":
                return lines[place:]
    return lines


def _numbers_since(process_id: str, rows: list[InputRow], from_ms: int) -> Iterator[InputRow]:
    """The numbers of a process since a time, behind the last one before, which stands for all."""
    key = RunKey(rows[0].gateway_id, rows[0].run, process_id)
    numbers = list(unpacked_numbers(rows))
    old = [number for number in numbers if number.at_ms < from_ms]
    rest = [number for number in numbers if number.at_ms >= from_ms]
    if old and process_id:
        rest.insert(0, old[-1]._replace(is_whole=True))
    for first in range(0, len(rest), _LINES_MAX):
        yield packed_numbers(key, rest[first : first + _LINES_MAX])
