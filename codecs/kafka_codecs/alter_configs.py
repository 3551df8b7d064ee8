"""AlterConfigs (key 33), versions 0 to 2, replaces all configs of a resource.

- v1 lets a broker answer before it throttles; v2 is flexible.
- Deprecated in favour of IncrementalAlterConfigs (KIP-339), which has the same errors.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.incremental_alter_configs import AlterConfigsResourceResponse
from kafka_codecs.primitives import Int8, Int32


@structure
class AlterableConfig(Struct):
    """One key and its value."""

    name: str
    value: str | None


@structure
class AlterConfigsResource(Struct):
    """The new configs of a resource; configs not listed return to their defaults."""

    resource_type: Int8
    resource_name: str = wire(entity=Entity.CONFIG_RESOURCE)
    configs: tuple[AlterableConfig, ...]


@message(ApiKey.ALTER_CONFIGS, versions=range(3))
class AlterConfigsRequest(Struct):
    """Replace the configs of resources."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


@message(ApiKey.ALTER_CONFIGS, versions=range(3))
class AlterConfigsResponse(Struct):
    """One entry per resource of the request."""

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
