"""`groupferry serve --processes` as users run it, in front of the embedded cluster."""

import os
import signal
import time
from pathlib import Path

import trio

from gateway.board.views import GroupPage
from gateway.commands.show_board import all_groups
from gateway.control.client import give, look
from gateway.control.messages import DescribeGroup, DrainCommand
from gateway.fleet.fleet_state import SHARDS_FOLDER, SLOTS_FOLDER, read_state
from gateway.fleet.member import SHARDS, FleetMember, coordinator_id
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest
from tests.support.group_client import group_client
from tests.support.mock_cluster import MockCluster, running_mock_cluster
from tests.support.ports import free_port
from tests.support.serve_process import ServeProcess, command, serving
from tests.support.wire import connected

PROCESSES = 2
LIMIT_S = 60


def upstream_of(cluster: MockCluster) -> str:
    """The addresses of the cluster, as in the setting."""
    return ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)


async def nodes_of(gateway: ServeProcess) -> dict[int, tuple[str, int]]:
    """The nodes in Metadata."""
    async with connected(gateway.address) as client:
        metadata = await client.ask(MetadataRequest(topics=()), 9)
    return {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}


async def test_members_of_a_killed_process_go_on_at_the_same_address(tmp_path: Path) -> None:
    """Within two seconds, with their member ids and generations."""
    member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
    slot = member.slot_of("g")
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            await cluster.create_topic("numbers", 3)
            async with serving(
                upstream_of(cluster), tmp_path, f"--processes={PROCESSES}"
            ) as gateway:
                await gateway.until_event("fleet_started")
                nodes = await nodes_of(gateway)
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
    assert len(list((tmp_path / SHARDS_FOLDER).iterdir())) == SHARDS
    assert len(list((tmp_path / SLOTS_FOLDER).iterdir())) == PROCESSES


async def test_another_number_of_processes_has_the_same_groups(tmp_path: Path) -> None:
    """A group may then have another process, and keeps its members."""
    port = free_port()
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            await cluster.create_topic("numbers", 3)
            joined = {}
            for processes in (1, 3):
                async with serving(
                    upstream_of(cluster),
                    tmp_path,
                    f"--processes={processes}",
                    bootstrap=f"127.0.0.1:{port}",
                ) as gateway:
                    await gateway.until_event("fleet_started")
                    nodes = await nodes_of(gateway)
                    member = FleetMember(slot=0, slots=processes, shards=SHARDS)
                    for group_id in ("a", "bb", "ccc", "dddd"):
                        address = nodes[coordinator_id(member.slot_of(group_id), 1)]
                        async with group_client(address, group_id) as client:
                            if group_id not in joined:
                                joined[group_id] = await client.enter(session_timeout_ms=60_000)
                            before = joined[group_id]
                            answer = await client.beat(before)
                            assert answer.error_code == ErrorCode.NONE, group_id
                    assert await gateway.terminate() == 0


async def test_a_folder_belongs_to_a_fleet_or_to_a_single_gateway(tmp_path: Path) -> None:
    """The other one is refused in one line, and changes nothing."""
    single, fleet = tmp_path / "single", tmp_path / "fleet"
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as cluster:
            upstream = upstream_of(cluster)
            async with serving(upstream, single) as gateway:
                assert await gateway.terminate() == 0
            async with serving(upstream, fleet, "--processes=2") as gateway:
                await gateway.until_event("fleet_started")
                assert await gateway.terminate() == 0
            for folder, flags, line in (
                (single, ["--processes=2"], "has the groups of a gateway without --processes"),
                (fleet, [], "is that of a fleet: give --processes 2"),
                (fleet, ["--processes=17"], "has 16 shards"),
            ):
                before = sorted(folder.rglob("*"))
                async with trio.open_nursery() as nursery:
                    bootstrap = f"127.0.0.1:{free_port()}"
                    refused = ServeProcess(
                        nursery, command(upstream, bootstrap, folder, *flags), bootstrap
                    )
                    await refused.start()
                    assert await refused.ended() == 1
                    assert line in await refused.last_line()
                    assert len(refused.other_lines) == 1
                assert sorted(folder.rglob("*")) == before


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
        async with running_mock_cluster(1) as cluster:
            await cluster.create_topic("numbers", 3)
            async with serving(
                upstream_of(cluster), tmp_path, f"--processes={PROCESSES}"
            ) as gateway:
                await gateway.until_event("fleet_started")
                nodes = await nodes_of(gateway)
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
