"""The base class of events: a name in the past tense, typed fields and a schema version. And their
envelope, which has the event's gateway, group, time and sequence number. One envelope is one JSON
line.

The log line, the JSON line and the documentation are all made from the model.

The line says which of a group's hostings it belongs to: `gateway_id`, `run` and `hosting` order all
hostings of one state log.

There are two sequences, both without gaps. Events of a batch in the state log carry the sequence of
their group (`process_id` is null), which continues across restarts until the group is forgotten;
(gateway, group, beginning, sequence) identifies a repeat. All other events carry the sequence of
their process.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    dataclass_transform,
)

from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import SchemaSerializer

from gateway.json_schemas import DOCUMENTED

Level = Literal["debug", "info", "warning", "error"]

_MOMENT_MAX = 253_402_300_799_999
Moment: TypeAlias = Annotated[
    int, Field(ge=0, le=_MOMENT_MAX), Meta(ge=0, le=_MOMENT_MAX)  # pydantic's, and msgspec's
]
"""Milliseconds since 1970 (UTC), up to the end of the year 9999, where Python's dates end."""

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True, config=DOCUMENTED)
class GatewayEvent:
    """One event. Its name is the name of its class in snake case. Events are dataclasses, because
    msgspec decodes those several times as fast as pydantic its models."""

    name: ClassVar[str]
    schema_version: ClassVar[int] = 1
    """Raised when readers of the older version would misread the event."""
    level: ClassVar[Level] = "info"
    """The level of its log line."""

    def __init_subclass__(cls) -> None:
        cls.name = _HUMP.sub("_", cls.__name__).lower()
        dataclass(cls, frozen=True, kw_only=True, config=DOCUMENTED)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as plain values, without optional fields that have their default."""
        serializer: SchemaSerializer = vars(type(self))["__pydantic_serializer__"]
        fields: dict[str, Any] = serializer.to_python(self, mode="json", exclude_defaults=True)
        return fields


class DecisionEvents(NamedTuple):
    """The events of one decision, and its time."""

    events: Sequence[GatewayEvent]
    at_ms: int
    owner: Hashable | None = None
    """The client address or user whose request was decided."""


class EventSink(Protocol):
    """A callback that reports an event about a group, or about the gateway. `owner`: the client
    address or user that can cause such events at will; None if nothing but the state can."""

    def __call__(
        self, event: GatewayEvent, group_id: str | None = None, owner: Hashable | None = None
    ) -> None: ...


class Envelope(BaseModel):
    """An event with its origin and its place in a sequence."""

    model_config = DOCUMENTED | ConfigDict(frozen=True)

    version: Literal[2] = 2
    """The version of the envelope. Lines without one have version 1."""
    event: str
    """The name of the event."""
    schema_version: int
    """The schema version of `fields`."""
    gateway_id: str
    """The id of the state log. Gateways that replace each other share it."""
    cluster_id: str | None = None
    """The cluster's own id; null if it has none, or if it is not known yet."""
    run: int | None = Field(default=None, ge=0)
    """The number of the process among those that have opened the state log; a later process has a
    greater one. Null in a line of version 1."""
    hosting: int | None = Field(default=None, ge=1)
    """For a group's event: the number of the group's hosting, which counts the hostings of all
    groups in this run; null while the gateway does not host the group."""
    group_id: str | None
    """The group of the event; null if it is about the gateway."""
    process_id: str | None
    """The process that `sequence` belongs to; null if it belongs to the group."""
    sequence: int = Field(ge=1)
    """The number of the event in its sequence, from 1 without gaps: in that of the process if
    `process_id` is set, otherwise in that of the group."""
    began_ms: int | None = Field(default=None, ge=0)
    """For a group's event: when the group's sequence began, in milliseconds since 1970 (UTC). A
    forgotten group that returns begins another sequence, from 1. While the group has no sequence,
    this is the time of the event. Null if an older groupferry began it."""
    after: int | None
    """For a group's event in a process sequence: the group's last sequence number before it."""
    at_ms: Moment
    """Time of the decision, in milliseconds since 1970 (UTC)."""
    fields: SerializeAsAny[GatewayEvent]

    @model_validator(mode="after")
    def _names_its_event(self) -> Self:
        if (self.event, self.schema_version) != (self.fields.name, self.fields.schema_version):
            raise ValueError(f"the fields are those of {self.fields.name}")
        return self

    @cached_property
    def line(self) -> str:
        """The envelope as JSON, without a line end."""
        return self.model_dump_json()


Listener = Callable[[Envelope], None]
