"""ShareFetch from a table, in both directions."""

from uuid import UUID

from kafka_codecs.produce import LeaderIdAndEpoch, NodeEndpoint
from kafka_codecs.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tests.support.codecs import check_both_ways

TOPIC_ID = UUID(int=7)


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    batch = AcknowledgementBatch(first_offset=1, last_offset=2, acknowledge_types=(1,))
    partition = FetchPartition(partition_index=3, acknowledgement_batches=(batch,))
    request = ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=4,
        max_wait_ms=5,
        min_bytes=6,
        max_bytes=7,
        max_records=8,
        batch_size=9,
        is_renew_ack=True,
        topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(ForgottenTopic(topic_id=TOPIC_ID, partitions=(3,)),),
    )
    wire = """
        02 'g' 02 'm' 00000004                      # group_id, member_id, share_session_epoch
        00000005 00000006 00000007                  # max_wait_ms, min_bytes, max_bytes
        00000008 00000009 00 01                     # max_records, batch_size, mode, is_renew_ack
        02 00000000000000000000000000000007         # topics
          02 00000003                               # partitions
            02 0000000000000001 0000000000000002    # acknowledgement_batches: offsets
              02 01 00                              # acknowledge_types
            00
          00
        02 00000000000000000000000000000007 02 00000003 00    # forgotten_topics_data
        00
    """
    check_both_ways(request, 2, wire)


def test_a_response_encodes_and_decodes() -> None:
    """Its last field has the addresses of other leaders."""
    acquired = AcquiredRecords(first_offset=1, last_offset=2, delivery_count=1)
    partition = PartitionData(
        partition_index=3,
        error_code=6,
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        records=b"r",
        acquired_records=(acquired,),
    )
    topic = ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
    endpoint = NodeEndpoint(node_id=2, host="h", port=9)
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=4, responses=(topic,), node_endpoints=(endpoint,)
    )
    wire = """
        00000000 0000 00 00000004                   # throttle, error, message, lock timeout
        02 00000000000000000000000000000007         # responses
          02 00000003 0006 00 0000 00               # partitions: index, errors
            00000002 00000005 00                    # current_leader
            02 'r'                                  # records
            02 0000000000000001 0000000000000002 0001 00    # acquired_records
            00
          00
        02 00000002 02 'h' 00000009 00 00           # node_endpoints
        00
    """
    check_both_ways(response, 1, wire)
