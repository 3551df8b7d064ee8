"""DescribeCluster (key 60), versions 0 to 2, all flexible.

- v1 adds the endpoint type (KIP-919); v2 adds fenced brokers (KIP-1073).

Errors: UNSUPPORTED_VERSION, MISMATCHED_ENDPOINT_TYPE and UNSUPPORTED_ENDPOINT_TYPE (v1+),
INVALID_REQUEST.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED
from kafka_codecs.primitives import Int8, Int16, Int32


@message(ApiKey.DESCRIBE_CLUSTER, versions=range(3))
class DescribeClusterRequest(Struct):
    """Ask for the brokers (endpoint type 1) or the controllers (2)."""

    include_cluster_authorized_operations: bool
    endpoint_type: Int8 = wire(since=1, default=1)
    include_fenced_brokers: bool = wire(since=2, default=False)


@structure
class DescribeClusterBroker(Struct):
    """A broker and its address."""

    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: bool = wire(since=2, default=False)


@message(ApiKey.DESCRIBE_CLUSTER, versions=range(3))
class DescribeClusterResponse(Struct):
    """The cluster and its brokers."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Int8 = wire(since=1, default=1)
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED
