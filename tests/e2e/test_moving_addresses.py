"""Clients learn of changes in the cluster within seconds, and see only the gateway's ports.

Every byte between real clients and the gateway is recorded and decoded by kio.
"""

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from kafka_codecs.apis import ApiKey
from tests.support.gateway import QUICK, Gateway, whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster
from tests.support.releases import on_first_release, with_new_protocol
from tests.support.until import until, until_answered
from tests.support.wire_recorder import WireRecorder, addresses_in, record_traffic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

GATEWAY = "127.0.0.2"
ADVERTISED = "127.0.0.3"
LIMIT_S = 150
PACE_S = 0.05
FOLLOWS_WITHIN_S = 10
PROTOCOLS = ("classic", "consumer")


class Traffic(threading.Thread):
    """A consumer that also produces its own records, until it is stopped."""

    def __init__(self, servers: str, topics: Iterable[str], group: str, protocol: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self.group = group
        self._topics = list(topics)
        self._stopped = threading.Event()
        self.consumed = 0
        self.partitions: set[tuple[str, int]] = set()

    def run(self) -> None:
        """Produce, consume and commit."""
        self._consumer.subscribe(self._topics)
        while not self._stopped.wait(PACE_S):
            self._producer.produce(self._topics[0], b"x")
            self._producer.poll(0)
            message = self._consumer.poll(PACE_S)
            self.consumed += message is not None and message.error() is None
            held = self._consumer.assignment()
            self.partitions = {(partition.topic, partition.partition) for partition in held}
        self._consumer.close()
        self._producer.flush(LIMIT_S)

    def stop(self) -> None:
        """Let the consumer leave its group."""
        self._stopped.set()
        self.join()

    async def progress(self, records: int = 20) -> None:
        """Wait until it has consumed this many more records."""
        wanted = self.consumed + records
        await until(lambda: self.consumed >= wanted or not self.is_alive())
        assert self.is_alive()

    async def until_partitions(self, expected: set[tuple[str, int]]) -> None:
        """Wait until it owns exactly these partitions."""
        await until(lambda: self.partitions == expected or not self.is_alive())
        assert self.is_alive()


@asynccontextmanager
async def traffic(
    servers: str, *topics: str, protocols: Iterable[str] = PROTOCOLS
) -> AsyncIterator[list[Traffic]]:
    """A consumer of each protocol, each in its own group."""
    running = [Traffic(servers, topics, fresh_group("moving"), protocol) for protocol in protocols]
    for client in running:
        client.start()
    try:
        yield running
    finally:
        for client in running:
            await trio.to_thread.run_sync(client.stop)


@asynccontextmanager
async def recorded_gateway(
    kafka: KafkaCluster,
) -> AsyncIterator[tuple[Gateway, WireRecorder, str]]:
    """A gateway, its recorded traffic, and its address. At the end no client has received any other
    address."""
    async with whole_gateway(
        kafka.addresses, groups=QUICK, listen_host=GATEWAY, advertised_host=ADVERTISED
    ) as gateway:
        bootstrap_port = gateway.address[1]
        gateway.address = (GATEWAY, bootstrap_port)
        brokers_ports = [port for _, port in (await gateway.listeners()).values()]
        async with record_traffic(
            [bootstrap_port, *brokers_ports], listen_host=ADVERTISED, gateway_host=GATEWAY
        ) as recorder:
            yield gateway, recorder, f"{ADVERTISED}:{bootstrap_port}"
        ports = {port for _, port in (await gateway.listeners()).values()}
    named: set[tuple[str, int]] = set()
    keys = set()
    for exchange in recorder.exchanges:
        keys.add(exchange.api_key)
        named.update(addresses_in(exchange.decode_response()))
        for host, port in kafka.addresses:
            assert f"{host}:{port}".encode() not in exchange.response
    assert named <= {(ADVERTISED, port) for port in ports} | {("", -1)}
    assert {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.PRODUCE, ApiKey.FETCH} <= keys


@on_first_release("_three_brokers")
async def test_clients_follow_leaders_and_coordinators(three_brokers: KafkaCluster) -> None:
    """A broker is killed, another one is stopped, and both return."""
    topic = fresh_group("leaders")
    await three_brokers.make_topic(topic)
    with trio.fail_after(LIMIT_S):
        async with recorded_gateway(three_brokers) as (_, _, servers):
            async with traffic(servers, topic) as running:
                for client in running:
                    await client.progress()
                await three_brokers.brokers[1].kill()
                for client in running:
                    await client.progress()
                await three_brokers.start()
                await three_brokers.brokers[2].stop()
                for client in running:
                    await client.progress()
                await three_brokers.start()
                for client in running:
                    await client.progress()


@with_new_protocol("one_broker")
async def test_clients_reach_a_new_broker(one_broker: KafkaCluster) -> None:
    """A new broker gets its own port, and clients use it for the partitions that it leads."""
    topic, later = fresh_group("before"), fresh_group("later")
    await one_broker.make_topic(topic)
    with trio.fail_after(LIMIT_S):
        async with recorded_gateway(one_broker) as (gateway, recorder, servers):
            async with traffic(servers, topic) as running:
                for client in running:
                    await client.progress()
                await one_broker.add_broker()
                with trio.fail_after(FOLLOWS_WITHIN_S):
                    listeners = await until_answered(gateway.listeners, lambda seen: 2 in seen)
                _, new_port = listeners[2]
                await recorder.watch(new_port)
                await one_broker.make_topic(later)
                async with traffic(servers, later) as later_running:
                    for client in (*running, *later_running):
                        await client.progress()
            asked_there = [exchange for exchange in recorder.exchanges if exchange.port == new_port]
            assert any(request.api_key == ApiKey.FETCH for request in asked_there)


async def test_new_topics_and_partitions_are_assigned(kafka: KafkaCluster) -> None:
    """Members of both protocols get them within seconds, although the gateway has to look them
    up."""
    topic, later = fresh_group("grows"), fresh_group("appears")
    await kafka.make_topic(topic)
    async with whole_gateway(kafka.addresses) as gateway:
        servers = gateway.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        at_first = {(topic, number) for number in range(PARTITIONS)}
        grown = at_first | {(topic, PARTITIONS)}
        async with traffic(servers, topic, later) as running:
            with trio.fail_after(LIMIT_S):
                for client in running:
                    await client.until_partitions(at_first)
            (done,) = admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)]).values()
            await trio.to_thread.run_sync(done.result, LIMIT_S)
            with trio.fail_after(FOLLOWS_WITHIN_S):
                for client in running:
                    await client.until_partitions(grown)
            (done,) = admin.create_topics([NewTopic(later, 2)]).values()
            await trio.to_thread.run_sync(done.result, LIMIT_S)
            with trio.fail_after(FOLLOWS_WITHIN_S):
                for client in running:
                    await client.until_partitions(grown | {(later, 0), (later, 1)})


async def test_a_recreated_topic_is_another_topic(kafka: KafkaCluster) -> None:
    """Members of both protocols continue with the new topic. The cluster, the gateway's Metadata
    and its groups agree on its new id."""
    topic = fresh_group("again")
    await kafka.make_topic(topic)
    async with whole_gateway(kafka.addresses) as gateway:
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers})

        async def ids() -> tuple[UUID, UUID, set[UUID]]:
            """The topic's id in the cluster, in the gateway's Metadata, and in a native
            assignment."""
            async with group_client(kafka.addresses[0], "any") as direct:
                of_cluster = await direct.topic_id(topic)
            async with group_client(gateway.address, running[1].group) as client:
                topic_id = await client.topic_id(topic)
                (member,) = (await client.described_as_consumer_group()).members
            return (
                of_cluster,
                topic_id,
                {partition.topic_id for partition in member.assignment.topic_partitions},
            )

        everything = {(topic, number) for number in range(PARTITIONS)}
        async with traffic(gateway.bootstrap_servers, topic) as running:
            with trio.fail_after(LIMIT_S):
                for client in running:
                    await client.until_partitions(everything)
                    await client.progress()
                before, *same = await ids()
                assert same == [before, {before}]
                (done,) = admin.delete_topics([topic]).values()
                await trio.to_thread.run_sync(done.result, LIMIT_S)
                await kafka.make_topic(topic)
                # Their old partitions have the same names, so wait for the new topic's.
                await until_answered(ids, lambda answered: answered[2] == {answered[0]} != {before})
                for client in running:
                    await client.until_partitions(everything)
                    await client.progress()
                after, *same = await ids()
                assert after != before
                assert same == [after, {after}]
