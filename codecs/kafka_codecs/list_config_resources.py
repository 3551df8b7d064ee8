"""ListConfigResources (key 74), versions 0 and 1, both flexible.

- v0 was called ListClientMetricsResources and lists nothing else (KIP-714).
- v1 adds the types, in the request and in the answer (KIP-1142).

Errors: CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION for a type that the broker cannot list.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.describe_configs import ConfigResourceType
from kafka_codecs.primitives import Int8, Int16, Int32


@message(ApiKey.LIST_CONFIG_RESOURCES, versions=range(2))
class ListConfigResourcesRequest(Struct):
    """List the resources that have configs; an empty list of types requests all types."""

    resource_types: tuple[Int8, ...] = wire(since=1, default=())


@structure
class ConfigResource(Struct):
    """A resource that has configs."""

    resource_name: str = wire(entity=Entity.CONFIG_RESOURCE)
    resource_type: Int8 = wire(since=1, default=ConfigResourceType.CLIENT_METRICS, ignorable=True)


@message(ApiKey.LIST_CONFIG_RESOURCES, versions=range(2))
class ListConfigResourcesResponse(Struct):
    """The resources, or one error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()
