"""The base class of events: a name in the past tense, typed fields and a schema version.

The log line, the JSON line and the documentation are all made from the model.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Level = Literal["debug", "info", "warning", "error"]

Moment: TypeAlias = Annotated[int, Field(ge=0, le=253_402_300_799_999)]
"""Milliseconds since 1970 (UTC), up to the end of the year 9999, where Python's dates end."""

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


class GatewayEvent(BaseModel):
    """One event. Its name is the name of its class in snake case."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: ClassVar[str]
    schema_version: ClassVar[int] = 1
    """Raised when readers of the older version would misread the event."""
    level: ClassVar[Level] = "info"
    """The level of its log line."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_kwargs: Any) -> None:
        cls.name = _HUMP.sub("_", cls.__name__).lower()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as plain values, without optional fields that were not set."""
        return self.model_dump(mode="json", exclude_unset=True)


class Told(NamedTuple):
    """The events of one decision, and its time."""

    events: Sequence[GatewayEvent]
    at_ms: int


class Tell(Protocol):
    """A callback that reports an event about a group, or about the gateway."""

    def __call__(self, event: GatewayEvent, group_id: str | None = None) -> None: ...
