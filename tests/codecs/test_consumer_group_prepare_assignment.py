"""ConsumerGroupPrepareAssignment from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.consumer_group_prepare_assignment import (
    Assignor,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    Member,
    TopicMetadata,
)
from kafka_codecs.declaration import Struct
from tests.support.codecs import check_both_ways

TOPIC = UUID(int=1)


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=4),
            "02 'g' 02 'm' 00000004 00",
        ),
        (
            ConsumerGroupPrepareAssignmentResponse(
                group_epoch=6,
                assignor_name="weights",
                members=(
                    Member(
                        member_id="m",
                        member_epoch=4,
                        rack_id="r",
                        subscribed_topic_ids=(TOPIC,),
                        assignor=Assignor(reason=1, metadata_version=2, metadata_bytes=b"\x09"),
                        topic_partitions=(TopicPartitions(topic_id=TOPIC, partitions=(3,)),),
                    ),
                    Member(
                        member_id="c",
                        member_epoch=5,
                        instance_id="i",
                        subscribed_topic_ids=(),
                        assignor=Assignor(reason=0, metadata_version=-1, metadata_bytes=b""),
                        topic_partitions=(),
                    ),
                ),
                topics=(TopicMetadata(topic_id=TOPIC, topic_name="t", num_partitions=8),),
            ),
            """
            00000000 0000 00 00000006 08 'weights'
            03                                                      # two members
            02 'm' 00000004 00 02 'r'
            02 00000000000000000000000000000001
            01 0002 02 09 00
            02 00000000000000000000000000000001 02 00000003 00
            00
            02 'c' 00000005 02 'i' 00
            01
            00 ffff 01 00
            01
            00
            02 00000000000000000000000000000001 02 't' 00000008 00  # one topic
            00
            """,
        ),
        (
            ConsumerGroupPrepareAssignmentResponse(error_code=69, error_message="no"),
            "00000000 0045 03 'no' 00000000 01 01 01 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, wire: str) -> None:
    """The bytes follow from the schema in KIP-848: no released client reads them."""
    check_both_ways(message, 0, wire)
