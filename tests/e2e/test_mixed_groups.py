"""One group of real clients of every library, through the conversion and back.

`GroupStage.settled` checks each step: every partition is owned, by the member that the gateway
names. `GroupStage.end` checks the whole run: no record is lost, no partition has two owners, and
the cluster has all commits. `tests/matrix/` tests each client by itself.
"""

from pathlib import Path

import pytest

from gateway.demo.group_view import Protocol
from tests.support.clients import Client
from tests.support.group_stage import GroupStage, open_group
from tests.support.matrix import AGAIN_MAX, NATIVE

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
    await group.settled(protocol)
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
