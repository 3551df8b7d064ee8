"""Parses JSON lines into events. A line that cannot be read becomes a row of `rejected`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias
from zlib import crc32

from msgspec import Meta, MsgspecError, Raw, Struct, ValidationError
from msgspec.json import Decoder, decode

from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent, Moment
from gateway.pipeline.fold.row import BaseRow

LINE_BYTES_MAX = 16 << 20
"""A longer line is no event: Spark gets only its beginning, or pieces."""
TEXT_MAX = 1_000
"""Characters kept of a bad line."""
STRING_BYTES_MAX = 32_767
"""The longest string in Kafka's protocol, which is where events get their names from."""
NUMBER_MAX = (1 << 63) - 1
"""The largest number in Kafka's protocol, and in a table."""

NOT_AN_EVENT = "it is not an event"
INCOMPLETE = "its envelope is incomplete"
_ZEROS = bytes(ord("0") if chr(byte).isdecimal() else byte for byte in range(128))
_ZEROS += bytes(range(128, 256))
"""Turns all ASCII digits into zeros, which finds long numbers ten times as fast as a pattern."""
_MAY_BE_HUGE = b"0" * 19


class Line(Struct):
    """A line with a place in a sequence, whatever else is wrong with it. Fields as in `Envelope`;
    unknown ones are ignored."""

    event: str
    gateway_id: str
    group_id: str | None
    process_id: str | None
    sequence: int
    began_ms: int | None
    after: int | None
    at_ms: int
    fields: GatewayEvent | None
    """Null if the event is unknown or cannot be read."""
    content: int
    """A checksum of the text: a line that is written twice has the same one."""

    @property
    def is_beside(self) -> bool:
        """Whether the line belongs to the sequence of a process."""
        return self.process_id is not None

    @property
    def is_known(self) -> bool:
        """Whether this version knows an event of this name."""
        return self.event in EVENTS


_Number: TypeAlias = Annotated[int, Meta(ge=-NUMBER_MAX - 1, le=NUMBER_MAX)]


class _Envelope(Struct):
    """An envelope with the text of its fields."""

    event: str
    schema_version: _Number
    gateway_id: str
    sequence: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    at_ms: Moment
    group_id: str | None = None
    process_id: str | None = None
    began_ms: Annotated[int, Meta(ge=0, le=NUMBER_MAX)] | None = None
    after: _Number | None = None
    fields: Raw = Raw(b"null")


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
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LINE_BYTES_MAX:
        return None, NOT_AN_EVENT
    try:
        its = _ENVELOPES.decode(data)
    except _UNREADABLE:
        return None, INCOMPLETE if _names_event(data) else NOT_AN_EVENT
    if its.group_id is None and its.process_id is None:
        return None, INCOMPLETE
    fields, problem = _fields_of(its)
    if len(data) > STRING_BYTES_MAX or _MAY_BE_HUGE in data.translate(_ZEROS):
        if not _fits([its.event, its.gateway_id, its.group_id, its.process_id]):
            return None, INCOMPLETE
        if fields is not None and not _fields_fit(its.fields):
            fields, problem = None, f"{its.event} has an invalid value"
    line = Line(
        its.event,
        its.gateway_id,
        its.group_id,
        its.process_id,
        its.sequence,
        its.began_ms,
        its.after,
        its.at_ms,
        fields,
        content_of(data),
    )
    return line, problem


def content_of(data: bytes) -> int:
    """See `Line.content`."""
    return crc32(data)


def _names_event(data: bytes) -> bool:
    try:
        found = decode(data)
    except _UNREADABLE:
        return False
    return isinstance(found, dict) and found.get("event") is not None


def _fields_of(its: _Envelope) -> tuple[GatewayEvent | None, str | None]:
    """The event, or why it cannot be read."""
    decoder = _FIELDS.get((its.event, its.schema_version))
    if decoder is not None:
        try:
            return decoder.decode(its.fields), None
        except ValidationError as error:
            lacks_field = _LACKS_FIELD.fullmatch(str(error))
            what = "lacks a field" if lacks_field else "has an invalid value"
            return None, f"{its.event} {what}"
        except _UNREADABLE:
            return None, f"{its.event} has an invalid value"
    if its.event not in EVENTS:
        return None, f"this groupferry does not know {its.event[:TEXT_MAX]}"
    return None, f"{its.event} of schema version {its.schema_version} is not known"


def _fields_fit(fields: Raw) -> bool:
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
            return all(_fits(key) and _fits(each) for key, each in value.items())
        case list():
            return all(map(_fits, value))
        case _:
            pass
    return True


@dataclass(slots=True, kw_only=True)
class RejectedRow(BaseRow):
    """Lines that are no event, or none that this version of groupferry knows."""

    file: str
    """The file; for a topic `kafka:TOPIC/PARTITION`."""
    place: str | None
    """The line, byte or offset in it. In a file that Spark reads in several blocks, lines are
    counted from the beginning of the block, as in `line 3 after byte 4194304`."""
    problem: str
    line: str
    """The beginning of the line."""
    group_id: str | None
    """The group, if the line has a place in a sequence and is an event of the group with a known
    name: its contents are lost as if it were missing. Otherwise null."""

    @property
    def is_unread(self) -> bool:
        """Whether it is an event of a group."""
        return self.group_id is not None


def rejected(
    file: str, place: str | None, text: str, line: Line | None, problem: str
) -> RejectedRow:
    """The row of a line with a problem; `line` is null if it has no place in a sequence."""
    return RejectedRow(
        file=file,
        place=place,
        problem=problem,
        line=text[:TEXT_MAX],
        group_id=line.group_id if line and line.is_known else None,
    )
