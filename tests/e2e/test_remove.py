"""The gateway is removed while its clients run: they continue at the cluster, without a restart.

`GroupStage.end` checks the clients' own reports: no record is lost, no partition had two owners.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.e2e.moved_name import NAME, MovedName
from tests.e2e.test_release import assignments, command
from tests.support.clients import Client
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.promises import promise
from tests.support.releases import in_turn
from tests.support.serve_process import PROGRAM

LIMIT_S = 280
GATEWAY, CLUSTER = "127.0.0.2", "127.0.0.1"
CLIENTS = {"a": Client(library="librdkafka"), "b": Client(library="java")}
TRIES_MAX = 3
"""A client that was told in vain is told again after a minute, and a removal takes 45 s."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]


def _port(kafka: KafkaCluster) -> int:
    return kafka.addresses[0][1]


async def join(group: GroupStage, member: str, kafka: KafkaCluster, name: MovedName) -> None:
    """Start a consumer that knows the gateway by a name."""
    bootstrap = f"{NAME}:{_port(kafka)}"
    await group.join(member, CLIENTS[member], bootstrap=bootstrap, within=name.within)


@asynccontextmanager
async def released_group(
    kafka: KafkaCluster, folder: Path, *flags: str
) -> AsyncIterator[tuple[GroupStage, MovedName]]:
    """A released group whose consumers know the gateway by a name."""
    name = MovedName(folder, GATEWAY)
    async with open_group(
        folder,
        *flags,
        open_upstream=on_kafka(kafka),
        bootstrap=f"{GATEWAY}:{_port(kafka)}",
        produces_beside=True,
        limit_s=LIMIT_S,
    ) as group:
        for client in CLIENTS:
            await join(group, client, kafka, name)
        await group.wait_until_settled("classic")
        hosted = await command("remove", f"--state-dir={folder}")
        reason = f"{group.group} is hosted: groupferry release {group.group}"
        assert (hosted.returncode, hosted.stdout) == (1, b"")
        assert hosted.stderr.decode() == f"groupferry: the gateway is not removed: {reason}\n"
        done = await command("release", group.group, f"--state-dir={folder}")
        assert (done.returncode, done.stderr) == (0, b"")
        await group.wait_until_settled("classic")
        yield group, name


async def remove_gateway(folder: Path) -> None:
    """Remove the gateway."""
    for _ in range(TRIES_MAX):
        done = await command("remove", f"--state-dir={folder}")
        print(done.stdout.decode(), done.stderr.decode())
        if done.returncode == 0:
            return
    raise AssertionError("clients are left")


@in_turn("led_by,rebalances_max", ("a", 0), ("b", 2))
async def test_clients_continue_at_the_cluster(
    kafka: KafkaCluster, led_by: str, rebalances_max: int, tmp_path: Path
) -> None:
    """The newest Java and the newest librdkafka. They stay the same members, but a Java leader of a
    classic group rejoins when it forgets its metadata. While the name leads to the gateway, it says
    so, and serves them. Rebalances are counted at the leader, which takes part in all of them; if
    the other client is slow to come back, the leader is told in vain, too."""
    async with released_group(kafka, tmp_path) as (group, name):
        for client in CLIENTS.keys() - {led_by}:  # the one that stays leads
            await group.leave(client)
            await join(group, client, kafka, name)
        await group.wait_until_settled("classic")
        since_s = time.monotonic()
        in_vain = await command("remove", f"--state-dir={tmp_path}")
        assert in_vain.returncode == 1
        assert b"still lead to this gateway" in in_vain.stderr
        all_told = f"resolve bootstrap.servers again: {len(CLIENTS)}".encode() in in_vain.stdout
        times_told = 2 if all_told or f": {led_by} at ".encode() in in_vain.stderr else 1
        await group.wait_until_settled("classic")
        name.point(CLUSTER)
        await remove_gateway(tmp_path)
        await group.gateway.terminate()
        await group.progress(200)
        got = assignments(group, since_s)
        context = f"assignments since then: {got}; {group.troubles}"
        promise(got[led_by] <= rebalances_max * times_told, context)
        await group.end()


@in_turn("after_s", [1.0], [1.5], [2.5], [4.0])
async def test_a_gateway_that_is_killed_meanwhile_loses_nothing(
    kafka: KafkaCluster, after_s: float, tmp_path: Path
) -> None:
    """Some clients have been told, others not. The next process serves those that come, and sends
    them away."""
    async with released_group(kafka, tmp_path) as (group, name):
        name.point(CLUSTER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(command, "remove", f"--state-dir={tmp_path}")
            await trio.sleep(after_s)
            await group.gateway.kill()
        await group.gateway.start(PROGRAM)
        await group.gateway.until_event("gateway_started", 2)
        await remove_gateway(tmp_path)
        await group.progress(200)
        await group.end()
