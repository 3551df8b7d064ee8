"""IncrementalAlterConfigs (key 44), versions 0 and 1 (KIP-339).

- v1 is flexible.
- Groups can be altered since KIP-848, in every version.

Errors, per resource: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION,
INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED,
GROUP_AUTHORIZATION_FAILED, NOT_CONTROLLER, POLICY_VIOLATION.
"""

from enum import IntEnum

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32


class ConfigOperation(IntEnum):
    """The operation on a key (`config_operation`); the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@structure
class AlterableConfig(Struct):
    """One key and the operation on it."""

    name: str
    config_operation: Int8
    value: str | None


@structure
class AlterConfigsResource(Struct):
    """The changes to one resource, applied all or none."""

    resource_type: Int8
    resource_name: str = wire(entity=Entity.CONFIG_RESOURCE)
    configs: tuple[AlterableConfig, ...]


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2))
class IncrementalAlterConfigsRequest(Struct):
    """Change the listed configs and keep the others."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


@structure
class AlterConfigsResourceResponse(Struct):
    """The answer for one resource."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str = wire(entity=Entity.CONFIG_RESOURCE)


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2))
class IncrementalAlterConfigsResponse(Struct):
    """One entry per resource of the request."""

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
