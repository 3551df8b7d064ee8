"""DescribeConfigs (key 32), versions 0 to 4; Kafka 4 has dropped version 0.

- v1 replaces the flag "is default" by a config source and adds synonyms (KIP-226).
- v2 lets a broker answer before it throttles.
- v3 adds config types and, if asked for, documentation (KIP-569); v4 is flexible.
- Groups can be described since KIP-848, in every version.

Errors, per resource: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED.
"""

from enum import IntEnum

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32


class ConfigResourceType(IntEnum):
    """The kinds of resources that have configs (`resource_type`)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The level that a value is set at (`config_source`)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class ConfigType(IntEnum):
    """The type of a value (`config_type`)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@structure
class DescribeConfigsResource(Struct):
    """A resource and the keys of the requested configs; null requests all of them."""

    resource_type: Int8
    resource_name: str = wire(entity=Entity.CONFIG_RESOURCE)
    configuration_keys: tuple[str, ...] | None = ()


@message(ApiKey.DESCRIBE_CONFIGS, versions=range(5))
class DescribeConfigsRequest(Struct):
    """Ask for the configs of resources."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = wire(since=1, default=False)
    include_documentation: bool = wire(since=3, default=False)


@structure
class DescribeConfigsSynonym(Struct):
    """A value at one level; it applies if no earlier synonym is set."""

    name: str
    value: str | None
    source: Int8


@structure
class DescribeConfigsResourceResult(Struct):
    """One config; a sensitive config has a null value."""

    name: str
    value: str | None
    read_only: bool
    is_default: bool = wire(until=0, default=False, ignorable=True)
    config_source: Int8 = wire(since=1, default=-1, ignorable=True)
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...] = wire(since=1, default=(), ignorable=True)
    config_type: Int8 = wire(since=3, default=ConfigType.UNKNOWN, ignorable=True)
    documentation: str | None = wire(since=3, default=None, ignorable=True)


@structure
class DescribeConfigsResult(Struct):
    """The configs of one resource; none after an error."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str = wire(entity=Entity.CONFIG_RESOURCE)
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@message(ApiKey.DESCRIBE_CONFIGS, versions=range(5))
class DescribeConfigsResponse(Struct):
    """One entry per requested resource."""

    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()
