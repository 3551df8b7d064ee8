"""DescribeQuorum (key 55), the response only, versions 0 to 2: requests are relayed, not read.

All are flexible. v1 adds the timestamps of the replicas (KIP-836). v2 adds their log directories,
error messages, and the addresses of the controllers (KIP-853).

Errors, top-level or per partition: CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER.
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int16, Int32, Int64, UInt16


@structure
class ReplicaState(Struct):
    """A replica of the metadata log, and how far it is."""

    replica_id: Int32
    replica_directory_id: UUID = wire(since=2, default=NO_TOPIC_ID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = wire(since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = wire(since=1, default=-1, ignorable=True)


@structure
class PartitionData(Struct):
    """The replicas of a partition: its voters, and those that only read."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = wire(since=2, nullable_since=2, default="", ignorable=True)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]


@structure
class TopicData(Struct):
    """The metadata topic."""

    topic_name: str
    partitions: tuple[PartitionData, ...]


@structure
class Listener(Struct):
    """An address of a controller."""

    name: str
    host: str
    port: UInt16


@structure
class Node(Struct):
    """A controller and its addresses."""

    node_id: Int32
    listeners: tuple[Listener, ...]


@message(ApiKey.DESCRIBE_QUORUM, versions=range(3))
class DescribeQuorumResponse(Struct):
    """The quorum of the controllers."""

    error_code: Int16 = 0
    error_message: str | None = wire(since=2, nullable_since=2, default="", ignorable=True)
    topics: tuple[TopicData, ...] = ()
    nodes: tuple[Node, ...] = wire(since=2, default=())
