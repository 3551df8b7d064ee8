"""A live group moves behind the gateway one consumer at a time, and is adopted while it consumes.

`GroupStage.wait_until_settled` checks that the gateway shows one group, whose partitions have one
owner each. `GroupStage.end` checks the clients' own reports: no record is lost, no partition had
two owners.
"""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.hosting.adoptable import OUTSIDE
from kafka_codecs.error_codes import ErrorCode
from tests.e2e.adopted_groups import LONG_SESSIONS, adopt, begin_in_cluster, flags_of
from tests.e2e.adoption_round import Round
from tests.support.clients import Client
from tests.support.group_client import fresh_group, group_client
from tests.support.group_stage import GroupStage, on_kafka, open_group, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.promises import promise
from tests.support.releases import with_new_protocol
from tests.support.serve_process import PROGRAM, serving
from tests.support.until import until

LIMIT_S = 200
CALM_S = 2.0
"""Longer than a heartbeat's interval and a commit's."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

CLASSIC = Client(library="librdkafka", assignor="cooperative-sticky")
JAVA = Client(library="java", assignor="cooperative-sticky")
GO = Client(library="franz-go", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")
EAGER = Client(library="librdkafka")


async def command(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `groupferry adopt`."""
    run = partial(trio.run_process, check=False, capture_stdout=True, capture_stderr=True)
    return await run([sys.executable, "-P", "-c", PROGRAM, "adopt", *arguments])


async def move_behind(group: GroupStage, name: str, client: Client) -> None:
    """Restart a member behind the gateway."""
    await group.leave(name)
    await group.join(name, client, *flags_of(client))
    await group.wait_until_settled("classic")


@pytest.mark.parametrize("third", [GO], ids=str)
async def test_a_live_group_is_adopted_while_it_consumes(
    kafka: KafkaCluster, third: Client, tmp_path: Path
) -> None:
    """Consumers of three libraries. The command refuses while one bypasses the gateway, and names
    it. No client notices the adoption; then the group rolls."""
    clients = {"a": CLASSIC, "b": JAVA, "c": third}
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        for name, client in clients.items():
            await group.join(name, client, *flags_of(client), beside=True)
        # One that closes in the middle of a rebalance would stay until its session is over.
        await group.wait_until_settled("classic")
        await move_behind(group, "a", CLASSIC)
        await move_behind(group, "b", JAVA)
        arguments = (group.group, f"--state-dir={tmp_path}")
        refused = await command(*arguments)
        (line,) = refused.stderr.decode().splitlines()
        assert refused.returncode == 1
        assert line.startswith(f"groupferry: {group.group} is not adopted: c")
        assert line.endswith(OUTSIDE)
        await move_behind(group, "c", third)
        possible = await command(*arguments, "--dry-run")
        assert (possible.returncode, possible.stderr) == (0, b"")
        assert group.gateway.events("hosting_started") == []
        await adopt_unnoticed(group, arguments)
        async with group_client(kafka.addresses[0], group.group) as outsider:
            refusal = await outsider.join(protocol="cooperative-sticky")
            assert refusal.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await group.leave("c")
        await group.join("c", NATIVE)
        await group.wait_until_settled("consumer")
        assert group.conversions() == ["classic->consumer"]
        await group.end()


async def adopt_unnoticed(group: GroupStage, arguments: tuple[str, ...]) -> None:
    """Adopt the group. No partition moves, no client is disturbed or complains."""
    troubles = list(group.troubles)
    since_s = time.monotonic()
    adopted = await command(*arguments)
    assert (adopted.returncode, adopted.stderr) == (0, b"")
    print(adopted.stdout.decode())
    await group.progress(100)
    await trio.sleep(CALM_S)
    disturbance = group.ledger.disturbance(None, since_s, time.monotonic())
    promise((disturbance.partitions_moved, disturbance.members_disturbed) == (0, 0), group.troubles)
    assert group.troubles == troubles
    assert len(group.gateway.events("hosting_started")) == 1
    await group.wait_until_settled("classic")


@with_new_protocol()
async def test_a_group_adopts_itself_when_its_last_consumer_has_come(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """With `groups_adopt = auto` no command is needed. A consumer behind another gateway is named
    as an obstacle. Later it gets nothing there, or in the cluster, and the others do not notice."""
    names = [fresh_group("auto")]
    async with (
        open_groups(
            kafka, names, tmp_path / "one", "--groups-adopt=auto", limit_s=LIMIT_S
        ) as groups,
        serving(kafka.bootstrap_servers, tmp_path / "two") as other,
    ):
        (group,) = groups
        clients = {"a": EAGER, "b": EAGER, "c": EAGER}
        await begin_in_cluster(kafka, group, clients, behind={"c": other})
        await group.wait_until_settled("classic")
        outcome = await adopt(tmp_path / "one", group.group)
        assert [reason.partition(" at ")[0] for reason in outcome.reasons] == ["c"]
        await group.leave("c")
        await group.gateway.until_event("group_adopted")
        await group.wait_until_settled("classic")
        since_s = time.monotonic()
        await group.join("c", EAGER, LONG_SESSIONS, behind=other)
        await other.until_event("group_hosted_elsewhere")
        await group.leave("c")
        await group.join("c", EAGER, LONG_SESSIONS, beside=True)
        await until(lambda: any("c: consume" in trouble for trouble in group.troubles))
        await group.leave("c")
        await group.wait_until_settled("classic")
        disturbance = group.ledger.disturbance(None, since_s, time.monotonic())
        promise(
            (disturbance.partitions_moved, disturbance.members_disturbed) == (0, 0), group.troubles
        )
        await group.end()


async def test_an_outsider_at_any_moment_is_refused_or_gets_its_share(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A classic one; on Kafka 4 a native one as well. `adoption_loop.py` plays this for longer, and
    with faults."""
    await Round(kafka, tmp_path, seed=1, fault="none").play(4 if kafka.has_new_protocol else 2)
