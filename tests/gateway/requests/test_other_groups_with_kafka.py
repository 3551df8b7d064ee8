"""Share groups and streams groups are the cluster's: Java's own clients do behind the gateway what
they do at the broker, and never learn an address of the cluster."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from confluent_kafka import Producer

from gateway.board.views import GroupPage
from gateway.cluster.broker_connection import BrokerConnection
from gateway.control.client import look
from gateway.control.messages import DescribeGroup
from gateway.operators import OperatorsConfig
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic
from kafka_codecs.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafka_codecs.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.client_programs import JAVA_OPTIONS, SCRIPTS
from tests.support.configs import ConfigClient
from tests.support.gateway import whole_gateway
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.installs import installed
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster
from tests.support.kafka_jars import copy_jars, kafka_jars
from tests.support.releases import with_new_protocol
from tests.support.wire_recorder import WireRecorder, recorded

LIMIT_S = 180
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S),
    with_new_protocol(),
]

GATEWAY, ADVERTISED = "127.0.0.2", "127.0.0.3"
RECORDS = 300
STREAMS_POM = Path(__file__).parents[2] / "support" / "streams" / "pom.xml"
SHARE_APIS = {
    *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
    *(ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS),
}
STREAMS_APIS = {ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE}


async def filled_topic(kafka: KafkaCluster) -> str:
    """A new topic with records."""
    topic = fresh_group("filled")
    await kafka.make_topic(topic)

    def produce() -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(10) == 0

    await trio.to_thread.run_sync(produce)
    return topic


def streams_jars(kafka: KafkaCluster) -> str:
    """The class path of a Streams application of the cluster's release."""
    jars = kafka_jars(kafka.release)
    (clients,) = jars.glob("kafka-clients-*.jar")
    version = clients.stem.removeprefix("kafka-clients-")
    choices = [f"-Dkafka.version={version}", "-DexcludeTransitive=true"]
    source = STREAMS_POM.read_bytes() + version.encode()
    streams = installed(f"streams-{version}", source, partial(copy_jars, STREAMS_POM, choices))
    return f"{jars}/*:{streams}/*"


async def printed(program: str, jars: str, *arguments: object) -> Sequence[str]:
    """The lines that a Java program prints."""
    command = ["java", *JAVA_OPTIONS, "-cp", jars, str(SCRIPTS / "java" / program)]
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process(
            [*command, *map(str, arguments)], capture_stdout=True, capture_stderr=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


async def check_alike(
    kafka: KafkaCluster, program: str, jars: str, *options: str
) -> tuple[Sequence[str], WireRecorder]:
    """Run a program at the broker and behind the gateway. Returns what both print, and what it was
    told behind the gateway."""
    topic = await filled_topic(kafka)
    of_program = partial(printed, program, jars)
    at_broker: list[Sequence[str]] = []

    async def run_at_broker() -> None:
        arguments = (kafka.bootstrap_servers, topic, fresh_group("direct"), RECORDS, *options)
        at_broker.append(await of_program(*arguments))

    async with (
        whole_gateway(kafka.addresses, listen_host=GATEWAY, advertised_host=ADVERTISED) as gateway,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(run_at_broker)
        port = gateway.address[1]
        async with await BrokerConnection.open(GATEWAY, port) as connection:
            brokers = (await connection.ask(MetadataRequest(topics=()))).brokers
        ports = [port, *(broker.port for broker in brokers)]
        async with recorded(ports, listen_host=ADVERTISED, gateway_host=GATEWAY) as recorder:
            servers = f"{ADVERTISED}:{port}"
            behind = await of_program(servers, topic, fresh_group("behind"), RECORDS, *options)
    check_addresses(kafka, recorder)
    assert [behind] == at_broker
    return behind, recorder


def check_addresses(kafka: KafkaCluster, recorder: WireRecorder) -> None:
    """No answer has a host and port of the cluster, in either encoding of a string."""
    for exchange in recorder.exchanges:
        for host, port in kafka.addresses:
            name, number = host.encode(), port.to_bytes(4, "big")
            for length in (bytes([len(name) + 1]), len(name).to_bytes(2, "big")):
                assert length + name + number not in exchange.response, exchange


def keys_of(recorder: WireRecorder) -> set[int]:
    """The apis that were used."""
    return {exchange.api_key for exchange in recorder.exchanges}


async def test_share_consumers_read_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster,
) -> None:
    """With a config of the group, a description, its offsets, and its deletion."""
    jars = f"{kafka_jars(kafka.release)}/*"
    lines, recorder = await check_alike(kafka, "ShareGroupClient.java", jars)
    assert f"values 0 to {RECORDS - 1}" in lines
    assert "reset earliest" in lines
    assert keys_of(recorder) >= SHARE_APIS


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
async def test_a_streams_application_counts_behind_the_gateway_as_at_the_broker(
    kafka: KafkaCluster, guarantee: str
) -> None:
    """With topics that its group creates, its commits, a description, and its deletion."""
    lines, recorder = await check_alike(
        kafka, "StreamsProgram.java", streams_jars(kafka), guarantee
    )
    assert f"counted {RECORDS}" in lines
    assert keys_of(recorder) >= STREAMS_APIS


async def test_a_share_fetch_at_another_broker_names_the_leaders_listener(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The answer ends with its address. The group is shown as the cluster's."""
    topic, group, member_id = await filled_topic(kafka), fresh_group("share"), str(uuid4())
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
            (told,) = (await client.ask(MetadataRequest(topics=(named,)))).topics
        partition = told.partitions[0]
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
                    topic_id=told.topic_id,
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
        page = await look(tmp_path, DescribeGroup(group_id=group), GroupPage)
        assert (page.mode, page.stands) == ("forwarded", "the cluster serves it, a share group")
        assert "share group" in (page.blocker or "")
