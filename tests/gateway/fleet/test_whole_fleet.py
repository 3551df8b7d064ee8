"""`groupferry serve --processes` as users run it, in front of the embedded cluster."""

import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from gateway.board.views import GroupPage
from gateway.commands.show_board import all_groups
from gateway.control.client import give, look
from gateway.control.messages import DescribeGroup, DrainCommand
from gateway.fleet.fleet_state import SHARDS_FOLDER, SLOTS_FOLDER, read_state
from gateway.fleet.member import SHARDS, FleetMember, coordinator_id
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.metadata import MetadataRequest
from tests.support.group_client import group_client
from tests.support.mock_cluster import MockCluster, running_mock_cluster
from tests.support.ports import free_port
from tests.support.serve_process import ServeProcess, command, serving
from tests.support.wire import connected

PROCESSES = 2
LIMIT_S = 60

Nodes = dict[int, tuple[str, int]]


def upstream_of(cluster: MockCluster) -> str:
    """The addresses of the cluster, as in the setting."""
    return ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)


async def nodes_of(gateway: ServeProcess) -> Nodes:
    """The nodes in Metadata."""
    async with connected(gateway.address) as client:
        metadata = await client.ask(MetadataRequest(topics=()), 9)
    return {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}


@asynccontextmanager
async def whole_fleet(folder: Path) -> AsyncIterator[tuple[ServeProcess, Nodes]]:
    """A gateway of PROCESSES processes in front of the embedded cluster, and its nodes."""
    async with running_mock_cluster(1) as cluster:
        await cluster.create_topic("numbers", 3)
        async with serving(upstream_of(cluster), folder, f"--processes={PROCESSES}") as gateway:
            await gateway.until_event("fleet_started")
            yield gateway, await nodes_of(gateway)


async def test_members_of_a_killed_process_go_on_at_the_same_address(tmp_path: Path) -> None:
    """Within two seconds, with their member ids and generations."""
    member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
    slot = member.slot_of("g")
    with trio.fail_after(LIMIT_S):
        async with whole_fleet(tmp_path) as (gateway, nodes):
            address = nodes[coordinator_id(slot, 1)]
            async with group_client(address, "g") as client:
                joined = await client.enter()
            started = gateway.events("process_started")
            (pid,) = (line["pid"] for line in started if line["slot"] == slot)
            killed_s = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            await gateway.until_event("gateway_started", PROCESSES + 1)
            assert time.monotonic() - killed_s < 2
            assert await nodes_of(gateway) == nodes
            async with group_client(address, "g") as client:
                answer = await client.beat(joined)
            assert answer.error_code == ErrorCode.NONE
            assert gateway.events("process_killed")[0]["slot"] == slot
            assert await gateway.terminate() == 0
            assert gateway.other_lines == []
    state = read_state(tmp_path)
    assert state is not None
    assert state.runs == PROCESSES + 1
    assert len(list((tmp_path / SHARDS_FOLDER).glob("*/state.sqlite"))) == SHARDS
    assert len(list((tmp_path / SLOTS_FOLDER).iterdir())) == PROCESSES


async def test_groups_stay_whatever_the_number_of_processes(tmp_path: Path) -> None:
    """From a single gateway to a fleet, to a larger one, and back: each group keeps its members,
    and may get another process."""
    port = free_port()
    joined: dict[str, JoinGroupResponse] = {}
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            await cluster.create_topic("numbers", 3)
            for processes in (0, 1, 3, 0):
                flags = [f"--processes={processes}"] if processes else []
                bootstrap = f"127.0.0.1:{port}"
                async with serving(
                    upstream_of(cluster), tmp_path, *flags, bootstrap=bootstrap
                ) as gateway:
                    if processes:
                        await gateway.until_event("fleet_started")
                    nodes = await nodes_of(gateway)
                    assert len(nodes) == 1 + processes
                    for group_id in ("a", "bb", "ccc", "dddd"):
                        async with group_client(owner_of(group_id, nodes), group_id) as client:
                            if group_id not in joined:
                                joined[group_id] = await client.enter(session_timeout_ms=60_000)
                            answer = await client.beat(joined[group_id])
                            assert answer.error_code == ErrorCode.NONE, (group_id, processes)
                    assert len(await all_groups(tmp_path)) == len(joined)
                    assert await gateway.terminate() == 0


def owner_of(group_id: str, nodes: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
    """The address where the members of a group are served, in front of a cluster of one broker."""
    processes = len(nodes) - 1
    if processes == 0:
        return nodes[1]
    member = FleetMember(slot=0, slots=processes, shards=SHARDS)
    return nodes[coordinator_id(member.slot_of(group_id), 1)]


async def test_more_processes_than_shards_are_refused(tmp_path: Path) -> None:
    """In one line."""
    upstream, bootstrap = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            arguments = command(upstream, bootstrap, tmp_path, f"--processes={SHARDS + 1}")
            refused = ServeProcess(nursery, arguments, bootstrap)
            await refused.start()
            assert await refused.ended() == 1
            assert f"has {SHARDS} shards" in await refused.last_line()
            assert len(refused.other_lines) == 1


async def test_a_fleet_that_cannot_start_says_why_once(tmp_path: Path) -> None:
    """As a single gateway does."""
    upstream, bootstrap = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            arguments = command(upstream, bootstrap, tmp_path, "--processes=3")
            gateway = ServeProcess(nursery, arguments, bootstrap)
            await gateway.start()
            assert await gateway.ended() == 1
            assert "cannot connect to" in await gateway.last_line()
            assert len(gateway.other_lines) == 1


async def test_commands_see_the_groups_of_all_processes(tmp_path: Path) -> None:
    """And a drain ends all of them."""
    group_ids = ("a", "bb", "ccc", "dddd")
    member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
    assert {member.slot_of(group_id) for group_id in group_ids} == set(range(PROCESSES))
    with trio.fail_after(LIMIT_S):
        async with whole_fleet(tmp_path) as (gateway, nodes):
            for group_id in group_ids:
                address = nodes[coordinator_id(member.slot_of(group_id), 1)]
                async with group_client(address, group_id) as client:
                    await client.enter()
            lines = await all_groups(tmp_path)
            assert [line.group_id for line in lines] == sorted(group_ids)
            for group_id in group_ids:
                page = await look(tmp_path, DescribeGroup(group_id=group_id), GroupPage)
                assert page.members == 1
            outcome = await give(tmp_path, DrainCommand())
            assert (outcome.is_draining, outcome.hosted) == (True, len(group_ids))
            assert await gateway.ended() == 0
            assert len(gateway.events("drain_finished")) == PROCESSES
