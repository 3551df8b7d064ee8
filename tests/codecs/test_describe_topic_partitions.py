"""DescribeTopicPartitions from a table, in both directions."""

from uuid import UUID

from kafka_codecs.describe_topic_partitions import (
    Cursor,
    DescribedPartition,
    DescribedTopic,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tests.support.codecs import check_both_ways


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    request = DescribeTopicPartitionsRequest(
        topics=(DescribedTopicName(name="t"),), cursor=Cursor(topic_name="u", partition_index=3)
    )
    wire = """
        02 02 't' 00                        # topics
        000007d0                            # response_partition_limit
        01 02 'u' 00000003 00               # cursor
        00
    """
    check_both_ways(request, 0, wire)


def test_a_response_encodes_and_decodes() -> None:
    """As above."""
    partition = DescribedPartition(
        partition_index=3, leader_id=1, replica_nodes=(1,), isr_nodes=(1,), offline_replicas=()
    )
    topic = DescribedTopic(name="t", topic_id=UUID(int=7), partitions=(partition,))
    wire = """
        00000000                            # throttle_time_ms
        02                                  # topics
          0000 02 't'                       # error_code, name
          00000000000000000000000000000007  # topic_id
          00                                # is_internal
          02                                # partitions
            0000 00000003 00000001 ffffffff # error_code, partition_index, leader_id, leader_epoch
            02 00000001 02 00000001         # replica_nodes, isr_nodes
            00 00 01 00                     # eligible_leader_replicas, last_known_elr, offline
          80000000 00                       # topic_authorized_operations
        ff                                  # next_cursor
        00
    """
    check_both_ways(DescribeTopicPartitionsResponse(topics=(topic,)), 0, wire)
