"""Share groups and streams groups are the cluster's: Java's own clients do behind the gateway what
they do at the broker, and never learn an address of the cluster."""

from pathlib import Path
from uuid import uuid4

import pytest

from gateway.board.views import GroupPage
from gateway.cluster.broker_connection import BrokerConnection
from gateway.control.client import fetch_view
from gateway.control.messages import DescribeGroup
from gateway.operators import OperatorsConfig
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic
from kafka_codecs.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafka_codecs.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.applications import (
    LIMIT_S,
    Application,
    apis_in,
    check_alike,
    filled_topic,
    printed_lines,
    streams_class_path,
)
from tests.support.configs import ConfigClient
from tests.support.gateway import whole_gateway
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.kafka_jars import kafka_jars
from tests.support.releases import with_new_protocol

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S),
    with_new_protocol(),
]

RECORDS = 300
SHARE_APIS = {
    *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
    *(ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS),
}
STREAMS_APIS = {ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE}


def reading(program: str, class_path: str, topic: str, *options: str) -> Application:
    """A Java program that reads the topic, as an application."""
    return lambda servers, name: printed_lines(
        program, class_path, servers, topic, name, RECORDS, *options
    )


async def test_share_consumers_read_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster,
) -> None:
    """The test includes a config of the group, a description, its offsets, and its deletion."""
    topic = await filled_topic(kafka, RECORDS)
    class_path = f"{kafka_jars(kafka.release)}/*"
    lines, recorder = await check_alike(kafka, reading("ShareGroupClient", class_path, topic))
    assert f"values 0 to {RECORDS - 1}" in lines
    assert "reset earliest" in lines
    assert apis_in(recorder) >= SHARE_APIS


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
async def test_a_streams_application_counts_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster, guarantee: str
) -> None:
    """The test includes topics that its group creates, its commits, a description, and its
    deletion."""
    topic, class_path = await filled_topic(kafka, RECORDS), streams_class_path(kafka.release)
    lines, recorder = await check_alike(
        kafka, reading("StreamsProgram", class_path, topic, "streams", guarantee)
    )
    assert f"counted {RECORDS}" in lines
    assert apis_in(recorder) >= STREAMS_APIS


async def test_a_share_fetch_at_another_broker_names_the_leaders_listener(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The answer ends with its address. The group is shown as the cluster's."""
    topic, group, member_id = await filled_topic(kafka, RECORDS), fresh_group("share"), str(uuid4())
    operators = OperatorsConfig(control_folder=tmp_path)
    async with whole_gateway(kafka.addresses, operators=operators) as gateway:
        listeners = await gateway.listeners()
        coordinator = (await find_coordinator(gateway.address, group)).node_id
        async with await BrokerConnection.open(*listeners[coordinator]) as client:
            await ConfigClient(client).values(group)  # there is no such group until then
            joined = await client.ask(
                ShareGroupHeartbeatRequest(
                    group_id=group,
                    member_id=member_id,
                    member_epoch=0,
                    subscribed_topic_names=(topic,),
                )
            )
            assert joined.error_code == 0
            named = MetadataRequestTopic(name=topic)
            (described,) = (await client.ask(MetadataRequest(topics=(named,)))).topics
        partition = described.partitions[0]
        other = next(node for node in listeners if node != partition.leader_id)
        fetch = ShareFetchRequest(
            group_id=group,
            member_id=member_id,
            share_session_epoch=0,
            max_wait_ms=100,
            min_bytes=0,
            max_records=10,
            batch_size=10,
            topics=(
                FetchTopic(
                    topic_id=described.topic_id,
                    partitions=(
                        FetchPartition(
                            partition_index=partition.partition_index, acknowledgement_batches=()
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
        )
        async with await BrokerConnection.open(*listeners[other]) as client:
            answer = await client.ask(fetch)
        (refused,) = answer.responses[0].partitions
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        (endpoint,) = answer.node_endpoints
        assert endpoint.node_id == partition.leader_id
        assert (endpoint.host, endpoint.port) == listeners[partition.leader_id]
        page = await fetch_view(tmp_path, DescribeGroup(group_id=group), GroupPage)
        assert (page.mode, page.stands) == ("forwarded", "the cluster serves it, a share group")
        assert "share group" in (page.blocker or "")
