"""The ports of the brokers: numbers, opening, and upstream."""

import socket
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.cluster import Cluster
from gateway.data_path import brokers as brokers_module
from gateway.data_path import upstream as upstream_module
from gateway.data_path.config import DataPathConfig, Limits
from gateway.data_path.errors import ListenError
from gateway.data_path.server import serve
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_quorum import DescribeQuorumResponse, Listener, Node
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.gateway.data_path.forward_everything import ForwardEverything
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import KAFKA_3, FakeBroker, answer, running_fake_broker
from tests.support.mock_cluster import running_mock_cluster
from tests.support.ports import free_port
from tests.support.wire import Wire, open_wire, request_frame


async def ports_told(address: tuple[str, int]) -> dict[int, int]:
    """The brokers' ports in the metadata of a new connection."""
    async with open_wire(address) as client:
        answered = await client.ask(MetadataRequest(topics=()), 9)
    return {broker.node_id: broker.port for broker in answered.brokers}


async def test_brokers_get_the_ports_after_the_listen_port(tmp_path: Path) -> None:
    """The ports ascend, and stay the same after a restart, whichever brokers came or went."""
    port = free_port()
    config = DataPathConfig(listen_port=port, advertised_host="localhost", state_folder=tmp_path)
    async with running_mock_cluster(2) as upstream:
        async with running_gateway(upstream.bootstrap, config=config) as gateway:
            assert gateway.address == ("localhost", port)
            ports = await ports_told(gateway.address)
            assert list(ports) == [1, 2]
            assert port < ports[1] < ports[2]
            for node_id, broker_port in ports.items():
                assert (await ports_told(("127.0.0.1", broker_port)))[node_id] == broker_port
    async with running_mock_cluster(3) as upstream:
        async with running_gateway(upstream.bootstrap, config=config) as gateway:
            again = await ports_told(gateway.address)
            assert {node_id: again[node_id] for node_id in ports} == ports
            assert again[3] > again[2]


async def test_an_added_broker_gets_its_port_without_a_restart() -> None:
    """The gateway's own watch finds it."""
    async with running_mock_cluster(1) as upstream:
        async with running_gateway(upstream.bootstrap, poll_interval_s=0.02) as gateway:
            changed = gateway.cluster.changed
            await upstream.add_broker(9)
            with trio.fail_after(5):
                await changed.wait()
            ports = await ports_told(gateway.address)
            assert sorted(ports) == [1, 9]
            assert (await ports_told(("127.0.0.1", ports[9]))) == ports


async def test_a_broker_first_seen_in_an_answer_has_its_port_before_the_answer_leaves() -> None:
    """A client may connect as soon as it has the answer."""
    async with running_fake_broker(FakeBroker(node_id=5)) as second:
        known_to_all = False

        async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
            brokers = [MetadataResponseBroker(node_id=1, host=first.address[0], port=first_port)]
            if known_to_all:
                host, port = second.address
                brokers.append(MetadataResponseBroker(node_id=5, host=host, port=port))
            await answer(wire, header, MetadataResponse(brokers=tuple(brokers)))

        first = FakeBroker(handlers={ApiKey.METADATA: metadata})
        async with running_fake_broker(first):
            first_port = first.address[1]
            async with running_gateway([first.address], poll_interval_s=1000) as gateway:
                assert list(await ports_told(gateway.address)) == [1]
                known_to_all = True
                ports = await ports_told(gateway.address)
                assert list(ports) == [1, 5]
                assert list(await ports_told(("127.0.0.1", ports[5]))) == [5]


async def test_an_answer_with_addresses_of_controllers_only_loses_them() -> None:
    """No broker has to be learned from it."""
    listener = Listener(name="CONTROLLER", host="kafka-1", port=9093)
    nodes = (Node(node_id=1, listeners=(listener,)),)

    async def quorum(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer(wire, header, DescribeQuorumResponse(nodes=nodes))

    key, no_topics = ApiKey.DESCRIBE_QUORUM, b"\1\0"
    broker = FakeBroker(versions={**KAFKA_3, key: (0, 2)}, handlers={key: quorum})
    async with (
        running_fake_broker(broker),
        running_gateway([broker.address]) as gateway,
        open_wire(gateway.address) as client,
    ):
        await client.send(request_frame(key, 2, 7, no_topics))
        assert b"kafka-1" not in await client.frame()


async def test_brokers_beyond_the_limit_of_listeners_are_refused() -> None:
    """The client's connection closes, and the gateway continues."""

    async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
        host, port = broker.address
        count = 1 if header.client_id == "groupferry" else 10
        brokers = tuple(
            MetadataResponseBroker(node_id=node_id, host=host, port=port)
            for node_id in range(1, count + 1)
        )
        await answer(wire, header, MetadataResponse(brokers=brokers))

    async with running_fake_broker(FakeBroker(handlers={ApiKey.METADATA: metadata})) as broker:
        limits = Limits(max_brokers=3)
        async with running_gateway([broker.address], limits=limits) as gateway:
            with pytest.raises(EOFError):
                await ports_told(gateway.address)


async def test_the_bootstrap_port_serves_any_live_broker() -> None:
    """Brokers that are down are skipped."""
    async with running_mock_cluster(3) as upstream:
        async with running_gateway(upstream.bootstrap, poll_interval_s=1000) as gateway:
            for node_id in (1, 3):
                await upstream.set_down(node_id)
            for _ in range(4):
                assert await ports_told(gateway.address)


async def test_an_outage_of_a_broker_is_logged_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients retry often, but the log does not repeat it."""
    monkeypatch.setattr(upstream_module, "PATIENCE_S", 0.3)
    monkeypatch.setattr(brokers_module, "TRY_AGAIN_S", 0.1)
    async with running_mock_cluster(2) as upstream:
        async with running_gateway(upstream.bootstrap, poll_interval_s=1000) as gateway:
            ports = await ports_told(gateway.address)
            with capture_logs() as lines:
                await upstream.set_down(2)
                for _ in range(3):
                    with pytest.raises(EOFError):
                        await ports_told(("127.0.0.1", ports[2]))
                await upstream.set_up(2)
                assert await ports_told(("127.0.0.1", ports[2])) == ports
    events = [line["event"] for line in lines if line["log_level"] != "debug"]
    assert events == ["broker_unreachable", "broker_back"]


async def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    """The bootstrap port is fixed. A broker's first port is not."""
    with socket.socket() as taken:
        port = free_port() + 1
        taken.bind(("127.0.0.1", port))
        taken.listen()
        async with running_mock_cluster(1) as upstream, trio.open_nursery() as nursery:
            cluster = Cluster(upstream.bootstrap)
            await nursery.start(cluster.run)
            config = DataPathConfig(listen_port=port, advertised_host="127.0.0.1")
            with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
                await serve(config, ForwardEverything(), cluster, stop=trio.Event())
            config = DataPathConfig(listen_port=port - 1, advertised_host="127.0.0.1")
            async with running_gateway(upstream.bootstrap, config=config) as gateway:
                assert (await ports_told(gateway.address))[1] > port
            nursery.cancel_scope.cancel()


async def test_a_cluster_with_too_many_brokers_stops_the_start() -> None:
    """One line says why."""
    limits = Limits(max_brokers=1)
    config = DataPathConfig(listen_port=free_port(), advertised_host="127.0.0.1", limits=limits)
    async with running_mock_cluster(2) as upstream, trio.open_nursery() as nursery:
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        with pytest.raises(ListenError, match="more brokers than one gateway has listeners"):
            await serve(config, ForwardEverything(), cluster, stop=trio.Event())
        nursery.cancel_scope.cancel()


async def test_an_invalid_file_of_ports_stops_the_start(tmp_path: Path) -> None:
    """One line names the file."""
    (tmp_path / "broker_ports.json").write_text("no")
    config = DataPathConfig(
        listen_port=free_port(), advertised_host="127.0.0.1", state_folder=tmp_path
    )
    async with running_mock_cluster(1) as upstream, trio.open_nursery() as nursery:
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        with pytest.raises(ListenError, match=r"broker_ports\.json"):
            await serve(config, ForwardEverything(), cluster, stop=trio.Event())
        nursery.cancel_scope.cancel()
