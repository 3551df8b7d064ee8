"""A cluster that moves under a running group: brokers restart, die, and are all away for a while.

The clients are real, the cluster is real; the books say whether anything was lost or owned twice.
"""

from pathlib import Path

import pytest
import trio

from tests.support.clients import Client
from tests.support.group_client import find_coordinator
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

CLASSIC = Client(library="librdkafka", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")
KAFKA_S_SESSIONS = (
    "--group-consumer-session-timeout-ms=45000",
    "--group-consumer-max-session-timeout-ms=60000",
)
AWAY_S = 12


async def mixed(group: GroupStage) -> None:
    """Two classic members and a native one."""
    await group.join("a", CLASSIC)
    await group.join("b", CLASSIC)
    await group.join("c", NATIVE)
    await group.settled("consumer")
    await group.progress()


async def test_brokers_restart_one_after_another(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """As in an upgrade of the cluster: leaders and the coordinator move away and come back."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await mixed(group)
        for broker in three_brokers.brokers.values():
            await broker.stop()
            await group.progress()
            await three_brokers.start()
            await group.settled("consumer")
            await group.progress()
        await group.end()


async def test_the_coordinator_is_killed_in_mid_roll(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """The group converts, and a member changes its protocol, while that broker is dead."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await group.join("a", CLASSIC)
        await group.join("b", CLASSIC)
        await group.settled("classic")
        await group.progress()
        coordinator = (await find_coordinator(three_brokers.addresses[0], group.group)).node_id
        await group.leave("a")
        await three_brokers.brokers[coordinator].kill()
        await group.join("a", NATIVE)
        await group.settled("consumer")
        await group.progress()
        await group.leave("b")
        await three_brokers.start()
        await group.join("b", NATIVE)
        await group.settled("consumer")
        await group.progress()
        await group.end()


async def test_the_whole_cluster_is_away_for_a_while(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """All brokers die at once, for less than a session. The gateway stays; when they are back
    everybody goes on with what he had."""
    upstream = on_kafka(three_brokers)
    async with open_group(tmp_path, *KAFKA_S_SESSIONS, open_upstream=upstream) as group:
        for name in ("a", "b", "c"):
            await group.join(name, NATIVE)
        await group.settled("consumer")
        await group.progress()
        for broker in three_brokers.brokers.values():
            await broker.kill()
        await group.gateway.until_event("upstream_lost")
        await trio.sleep(AWAY_S)
        await three_brokers.start()
        await group.gateway.until_event("upstream_back")
        await group.progress()
        await group.settled("consumer")
        assert len(group.gateway.events("member_joined")) == 3
        assert group.gateway.events("member_left") == []
        await group.end()
