"""Parses JSON lines into events. A line that cannot be read becomes a row of `unread`."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, is_dataclass
from dataclasses import fields as columns_of
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from zlib import crc32

from msgspec import NODEFAULT, Meta, MsgspecError, Raw, Struct, ValidationError, defstruct, field
from msgspec.json import Decoder, decode, encode
from msgspec.structs import asdict
from pydantic import TypeAdapter

from gateway.events.catalog import EVENTS, VERSION
from gateway.events.event import Moment
from gateway.events.version_1 import upgrade
from gateway.pipeline.fold.rows import UnreadRow

LINE_BYTES_MAX = 16 << 20
"""A longer line is no event: Spark gets only its beginning, or pieces."""
TEXT_MAX = 1_000
"""Characters kept of a bad line."""
STRING_MAX = 32_767
"""The longest string in Kafka's protocol, which is where events get their names from."""
NUMBER_MAX = (1 << 63) - 1
"""The largest number in Kafka's protocol, and in a table."""
UNREAD_ROWS: TypeAdapter[UnreadRow] = TypeAdapter(UnreadRow)
"""Rows of unreadable lines in JSON."""

NOT_AN_EVENT = "it is not an event"
INCOMPLETE = "its envelope is incomplete"

_Number: TypeAlias = Annotated[int, Meta(ge=-NUMBER_MAX - 1, le=NUMBER_MAX)]
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
_String: TypeAlias = Annotated[str, Meta(max_length=STRING_MAX)]


class LineEnvelope(Struct, gc=False):
    """A line with a place in a sequence, whatever else is wrong with it. Fields as in `Envelope`;
    unknown ones are ignored."""

    event: _String
    schema_version: _Number
    gateway_id: _String
    sequence: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    at_ms: Moment
    version: _Count = 1
    cluster_id: _String | None = None
    hosting: _Count | None = None
    group_id: _String | None = None
    process_id: _String | None = None
    began_ms: _Count | None = None
    after: _Number | None = None
    run: _Count | None = None
    content: int = field(default=0, name="")
    """A checksum of the text: a line that is written twice has the same one, also with another kind
    of line end."""


Fields = TypeVar("Fields")


class LineOf(LineEnvelope, Generic[Fields], gc=False):
    """A line with the fields of its event."""

    fields: Fields | None = None
    """Null if the event is unknown or cannot be read."""
    unread: UnreadRow | None = field(default=None, name=" ")
    """The row that says why its event cannot be read."""


Line: TypeAlias = LineOf[Any]


def _struct_of(model: type[Any]) -> type[Struct]:
    """A struct with the fields of a model, which msgspec decodes twice as fast. Pickle finds it by
    its name here."""
    name = f"{model.__name__}Fields"
    if name not in globals():
        types = get_type_hints(model, include_extras=True)
        columns = [
            (column.name, _type_of(types[column.name]), _default(column))
            for column in columns_of(model)
        ]
        globals()[name] = defstruct(name, columns, module=__name__, kw_only=True, gc=False)
    struct: type[Struct] = globals()[name]
    return struct


def _type_of(annotation: Any) -> Any:
    """The type of a field, with the limits of Kafka's protocol."""
    if is_dataclass(annotation):
        return _struct_of(annotation)  # type: ignore[arg-type]  # a class
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (None, Annotated, Literal):
        return _LIMITED.get(annotation, annotation)
    return (Union if origin is UnionType else origin)[tuple(map(_type_of, arguments))]


_LIMITED: Mapping[Any, Any] = {int: _Number, str: _String}


def _default(column: Field[Any]) -> Any:
    if column.default_factory is not MISSING:
        return field(default_factory=column.default_factory)
    return NODEFAULT if column.default is MISSING else column.default


class _RawFields(Struct):
    fields: Raw = Raw(b"null")


_ENVELOPES = Decoder(LineEnvelope)
_RAW_FIELDS = Decoder(_RawFields)
_FIELDS: Mapping[tuple[str, int], Decoder[Any]] = {
    (name, event.schema_version): Decoder(_struct_of(event)) for name, event in EVENTS.items()
}
_WHOLE: Mapping[str, tuple[str, Decoder[Line]]] = {
    f'{{"version":{VERSION},"event":"{name}","schema_version":{event.schema_version}': (
        name,
        Decoder(LineOf[_struct_of(event)]),  # type: ignore[misc]  # made here
    )
    for name, event in EVENTS.items()
}
"""The event, and a decoder of envelope and fields together, by the beginning of a line that a
gateway wrote."""
_WHOLE_UNTIL = ',"gateway_id"'
_LACKS_FIELD = re.compile(
    r"Object missing required field `\w+`|Expected .+, got `null`( - at `\$\.\w+`)?"
)
_UNREADABLE = (MsgspecError, UnicodeError, RecursionError)


def parse(text: str, content: int | None = None) -> tuple[Line | None, str | None]:
    """The line if it has a place in a sequence, and its problem if it has any. `content`: its
    checksum, if that is known."""
    line = _parse_whole(text)
    if line is not None:
        line.content = crc32(text.encode().rstrip()) if content is None else content
        return line, None
    envelope, problem = read_envelope(text)
    if envelope is None:
        return None, problem
    data = text.encode("utf-8", "surrogatepass")
    event, problem = _fields_of(envelope, _upgrade_bytes(data) if envelope.version == 1 else data)
    return LineOf(**asdict(envelope), fields=event), problem


def _parse_whole(text: str) -> Line | None:
    """The line; null if anything about it is odd."""
    known = _WHOLE.get(text[: text.find(_WHOLE_UNTIL)])
    if known is None or 4 * len(text) > LINE_BYTES_MAX:
        return None
    name, decoder = known
    try:
        line = decoder.decode(text)
    except _UNREADABLE:
        return None
    if line.fields is None or line.event != name or line.group_id is line.process_id is None:
        return None
    return line


def read_envelope(text: str) -> tuple[LineEnvelope | None, str | None]:
    """The line without its fields if it has a place in a sequence, and otherwise its problem."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LINE_BYTES_MAX:
        return None, NOT_AN_EVENT
    try:
        line = _ENVELOPES.decode(data)
        if line.version == 1:
            line = _ENVELOPES.decode(_upgrade_bytes(data))
    except _UNREADABLE:
        return None, INCOMPLETE if _names_event(data) else NOT_AN_EVENT
    if line.group_id is None and line.process_id is None:
        return None, INCOMPLETE
    line.content = crc32(data.rstrip())
    return line, None


def _upgrade_bytes(data: bytes) -> bytes:
    return encode(upgrade(decode(data)))


def _names_event(data: bytes) -> bool:
    try:
        value = decode(data)
    except _UNREADABLE:
        return False
    return isinstance(value, dict) and value.get("event") is not None


def _fields_of(line: LineEnvelope, data: bytes) -> tuple[Struct | None, str | None]:
    """The fields of a line, or why they cannot be read."""
    if line.version > VERSION:
        return None, f"lines of version {line.version} are not known"
    decoder = _FIELDS.get((line.event, line.schema_version))
    if decoder is not None:
        try:
            return decoder.decode(_RAW_FIELDS.decode(data).fields), None
        except ValidationError as error:
            lacks_field = _LACKS_FIELD.fullmatch(str(error))
            what = "lacks a field" if lacks_field else "has an invalid value"
            return None, f"{line.event} {what}"
        except _UNREADABLE:
            return None, f"{line.event} has an invalid value"
    if line.event not in EVENTS:
        return None, f"this groupferry does not know {line.event[:TEXT_MAX]}"
    return None, f"{line.event} of schema version {line.schema_version} is not known"


def unread_line(
    file: str, place: str | None, text: str, line: LineEnvelope | None, problem: str
) -> UnreadRow:
    """The row of a line with a problem; `line` is null if it has no place in a sequence."""
    row = UnreadRow(kind="line", cluster_id="", file=file, place=place, problem=problem)
    row.text = text[:TEXT_MAX]
    if line is not None:
        row.cluster_id, row.group_id = line.cluster_id or "", line.group_id
        row.gateway_id, row.process_id = line.gateway_id, line.process_id
        row.first = row.last = line.sequence
        row.at_ms = line.at_ms
    return row
