"""What every event is: a past-tense name and typed fields, defined once, with a schema version.

The log line, the JSON line and the documentation are all made from the model. Must not know any
event in particular.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Level = Literal["debug", "info", "warning", "error"]

Moment: TypeAlias = Annotated[int, Field(ge=0, le=253_402_300_799_999)]
"""In milliseconds since 1970 (UTC), up to the end of the year 9999: others have no date."""

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


class GatewayEvent(BaseModel):
    """Something that an operator would ask about. Its name is that of its class."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: ClassVar[str]
    schema_version: ClassVar[int] = 1
    """Grows when a reader of the older one would misread it."""
    level: ClassVar[Level] = "info"
    """Of its log line."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_kwargs: Any) -> None:
        cls.name = _HUMP.sub("_", cls.__name__).lower()

    @property
    def fields(self) -> dict[str, Any]:
        """As plain values; of fields that only some of these events have, those that were given."""
        return self.model_dump(mode="json", exclude_unset=True)


Listener = Callable[[GatewayEvent], None]


class Tell(Protocol):
    """Whoever sees something happen tells it so: about a group, or about the gateway."""

    def __call__(self, event: GatewayEvent, group_id: str | None = None) -> None: ...
