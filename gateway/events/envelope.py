"""An event in its envelope: of which gateway and group it tells, when, and in which place of which
sequence. One envelope is one JSON line.

There are two sequences, both without gaps. Events of a batch that the state log has carry the
sequence of their group (`process_id` is null), which goes on over restarts: there a repeat is known
by (gateway, group, sequence). All others carry the sequence of the process that saw them.
"""

from functools import cached_property
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from gateway.events.event import GatewayEvent, Moment


class Envelope(BaseModel):
    """Where an event belongs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    event: str
    """Its name."""
    schema_version: int
    """That of `fields`."""
    gateway_id: str
    """The id of the gateway's state log: gateways that stand in for each other share it."""
    group_id: str | None
    """The group that it is about, null if it is about the gateway."""
    process_id: str | None
    """The process whose sequence it has, null if it has that of its group."""
    sequence: int = Field(ge=1)
    after: int | None
    """Of a group's event with a process's sequence: the last sequence of the group before it."""
    at_ms: Moment
    """When it was decided, in milliseconds since 1970 (UTC)."""
    fields: SerializeAsAny[GatewayEvent]

    @model_validator(mode="after")
    def _names_its_event(self) -> Self:
        if (self.event, self.schema_version) != (self.fields.name, self.fields.schema_version):
            raise ValueError(f"the fields are those of {self.fields.name}")
        return self

    @cached_property
    def line(self) -> str:
        """As JSON, without a line end."""
        return self.model_dump_json()
