"""ApiVersions (key 18), versions 0 to 5.

- v1 adds the throttle time to the response.
- v2 lets a broker answer before it throttles.
- v3 is flexible; it adds the client's software to the request and features to the response. The
  response header stays at version 0.
- v4 allows a feature's lowest version to be 0 (KAFKA-17011).
- v5 adds the cluster and the node that the client means to talk to (KIP-1242).

Errors: UNSUPPORTED_VERSION (with a v0 body that lists the versions of this api, KIP-511),
INVALID_REQUEST (the name or version of the client software is malformed), REBOOTSTRAP_REQUIRED
(v5+: this is another cluster or node).
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@message(ApiKey.API_VERSIONS, versions=range(6))
class ApiVersionsRequest(Struct):
    """Ask for the supported versions of every api; identifies the client's software."""

    client_software_name: str = wire(since=3, default="", ignorable=True)
    client_software_version: str = wire(since=3, default="", ignorable=True)
    cluster_id: str | None = wire(since=5, default=None, ignorable=True)
    node_id: Int32 = wire(since=5, default=-1, ignorable=True)


@structure
class ApiVersion(Struct):
    """An api and the inclusive range of versions that the broker supports."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@structure
class SupportedFeatureKey(Struct):
    """A feature and the inclusive range of levels that the broker supports."""

    name: str
    min_version: Int16
    max_version: Int16


@structure
class FinalizedFeatureKey(Struct):
    """A feature and the levels that the cluster has finalized."""

    name: str
    max_version_level: Int16
    min_version_level: Int16


@message(ApiKey.API_VERSIONS, versions=range(6))
class ApiVersionsResponse(Struct):
    """The versions and features of a broker."""

    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = wire(
        since=3, tag=0, default=(), ignorable=True
    )
    finalized_features_epoch: Int64 = wire(since=3, tag=1, default=-1, ignorable=True)
    finalized_features: tuple[FinalizedFeatureKey, ...] = wire(
        since=3, tag=2, default=(), ignorable=True
    )
    zk_migration_ready: bool = wire(since=3, tag=3, default=False, ignorable=True)
