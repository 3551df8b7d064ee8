"""Metadata from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.codecs import check_both_ways

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def partition(**more: object) -> MetadataResponsePartition:
    """Partition 0 with leader 1."""
    fields = {"partition_index": 0, "leader_id": 1, "replica_nodes": (1, 2), "isr_nodes": (1,)}
    return MetadataResponsePartition(**(fields | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (MetadataRequest(topics=()), 0, "00000000"),
        (MetadataRequest(topics=None), 1, "ffffffff"),
        (MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 1, "00000001 0001 't'"),
        (MetadataRequest(topics=None, allow_auto_topic_creation=False), 4, "ffffffff 00"),
        (
            MetadataRequest(
                topics=(MetadataRequestTopic(name="t"),), include_cluster_authorized_operations=True
            ),
            9,
            "02 02 't' 00 01 01 00 00",
        ),
        (
            MetadataRequest(topics=(MetadataRequestTopic(topic_id=TOPIC_ID, name=None),)),
            12,
            "02 00112233445566778899aabbccddeeff 00 00 01 00 00",
        ),
        (
            MetadataResponse(
                brokers=(MetadataResponseBroker(node_id=1, host="h", port=9092),),
                topics=(MetadataResponseTopic(name="t", partitions=(partition(),)),),
            ),
            0,
            """
            00000001 00000001 0001 'h' 00002384                     # brokers
            00000001 0000 0001 't'                                  # topics
            00000001 0000 00000000 00000001                         # partitions, their leader
            00000002 00000001 00000002 00000001 00000001            # replicas, isr
            """,
        ),
        (
            MetadataResponse(
                throttle_time_ms=5,
                brokers=(MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r"),),
                cluster_id="c",
                controller_id=1,
                topics=(
                    MetadataResponseTopic(
                        name="t",
                        is_internal=True,
                        partitions=(partition(leader_epoch=3, offline_replicas=(2,)),),
                        topic_authorized_operations=8,
                    ),
                ),
                cluster_authorized_operations=4,
            ),
            8,
            """
            00000005
            00000001 00000001 0001 'h' 00002384 0001 'r'
            0001 'c' 00000001
            00000001 0000 0001 't' 01
            00000001 0000 00000000 00000001 00000003
            00000002 00000001 00000002 00000001 00000001 00000001 00000002
            00000008 00000004
            """,
        ),
        (
            MetadataResponse(
                topics=(
                    MetadataResponseTopic(error_code=100, name=None, topic_id=TOPIC_ID),
                    MetadataResponseTopic(name="t", partitions=(partition(),)),
                ),
                error_code=129,
            ),
            13,
            """
            00000000 01 00 ffffffff                                 # no broker, no cluster id
            03
            0064 00 00112233445566778899aabbccddeeff 00 01 80000000 00
            0000 02 't' 00000000000000000000000000000000 00
            02 0000 00000000 00000001 ffffffff
            03 00000001 00000002 02 00000001 01 00
            80000000 00
            0081 00
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Versions range from the oldest layout to topic ids and the top-level error."""
    check_both_ways(message, version, wire)


def test_v0_cannot_request_all_topics_by_null() -> None:
    """In v0 an empty list requests all topics."""
    with pytest.raises(WireError, match="topics: null where a value is required"):
        encode(MetadataRequest(topics=None), 0)
