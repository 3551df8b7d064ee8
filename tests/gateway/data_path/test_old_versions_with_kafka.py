"""Clients before Kafka 0.11, in front of a cluster that serves them, and of Kafka 4."""

import os

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.apis import ApiKey
from tests.support.client_programs import SCRIPTS, program
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import on_release, with_anchors, with_new_protocol
from tests.support.wire import open_wire, produce_frame

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LAST_SUPPORTED = "1.4.7"
SCRIPT = SCRIPTS / "kafka_python_before_0_11.py"
FIRST_OF_KAFKA_4 = 3


async def run_old_client(bootstrap: str, topic: str, group: str, version: str) -> str:
    """What the client prints."""
    installed = program("kafka-python", LAST_SUPPORTED)
    done = await trio.run_process(
        [*installed.command[:-1], str(SCRIPT), bootstrap, topic, group, version],
        env={**os.environ, **installed.environment},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@on_release("3.9")
@pytest.mark.parametrize("version", ["0.9", "0.10"])
@pytest.mark.parametrize("is_forwarded", [False, True], ids=["hosted", "forwarded"])
async def test_an_old_client_reads_what_it_owns(
    kafka: KafkaCluster, version: str, is_forwarded: bool
) -> None:
    """The old client fetches and produces with v1 or v2, and lists offsets with v0."""
    topics = [fresh_group("old") for _ in range(2)]
    for topic in topics:
        await kafka.make_topic(topic)
    patterns = ("old-*",) if is_forwarded else ()
    async with whole_gateway(kafka.addresses, forward_patterns=patterns) as gateway:
        behind = await run_old_client(gateway.bootstrap_servers, topics[0], topics[0], version)
        gateway.stop.set()
        await gateway.ended.wait()
    assert behind == f"{list(range(20))} [7, 7, 6]\n"
    assert behind == await run_old_client(kafka.bootstrap_servers, topics[1], topics[1], version)


@with_anchors()
async def test_every_lowest_version_is_the_brokers(kafka: KafkaCluster) -> None:
    """The lowest version of Produce is the broker's, too, which Kafka 4 states and refuses."""
    async with (
        whole_gateway(kafka.addresses) as gateway,
        await BrokerConnection.open(*kafka.addresses[0]) as direct,
        await BrokerConnection.open(*gateway.address) as behind,
    ):
        offered = {ApiKey(key).name: low for key, (low, _) in behind.versions.items()}
        at_broker = {ApiKey(key).name: low for key, (low, _) in direct.versions.items()}
        assert offered.items() <= {**dict.fromkeys(offered, 0), **at_broker}.items()
        gateway.stop.set()
        await gateway.ended.wait()


@with_new_protocol()
@pytest.mark.parametrize("version", range(FIRST_OF_KAFKA_4))
async def test_kafka_4_refuses_what_it_only_states(kafka: KafkaCluster, version: int) -> None:
    """Kafka 4 closes the connection, and so does the gateway. Other clients notice nothing."""
    request = produce_frame(version, {b"numbers": [b""]}, acks=1)
    async with whole_gateway(kafka.addresses) as gateway:
        async with await BrokerConnection.open(*gateway.address) as other:
            for address in (kafka.addresses[0], gateway.address):
                async with open_wire(address) as wire:
                    await wire.send(request)
                    assert await wire.at_end()
            assert await gateway.listeners()
            assert not other.closed
        gateway.stop.set()
        await gateway.ended.wait()
