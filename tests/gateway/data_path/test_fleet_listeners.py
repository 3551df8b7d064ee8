"""The ports of the processes of a fleet, which all run in this one."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
import trio

from gateway.cluster.broker_connection import Address
from gateway.data_path.brokers import Brokers
from gateway.data_path.config import DataPathConfig
from gateway.data_path.errors import ListenError
from gateway.data_path.fleet_listeners import FleetListeners
from gateway.data_path.listeners import Accept, check_ports
from gateway.data_path.ports import PortBook
from gateway.error_groups import first_of
from gateway.fleet.member import (
    BROKER_ID_MAX,
    NO_SLOT,
    SHARDS,
    FleetMember,
    broker_of,
    coordinator_id,
)
from gateway.fleet.seated_member import SeatedMember
from gateway.fleet.table import FleetTable, GatewayAddress, GoneSlot, Seat
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.running_data_path import RunningGateway, running_gateway
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.mock_cluster import running_mock_cluster
from tests.support.ports import free_port, is_open
from tests.support.until import until
from tests.support.wire import Wire, open_wire

SLOTS = 2


def config_of(slot: int, port: int, folder: Path) -> DataPathConfig:
    """The configuration of one process."""
    return DataPathConfig(
        listen_port=port,
        advertised_host="127.0.0.1",
        state_folder=folder,
        member=FleetMember(slot=slot, slots=SLOTS, shards=SHARDS),
    )


async def nodes_at(address: Address) -> dict[int, int]:
    """The ports of the nodes in Metadata."""
    async with open_wire(address) as client:
        metadata = await client.ask(MetadataRequest(topics=()), 9)
    assert {broker.host for broker in metadata.brokers} == {"127.0.0.1"}
    return {broker.node_id: broker.port for broker in metadata.brokers}


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet of two in front of a cluster of two brokers."""

    processes: list[RunningGateway]
    port: int
    folder: Path


@asynccontextmanager
async def open_scene(folder: Path) -> AsyncIterator[Scene]:
    """A scene for the length of the block."""
    port = free_port()
    with trio.fail_after(30):
        async with running_mock_cluster(2) as upstream:
            async with (
                running_gateway(upstream.bootstrap, config=config_of(0, port, folder)) as first,
                running_gateway(upstream.bootstrap, config=config_of(1, port, folder)) as second,
            ):
                yield Scene([first, second], port, folder)


async def test_metadata_is_the_same_at_every_port(tmp_path: Path) -> None:
    """Clients find each process by coordinator nodes, one for each broker."""
    async with open_scene(tmp_path) as scene:
        nodes = await nodes_at(("127.0.0.1", scene.port))
        ids = {1, 2, *(coordinator_id(slot, broker) for slot in range(SLOTS) for broker in (1, 2))}
        assert nodes.keys() == ids
        assert len({scene.port, *nodes.values()}) == 1 + len(ids)
        for port in nodes.values():
            assert await nodes_at(("127.0.0.1", port)) == nodes


async def test_data_ports_are_shared_and_coordinator_ports_are_not(tmp_path: Path) -> None:
    """When one process has ended, its coordinator ports refuse, and the others are still open."""
    async with open_scene(tmp_path) as scene:
        nodes = await nodes_at(("127.0.0.1", scene.port))
        scene.processes[1].stop.set()
        own = [nodes[coordinator_id(1, broker)] for broker in (1, 2)]
        await until(lambda: not any(map(is_open, own)))
        others = [port for port in (scene.port, *nodes.values()) if port not in own]
        for port in others * 4:  # the system would give some connections to another one
            assert await nodes_at(("127.0.0.1", port)) == nodes


async def test_the_cluster_is_described_without_coordinator_nodes(tmp_path: Path) -> None:
    """Admin tools take what is described for brokers."""

    async def describe(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        host, port = broker.address
        node = DescribeClusterBroker(broker_id=1, host=host, port=port, rack=None)
        await answer(wire, header, DescribeClusterResponse(cluster_id="fake", brokers=(node,)))

    fake = FakeBroker(node_id=1, handlers={ApiKey.DESCRIBE_CLUSTER: describe})
    async with running_fake_broker(fake) as broker:
        config = config_of(0, free_port(), tmp_path)
        async with running_gateway([broker.address], config=config) as gateway:
            async with open_wire(gateway.address) as client:
                request = DescribeClusterRequest(include_cluster_authorized_operations=False)
                described = await client.ask(request, 0)
                listed = await client.ask(MetadataRequest(topics=()), 9)
            assert [broker.broker_id for broker in described.brokers] == [1]
            assert len(listed.brokers) == 1 + SLOTS


def meaning(node_id: int, cluster_id: str | None) -> ApiVersionsRequest:
    """What a client asks first that means this node."""
    return ApiVersionsRequest(
        client_software_name="test",
        client_software_version="1",
        cluster_id=cluster_id,
        node_id=node_id,
    )


async def test_a_coordinator_node_knows_its_own_id(tmp_path: Path) -> None:
    """A client says which node it means (KIP-1242), and is refused by any other."""
    async with open_scene(tmp_path) as scene:
        nodes = await nodes_at(("127.0.0.1", scene.port))
        cluster_id = scene.processes[0].cluster.cluster_id
        meant = coordinator_id(1, 2)
        async with open_wire(("127.0.0.1", nodes[meant])) as client:
            for node_id, code in ((meant, ErrorCode.NONE), (2, ErrorCode.REBOOTSTRAP_REQUIRED)):
                versions = await client.ask(meaning(node_id, cluster_id), 5)
                assert versions.error_code == code


async def test_a_port_that_another_program_shares_is_left_out(tmp_path: Path) -> None:
    """The system would give processes of one user the same port, and some of its connections to
    each."""
    port = free_port()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        number = taken.getsockname()[1]
        book = PortBook(tmp_path, port)
        for place, neighbour in enumerate(range(port + 1, number)):
            book.keep(1_000 + place, neighbour)  # so that this port would be the next one
        async with running_mock_cluster(1) as upstream:
            async with running_gateway(upstream.bootstrap, config=config_of(0, port, tmp_path)):
                nodes = await nodes_at(("127.0.0.1", port))
        assert number not in nodes.values()
        kept_ports = PortBook(tmp_path, port)
        assert {node_id: kept_ports.find_port(node_id) for node_id in nodes} == nodes


async def test_ports_that_other_processes_need_are_left_out(tmp_path: Path) -> None:
    """The admin API of a later process has a port that is still free."""
    port = free_port()
    needed = range(port + 1, port + 4)
    config = replace(config_of(0, port, tmp_path), other_ports=needed)
    async with running_mock_cluster(1) as upstream:
        async with running_gateway(upstream.bootstrap, config=config):
            nodes = await nodes_at(("127.0.0.1", port))
    assert not set(needed) & set(nodes.values())


async def test_the_ports_of_all_processes_are_checked_before_the_start(tmp_path: Path) -> None:
    """The ports of coordinator nodes of other slots are checked, too."""
    port, kept_port = free_port(), free_port()
    PortBook(tmp_path, port).keep(coordinator_id(1, 7), kept_port)
    config = config_of(0, port, tmp_path)
    await check_ports(config, [7])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", kept_port))
        taken.listen()
        with pytest.raises(ListenError, match=str(kept_port)):
            await check_ports(config, [7])


async def test_a_coordinator_port_that_is_taken_leaves_no_listener(tmp_path: Path) -> None:
    """Each Metadata tries again, and would add one."""
    config = config_of(0, free_port(), tmp_path)
    own_port, broker_port = free_port(), free_port()
    book = PortBook(tmp_path, config.listen_port)
    book.keep(coordinator_id(0, 7), own_port)
    book.keep(7, broker_port)
    async with trio.open_nursery() as nursery:
        listeners = FleetListeners(
            FleetMember(slot=0, slots=1, shards=SHARDS),
            config,
            brokers=cast(Brokers, None),
            accept=cast(Accept, trio.sleep),
            accepting=nursery,
        )
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", own_port))
            taken.listen()
            with pytest.raises(ListenError, match=str(own_port)):
                await listeners._represent(7)
        assert not nursery.child_tasks
        assert not is_open(broker_port)
        await listeners._represent(7)
        assert is_open(broker_port)
        nursery.cancel_scope.cancel()


async def test_a_broker_id_without_room_for_coordinator_nodes_is_refused(tmp_path: Path) -> None:
    """The ids would be taken for each other's."""
    async with running_fake_broker(FakeBroker(node_id=BROKER_ID_MAX + 1)) as broker:
        config = config_of(0, free_port(), tmp_path)
        with pytest.raises(BaseExceptionGroup) as caught:
            async with running_gateway([broker.address], config=config):
                pass
        failure = first_of(caught.value)
        assert isinstance(failure, ListenError)
        assert f"at most {BROKER_ID_MAX}" in str(failure)


async def test_the_transactions_of_a_broker_are_listed_at_its_own_node_only(tmp_path: Path) -> None:
    """Clients ask every node that Metadata names, and show all that they get."""
    listed = ListedTransaction(transactional_id="t", producer_id=1, transaction_state="Ongoing")

    async def list_them(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer(wire, header, ListTransactionsResponse(transaction_states=(listed,)))

    fake = FakeBroker(
        node_id=1,
        versions={**FakeBroker().versions, ApiKey.LIST_TRANSACTIONS: (0, 0)},
        handlers={ApiKey.LIST_TRANSACTIONS: list_them},
    )
    async with running_fake_broker(fake) as broker:
        config = config_of(0, free_port(), tmp_path)
        async with running_gateway([broker.address], config=config) as gateway:
            nodes = await nodes_at(gateway.address)
            request = ListTransactionsRequest(state_filters=(), producer_id_filters=())
            for node_id, states in ((1, (listed,)), (coordinator_id(0, 1), ())):
                async with open_wire(("127.0.0.1", nodes[node_id])) as client:
                    lists = await client.ask(request, 0)
                assert lists.transaction_states == states


async def test_a_gateway_on_one_of_several_machines_shows_what_the_table_says(
    tmp_path: Path,
) -> None:
    """Until the table has its own ports, brokers are at these. Afterwards each node is where the
    table has it, and a gateway that is gone costs no client its node."""
    announced: dict[int, tuple[int, int]] = {}

    def announce(broker_id: int, *, broker_port: int, node_port: int) -> None:
        announced[broker_id] = broker_port, node_port

    empty = FleetTable(generation=1, log_id="log", first_run=0, seats=(), owners=(NO_SLOT,) * 4)
    member = SeatedMember(slot=3, slots=1, shards=4, owners=[NO_SLOT] * 4, table=empty)
    config = replace(config_of(0, free_port(), tmp_path), member=member, announce_ports=announce)
    with trio.fail_after(30):
        async with (
            running_mock_cluster(2) as upstream,
            running_gateway(upstream.bootstrap, config=config) as gateway,
        ):
            address = ("127.0.0.1", config.listen_port)
            own = {broker: ports[0] for broker, ports in announced.items()}
            assert own.keys() == {1, 2}
            assert await nodes_at(address) == own
            nodes = {broker: ports[1] for broker, ports in announced.items()}
            seat = Seat(
                name="g",
                member_id="g-1",
                stamp="0",
                slot=3,
                address=GatewayAddress(host="127.0.0.1", port=config.listen_port),
                broker_ports=own,
                node_ports=nodes,
            )
            gone = GoneSlot(slot=5, address=seat.address, until_ms=0)
            member.follow(empty.model_copy(update={"seats": (seat,), "gone": (gone,)}), 0)
            listed = {
                coordinator_id(slot, broker): port
                for slot in (3, 5)
                for broker, port in nodes.items()
            }
            assert await nodes_at(address) == own | listed
            for port in nodes.values():
                assert await nodes_at(("127.0.0.1", port)) == own | listed
            elsewhere = coordinator_id(6, 1)
            for node_id, code in (
                *((node_id, ErrorCode.NONE) for node_id in listed if broker_of(node_id) == 1),
                (elsewhere, ErrorCode.REBOOTSTRAP_REQUIRED),
            ):
                meant = meaning(node_id, gateway.cluster.cluster_id)
                async with open_wire(("127.0.0.1", nodes[1])) as client:
                    assert (await client.ask(meant, 5)).error_code == code
            gateway.stop.set()
