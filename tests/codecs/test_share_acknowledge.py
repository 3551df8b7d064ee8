"""ShareAcknowledge from a table, in both directions."""

from uuid import UUID

from kafka_codecs.produce import LeaderIdAndEpoch, NodeEndpoint
from kafka_codecs.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kafka_codecs.share_fetch import AcknowledgementBatch
from tests.support.codecs import check_both_ways

TOPIC_ID = UUID(int=7)


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    batch = AcknowledgementBatch(first_offset=1, last_offset=2, acknowledge_types=(2,))
    partition = AcknowledgePartition(partition_index=3, acknowledgement_batches=(batch,))
    request = ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=4,
        topics=(AcknowledgeTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
    )
    wire = """
        02 'g' 02 'm' 00000004                      # group_id, member_id, share_session_epoch
        02 00000000000000000000000000000007         # topics
          02 00000003                               # partitions
            02 0000000000000001 0000000000000002 02 02 00    # acknowledgement_batches
            00
          00
        00
    """
    check_both_ways(request, 1, wire)


def test_a_response_encodes_and_decodes() -> None:
    """Its last field has the addresses of other leaders."""
    leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    partition = PartitionData(partition_index=3, error_code=6, current_leader=leader)
    topic = ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
    endpoint = NodeEndpoint(node_id=2, host="h", port=9)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=4, responses=(topic,), node_endpoints=(endpoint,)
    )
    wire = """
        00000000 0000 00 00000004                   # throttle, error, message, lock timeout
        02 00000000000000000000000000000007         # responses
          02 00000003 0006 00                       # partitions: index, error
            00000002 00000005 00                    # current_leader
            00
          00
        02 00000002 02 'h' 00000009 00 00           # node_endpoints
        00
    """
    check_both_ways(response, 2, wire)
