"""The gateway is inserted, a group is rolled there and back, and the gateway is removed.

Once by the demo, as users run it, and once with consumers of three libraries.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from gateway.demo.group_view import Protocol
from tests.e2e.test_release import command
from tests.support.clients import Client
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.kafka_jars import kafka_jars
from tests.support.kafka_release import QUICK_START
from tests.support.releases import CHOSEN, in_turn
from tests.support.serve_process import PROGRAM
from tests.support.until import until_answered

LIMIT_S = 400
UNDISTURBED = ("the group is adopted", "consumer-3 bootstraps again")

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]


@pytest.mark.parametrize("release", CHOSEN)
def test_the_whole_story(release: str, tmp_path: Path) -> None:
    """Nothing is lost, no partition has two owners, and the step tells the cause of each rebalance
    that a consumer saw."""
    (tmp_path / "libs").symlink_to(kafka_jars(release))
    words = ["demo", "--story", f"--kafka-home={tmp_path}", "--log-level=error", "--json"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "JDK_JAVA_OPTIONS": " ".join(QUICK_START)},
    )
    assert done.returncode == 0, (done.stderr, done.stdout)
    summary = json.loads(done.stdout)
    assert (summary["totals"]["lost"], summary["totals"]["partitions_with_two_owners"]) == (0, 0)
    steps = {step["title"]: step for step in summary["steps"]}
    assert [steps[title]["rebalanced"] for title in UNDISTURBED] == [[], []]
    assert len(steps["the group is released"]["rebalanced"]) == 3


CLIENTS = {
    "a": Client(library="librdkafka"),
    "b": Client(library="java"),
    "c": Client(library="franz-go"),
}


@in_turn("pause_s", [0], [5])
async def test_consumers_of_three_libraries_come_and_go(
    kafka: KafkaCluster, pause_s: float, tmp_path: Path
) -> None:
    """One case has no pause between the steps, another one has."""
    async with open_group(
        tmp_path, open_upstream=on_kafka(kafka), produces_beside=True, limit_s=LIMIT_S
    ) as group:
        for name, client in CLIENTS.items():
            await group.join(name, client, beside=True)
        await group.wait_until_settled("classic")
        for name in CLIENTS:
            await move(group, name, pause_s)
        await adopt_group(group, tmp_path)
        protocols: tuple[Protocol, ...] = ("consumer", "classic")
        for protocol in protocols:
            for name in CLIENTS:
                await move(group, name, pause_s, protocol=protocol)
        await release_group(group, tmp_path)
        await trio.sleep(pause_s)
        for name in CLIENTS:
            await move(group, name, pause_s, beside=True)
        await group.end()


async def move(
    group: GroupStage,
    name: str,
    pause_s: float,
    *,
    protocol: Protocol = "classic",
    beside: bool = False,
) -> None:
    """Restart a consumer there, and continue once the group has settled, or immediately."""
    library = CLIENTS[name].library
    await group.leave(name)
    await group.join(name, Client(library=library, protocol=protocol), beside=beside)
    if pause_s:
        is_native = any(member.client.protocol == "consumer" for member in group.members.values())
        await group.wait_until_settled("consumer" if is_native else "classic")
        await trio.sleep(pause_s)


async def adopt_group(group: GroupStage, folder: Path) -> None:
    """Adopt the group, as soon as that is possible. The gateway hosts it already if the cluster's
    group was empty for a moment."""
    await group.wait_until_settled("classic")
    await until_answered(
        lambda: command("adopt", group.group, f"--state-dir={folder}"),
        lambda done: done.returncode == 0 or b"it is hosted already" in done.stderr,
    )


async def release_group(group: GroupStage, folder: Path) -> None:
    """Release the group, as soon as that is possible. A cluster without the new protocol cannot
    have native members. If librdkafka is closed before its first heartbeat is answered, it does not
    leave, and its member stays for a session."""
    done = await until_answered(
        lambda: command("release", group.group, f"--state-dir={folder}"),
        lambda done: b"uses the new protocol" not in done.stderr,
    )
    assert (done.returncode, done.stderr) == (0, b"")
