"""Members get partitions with a replica in their rack, in front of a real cluster with racks
(`group.rack.aware`, deviation D84)."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient

from tests.support.clients import Client
from tests.support.group_stage import PARTITIONS, GroupStage, on_kafka, open_group
from tests.support.kafka_broker import KafkaCluster
from tests.support.matrix import NATIVE
from tests.support.releases import NEWEST

RACKS = {1: "east", 2: "west"}
"""The racks by node id. Each partition has one replica."""
JAVA = Client(library="java", protocol="consumer")


@pytest.fixture(scope="module")
def kafka_with_racks() -> Iterator[KafkaCluster]:
    with tempfile.TemporaryDirectory(prefix="groupferry-kafka-") as folder:
        own = [{"broker.rack": rack} for rack in RACKS.values()]
        cluster = KafkaCluster(NEWEST, Path(folder), len(own), {}, of_brokers=own)
        try:
            trio.run(cluster.start)
            yield cluster
        finally:
            cluster.kill_now()


async def racks_of(cluster: KafkaCluster, topic: str) -> dict[int, str]:
    """The rack of each partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    seen = await trio.to_thread.run_sync(lambda: admin.list_topics(topic))
    partitions = seen.topics[topic].partitions
    return {number: RACKS[partition.leader] for number, partition in partitions.items()}


async def settle(group: GroupStage, racks: Mapping[int, str]) -> None:
    """Wait until the members consume, and require that as few as possible read from the other rack:
    each has the same number of partitions. A member's name begins with its rack."""
    await group.wait_until_settled("consumer")
    await group.progress(50)
    owners = {number: "".join(names) for number, names in group.ledger.owners().items()}
    abroad = [number for number, name in owners.items() if not name.startswith(racks[number])]
    in_one = sum(rack == RACKS[1] for rack in racks.values())
    assert len(abroad) == abs(in_one - PARTITIONS // 2), (owners, racks)
    assert set(group.shares().values()) == {PARTITIONS // len(group.members)}


@pytest.mark.kafka
async def test_each_member_reads_from_its_own_rack(
    kafka_with_racks: KafkaCluster, tmp_path: Path
) -> None:
    """Clients of both libraries, and after one of them was replaced by one in the other rack."""
    # Consumers that start together disown what they are about to take: `GroupStage` then looks at
    # what they have stated.
    flags = ("--group-rack-aware=true", "--log-level=debug")
    opened = open_group(tmp_path, *flags, open_upstream=on_kafka(kafka_with_racks))
    async with opened as group:

        async def join(name: str, client: Client) -> None:
            properties = tmp_path / name
            properties.write_text(f"client.rack={name.partition('-')[0]}\n")
            await group.join(name, client, f"--security={properties}")

        await join("east-1", NATIVE)
        await join("west-1", JAVA)
        await join("west-2", NATIVE)
        await join("east-2", JAVA)
        racks = await racks_of(kafka_with_racks, group.topic)
        await settle(group, racks)
        await group.leave("east-2")
        await group.leave("west-2")
        await join("west-3", NATIVE)
        await join("east-3", NATIVE)
        await settle(group, racks)
        await group.end()
        assert group.ledger.delivered_again() == 0, group.troubles
