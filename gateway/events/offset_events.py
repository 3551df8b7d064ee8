"""Events about the offsets that members fetch and commit."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from pydantic.dataclasses import dataclass

from gateway.events.event import GatewayEvent, Level, Moment
from gateway.events.member_events import TopicIds
from gateway.json_schemas import DOCUMENTED

# A model would take a kilobyte for each partition of each commit that the report reads.


@dataclass(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class FetchedOffset:
    """The committed offset of one partition, as returned to the client."""

    partition: int
    """The partition's number."""
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
    """The offsets by topic."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of these topics, as far as known."""


@dataclass(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class CommittedOffsets:
    """The commits for one partition in one interval."""

    partition: int
    """The partition's number."""
    commits: int
    """The number of commits that the cluster stored."""
    first: int
    """The offset of the first commit."""
    lowest: int
    """The lowest offset of all commits."""
    last: int
    """The offset of the last commit."""


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
    """The commits by topic."""
    transactional_id: str | None = None
    """The producer's transactional id, if the commits are part of transactions."""
    requested_ms: Moment | None = None
    """Time when the first commit was requested, in milliseconds since 1970 (UTC); null in a line of
    version 1."""
    first_sequence: int | None = None
    """The group's last sequence number when the first commit was stored; null in a line of version
    1."""
    last_sequence: int | None = None
    """The group's last sequence number when the last commit was stored; null in a line of version
    1."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of these topics, as far as known."""


class TransactionEnded(GatewayEvent):
    """A transaction with offsets of the group was committed or aborted. Its commits count only if
    it was committed."""

    level: ClassVar[Level] = "debug"
    transactional_id: str
    """The producer's transactional id."""
    is_committed: bool
    """Whether it was committed."""
    member_id: str = NO_MEMBER
    """The member whose producer it is; empty if unknown."""


class OffsetsDeleted(GatewayEvent):
    """An admin deleted committed offsets. The next owner starts where its own settings say."""

    partitions: Mapping[str, tuple[int, ...]]
    """Partition numbers by topic."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of these topics, as far as known."""
