"""StreamsGroupHeartbeat from a table, in both directions."""

from kafka_codecs.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.support.codecs import check_both_ways


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    changelog = TopicInfo(
        name="c", partitions=0, replication_factor=1, topic_configs=(KeyValue(key="k", value="v"),)
    )
    subtopology = Subtopology(
        subtopology_id="0",
        source_topics=("t",),
        source_topic_regex=(),
        state_changelog_topics=(changelog,),
        repartition_sink_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=0,
        topology=Topology(epoch=0, subtopologies=(subtopology,)),
        user_endpoint=Endpoint(host="h", port=9),
    )
    wire = """
        02 'g' 02 'm' 00000000 00000000 00 00 ffffffff    # ids, epochs, instance, rack, timeout
        01 00000000 02 02 '0' 02 02 't' 01          # topology: epoch, subtopologies, topics, regex
          02 02 'c' 00000000 0001 02 02 'k' 02 'v' 00 00    # state_changelog_topics
          01 01 01 00                               # repartition topics, copartition_groups
          00
        00 00 00 00                                 # tasks, process_id
        01 02 'h' 0009 00                           # user_endpoint
        00 00 00 00                                 # client_tags, offsets, shutdown_application
        00
    """
    check_both_ways(request, 1, wire)


def test_a_response_encodes_and_decodes() -> None:
    """The older version has a narrower lag, and no field for the topology's description."""
    tasks = (TaskIds(subtopology_id="0", partitions=(3,)),)
    response = StreamsGroupHeartbeatResponse(
        member_id="m", member_epoch=1, heartbeat_interval_ms=5, active_tasks=tasks
    )
    start = "00000000 0000 00 02 'm' 00000001 00000005"
    check_both_ways(
        response, 0, f"{start} 00000000 00000000 00 02 02 '0' 02 00000003 00 00 00 00000000 00 00"
    )
    newer = "00000000 ffffffffffffffff 00 02 02 '0' 02 00000003 00 00 00 00 00000000 00 00"
    check_both_ways(response, 1, f"{start} {newer}")
