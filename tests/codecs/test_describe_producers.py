"""DescribeProducers from a table, in both directions."""

from kafka_codecs.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducersPartitionResponse,
    ProducerState,
    ProducersTopicRequest,
    ProducersTopicResponse,
)
from tests.support.codecs import check_both_ways


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    topic = ProducersTopicRequest(name="t", partition_indexes=(3,))
    check_both_ways(DescribeProducersRequest(topics=(topic,)), 0, "02 02 't' 02 00000003 00 00")


def test_a_response_encodes_and_decodes() -> None:
    """As above."""
    producer = ProducerState(producer_id=4, producer_epoch=5, coordinator_epoch=6)
    partition = ProducersPartitionResponse(partition_index=3, active_producers=(producer,))
    topic = ProducersTopicResponse(name="t", partitions=(partition,))
    wire = """
        00000000                            # throttle_time_ms
        02 02 't'                           # topics
          02 00000003 0000 00               # partitions: index, error_code, error_message
            02 0000000000000004 00000005    # active_producers: id, epoch
            ffffffff ffffffffffffffff       # last_sequence, last_timestamp
            00000006 ffffffffffffffff 00    # coordinator_epoch, current_txn_start_offset
            00
          00
        00
    """
    check_both_ways(DescribeProducersResponse(topics=(topic,)), 0, wire)
