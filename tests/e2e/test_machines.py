"""Gateways on several addresses that share their groups, in front of one cluster."""

import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import pytest
import trio

from gateway.board.views import GatewayLine, GroupPage
from gateway.cluster.broker_connection import BrokerConnection
from gateway.commands.show_board import all_groups
from gateway.control.client import fetch_view, find_processes, give
from gateway.control.messages import CommandRefused, DescribeGateway, DescribeGroup, RestartCommand
from gateway.fleet.member import SHARDS, broker_of, is_coordinator, shard_of
from gateway.groups.groups_elsewhere import FRESH_FOR_S
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_codecs.offset_fetch import OffsetFetchRequest
from tests.support.clients import Client
from tests.support.group_client import GroupClient, find_coordinator, fresh_group, group_client
from tests.support.group_stage import PARTITIONS, GroupStage, on_kafka
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.ports import free_port
from tests.support.releases import LAST_CLASSIC, NEWEST
from tests.support.serve_process import ServeProcess, serving
from tests.support.until import until, until_answered
from tests.support.wire import open_wire

LIMIT_S = 180
CLIENTS_LIMIT_S = 240
SILENT_LIMIT_S = 20
"""A session, two rounds and a busy machine."""
LONG_SESSIONS = "--session-timeout-ms=45000"
LONG_NATIVE_SESSIONS = "--group-consumer-session-timeout-ms=45000"
RDKAFKA = Client(library="librdkafka", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")
PROCESSES = 2
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(FETCH_TIMEOUT_S + CLIENTS_LIMIT_S),
]

Nodes = dict[int, tuple[str, int]]


class Fleet:
    """Gateways with one state topic."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self._upstream = ",".join(f"{host}:{port}" for host, port in kafka.addresses)
        self._folder = folder
        self._topic = fresh_group("state-of-machines")
        self._port = free_port()

    def folder_of(self, gateway: ServeProcess) -> Path:
        """Its state folder."""
        return self._folder / gateway.address[0]

    @asynccontextmanager
    async def gateway(self, host: str, *flags: str) -> AsyncIterator[ServeProcess]:
        """A gateway at this address, once it serves."""
        async with serving(
            self._upstream,
            self._folder / host,
            "--state=kafka",
            f"--state-topic={self._topic}",
            "--fleet=true",
            *flags,
            bootstrap=f"{host}:{self._port}",
        ) as gateway:
            yield gateway


async def nodes_of(gateway: ServeProcess) -> Nodes:
    """The nodes in Metadata."""
    async with open_wire(gateway.address) as client:
        metadata = await client.ask(MetadataRequest(topics=()), 9)
    return {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}


def shards_by_process(gateway: ServeProcess) -> Mapping[int, set[int]]:
    """The shards that each of its processes has, as its log says."""
    held: dict[int, set[int]] = {}
    for line in gateway.log:
        process = line.get("slot", 0)
        if line["event"] == "process_started":
            held[process] = set()
        if line["event"] == "shards_taken":
            held.setdefault(process, set()).update(line["shards"])
        if line["event"] in ("shards_given_up", "shard_lost"):
            held[process] -= set(line.get("shards", [line.get("shard")]))
    return held


def shards_of(gateway: ServeProcess) -> set[int]:
    """The shards that it has."""
    return set().union(*shards_by_process(gateway).values())


async def until_shared(
    gateways: Sequence[ServeProcess], limit_s: float = 60, *, processes: int = 1
) -> None:
    """Wait until each process of each gateway has its share."""

    def is_shared() -> bool:
        loads = [
            len(shards) for gateway in gateways for shards in shards_by_process(gateway).values()
        ]
        is_complete = len(loads) == len(gateways) * processes and sum(loads) == SHARDS
        return is_complete and max(loads) - min(loads) <= 1

    with trio.fail_after(limit_s):
        await until(is_shared)


def has_owner(code: int) -> bool:
    """Whether this is the answer of a gateway that serves the group."""
    return code not in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )


async def beat(gateway: ServeProcess, group: str, member: JoinGroupResponse) -> int:
    """The error code of a member's heartbeat, where this gateway sends it."""
    async with group_client(gateway.address, group) as client:
        return (await client.beat(member)).error_code


async def enter(gateway: ServeProcess, group: str) -> JoinGroupResponse:
    """Join where this gateway sends a new member, once it is served there."""

    async def code_of_join() -> int:
        async with group_client(gateway.address, group) as client:
            return (await client.join(protocol="range")).error_code

    await until_answered(code_of_join, has_owner)
    async with group_client(gateway.address, group) as client:
        return await client.enter(session_timeout_ms=60_000)


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_three_gateways_share_groups_and_pass_them_on(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """All show the same Metadata, members continue at the next owner under their ids, and a gateway
    that is killed is removed before its session ends."""
    fleet = Fleet(kafka, tmp_path)
    groups = [fresh_group("shared") for _ in range(6)]
    joined: dict[str, JoinGroupResponse] = {}

    async def beat_all(gateway: ServeProcess) -> None:
        """Each member finds its coordinator and continues."""
        for group, member in joined.items():
            code = await until_answered(partial(beat, gateway, group, member), has_owner)
            assert code == ErrorCode.NONE, group

    with trio.fail_after(LIMIT_S):
        async with AsyncExitStack() as stack:
            gateways = [await stack.enter_async_context(fleet.gateway(host)) for host in HOSTS]
            await until_shared(gateways)
            first, second, third = gateways
            nodes = await nodes_of(first)
            assert await nodes_of(second) == await nodes_of(third) == nodes
            assert {host for host, _ in nodes.values()} == set(HOSTS)
            brokers = len(kafka.addresses)
            assert sum(map(is_coordinator, nodes)) == len(HOSTS) * brokers
            for group in groups:
                joined[group] = await enter(second, group)
                node_ids = [
                    (await find_coordinator(gateway.address, group)).node_id for gateway in gateways
                ]
                assert len(set(node_ids)) == 1
                owner = next(one for one in gateways if nodes[node_ids[0]][0] == one.address[0])
                assert shard_of(group, SHARDS) in shards_of(owner)
            await third.kill()
            await until_shared([first, second], SILENT_LIMIT_S)
            await beat_all(first)
            assert await second.terminate() == 0
            await until_shared([first], SILENT_LIMIT_S)
            await beat_all(first)
            back = await stack.enter_async_context(fleet.gateway(HOSTS[2]))
            await until_shared([first, back])
            await beat_all(back)
            assert {node: nodes[node] for node in await nodes_of(back)} == nodes
            for gateway in (first, second, back):
                assert gateway.other_lines == []
                assert [line for line in gateway.log if line["level"] == "error"] == []
            assert await back.terminate() == 0
            assert await first.terminate() == 0


async def answers_about(nodes: Nodes, node_id: int, group: str) -> Sequence[Sequence[str]]:
    """What an admin client learns of a group at each coordinator node that leads to the group's
    broker."""
    offsets = OffsetDeleteRequestPartition(partition_index=0)
    unknown = OffsetDeleteRequestTopic(name="no-such-topic", partitions=(offsets,))
    requests: Sequence[tuple[Struct, int]] = (
        (DescribeGroupsRequest(groups=(group,), include_authorized_operations=True), 5),
        (
            ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=True),
            0,
        ),
        (DeleteGroupsRequest(groups_names=(group,)), 2),
        (OffsetDeleteRequest(group_id=group, topics=(unknown,)), 0),
        (OffsetFetchRequest(group_id=group, topics=None), 7),
    )
    answers: list[Sequence[str]] = []
    for node, address in nodes.items():
        if is_coordinator(node) and broker_of(node) == broker_of(node_id):
            async with await BrokerConnection.open(*address) as connection:
                answers.append([str(await connection.ask(*request)) for request in requests])
    loading = f"error_code={ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:d}"
    assert not any(loading in answer for answer in answers[0])
    return answers


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_machines_of_several_processes_share_groups(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Each process has coordinator nodes of its own, and the machine one address for each broker.
    Members continue while a process is killed, all are restarted, and a machine is stopped."""
    fleet = Fleet(kafka, tmp_path)
    groups = [fresh_group("process") for _ in range(6)]
    joined: dict[str, JoinGroupResponse] = {}
    admin_port = free_port()

    def read_metrics() -> str:
        with urlopen(f"http://{HOSTS[0]}:{admin_port}/metrics", timeout=20) as answer:
            return str(answer.read().decode())

    async def beat_all(gateway: ServeProcess) -> None:
        for group, member in joined.items():
            code = await until_answered(partial(beat, gateway, group, member), has_owner)
            assert code == ErrorCode.NONE, group

    with trio.fail_after(LIMIT_S):
        async with (
            fleet.gateway(
                HOSTS[0], f"--processes={PROCESSES}", f"--admin-listen={HOSTS[0]}:{admin_port}"
            ) as first,
            fleet.gateway(HOSTS[1], f"--processes={PROCESSES}") as second,
        ):
            machines = (first, second)
            await until_shared(machines, processes=PROCESSES)
            nodes = await nodes_of(first)
            assert await nodes_of(second) == nodes
            brokers = len(kafka.addresses)
            coordinators = [address for node, address in nodes.items() if is_coordinator(node)]
            assert len(set(coordinators)) == len(machines) * PROCESSES * brokers
            for group in groups:
                joined[group] = await enter(second, group)
                (node_id,) = {
                    (await find_coordinator(gateway.address, group)).node_id for gateway in machines
                }
                owner = next(one for one in machines if nodes[node_id][0] == one.address[0])
                assert shard_of(group, SHARDS) in shards_of(owner)
                process_folder = find_processes(fleet.folder_of(owner))[0]
                line = await fetch_view(process_folder, DescribeGateway(), GatewayLine)
                assert [one.is_here for one in line.fleet].count(True) == PROCESSES
                page = await fetch_view(
                    fleet.folder_of(owner), DescribeGroup(group_id=group), GroupPage
                )
                assert page.members == 1
                other = next(one for one in machines if one is not owner)
                first_answers, *others = await answers_about(nodes, node_id, group)
                assert all(answers == first_answers for answers in others)
                with pytest.raises(CommandRefused, match=f"at {owner.bootstrap} has this group"):
                    await fetch_view(
                        fleet.folder_of(other), DescribeGroup(group_id=group), GroupPage
                    )
            unseen = fresh_group("beside")
            async with group_client(kafka.addresses[0], unseen) as client:
                await client.enter()
            await trio.sleep(FRESH_FOR_S)
            for machine in machines:
                listed = {one.group_id: one for one in await all_groups(fleet.folder_of(machine))}
                assert sorted(listed) == sorted(groups)
                for group, shown in listed.items():
                    (owner,) = (
                        one for one in machines if shard_of(group, SHARDS) in shards_of(one)
                    )
                    if owner is machine:
                        assert shown.gateway is None
                        continue
                    assert shown.gateway is not None
                    assert shown.gateway.endswith(f" at {owner.bootstrap}")
                    assert (shown.mode, shown.type, shown.state) == (
                        "elsewhere",
                        "classic",
                        "Stable",
                    )
            metrics = await trio.to_thread.run_sync(read_metrics)
            for process in range(PROCESSES):
                assert f'groupferry_process_up{{process="{process}"}} 1.0' in metrics
            killed = second.events("process_started")[0]
            os.kill(killed["pid"], signal.SIGKILL)
            await second.until_event("process_started", PROCESSES + 1)
            await until_shared(machines, processes=PROCESSES)
            await beat_all(first)
            await give(fleet.folder_of(first), RestartCommand())
            await first.until_event("process_started", 2 * PROCESSES)
            await until_shared(machines, processes=PROCESSES)
            await beat_all(second)
            assert await nodes_of(first) == nodes
            assert await first.terminate() == 0
            await beat_all(second)
            assert shards_of(second) == set(range(SHARDS))
            for gateway in machines:
                assert gateway.other_lines == []
                assert [line for line in gateway.log if line["level"] == "error"] == []
            assert await second.terminate() == 0


CLIENTS = {
    "classic": (RDKAFKA, RDKAFKA),
    "java": (Client(library="java", assignor="cooperative-sticky"),),
    "native": (NATIVE, NATIVE),
}
"""The clients of each group."""


@pytest.mark.parametrize("kafka", [NEWEST], indirect=True)
async def test_no_group_notices_that_gateways_come_and_go(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A gateway joins, one is killed and one is drained under load: no record is lost, no partition
    has two owners, and no group rebalances."""
    fleet = Fleet(kafka, tmp_path)
    with trio.fail_after(CLIENTS_LIMIT_S):
        async with on_kafka(kafka)(PARTITIONS) as upstream, AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(trio.open_nursery())
            first, second = [
                await stack.enter_async_context(fleet.gateway(host, LONG_NATIVE_SESSIONS))
                for host in HOSTS[:2]
            ]
            await until_shared([first, second])
            bootstrap = ",".join(f"{host}:{first.address[1]}" for host in HOSTS)
            stages = {
                name: GroupStage(nursery, replace(upstream, group=fresh_group(name)), first)
                for name in CLIENTS
            }
            await stages["classic"].produce(beside=True)
            for name, stage in stages.items():
                for number, client in enumerate(CLIENTS[name]):
                    flags = () if client.protocol == "consumer" else (LONG_SESSIONS,)
                    await stage.join(f"{name}-{number}", client, *flags, bootstrap=bootstrap)
            for name, stage in stages.items():
                await stage.wait_until_settled(CLIENTS[name][0].protocol)
            since_s = time.monotonic()
            third = await stack.enter_async_context(fleet.gateway(HOSTS[2], LONG_NATIVE_SESSIONS))
            await until_shared([first, second, third])
            await all_progress(stages)
            await second.kill()
            await until_shared([first, third])
            await all_progress(stages)
            assert await third.terminate() == 0
            await until_shared([first])
            await all_progress(stages)
            for stage in stages.values():
                moved = stage.ledger.disturbance(None, since_s, time.monotonic())
                disturbed = (moved.partitions_moved, moved.members_disturbed)
                assert disturbed == (0, 0), (stage.group, stage.troubles)
            produced = await stages["classic"].stop_producer()
            for stage in stages.values():
                await stage.end_after(produced)
            assert first.other_lines == []
            nursery.cancel_scope.cancel()


async def all_progress(stages: Mapping[str, GroupStage]) -> None:
    """Wait until every group consumes."""
    for stage in stages.values():
        await stage.progress(200)


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_a_gateway_outside_the_fleet_ends(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The fleet takes back what that gateway has taken."""
    fleet = Fleet(kafka, tmp_path)
    group = fresh_group("kept")
    with trio.fail_after(LIMIT_S):
        async with fleet.gateway(HOSTS[0]) as gateway:
            await until_shared([gateway])
            joined = await enter(gateway, group)
            async with fleet.gateway(HOSTS[1], "--fleet=false") as other:
                assert await other.wait_until_ended() == 1
                (line,) = other.other_lines
                assert "has taken the state log" in line
            code = await until_answered(partial(beat, gateway, group, joined), has_owner)
            assert code == ErrorCode.NONE


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_of_two_gateways_of_one_name_one_ends(kafka: KafkaCluster, tmp_path: Path) -> None:
    """A line says what to do, and the other one serves all groups."""
    fleet = Fleet(kafka, tmp_path)
    name = "--gateway-name=twin"
    with trio.fail_after(LIMIT_S):
        async with fleet.gateway(HOSTS[0], name) as first:
            await until_shared([first])
            async with fleet.gateway(HOSTS[1], name) as second:
                await until(lambda: first.other_lines or second.other_lines)
                ended, other = (first, second) if first.other_lines else (second, first)
                assert await ended.wait_until_ended() == 1
                (line,) = ended.other_lines
                assert "another gateway of the fleet has the name twin" in line
                await until_shared([other])
                assert other.other_lines == []


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_a_silent_gateway_loses_its_shards_and_joins_again(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Its sessions end within ten seconds. The fences tell it what it has lost, and it answers for
    none of these groups afterwards."""
    fleet = Fleet(kafka, tmp_path)
    with trio.fail_after(LIMIT_S):
        async with fleet.gateway(HOSTS[0]) as first, fleet.gateway(HOSTS[1]) as second:
            await until_shared([first, second])
            lost = shards_of(second)
            group = next(
                name for name in map("silent-{}".format, count()) if shard_of(name, SHARDS) in lost
            )
            joined = await enter(first, group)
            node_id = (await find_coordinator(first.address, group)).node_id
            address = (await nodes_of(first))[node_id]
            second.pause()
            await until_shared([first], SILENT_LIMIT_S)
            code = await until_answered(partial(beat, first, group, joined), has_owner)
            assert code == ErrorCode.NONE
            second.go_on()
            async with await BrokerConnection.open(*address, client_id="client") as connection:
                stale = await GroupClient(connection, group).beat(joined)
            assert stale.error_code == ErrorCode.NOT_COORDINATOR
            await second.until_event("shard_lost", len(lost))
            await until_shared([first, second])
            code = await until_answered(partial(beat, second, group, joined), has_owner)
            assert code == ErrorCode.NONE
            assert first.other_lines == second.other_lines == []
