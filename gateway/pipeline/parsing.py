"""JSON lines as events: one row for each line, with all fields of all events as columns.

Owns what is a good line. A line that is none keeps its text and says what is wrong with it; nothing
here fails on what it reads. Must not know where lines come from.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import StringType, StructField, StructType

from gateway.events.catalog import EVENTS
from gateway.events.envelope import Envelope
from gateway.events.event import GatewayEvent
from gateway.pipeline.spark_types import is_nullable, struct_of

LINE = "line"
"""The column with the text of a line."""
PROBLEM = "problem"
"""The column that says what is wrong with a line, null if nothing is."""

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

_BROKEN = "_broken"
_READ_AS = StructType(
    [*ENVELOPE, StructField("fields", FIELDS), StructField(_BROKEN, StringType())]
)


def parse(lines: DataFrame) -> DataFrame:
    """All columns of `lines`, `problem`, and one for each field of the envelope and of the events.
    The text is kept where there is a problem."""
    found = F.from_json(LINE, _READ_AS, {"columnNameOfCorruptRecord": _BROKEN})
    read = lines.withColumn("read", found).select(
        *lines.columns, "read.*", _problem("read").alias(PROBLEM)
    )
    names = [name for name in lines.columns if name != LINE]
    return read.select(
        *names,
        PROBLEM,
        F.when(F.col(PROBLEM).isNotNull(), F.col(LINE)).alias(LINE),
        *ENVELOPE.names,
        "fields.*",
    )


def _problem(read: str) -> Column:
    """The first thing that is wrong."""
    event, version = F.col(f"{read}.event"), F.col(f"{read}.schema_version")
    envelope_is_whole = _all_given(Envelope, read) & (F.col(f"{read}.sequence") >= 1)
    is_placed = F.col(f"{read}.group_id").isNotNull() | F.col(f"{read}.process_id").isNotNull()
    known_version = _lookup({each.name: each.schema_version for each in EVENTS.values()}, event)
    lacks_field = reduce(
        lambda chain, each: chain.when(event == each.name, ~_all_given(each, f"{read}.fields")),
        EVENTS.values(),
        F.when(F.lit(False), F.lit(False)),
    )
    return (
        F.when(F.col(f"{read}.{_BROKEN}").isNotNull() | event.isNull(), "it is no event")
        .when(~(envelope_is_whole & is_placed), "its envelope is not whole")
        .when(known_version.isNull(), F.concat(F.lit("this groupferry does not know "), event))
        .when(
            known_version != version,
            F.concat(event, F.lit(" of schema version "), version, F.lit(" is not known")),
        )
        .when(lacks_field, F.concat(event, F.lit(" lacks a field")))
    )


def _all_given(model: type[Envelope] | type[GatewayEvent], where: str) -> Column:
    """Whether nothing is null that must not be."""
    given = [
        F.col(f"{where}.{name}").isNotNull()
        for name, field in model.model_fields.items()
        if field.is_required() and not is_nullable(field.annotation)
    ]
    return reduce(Column.__and__, given, F.lit(True))


def _lookup(values: Mapping[str, int], key: Column) -> Column:
    """What a small mapping says of a column, null if it has no such key."""
    pairs = [F.lit(each) for pair in values.items() for each in pair]
    return F.try_element_at(F.create_map(*pairs), key)
