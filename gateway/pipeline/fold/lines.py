"""Parses JSON lines into events. A line that cannot be read becomes a row of `unread`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias
from zlib import crc32

from msgspec import Meta, MsgspecError, Raw, Struct, ValidationError, field
from msgspec.json import Decoder, decode, encode
from pydantic import TypeAdapter

from gateway.events.catalog import EVENTS, VERSION
from gateway.events.event import GatewayEvent, Moment
from gateway.events.version_1 import upgrade
from gateway.pipeline.fold.rows import UnreadRow

LINE_BYTES_MAX = 16 << 20
"""A longer line is no event: Spark gets only its beginning, or pieces."""
TEXT_MAX = 1_000
"""Characters kept of a bad line."""
STRING_BYTES_MAX = 32_767
"""The longest string in Kafka's protocol, which is where events get their names from."""
NUMBER_MAX = (1 << 63) - 1
"""The largest number in Kafka's protocol, and in a table."""
UNREAD_ROWS: TypeAdapter[UnreadRow] = TypeAdapter(UnreadRow)
"""Rows of unreadable lines in JSON."""

NOT_AN_EVENT = "it is not an event"
INCOMPLETE = "its envelope is incomplete"
_ZEROS = bytes(ord("0") if chr(byte).isdecimal() else byte for byte in range(128))
_ZEROS += bytes(range(128, 256))
"""Turns all ASCII digits into zeros, which finds long numbers ten times as fast as a pattern."""
_MAY_BE_HUGE = b"0" * 19


_Number: TypeAlias = Annotated[int, Meta(ge=-NUMBER_MAX - 1, le=NUMBER_MAX)]
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]


class Line(Struct):
    """A line with a place in a sequence, whatever else is wrong with it. Fields as in `Envelope`;
    unknown ones are ignored."""

    event: str
    schema_version: _Number
    gateway_id: str
    sequence: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    at_ms: Moment
    version: _Count = 1
    cluster_id: str | None = None
    hosting: _Count | None = None
    group_id: str | None = None
    process_id: str | None = None
    began_ms: _Count | None = None
    after: _Number | None = None
    run: int = 0
    fields: GatewayEvent | None = None
    """Null if the event is unknown or cannot be read."""
    content: int = field(default=0, name="")
    """A checksum of the text: a line that is written twice has the same one, also with another kind
    of line end."""
    unread: UnreadRow | None = field(default=None, name=" ")
    """The row that says why its event cannot be read."""


class _Envelope(Line):
    """A line of which only the envelope has been read yet."""

    run: _Count | None = None  # type: ignore[assignment]
    fields: Raw = Raw(b"null")  # type: ignore[assignment]


_ENVELOPES = Decoder(_Envelope)
_FIELDS: Mapping[tuple[str, int], Decoder[Any]] = {
    (name, event.schema_version): Decoder(event) for name, event in EVENTS.items()
}
_LACKS_FIELD = re.compile(
    r"Object missing required field `\w+`|Expected .+, got `null`( - at `\$\.\w+`)?"
)
_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


def parse(text: str) -> tuple[Line | None, str | None]:
    """The line if it has a place in a sequence, and its problem if it has any."""
    line, problem = read_envelope(text)
    if line is not None:
        problem = read_fields(line)
    return line, problem


def read_envelope(text: str) -> tuple[Line | None, str | None]:
    """The line if it has a place in a sequence, and otherwise its problem. Its fields have not been
    read yet."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LINE_BYTES_MAX:
        return None, NOT_AN_EVENT
    try:
        line = _ENVELOPES.decode(data)
        if line.version == 1:
            line = _ENVELOPES.decode(encode(upgrade(decode(data))))
    except _UNREADABLE:
        return None, INCOMPLETE if _names_event(data) else NOT_AN_EVENT
    if line.group_id is None and line.process_id is None:
        return None, INCOMPLETE
    if len(data) > STRING_BYTES_MAX:
        names = [line.event, line.gateway_id, line.group_id, line.process_id, line.cluster_id]
        if not _fits(names):
            return None, INCOMPLETE
    line.run = line.run or 0
    line.content = crc32(data.rstrip())
    return line, None


def read_fields(line: Line) -> str | None:
    """Read the fields of a line. Returns what is wrong with them."""
    text: Any = line.fields
    data = bytes(text)
    line.fields, problem = _fields_of(line, data)
    is_huge = len(data) > STRING_BYTES_MAX or _MAY_BE_HUGE in data.translate(_ZEROS)
    if is_huge and line.fields is not None and not _fields_fit(data):
        line.fields, problem = None, f"{line.event} has an invalid value"
    return problem


def _names_event(data: bytes) -> bool:
    try:
        value = decode(data)
    except _UNREADABLE:
        return False
    return isinstance(value, dict) and value.get("event") is not None


def _fields_of(line: Line, data: bytes) -> tuple[GatewayEvent | None, str | None]:
    """The event, or why it cannot be read."""
    if line.version > VERSION:
        return None, f"lines of version {line.version} are not known"
    decoder = _FIELDS.get((line.event, line.schema_version))
    if decoder is not None:
        try:
            return decoder.decode(data), None
        except ValidationError as error:
            lacks_field = _LACKS_FIELD.fullmatch(str(error))
            what = "lacks a field" if lacks_field else "has an invalid value"
            return None, f"{line.event} {what}"
        except _UNREADABLE:
            return None, f"{line.event} has an invalid value"
    if line.event not in EVENTS:
        return None, f"this groupferry does not know {line.event[:TEXT_MAX]}"
    return None, f"{line.event} of schema version {line.schema_version} is not known"


def _fields_fit(fields: bytes) -> bool:
    """Whether all numbers and strings fit into a table, also those that are ignored."""
    try:
        return _fits(decode(fields))
    except _UNREADABLE:
        return False


def _fits(value: Any) -> bool:
    match value:
        case str():
            return len(value.encode("utf-8", "surrogatepass")) <= STRING_BYTES_MAX
        case int():
            return -NUMBER_MAX - 1 <= value <= NUMBER_MAX
        case dict():
            return all(_fits(key) and _fits(entry) for key, entry in value.items())
        case list():
            return all(map(_fits, value))
        case _:
            pass
    return True


def unread_line(
    file: str, place: str | None, text: str, line: Line | None, problem: str
) -> UnreadRow:
    """The row of a line with a problem; `line` is null if it has no place in a sequence."""
    return UnreadRow(
        kind="line",
        cluster_id=line.cluster_id or "" if line else "",
        group_id=line.group_id if line else None,
        gateway_id=line.gateway_id if line else None,
        process_id=line.process_id if line else None,
        file=file,
        place=place,
        problem=problem,
        text=text[:TEXT_MAX],
        first=line.sequence if line else None,
        last=line.sequence if line else None,
        at_ms=line.at_ms if line else None,
    )
