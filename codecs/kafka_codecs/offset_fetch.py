"""OffsetFetch (key 9), versions 0 to 10; Kafka 4 has dropped version 0.

- v0 means ZooKeeper: brokers read its offsets there, and without ZooKeeper refuse it.
- v1 is the first for offsets in Kafka, with the same layout.
- v2 adds the top-level error code; null topics request all. v3 adds the throttle time.
- v4 lets a broker answer before it throttles; v5 adds the leader epoch; v6 is flexible.
- v7 adds require_stable: the client retries offsets of open transactions until they are stable.
- v8 requests many groups at once: `groups` replaces the fields of the single group.
- v9 adds member id and epoch, for members of the consumer protocol (KIP-848).
- v10 identifies topics by id instead of by name.

Kafka's schema declares topics and partitions twice, for the single group and for one of many. Both
are alike on the wire, so one class here serves both.

Errors, per group (per partition up to v1): GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH (v9+); per partition: TOPIC_AUTHORIZATION_FAILED,
UNKNOWN_TOPIC_OR_PARTITION, UNSTABLE_OFFSET_COMMIT (v7+), UNKNOWN_TOPIC_ID (v10+).
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int16, Int32, Int64


@structure
class OffsetFetchRequestTopic(Struct):
    """A topic of a group, by name up to v9, by id from v10 on."""

    name: str = wire(until=9, default="", ignorable=True)
    topic_id: UUID = wire(since=10, default=NO_TOPIC_ID, ignorable=True)
    partition_indexes: tuple[Int32, ...]


@structure
class OffsetFetchRequestGroup(Struct):
    """One of many groups; null `topics` requests all of them."""

    group_id: str
    member_id: str | None = wire(since=9, default=None, ignorable=True)
    member_epoch: Int32 = wire(since=9, default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopic, ...] | None


@message(ApiKey.OFFSET_FETCH, versions=range(11))
class OffsetFetchRequest(Struct):
    """Fetch offsets of `group_id` and `topics` up to v7, of `groups` from v8 on."""

    group_id: str = wire(until=7, default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = wire(until=7, nullable_since=2, default=())
    groups: tuple[OffsetFetchRequestGroup, ...] = wire(since=8, default=())
    require_stable: bool = wire(since=7, default=False)


@structure
class OffsetFetchResponsePartition(Struct):
    """The offset of a partition; -1 if there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(since=5, default=-1, ignorable=True)
    metadata: str | None
    error_code: Int16 = 0


@structure
class OffsetFetchResponseTopic(Struct):
    """A topic of a group, by name up to v9, by id from v10 on."""

    name: str = wire(until=9, default="", ignorable=True)
    topic_id: UUID = wire(since=10, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartition, ...]


@structure
class OffsetFetchResponseGroup(Struct):
    """The offsets of one of many groups."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: Int16 = 0


@message(ApiKey.OFFSET_FETCH, versions=range(11))
class OffsetFetchResponse(Struct):
    """Offsets: of the single group up to v7, in `groups` from v8 on."""

    throttle_time_ms: Int32 = wire(since=3, default=0, ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = wire(until=7, default=())
    error_code: Int16 = wire(since=2, until=7, default=0, ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = wire(since=8, default=())
