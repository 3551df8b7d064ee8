"""One group of real clients of every library, through the conversion and back.

`GroupStage.wait_until_settled` checks each step: every partition is owned, by the member that the
gateway names. `GroupStage.end` checks the whole run: no record is lost, no partition has two
owners, and the cluster has all commits. `tests/matrix/` tests each client by itself.
"""

from pathlib import Path

import pytest

from gateway.demo.group_view import Protocol
from tests.support.clients import Client
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import KafkaCluster
from tests.support.matrix import AGAIN_MAX, NATIVE
from tests.support.releases import OLDEST, on_release

CLIENTS = {
    "librdkafka": Client(library="librdkafka", assignor="range,roundrobin"),
    "java": Client(library="java", assignor="range,roundrobin"),
    "kafka-python": Client(library="kafka-python", assignor="range,roundrobin"),
    "aiokafka": Client(library="aiokafka", assignor="roundrobin"),
    "kafkajs": Client(library="kafkajs", assignor="roundrobin"),
    "platformatic": Client(library="platformatic", assignor="roundrobin"),
    "franz-go": Client(library="franz-go", assignor="range,roundrobin"),
}


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group has settled in this protocol, and its members consume."""
    await group.wait_until_settled(protocol)
    await group.progress()


@pytest.fixture
def _all_clients() -> None:
    """Skip the test unless these clients can be started."""
    for client in CLIENTS.values():
        client.program()


@pytest.mark.usefixtures("_all_clients")
async def test_all_libraries_share_one_group(tmp_path: Path) -> None:
    """The libraries have one assignor's name in common. Each leaves and returns while the group is
    mixed."""
    async with open_group(tmp_path) as group:
        for name, client in CLIENTS.items():
            await group.join(name, client)
        await settle(group, "classic")
        await group.join("native", NATIVE)
        await settle(group, "consumer")
        for name, client in CLIENTS.items():
            await group.leave(name)
            await settle(group, "consumer")
            await group.join(name, client)
            await settle(group, "consumer")
        await group.leave("native")
        await settle(group, "classic")
        await group.end()
        assert group.conversions() == ["classic->consumer", "consumer->classic"]
        assert group.ledger.delivered_again() <= AGAIN_MAX, group.troubles


@pytest.mark.kafka
@on_release(OLDEST)
async def test_a_group_rolls_on_the_oldest_release(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Two libraries roll up and down. `tests/matrix/` rolls every client on the others. Without
    ZooKeeper this release has no idempotent producers yet."""
    classic = {name: CLIENTS[name] for name in ("librdkafka", "kafka-python")}
    settings = tmp_path / "producer"
    settings.write_text("enable.idempotence=false")
    async with open_group(
        tmp_path / "state", open_upstream=on_kafka(kafka), producer_settings=settings
    ) as group:
        for name, client in classic.items():
            await group.join(name, client)
        await settle(group, "classic")
        for goal in (dict.fromkeys(classic, NATIVE), classic):
            for name, client in goal.items():
                await group.leave(name)
                await group.join(name, client)
                is_last = goal is classic and name == "kafka-python"
                await settle(group, "classic" if is_last else "consumer")
        await group.end()
        assert group.conversions() == ["classic->consumer", "consumer->classic"]
        assert group.ledger.delivered_again() == 0, group.troubles
