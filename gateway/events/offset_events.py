"""Events about the offsets that members fetch and commit."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from gateway.events.event import GatewayEvent, Level, Moment

_CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)
# A model would take a kilobyte for each partition of each commit that the report reads.


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class FetchedOffset:
    """The committed offset of one partition, as returned to the client."""

    partition: int
    offset: int
    """-1 if nothing was committed: the client starts where its own settings say."""


NO_MEMBER = ""
"""The member id of a client that is not in the group, or that does not identify itself."""


class OffsetsFetched(GatewayEvent):
    """The cluster returned committed offsets to a member or another client.

    Repeated fetches are reported only if the member's partitions have changed meanwhile.
    """

    level: ClassVar[Level] = "debug"
    member_id: str
    """The member; empty if unknown. Before version 9 the request names no member, and earlier
    requests of its connection may not either."""
    starts: Mapping[str, tuple[FetchedOffset, ...]]
    """By topic."""


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class CommittedOffsets:
    """The commits for one partition in one interval."""

    partition: int
    commits: int
    """The number of commits that the cluster stored."""
    first: int
    """The offset of the first commit."""
    lowest: int
    last: int


class OffsetsCommitted(GatewayEvent):
    """The cluster stored commits. One event sums up several."""

    level: ClassVar[Level] = "debug"
    member_id: str
    """The member; empty if the committer is not in the group."""
    is_transactional: bool
    """Whether the commits count only once their transaction is committed."""
    from_ms: Moment
    """Time when the first commit was stored, in milliseconds since 1970 (UTC)."""
    to_ms: Moment
    """Time when the last commit was stored, in milliseconds since 1970 (UTC)."""
    offsets: Mapping[str, tuple[CommittedOffsets, ...]]
    """By topic."""


class OffsetsDeleted(GatewayEvent):
    """An admin deleted committed offsets. The next owner starts where its own settings say."""

    partitions: Mapping[str, tuple[int, ...]]
    """By topic."""
