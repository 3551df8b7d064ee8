"""CreateTopics from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways

TOPIC = CreatableTopic(name="t", num_partitions=2, replication_factor=-1)
PLACED = CreatableTopic(
    name="t",
    num_partitions=-1,
    replication_factor=-1,
    assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2)),),
    configs=(CreatableTopicConfig(name="c", value=None),),
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            CreateTopicsRequest(topics=(TOPIC,), timeout_ms=16, validate_only=True),
            4,
            "00000001 0001 't' 00000002 ffff 00000000 00000000 00000010 01",
        ),
        (
            CreateTopicsRequest(topics=(PLACED,)),
            7,
            """
            02 02 't' ffffffff ffff
            02 00000000 03 00000001 00000002 00
            02 02 'c' 00 00 00
            0000ea60 00 00
            """,
        ),
        (
            CreateTopicsResponse(
                topics=(CreatableTopicResult(name="t", error_code=36, error_message="no"),)
            ),
            2,
            "00000000 00000001 0001 't' 0024 0002 'no'",
        ),
        (
            CreateTopicsResponse(
                topics=(
                    CreatableTopicResult(
                        name="t",
                        topic_id=UUID(int=1),
                        num_partitions=2,
                        replication_factor=3,
                        topic_config_error_code=29,
                        configs=(CreatableTopicConfigs(name="c", value="v", read_only=False),),
                    ),
                )
            ),
            7,
            """
            00000000
            02 02 't' 00000000000000000000000000000001 0000 00 00000002 0003
            02 02 'c' 02 'v' 00 ff 00 00
            01 00 02 001d # the one tagged field
            00
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """The topic's settings are returned from v5 on, its id from v7 on."""
    check_both_ways(message, version, wire)
