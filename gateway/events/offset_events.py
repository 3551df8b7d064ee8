"""What members commit."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from gateway.events.event import GatewayEvent, Level


class CommittedOffsets(BaseModel):
    """What was committed for one partition in one interval."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    partition: int
    commits: int
    """How many the cluster has stored."""
    first: int
    """The offset of the first one."""
    lowest: int
    last: int


class OffsetsCommitted(GatewayEvent):
    """The cluster has stored commits; several in one event."""

    level: ClassVar[Level] = "debug"
    member_id: str
    """Who committed, empty if it was nobody in the group."""
    is_transactional: bool
    """Whether they count only once their transaction is committed."""
    from_ms: int
    """When the first of them was stored, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """When the last of them was stored, in milliseconds since 1970 (UTC)."""
    offsets: Mapping[str, tuple[CommittedOffsets, ...]]
    """By topic."""
