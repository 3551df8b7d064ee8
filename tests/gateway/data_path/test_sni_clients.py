"""TLS clients that reach every broker through one port, by the host that they ask for (SNI)."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from structlog.testing import capture_logs

from gateway.data_path.broker_names import BrokerNames
from gateway.data_path.config import DataPathConfig
from gateway.transport.certificates import for_clients
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from tests.gateway.data_path.running_data_path import RunningGateway, running_gateway
from tests.support.certificate_authority import CertificateAuthority
from tests.support.mock_cluster import running_mock_cluster
from tests.support.wire import Wire

HOST = "gateway.example"
NAMES = BrokerNames("broker-$(id).gateway.example")
PARTITIONS = 4


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """Signs the gateway's certificate."""
    return CertificateAuthority.in_folder(tmp_path / "authority")


@asynccontextmanager
async def sni_gateway(authority: CertificateAuthority) -> AsyncIterator[RunningGateway]:
    """A gateway with one port, in front of a cluster of three brokers with the topic `numbers`."""
    files = replace(authority.issue("gateway", HOST, "*.gateway.example"), ca=None)
    config = DataPathConfig(
        listen_port=0, advertised_host=HOST, broker_names=NAMES, tls=for_clients(files)
    )
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("numbers", PARTITIONS)
        async with running_gateway(upstream.bootstrap, config=config) as gateway:
            yield gateway


@asynccontextmanager
async def asking_for(
    host: str | None, gateway: RunningGateway, context: ssl.SSLContext
) -> AsyncIterator[Wire]:
    """A client that asks for this host."""
    context.check_hostname = False
    tcp = await trio.open_tcp_stream("127.0.0.1", gateway.address[1])
    async with trio.SSLStream(tcp, context, server_hostname=host) as stream:
        yield Wire(stream)


async def describe_brokers(wire: Wire) -> MetadataResponse:
    """The brokers that the cluster names."""
    answer: MetadataResponse = await wire.ask(MetadataRequest(topics=()), 9)
    return answer


@pytest.mark.parametrize("host", [HOST, None, "elsewhere.example", "broker-1.gateway.example"])
async def test_a_client_is_told_the_name_of_each_broker(
    authority: CertificateAuthority, host: str | None
) -> None:
    """All of them are at the bootstrap port, also for a client that asks for no host."""
    async with sni_gateway(authority) as gateway:
        async with asking_for(host, gateway, authority.trusting()) as wire:
            answer = await describe_brokers(wire)
    assert {(broker.host, broker.port) for broker in answer.brokers} == {
        (NAMES.host_of(node_id), gateway.address[1]) for node_id in (1, 2, 3)
    }


async def test_a_broker_that_the_cluster_does_not_have_is_refused(
    authority: CertificateAuthority,
) -> None:
    """Another broker must not answer in its place. The log names the host."""
    async with sni_gateway(authority) as gateway:
        with capture_logs() as lines:
            async with asking_for(NAMES.host_of(9), gateway, authority.trusting()) as wire:
                with pytest.raises((EOFError, trio.BrokenResourceError)):
                    await describe_brokers(wire)
    (line,) = [line for line in lines if line["event"] == "connection_refused"]
    assert line["reason"] == "the cluster has no broker with the name broker-9.gateway.example"


async def test_a_real_client_finds_the_leader_of_every_partition(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client checks each broker's certificate. Its resolver finds every host at the gateway."""
    asked: set[str] = set()
    resolve = socket.getaddrinfo

    def at_gateway(host: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(host, str) and host.endswith(HOST):
            asked.add(host)
            host = "127.0.0.1"
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", at_gateway)
    async with sni_gateway(authority) as gateway:

        def run() -> list[bytes]:
            access: dict[str, Any] = {
                "bootstrap_servers": f"{HOST}:{gateway.address[1]}",
                "security_protocol": "SSL",
                "ssl_cafile": str(authority.ca),
            }
            producer = KafkaProducer(**access)
            for number in range(PARTITIONS):
                producer.send("numbers", b"%d" % number, partition=number).get(10)
            producer.close()
            consumer = KafkaConsumer(**access, auto_offset_reset="earliest")
            consumer.assign([TopicPartition("numbers", number) for number in range(PARTITIONS)])
            values = [next(consumer).value for _ in range(PARTITIONS)]
            consumer.close()
            return values

        with trio.fail_after(60):
            values = await trio.to_thread.run_sync(run)
    assert sorted(values) == [b"0", b"1", b"2", b"3"]
    assert {HOST} < asked <= {HOST, *(NAMES.host_of(node_id) for node_id in (1, 2, 3))}
