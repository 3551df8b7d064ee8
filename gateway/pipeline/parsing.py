"""Parses JSON lines into events: one row per line, with the fields of all events as columns.

A bad line keeps its text and gets a description of its problem. No input makes parsing fail.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

from gateway.events.catalog import EVENTS
from gateway.events.envelope import Envelope
from gateway.events.event import GatewayEvent
from gateway.pipeline.spark_checks import FieldOf, all_given, all_sound
from gateway.pipeline.spark_types import struct_of

LINE = "line"
"""The column with the text of a line."""
TEXT_MAX = 1_000
"""Characters kept of a bad line."""
PROBLEM = "problem"
"""The column with the problem of a line, null for a good one."""
NUMBERED = "is_numbered"
"""The column that says whether a line has a place in a sequence, whatever else is wrong with it.
This includes events that this version does not know."""
CONTENT = "content"
"""The column with a hash of the text: a line that is written twice has the same hash."""

ENVELOPE = StructType([field for field in struct_of(Envelope) if field.name != "fields"])


def fields_of_all_events() -> StructType:
    """Each field name once. Raises TypeError if two events use one name for different types."""
    found: dict[str, StructField] = {}
    for event in EVENTS.values():
        for field in struct_of(event):
            if found.setdefault(field.name, field) != field or field.name in ENVELOPE.names:
                raise TypeError(f"{event.name} has another kind of {field.name} than others")
    return StructType([found[name] for name in sorted(found)])


FIELDS = fields_of_all_events()

_EVENTS = "events"
_IS_OVER = "is_over"
_BROKEN = "_broken"
_READ_AS = StructType(
    [
        StructField(_EVENTS, ArrayType(StructType([*ENVELOPE, StructField("fields", FIELDS)]))),
        StructField(_IS_OVER, BooleanType()),
        StructField(_BROKEN, StringType()),
    ]
)
"""The schema of a line that `_wrapped` has wrapped."""


def parse(lines: DataFrame) -> DataFrame:
    """All columns of `lines`, `problem`, `is_numbered`, `content`, and one column for each field of
    the envelope and of the events. Lines with a problem keep the beginning of their text."""
    found = F.from_json(_wrapped(), _READ_AS, {"columnNameOfCorruptRecord": _BROKEN})
    read = (
        lines.withColumn("found", found)
        .withColumn("read", _only_event(F.col("found")))
        .select(*lines.columns, "read.*", _problem(F.col("read"), F.col("found")).alias(PROBLEM))
    )
    names = [name for name in lines.columns if name != LINE]
    return read.select(
        *names,
        PROBLEM,
        F.when(F.col(PROBLEM).isNotNull(), F.substring(LINE, 1, TEXT_MAX)).alias(LINE),
        _is_numbered().alias(NUMBERED),
        F.xxhash64(LINE).alias(CONTENT),
        *ENVELOPE.names,
        "fields.*",
    )


def is_any(*kinds: type[GatewayEvent]) -> Column:
    """Whether the row is an event of one of these kinds."""
    return F.col("event").isin([kind.name for kind in kinds])


def _wrapped() -> Column:
    """The line as the only item of a list, followed by another field. Spark reads the first value
    of a text and ignores the rest, so a second event or garbage in a line would go unnoticed
    otherwise."""
    return F.concat(F.lit(f'{{"{_EVENTS}":['), LINE, F.lit(f'],"{_IS_OVER}":true}}'))


def _only_event(found: Column) -> Column:
    """The event of a line; null if the line has several, or closes the list itself."""
    events = found.getField(_EVENTS)
    return F.when(found.getField(_IS_OVER) & (F.size(events) == 1), F.get(events, F.lit(0)))


def _problem(read: Column, found: Column) -> Column:
    """The first problem of a line."""
    event, version = read.getField("event"), read.getField("schema_version")
    is_whole = all_given(Envelope, read.getField) & all_sound(Envelope, read.getField)
    is_placed = read.getField("group_id").isNotNull() | read.getField("process_id").isNotNull()
    name = F.substring(event, 1, TEXT_MAX)
    known_version = _lookup({each.name: each.schema_version for each in EVENTS.values()}, event)
    of_fields = reduce(
        lambda chain, each: chain.when(
            event == each.name, _problem_of(each, read.getField("fields").getField)
        ),
        EVENTS.values(),
        F.when(F.lit(False), F.lit(None).cast("string")),
    )
    return (
        F.when(found.getField(_BROKEN).isNotNull() | event.isNull(), "it is not an event")
        .when(~(is_whole & is_placed), "its envelope is incomplete")
        .when(known_version.isNull(), F.concat(F.lit("this groupferry does not know "), name))
        .when(
            known_version != version,
            F.concat(event, F.lit(" of schema version "), version, F.lit(" is not known")),
        )
        .otherwise(of_fields)
    )


def _is_numbered() -> Column:
    is_json = F.col(PROBLEM).isNull() | F.try_parse_json(_wrapped()).isNotNull()
    given = (F.col(name).isNotNull() for name in ("gateway_id", "sequence", "at_ms"))
    is_placed = F.col("group_id").isNotNull() | F.col("process_id").isNotNull()
    return reduce(Column.__and__, given, is_placed) & all_sound(Envelope, F.col) & is_json


def _problem_of(event: type[GatewayEvent], field_of: FieldOf) -> Column:
    """The first problem in the fields of such an event."""
    return F.when(~all_given(event, field_of), f"{event.name} lacks a field").when(
        ~all_sound(event, field_of), f"{event.name} has an invalid value"
    )


def _lookup(values: Mapping[str, int], key: Column) -> Column:
    """The value of a key in a small mapping; null for an unknown key."""
    pairs = [F.lit(each) for pair in values.items() for each in pair]
    return F.try_element_at(F.create_map(*pairs), key)
