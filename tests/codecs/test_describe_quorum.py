"""DescribeQuorum, from hand-written bytes."""

from uuid import UUID

from kafka_codecs.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from tests.support.codecs import check_both_ways


def test_the_answer_of_a_quorum_with_addresses() -> None:
    """v2 names the controllers' addresses; a port is unsigned."""
    voter = ReplicaState(
        replica_id=1,
        replica_directory_id=UUID(int=7),
        log_end_offset=9,
        last_fetch_timestamp=2,
        last_caught_up_timestamp=3,
    )
    partition = PartitionData(
        partition_index=0,
        error_message=None,
        leader_id=1,
        leader_epoch=4,
        high_watermark=8,
        current_voters=(voter,),
        observers=(),
    )
    answer = DescribeQuorumResponse(
        error_message=None,
        topics=(TopicData(topic_name="m", partitions=(partition,)),),
        nodes=(Node(node_id=1, listeners=(Listener(name="C", host="h", port=49_093),)),),
    )
    check_both_ways(
        answer,
        2,
        """
        0000 00                           # no error
        02 02 'm' 02                      # a topic and its partition
        00000000 0000 00 00000001 00000004 0000000000000008
        02 00000001 00000000000000000000000000000007 0000000000000009
        0000000000000002 0000000000000003 00
        01 00 00                          # no observers
        02 00000001 02 02 'C' 02 'h' bfc5 00 00
        00
        """,
    )
