"""The mapping from api keys to messages."""

import pytest

from kafka_codecs import WireError
from kafka_codecs.apis import APIS, Api, ApiKey, first_flexible_version
from tests.support.codecs import NOT_IN_KAFKA, message_id

VERSIONS = {
    ApiKey.PRODUCE: range(14),
    ApiKey.FETCH: range(19),
    ApiKey.LIST_OFFSETS: range(12),
    ApiKey.METADATA: range(14),
    ApiKey.OFFSET_COMMIT: range(11),
    ApiKey.OFFSET_FETCH: range(11),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.JOIN_GROUP: range(10),
    ApiKey.HEARTBEAT: range(5),
    ApiKey.LEAVE_GROUP: range(6),
    ApiKey.SYNC_GROUP: range(6),
    ApiKey.DESCRIBE_GROUPS: range(7),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.SASL_HANDSHAKE: range(2),
    ApiKey.API_VERSIONS: range(5),
    ApiKey.CREATE_TOPICS: range(8),
    ApiKey.DELETE_TOPICS: range(7),
    ApiKey.DELETE_RECORDS: range(3),
    ApiKey.INIT_PRODUCER_ID: range(7),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(5),
    ApiKey.ADD_PARTITIONS_TO_TXN: range(4),
    ApiKey.ADD_OFFSETS_TO_TXN: range(5),
    ApiKey.END_TXN: range(6),
    ApiKey.WRITE_TXN_MARKERS: range(3),
    ApiKey.TXN_OFFSET_COMMIT: range(6),
    ApiKey.DESCRIBE_CONFIGS: range(5),
    ApiKey.ALTER_CONFIGS: range(3),
    ApiKey.ALTER_REPLICA_LOG_DIRS: range(3),
    ApiKey.CREATE_PARTITIONS: range(4),
    ApiKey.SASL_AUTHENTICATE: range(3),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.ELECT_LEADERS: range(3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: range(2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: range(2),
    ApiKey.OFFSET_DELETE: range(1),
    ApiKey.DESCRIBE_QUORUM: range(3),
    ApiKey.DESCRIBE_CLUSTER: range(3),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: range(1),
    ApiKey.DESCRIBE_LOG_DIRS: range(6),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: range(1),
    ApiKey.DESCRIBE_PRODUCERS: range(1),
    ApiKey.DESCRIBE_TRANSACTIONS: range(1),
    ApiKey.LIST_TRANSACTIONS: range(3),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: range(2),
    ApiKey.CONSUMER_GROUP_DESCRIBE: range(2),
    ApiKey.LIST_CONFIG_RESOURCES: range(2),
    ApiKey.SHARE_GROUP_HEARTBEAT: range(1, 2),
    ApiKey.SHARE_FETCH: range(1, 3),
    ApiKey.SHARE_ACKNOWLEDGE: range(1, 3),
    ApiKey.STREAMS_GROUP_HEARTBEAT: range(1),
}
"""The versions of Kafka 4.3, and the older ones of Kafka 3.9."""

NEWER = {
    ApiKey.API_VERSIONS: range(6),
    ApiKey.TXN_OFFSET_COMMIT: range(7),
    ApiKey.DELETE_GROUPS: range(4),
    ApiKey.STREAMS_GROUP_HEARTBEAT: range(2),
}
"""The versions of Kafka 4.4 that 4.3 lacks."""

OURS = dict.fromkeys(NOT_IN_KAFKA, range(1))


def test_the_versions_are_those_of_kafka() -> None:
    """The table has all of Kafka's client versions for the APIs that the gateway decodes."""
    assert {key: api.versions for key, api in APIS.items()} == VERSIONS | NEWER | OURS


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: message_id(api.response))
def test_an_api_and_its_messages_belong_together(api: Api) -> None:
    """Names, keys and versions of request and response agree, and so does the module name."""
    camel = api.key.name.title().replace("_", "")
    assert api.response.__name__ == f"{camel}Response"
    assert api.response.SCHEMA.api_key == api.key
    assert api.response.__module__ == f"kafka_codecs.{api.key.name.lower()}"
    if api.request is None:  # relayed: only its response is decoded
        return
    assert api.request.__name__ == f"{camel}Request"
    assert api.request.SCHEMA == api.response.SCHEMA


def test_an_unknown_api_key_is_a_wire_error() -> None:
    """Kafka 4.4 never had the key, or retired it."""
    assert first_flexible_version(12) == 4
    for key in (-1, 4, 7, 95):
        with pytest.raises(WireError, match=f"unknown api key {key}"):
            first_flexible_version(key)
