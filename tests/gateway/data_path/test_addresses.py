"""No upstream address reaches a client: kio decodes every response of a run."""

import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from gateway.data_path.config import DataPathConfig
from kafka_codecs.apis import ApiKey
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.mock_cluster import running_mock_cluster
from tests.support.wire import open_wire
from tests.support.wire_recorder import addresses_in, record_traffic

GATEWAY = "127.0.0.2"
ADVERTISED = "127.0.0.3"


def _librdkafka(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for number in range(100):
        producer.produce("numbers", b"%d" % number, partition=number % 4)
    assert producer.flush(10) == 0
    config = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    consumer.assign([TopicPartition("numbers", number, 0) for number in range(4)])
    requests = 0
    while requests < 100:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        requests += 1
    consumer.commit(asynchronous=False)
    consumer.committed([TopicPartition("numbers", 0)])
    consumer.close()
    admin = AdminClient({"bootstrap.servers": servers})
    admin.list_topics(timeout=10)


def _kafka_python(servers: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    producer.send("numbers", b"one").get(10)
    producer.close()
    unanswered = KafkaProducer(bootstrap_servers=servers, acks=0)
    unanswered.send("numbers", b"two")
    unanswered.flush(10)
    unanswered.close()
    consumer = KafkaConsumer("numbers", bootstrap_servers=servers, consumer_timeout_ms=500)
    consumer.topics()
    consumer.close()


async def test_every_host_and_port_belongs_to_the_gateway() -> None:
    """librdkafka and kafka-python produce, consume, commit and query; each response is decoded."""
    config = DataPathConfig(listen_host=GATEWAY, listen_port=0, advertised_host=ADVERTISED)
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("numbers", 4)
        async with running_gateway(upstream.bootstrap, config=config) as gateway:
            bootstrap_port = gateway.address[1]
            async with open_wire((GATEWAY, bootstrap_port)) as client:
                answer = await client.ask(MetadataRequest(topics=()), 9)
            ports = {broker.node_id: broker.port for broker in answer.brokers}
            assert sorted(ports) == [1, 2, 3]
            every_port = [bootstrap_port, *ports.values()]
            async with record_traffic(
                every_port, listen_host=ADVERTISED, gateway_host=GATEWAY
            ) as recorder:
                servers = f"{ADVERTISED}:{bootstrap_port}"
                await trio.to_thread.run_sync(_librdkafka, servers)
                await trio.to_thread.run_sync(_kafka_python, servers)
    named: set[tuple[str, int]] = set()
    keys: set[ApiKey] = set()
    for exchange in recorder.exchanges:
        keys.add(ApiKey(exchange.api_key))
        named.update(addresses_in(exchange.decode_response()))
        for host, port in upstream.bootstrap:
            assert host.encode() not in exchange.response
            assert b"%d" % port not in exchange.response
    assert named == {(ADVERTISED, port) for port in ports.values()}
    assert keys >= {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
    }
