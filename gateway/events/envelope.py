"""The envelope of an event: its gateway, group, time and sequence number. One envelope is one JSON
line.

There are two sequences, both without gaps. Events of a batch in the state log carry the sequence of
their group (`process_id` is null), which continues across restarts until the group is forgotten;
(gateway, group, beginning, sequence) identifies a repeat. All other events carry the sequence of
their process.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from gateway.events.event import GatewayEvent, Moment


class Envelope(BaseModel):
    """An event with its origin and its place in a sequence."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    event: str
    """The name of the event."""
    schema_version: int
    """The schema version of `fields`."""
    gateway_id: str
    """The id of the state log. Gateways that replace each other share it."""
    group_id: str | None
    """The group of the event; null if it is about the gateway."""
    process_id: str | None
    """The process that `sequence` belongs to; null if it belongs to the group."""
    sequence: int = Field(ge=1)
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
