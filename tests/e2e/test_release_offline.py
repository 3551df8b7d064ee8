"""Groups go back to the cluster without a running gateway.

`GroupStage.end` checks the clients' own reports: no record is lost, no partition had two owners,
and consumption continues at the committed offsets.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from gateway.demo.group_view import Protocol
from gateway.hosting.states import ReleaseStage as Stage
from tests.e2e.stopping_moves import STOPPED, program
from tests.e2e.test_release import MIXED, NATIVE, command
from tests.e2e.test_release_killed import STOPS, UNOPENED
from tests.support.clients import Client, read_lines
from tests.support.group_client import fresh_group
from tests.support.group_stage import on_kafka, open_group, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import LAST_CLASSIC, NATIVE_RELEASES, with_new_protocol

LIMIT_S = 240

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

CLASSIC = Client(library="librdkafka")


def offline(folder: Path, kafka: KafkaCluster) -> Sequence[str]:
    upstream = ",".join(f"{host}:{port}" for host, port in kafka.addresses)
    return ("--offline", f"--state-dir={folder}", f"--upstream={upstream}")


async def release_offline(
    kafka: KafkaCluster, folder: Path, clients: Sequence[Client], protocol: Protocol
) -> None:
    """A group is hosted, its gateway is killed, and the group is freed without one. The clients
    then come back directly to the cluster."""
    async with open_group(folder, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        flags = offline(folder, kafka)
        for name, client in zip("ab", clients, strict=True):
            await group.join(name, client)
        await group.wait_until_settled(protocol)
        await group.progress(200)
        running = await command("release", group.group, *flags)
        assert running.returncode == 1
        reason = f"a gateway runs with {folder}: leave out --offline"
        assert running.stderr.decode() == f"groupferry: nothing is released: {reason}\n"
        await group.gateway.kill()
        unknown = await command("release", "nobody", *flags)
        assert (unknown.returncode, unknown.stdout) == (1, b"")
        assert b"nobody is not released: the state log does not have it" in unknown.stderr
        for name in "ab":
            await group.kill(name)
        done = await command("release", "--all", *flags)
        print(done)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().splitlines()[-1] == f"{group.group} is released"
        again = await command("release", group.group, *flags)
        assert b"it has been released already" in again.stderr
        for name, client in zip("cd", clients, strict=True):
            await group.join(name, client, beside=True)
        await group.gateway.start()
        await group.wait_until_settled(protocol)
        await group.progress(200)
        await group.end()


async def test_a_classic_group_is_freed(kafka: KafkaCluster, tmp_path: Path) -> None:
    await release_offline(kafka, tmp_path, (CLASSIC, CLASSIC), "classic")


@with_new_protocol()
async def test_a_mixed_group_is_freed(kafka: KafkaCluster, tmp_path: Path) -> None:
    await release_offline(kafka, tmp_path, (NATIVE["a"], MIXED["c"]), "consumer")


GATEWAY = """
group_consumer_session_timeout_ms = 6000
group_consumer_min_session_timeout_ms = 6000
"""
"""Settings of the gateway that is gone, without which a native session counts as longer."""


@pytest.mark.parametrize(
    ("kafka", "clients"),
    [
        pytest.param(LAST_CLASSIC, (CLASSIC, CLASSIC), id=f"kafka-{LAST_CLASSIC}-classic"),
        *(
            pytest.param(release, (NATIVE["a"], MIXED["c"]), id=f"kafka-{release}-mixed")
            for release in NATIVE_RELEASES
        ),
    ],
    indirect=["kafka"],
)
async def test_a_command_that_is_killed_continues_when_it_is_repeated(
    kafka: KafkaCluster, clients: Sequence[Client], tmp_path: Path
) -> None:
    """This holds at each step, with one group for each and one kill for all of them."""
    is_mixed = clients != (CLASSIC, CLASSIC)
    protocol: Protocol = "consumer" if is_mixed else "classic"
    at = [stop for stop in STOPS if stop.stage is not Stage.GATHERING]
    stops = {
        fresh_group(f"offline-{n}"): stop for n, stop in enumerate(UNOPENED if is_mixed else at)
    }
    (tmp_path / "gateway.toml").write_text(GATEWAY)
    async with open_groups(kafka, list(stops), tmp_path, limit_s=LIMIT_S) as groups:
        flags = (*offline(tmp_path, kafka), f"--config={tmp_path / 'gateway.toml'}")
        for group in groups:
            for name, client in zip("ab", clients, strict=True):
                await group.join(name, client)
        for group in groups:
            await group.wait_until_settled(protocol)
        await groups[0].gateway.kill()
        for group in groups:
            await group.kill("a")
            await group.kill("b")
        await kill_when_stopped(program(stops), "release", "--all", *flags, groups=len(groups))
        done = await command("release", "--all", *flags)
        assert (done.returncode, done.stderr) == (0, b"")
        lines = done.stdout.decode().splitlines()
        assert {f"{group_id} is released" for group_id in stops} <= set(lines)
        for group in groups:
            await group.join("c", clients[0], beside=True)
        await groups[0].gateway.start()
        for group in groups:
            await group.wait_until_settled(protocol)
            await group.join("d", clients[1], beside=True)
        for group in groups:
            await group.wait_until_settled(protocol)
            await group.progress()
        produced = await groups[0].stop_producer()
        for group in groups:
            await group.end_after(produced)


async def kill_when_stopped(text: str, *arguments: str, groups: int) -> None:
    """Run a command whose releases stop, and kill it once all of them have."""
    stopped = 0
    command_line = [sys.executable, "-P", "-c", text, *arguments]
    async with trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            command_line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

        def hear(line: str) -> None:
            nonlocal stopped
            stopped += json.loads(line)["event"] == STOPPED
            if stopped == groups:
                process.kill()

        nursery.start_soon(read_lines, process.stderr, hear)
        await process.wait()
    assert stopped == groups
