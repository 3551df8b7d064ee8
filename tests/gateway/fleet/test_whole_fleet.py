"""`groupferry serve --processes` as users run it, in front of the embedded cluster."""

import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import trio

from gateway.board.views import GroupPage, ProcessLine
from gateway.cluster.broker_connection import BrokerConnection
from gateway.commands.show_board import all_groups
from gateway.commands.show_gateways import find_states
from gateway.control.client import fetch_view, give
from gateway.control.messages import (
    CommandRefused,
    DescribeGroup,
    DrainCommand,
    RestartCommand,
)
from gateway.fleet.fleet_state import SHARDS_FOLDER, SLOTS_FOLDER, read_state
from gateway.fleet.member import SHARDS, FleetMember, coordinator_id
from gateway.pipeline.quick_verdict import quick_verdict
from kafka_codecs.apis import ApiKey
from kafka_codecs.codec import encode
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.metadata import MetadataRequest
from tests.support.group_client import GroupClient, group_client
from tests.support.mock_cluster import MockCluster, running_mock_cluster
from tests.support.ports import free_port
from tests.support.serve_process import ServeProcess, command, serving
from tests.support.until import until_answered
from tests.support.wire import open_wire, request_frame

PROCESSES = 2
LIMIT_S = 180

Nodes = dict[int, tuple[str, int]]


def upstream_of(cluster: MockCluster) -> str:
    """The addresses of the cluster, as in the setting."""
    return ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)


async def nodes_of(gateway: ServeProcess) -> Nodes:
    """The nodes in Metadata."""
    async with open_wire(gateway.address) as client:
        metadata = await client.ask(MetadataRequest(topics=()), 9)
    return {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}


@asynccontextmanager
async def whole_fleet(folder: Path, *flags: str) -> AsyncIterator[tuple[ServeProcess, Nodes]]:
    """A gateway of PROCESSES processes in front of the embedded cluster, and its nodes."""
    async with running_mock_cluster(1) as cluster:
        await cluster.create_topic("numbers", 3)
        processes = f"--processes={PROCESSES}"
        async with serving(upstream_of(cluster), folder, processes, *flags) as gateway:
            await gateway.until_event("fleet_started")
            yield gateway, await nodes_of(gateway)


def pid_of(gateway: ServeProcess, slot: int) -> int:
    """The process of a slot."""
    lines = gateway.events("process_started")
    pid: int = [line["pid"] for line in lines if line["slot"] == slot][-1]
    return pid


async def coordinator_of(gateway: ServeProcess, group_id: str) -> int:
    """The node that the gateway names."""
    async with open_wire(gateway.address) as client:
        answer = await client.ask(FindCoordinatorRequest(key=group_id), 3)
    node_id: int = answer.node_id
    return node_id


async def beat_at(address: tuple[str, int], joined: JoinGroupResponse) -> int:
    """The error code of a heartbeat at this address, whichever process has the group."""
    async with await BrokerConnection.open(*address, client_id="client") as connection:
        answer = await GroupClient(connection, "g").beat(joined)
    return answer.error_code


async def test_members_of_a_killed_process_continue_at_another_until_it_is_back(
    tmp_path: Path,
) -> None:
    """Members keep their ids and generations, and find other coordinators: no node gets another
    address. The verdict is that on a single gateway that was killed and started again."""
    member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
    slot = member.slot_of("g")
    other = 1 - slot
    with trio.fail_after(LIMIT_S):
        async with whole_fleet(tmp_path) as (gateway, nodes):
            async with group_client(nodes[coordinator_id(slot, 1)], "g") as client:
                joined = await client.enter(session_timeout_ms=60_000)
            os.kill(pid_of(gateway, slot), signal.SIGKILL)
            await gateway.until_event("shards_taken")
            assert await coordinator_of(gateway, "g") == coordinator_id(other, 1)
            assert await beat_at(nodes[coordinator_id(other, 1)], joined) == ErrorCode.NONE
            page = await fetch_view(tmp_path, DescribeGroup(group_id="g"), GroupPage)
            assert page.group_id == "g"
            await gateway.until_event("shards_taken", 1 + SHARDS // PROCESSES)
            assert await nodes_of(gateway) == nodes
            assert await coordinator_of(gateway, "g") == coordinator_id(slot, 1)
            assert await beat_at(nodes[coordinator_id(slot, 1)], joined) == ErrorCode.NONE
            refused = await beat_at(nodes[coordinator_id(other, 1)], joined)
            assert refused == ErrorCode.NOT_COORDINATOR
            assert gateway.events("process_killed")[0]["slot"] == slot
            assert await gateway.terminate() == 0
            assert gateway.other_lines == []
            assert gateway.events("rebalance_started") == []
    verdict = quick_verdict([f"{tmp_path / SLOTS_FOLDER}/*/events"])
    assert verdict.headline == "NOT PROVEN: 1 log has no end; no hand-over could be compared"
    state = read_state(tmp_path)
    assert state is not None
    assert len(list((tmp_path / SHARDS_FOLDER).glob("*/state.sqlite"))) == SHARDS
    assert len(list((tmp_path / SLOTS_FOLDER).iterdir())) == PROCESSES


async def test_groups_stay_whatever_the_number_of_processes(tmp_path: Path) -> None:
    """The number changes from a single gateway to a fleet, to a larger one, and back: each group
    keeps its members, and may get another process."""
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
    """One line has the reason."""
    upstream, bootstrap = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            arguments = command(upstream, bootstrap, tmp_path, f"--processes={SHARDS + 1}")
            refused = ServeProcess(nursery, arguments, bootstrap)
            await refused.start()
            assert await refused.wait_until_ended() == 2
            assert f"less than or equal to {SHARDS}" in await refused.last_line()
            assert len(refused.other_lines) == 1


async def test_a_fleet_that_cannot_start_says_why_once(tmp_path: Path) -> None:
    """A fleet reports the reason once, like a single gateway."""
    upstream, bootstrap = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            arguments = command(upstream, bootstrap, tmp_path, "--processes=3")
            gateway = ServeProcess(nursery, arguments, bootstrap)
            await gateway.start()
            assert await gateway.wait_until_ended() == 1
            assert "cannot connect to" in await gateway.last_line()
            assert len(gateway.other_lines) == 1


async def test_commands_see_the_groups_of_all_processes(tmp_path: Path) -> None:
    """A drain ends all processes."""
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
                page = await fetch_view(tmp_path, DescribeGroup(group_id=group_id), GroupPage)
                assert page.members == 1
            outcome = await give(tmp_path, DrainCommand())
            assert (outcome.is_draining, outcome.hosted) == (True, len(group_ids))
            assert await gateway.wait_until_ended() == 0
            assert len(gateway.events("drain_finished")) == PROCESSES


async def test_a_restart_moves_the_groups_of_each_process_to_the_others_and_back(
    tmp_path: Path,
) -> None:
    """One process after another restarts, and members continue with their generations."""
    with trio.fail_after(LIMIT_S):
        async with whole_fleet(tmp_path) as (gateway, nodes):
            async with group_client(gateway.address, "g") as client:
                joined = await client.enter(session_timeout_ms=60_000)
            pids = [pid_of(gateway, slot) for slot in range(PROCESSES)]
            refused = RestartCommand(processes=(PROCESSES,))
            with pytest.raises(CommandRefused, match="there is no process 2"):
                await give(tmp_path, refused)
            outcome = await give(tmp_path, RestartCommand())
            assert outcome.processes == (0, 1)
            # Each gives up its shards one by one, and gets them back.
            await gateway.until_event("shards_taken", 2 * SHARDS)
            assert await nodes_of(gateway) == nodes
            async with group_client(gateway.address, "g") as client:
                assert (await client.beat(joined)).error_code == ErrorCode.NONE

            async def ask_processes() -> list[ProcessLine]:
                states = await find_states(tmp_path)
                gateways = [state.gateway for state in states if state.gateway is not None]
                return [gateway.process for gateway in gateways if gateway.process is not None]

            # A shard is open a moment after that is reported.
            processes = await until_answered(
                ask_processes, lambda lines: [line.own_shards for line in lines] == [8, 8]
            )
            assert all(process.pid not in pids for process in processes)
            assert gateway.events("process_killed") == []
            assert await gateway.terminate() == 0
            assert gateway.other_lines == []


async def get(port: int, path: str) -> Any:
    """What the admin API answers on a new connection, which any process may get."""

    def read() -> Any:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            text = answer.read().decode()
        return text if path == "/metrics" else json.loads(text)

    return await trio.to_thread.run_sync(read)


async def test_any_process_answers_for_all_at_the_admin_port(tmp_path: Path) -> None:
    """One port is enough for people, programs and Prometheus, while each process serves and while
    one of them is away."""
    port = free_port()
    group_ids = ("a", "bb", "ccc", "dddd")
    with trio.fail_after(LIMIT_S):
        async with whole_fleet(tmp_path, f"--admin-listen=127.0.0.1:{port}") as (gateway, _nodes):
            for group_id in group_ids:
                async with group_client(gateway.address, group_id) as client:
                    await client.enter(session_timeout_ms=60_000)
            for _ in range(6):
                groups = (await get(port, "/api/groups"))["groups"]
                assert [group["group_id"] for group in groups] == sorted(group_ids)
                for group_id in group_ids:
                    assert (await get(port, f"/api/group?group_id={group_id}"))["members"] == 1
                assert (await get(port, "/api/gateway"))["hosted"] == len(group_ids)
                samples = (await get(port, "/metrics")).splitlines()
                hosted = [line for line in samples if "groups_in_memory{" in line]
                assert len(hosted) == PROCESSES
                assert sum(float(line.split()[-1]) for line in hosted) == len(group_ids)
                assert 'groupferry_process_up{process="1"} 1.0' in samples
            os.kill(pid_of(gateway, 0), signal.SIGKILL)
            await gateway.until_event("shards_taken")
            assert (await get(port, "/readyz"))["is_ready"]
            assert await gateway.terminate() == 0
            assert gateway.other_lines == []


async def test_a_silent_process_answers_nothing_once_others_have_its_groups(
    tmp_path: Path,
) -> None:
    """A request that waits at it is never answered: its end comes first."""
    with trio.fail_after(LIMIT_S):
        async with whole_fleet(tmp_path) as (gateway, nodes):
            member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
            slot = member.slot_of("g")
            async with group_client(gateway.address, "g") as client:
                joined = await client.enter(session_timeout_ms=60_000)
            pid = pid_of(gateway, slot)
            beat = HeartbeatRequest(
                group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
            )
            async with await trio.open_tcp_stream(*nodes[coordinator_id(slot, 1)]) as stream:
                os.kill(pid, signal.SIGSTOP)
                await stream.send_all(request_frame(ApiKey.HEARTBEAT, 0, 1, encode(beat, 0)))
                answer = b""
                with suppress(trio.BrokenResourceError):
                    answer = await stream.receive_some()
                assert answer == b""
            assert gateway.events("process_silent")[0]["slot"] == slot
            await gateway.until_event("shards_taken")
            assert await beat_at(nodes[coordinator_id(1 - slot, 1)], joined) == ErrorCode.NONE
            assert await gateway.terminate() == 0
