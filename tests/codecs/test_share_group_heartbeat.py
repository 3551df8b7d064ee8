"""ShareGroupHeartbeat from a table, in both directions."""

from uuid import UUID

from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.support.codecs import check_both_ways


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=("t",)
    )
    check_both_ways(request, 1, "02 'g' 02 'm' 00000000 00 02 02 't' 00")


def test_a_response_encodes_and_decodes() -> None:
    """A null assignment means that it has not changed."""
    partitions = TopicPartitions(topic_id=UUID(int=7), partitions=(3,))
    response = ShareGroupHeartbeatResponse(
        member_id="m",
        member_epoch=1,
        heartbeat_interval_ms=5,
        assignment=Assignment(topic_partitions=(partitions,)),
    )
    wire = """
        00000000 0000 00 02 'm' 00000001 00000005    # throttle, error, member, epoch, interval
        01 02 00000000000000000000000000000007 02 00000003 00 00    # assignment
        00
    """
    check_both_ways(response, 1, wire)
    check_both_ways(ShareGroupHeartbeatResponse(), 1, "00000000 0000 00 00 00000000 00000000 ff 00")
