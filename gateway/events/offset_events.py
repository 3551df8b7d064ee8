"""What members fetch and commit."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from gateway.events.event import GatewayEvent, Level, Moment


class FetchedOffset(BaseModel):
    """The committed offset of one partition, as it was given out."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    partition: int
    offset: int
    """-1: nothing was committed; whoever asked begins where its own settings say."""


NO_MEMBER = ""
"""The member id of whoever is not in the group, or does not say who it is; it may be any member."""


class OffsetsFetched(GatewayEvent):
    """The cluster has said from where to go on, to a member or to somebody who asked for one.

    What is asked for again is told again only when partitions of the member have moved meanwhile.
    """

    level: ClassVar[Level] = "debug"
    member_id: str
    """Who asked, empty if that is not known: before version 9 a request names nobody, and its
    connection may not have done so either."""
    starts: Mapping[str, tuple[FetchedOffset, ...]]
    """By topic."""


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
    from_ms: Moment
    """When the first of them was stored, in milliseconds since 1970 (UTC)."""
    to_ms: Moment
    """When the last of them was stored, in milliseconds since 1970 (UTC)."""
    offsets: Mapping[str, tuple[CommittedOffsets, ...]]
    """By topic."""


class OffsetsDeleted(GatewayEvent):
    """An admin has deleted committed offsets: whoever comes next begins where its own settings
    say."""

    partitions: Mapping[str, tuple[int, ...]]
    """By topic."""
