"""Parses JSON lines into events. A line that cannot be read becomes a row of `rejected`."""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent, Moment
from gateway.pipeline.fold.row import BaseRow

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


class Line(BaseModel):
    """A line with a place in a sequence, whatever else is wrong with it. Fields as in `Envelope`;
    unknown ones are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    event: str
    schema_version: int
    gateway_id: str
    group_id: str | None = None
    process_id: str | None = None
    sequence: Annotated[int, Field(ge=1, le=NUMBER_MAX)]
    began_ms: Annotated[int, Field(ge=0, le=NUMBER_MAX)] | None = None
    after: int | None = None
    at_ms: Moment
    fields: GatewayEvent | None = None
    """Null if the event is unknown or cannot be read."""

    @property
    def is_beside(self) -> bool:
        """Whether the line belongs to the sequence of a process."""
        return self.process_id is not None

    @property
    def is_known(self) -> bool:
        """Whether this version knows an event of this name."""
        return self.event in EVENTS


class _Head(Line):
    """A line without its event."""

    fields: None = Field(default=None, validation_alias="-")


def _line_of(event: type[GatewayEvent]) -> type[Line]:
    fields: dict[str, Any] = {
        "event": (Literal[event.name], ...),
        "schema_version": (Literal[event.schema_version], ...),
        "fields": (event, ...),
    }
    made: type[Line] = create_model(f"{event.__name__}Line", __base__=Line, **fields)
    return made


_ANY: Any = Annotated[reduce(or_, map(_line_of, EVENTS.values())), Field(discriminator="event")]
_LINES: TypeAdapter[Line] = TypeAdapter(_ANY)


def parse(text: str) -> tuple[Line | None, str | None]:
    """The line if it has a place in a sequence, and its problem if it has any."""
    try:
        line: Line = _LINES.validator.validate_json(text, strict=True, extra="ignore")
    except ValidationError as error:
        return _bad(text, error)
    if not _is_placed(line):
        return None, INCOMPLETE
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > STRING_BYTES_MAX or _MAY_BE_HUGE in data.translate(_ZEROS):
        return _storable(line, from_json(text))
    return line, None


def content_of(text: str) -> int:
    """A checksum of the text: a line that is written twice has the same one."""
    return crc32(text.encode("utf-8", "surrogatepass"))


def _bad(text: str, error: ValidationError) -> tuple[Line | None, str]:
    try:
        found = from_json(text)
    except ValueError:
        return None, NOT_AN_EVENT
    if not isinstance(found, dict) or found.get("event") is None:
        return None, NOT_AN_EVENT
    try:
        head = _Head.model_validate_json(text, strict=True)
    except ValidationError:
        return None, INCOMPLETE
    if not _is_placed(head) or not _fits({**found, "fields": None}):
        return None, INCOMPLETE
    return head, _problem(head, error)


def _problem(head: Line, error: ValidationError) -> str:
    known = EVENTS.get(head.event)
    if known is None:
        return f"this groupferry does not know {head.event[:TEXT_MAX]}"
    if known.schema_version != head.schema_version:
        return f"{head.event} of schema version {head.schema_version} is not known"
    # Where: the event, "fields", and the name of the field.
    is_absent = any(len(each["loc"]) <= 3 and each["input"] is None for each in error.errors())
    is_missing = any(each["type"] == "missing" and len(each["loc"]) <= 3 for each in error.errors())
    return f"{head.event} {'lacks a field' if is_absent or is_missing else 'has an invalid value'}"


def _is_placed(line: Line) -> bool:
    return line.group_id is not None or line.process_id is not None


def _storable(line: Line, found: Any) -> tuple[Line | None, str | None]:
    """The line if its numbers and strings fit into a table."""
    if not _fits({**found, "fields": None}):
        return None, INCOMPLETE
    if not _fits(found["fields"]):
        line.fields = None
        return line, f"{line.event} has an invalid value"
    return line, None


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
