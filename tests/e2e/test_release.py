"""A hosted group goes back to the cluster while it consumes.

`GroupStage.end` checks the clients' own reports: no record is lost, no partition had two owners.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.demo.ledger import Ownership
from tests.support.clients import Client
from tests.support.group_stage import PARTITIONS, GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.promises import promise
from tests.support.releases import in_turn, on_release, with_new_protocol
from tests.support.serve_process import PROGRAM

LIMIT_S = 200
CALM_S = 4.0
"""Longer than a heartbeat's interval: a second rebalance would have begun."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]


async def command(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `groupferry`."""
    run = partial(trio.run_process, check=False, capture_stdout=True, capture_stderr=True)
    return await run([sys.executable, "-P", "-c", PROGRAM, *arguments])


def assignments(group: GroupStage, since_s: float) -> dict[str, int]:
    """How often each member got partitions."""
    times: dict[str, set[float]] = {name: set() for name in group.members}
    for number in range(PARTITIONS):
        for entry in group.ledger.history(number):
            if isinstance(entry, Ownership) and entry.since_s >= since_s:
                times[entry.process.member].add(entry.since_s)
    return {name: len(instants) for name, instants in times.items()}


@in_turn("assignor", ["cooperative-sticky"], ["range"])
async def test_a_hosted_group_is_released_while_it_consumes(
    kafka: KafkaCluster, assignor: str, tmp_path: Path
) -> None:
    """Consumers of three libraries see one rebalance: none gets partitions twice. The next consumer
    joins them in the cluster."""
    clients = {
        "a": Client(library="librdkafka", assignor=assignor),
        "b": Client(library="java", assignor=assignor),
        "c": Client(library="franz-go", assignor=assignor),
    }
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        for name, client in clients.items():
            await group.join(name, client)
        await group.wait_until_settled("classic")
        since_s = time.monotonic()
        released = await command("release", group.group, f"--state-dir={tmp_path}")
        assert (released.returncode, released.stderr) == (0, b"")
        print(released.stdout.decode())
        await group.wait_until_settled("classic")
        await group.progress(100)
        await trio.sleep(CALM_S)
        got = assignments(group, since_s)
        promise(set(got.values()) <= {0, 1}, f"assignments since the release: {got}")
        print(f"assignments since the release: {got}; {group.troubles}")
        await group.join("d", clients["a"], beside=True)
        await group.wait_until_settled("classic")
        await group.end()


@in_turn("how", ["command"], ["setting"])
async def test_a_group_is_released_right_after_a_restart(
    kafka: KafkaCluster, how: str, tmp_path: Path
) -> None:
    """The anchor of the process that was killed is still in the cluster's group. It leaves before
    a consumer joins there: otherwise INCONSISTENT_GROUP_PROTOCOL ends each of them."""
    flags = ["--groups-forward=*"] if how == "setting" else []
    client = Client(library="librdkafka", assignor="cooperative-sticky")
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        for name in "ab":
            await group.join(name, client)
        await group.wait_until_settled("classic")
        await group.gateway.kill()
        await group.gateway.start(flags=flags)
        await group.gateway.until_event("gateway_started", 2)
        if how == "command":
            released = await command("release", group.group, f"--state-dir={tmp_path}")
            assert (released.returncode, released.stderr) == (0, b"")
        else:
            await group.gateway.until_event("group_released_by_setting")
        await group.wait_until_settled("classic")
        await group.progress(100)
        print(group.troubles)
        promise("INCONSISTENT" not in str(group.troubles), "a consumer was kept out")
        assert not group.gateway.events("group_taken")
        await group.end()


NATIVE = {
    "a": Client(library="librdkafka", protocol="consumer"),
    "b": Client(library="java", protocol="consumer"),
}
MIXED = {
    **NATIVE,
    "c": Client(library="librdkafka", assignor="cooperative-sticky"),
    "d": Client(library="java", assignor="cooperative-sticky"),
}


@with_new_protocol()
@pytest.mark.parametrize("clients", [NATIVE, MIXED], ids=["native", "mixed"])
async def test_native_members_go_to_a_cluster_with_the_new_protocol(
    kafka: KafkaCluster, clients: Mapping[str, Client], tmp_path: Path
) -> None:
    """The members revoke their partitions here, and return with epoch 0 there.

    The first one consumes before the others come: librdkafka fetches a partition from offset 0 that
    it has given up while it was looking for its beginning.
    """
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        for name, client in clients.items():
            await group.join(name, client)
            if name == "a":
                await group.wait_until_settled("consumer")
                await group.progress(400)
        await group.wait_until_settled("consumer")
        since_s = time.monotonic()
        released = await command("release", group.group, f"--state-dir={tmp_path}")
        print(released)
        assert (released.returncode, released.stderr) == (0, b"")
        await group.wait_until_settled("consumer")
        await group.progress(100)
        await trio.sleep(CALM_S)
        print(f"assignments since the release: {assignments(group, since_s)}; {group.troubles}")
        await group.join("e", clients["a"], beside=True)
        await group.wait_until_settled("consumer")
        await group.end()


@on_release("3.9")
async def test_native_members_are_named_where_the_cluster_has_no_new_protocol(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        await group.join("a", NATIVE["a"])
        await group.join("c", MIXED["c"])
        await group.wait_until_settled("consumer")
        for flags in (["--dry-run"], []):
            refused = await command("release", group.group, f"--state-dir={tmp_path}", *flags)
            assert refused.returncode == 1
            (line,) = refused.stderr.decode().splitlines()
            reason = "uses the new protocol, and the cluster does not have it"
            assert "a at 127.0.0.1 (" in line
            assert f") {reason}: roll it back to the classic one first" in line
        await group.gateway.kill()
        await group.gateway.start(flags=["--groups-forward=*"])
        event = await group.gateway.until_event("group_stays_hosted")
        assert reason in event["reason"]
        await group.wait_until_settled("consumer")
        await group.progress(100)
        await group.end()
