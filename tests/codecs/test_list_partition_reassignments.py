"""ListPartitionReassignments from a table, in both directions."""

from kafka_codecs.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.support.codecs import check_both_ways


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    topic = ListPartitionReassignmentsTopics(name="t", partition_indexes=(3,))
    request = ListPartitionReassignmentsRequest(topics=(topic,))
    check_both_ways(request, 0, "0000ea60 02 02 't' 02 00000003 00 00")


def test_a_response_encodes_and_decodes() -> None:
    """As above."""
    partition = OngoingPartitionReassignment(
        partition_index=3, replicas=(1, 2), adding_replicas=(2,), removing_replicas=()
    )
    topic = OngoingTopicReassignment(name="t", partitions=(partition,))
    wire = """
        00000000 0000 00                    # throttle_time_ms, error_code, error_message
        02 02 't'                           # topics
          02 00000003                       # partitions, partition_index
            03 00000001 00000002            # replicas
            02 00000002 01 00               # adding_replicas, removing_replicas
          00
        00
    """
    check_both_ways(ListPartitionReassignmentsResponse(topics=(topic,)), 0, wire)
