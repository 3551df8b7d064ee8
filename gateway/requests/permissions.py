"""What a client must be allowed to do for each api that the gateway answers itself, as in Kafka.

What is not here, the cluster checks when it executes the request on the client's own connection:
the topics of commits and fetches of offsets, and every relayed api.
"""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.cluster.group_permissions import Operation
from gateway.data_path.grants import Resource
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode

_GROUP, _TOPIC, _TRANSACTION = Resource.GROUP, Resource.TOPIC, Resource.TRANSACTIONAL_ID

NEEDED: Mapping[tuple[ApiKey, Resource], Operation] = MappingProxyType(
    {
        (ApiKey.JOIN_GROUP, _GROUP): Operation.READ,
        (ApiKey.SYNC_GROUP, _GROUP): Operation.READ,
        (ApiKey.HEARTBEAT, _GROUP): Operation.READ,
        (ApiKey.LEAVE_GROUP, _GROUP): Operation.READ,
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, _GROUP): Operation.READ,
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, _TOPIC): Operation.DESCRIBE,
        (ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT, _GROUP): Operation.READ,
        (ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT, _GROUP): Operation.READ,
        (ApiKey.OFFSET_COMMIT, _GROUP): Operation.READ,
        (ApiKey.TXN_OFFSET_COMMIT, _TRANSACTION): Operation.WRITE,
        (ApiKey.TXN_OFFSET_COMMIT, _GROUP): Operation.READ,
        (ApiKey.OFFSET_FETCH, _GROUP): Operation.DESCRIBE,
        (ApiKey.OFFSET_DELETE, _GROUP): Operation.DELETE,
        (ApiKey.OFFSET_DELETE, _TOPIC): Operation.READ,
        (ApiKey.DESCRIBE_GROUPS, _GROUP): Operation.DESCRIBE,
        (ApiKey.CONSUMER_GROUP_DESCRIBE, _GROUP): Operation.DESCRIBE,
        (ApiKey.CONSUMER_GROUP_DESCRIBE, _TOPIC): Operation.DESCRIBE,
        (ApiKey.LIST_GROUPS, _GROUP): Operation.DESCRIBE,
        (ApiKey.DELETE_GROUPS, _GROUP): Operation.DELETE,
        (ApiKey.DESCRIBE_CONFIGS, _GROUP): Operation.DESCRIBE_CONFIGS,
        (ApiKey.ALTER_CONFIGS, _GROUP): Operation.ALTER_CONFIGS,
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, _GROUP): Operation.ALTER_CONFIGS,
        (ApiKey.LIST_CONFIG_RESOURCES, _GROUP): Operation.DESCRIBE_CONFIGS,
    }
)
"""The operation that each api needs on each group, topic and transactional id that it names."""

REFUSED: Mapping[Resource, ErrorCode] = MappingProxyType(
    {
        Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The answer without that permission."""

OLDER_OPERATIONS: Mapping[Operation, Operation] = MappingProxyType(
    {
        Operation.DESCRIBE_CONFIGS: Operation.DESCRIBE,
        Operation.ALTER_CONFIGS: Operation.DELETE,
    }
)
"""DEV D48: what counts instead in a cluster whose groups have no configs and so no such ACLs."""
