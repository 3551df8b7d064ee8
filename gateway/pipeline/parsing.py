"""JSON lines as events: one row for each line, with all fields of all events as columns.

Owns what is a good line. A line that is none keeps its text and says what is wrong with it; nothing
here fails on what it reads. Must not know where lines come from.
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
"""Characters that are kept of a line that is none."""
PROBLEM = "problem"
"""The column that says what is wrong with a line, null if nothing is."""
NUMBERED = "is_numbered"
"""The column that says whether a line has its place in a sequence, whatever else is wrong with it:
of events that this version does not know, too."""
CONTENT = "content"
"""The column that has a hash of the text: lines that are written again have the same."""

ENVELOPE = StructType([field for field in struct_of(Envelope) if field.name != "fields"])


def fields_of_all_events() -> StructType:
    """Each name once. Raises TypeError if two events mean different things by one name."""
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
"""What `_enclosed` makes of a line."""


def parse(lines: DataFrame) -> DataFrame:
    """All columns of `lines`, `problem`, `is_numbered`, `content`, and one for each field of the
    envelope and of the events. The beginning of the text is kept where there is a problem."""
    found = F.from_json(_enclosed(), _READ_AS, {"columnNameOfCorruptRecord": _BROKEN})
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


def _enclosed() -> Column:
    """The line as a list, with something behind it. Spark reads the first value of a text, and
    passes over the rest: of a line with a second event, or garbage, it would say nothing."""
    return F.concat(F.lit(f'{{"{_EVENTS}":['), LINE, F.lit(f'],"{_IS_OVER}":true}}'))


def _only_event(found: Column) -> Column:
    """Null if there is another one, or if the line ended the list itself."""
    events = found.getField(_EVENTS)
    return F.when(found.getField(_IS_OVER) & (F.size(events) == 1), F.get(events, F.lit(0)))


def _problem(read: Column, found: Column) -> Column:
    """The first thing that is wrong."""
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
        F.when(found.getField(_BROKEN).isNotNull() | event.isNull(), "it is no event")
        .when(~(is_whole & is_placed), "its envelope is not whole")
        .when(known_version.isNull(), F.concat(F.lit("this groupferry does not know "), name))
        .when(
            known_version != version,
            F.concat(event, F.lit(" of schema version "), version, F.lit(" is not known")),
        )
        .otherwise(of_fields)
    )


def _is_numbered() -> Column:
    is_json = F.col(PROBLEM).isNull() | F.try_parse_json(_enclosed()).isNotNull()
    given = (F.col(name).isNotNull() for name in ("gateway_id", "sequence", "at_ms"))
    is_placed = F.col("group_id").isNotNull() | F.col("process_id").isNotNull()
    return reduce(Column.__and__, given, is_placed) & all_sound(Envelope, F.col) & is_json


def _problem_of(event: type[GatewayEvent], field_of: FieldOf) -> Column:
    """What is wrong with the fields of such an event."""
    return F.when(~all_given(event, field_of), f"{event.name} lacks a field").when(
        ~all_sound(event, field_of), f"{event.name} has a value that it cannot have"
    )


def _lookup(values: Mapping[str, int], key: Column) -> Column:
    """What a small mapping says of a column, null if it has no such key."""
    pairs = [F.lit(each) for pair in values.items() for each in pair]
    return F.try_element_at(F.create_map(*pairs), key)
