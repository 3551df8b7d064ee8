"""A leader is killed and does not return: its partitions are consumed from the next one.

Clients learn of the new leader from Metadata, which each requests only for a reason. Until the
cluster has noticed, Metadata still names the dead leader.
"""

from pathlib import Path

import pytest

from tests.support.clients import Client
from tests.support.group_client import find_coordinator
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import on_first_release

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

CLIENTS = [
    Client(library="java"),
    Client(library="java", protocol="consumer"),
    Client(library="aiokafka", assignor="roundrobin"),
    Client(library="kafkajs", assignor="roundrobin"),
]
"""Clients that have been seen to continue with the dead leader."""


async def kill_leader(kafka: KafkaCluster, group: GroupStage) -> None:
    """The leader of some partitions, but not the coordinator, whose end may cause a Metadata
    request as well."""
    coordinator = (await find_coordinator(kafka.addresses[0], group.group)).node_id
    leader = next(node_id for node_id in kafka.brokers if node_id != coordinator)
    await kafka.brokers[leader].kill()


@on_first_release("_three_brokers")
@pytest.mark.parametrize("client", CLIENTS, ids=str)
async def test_partitions_of_a_dead_leader_are_consumed_and_produced_to(
    three_brokers: KafkaCluster, client: Client, tmp_path: Path
) -> None:
    """This happens long before the client's periodic Metadata request, usually after five minutes.
    The producer is librdkafka."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await group.join("a", client)
        await group.wait_until_settled(client.protocol)
        await group.progress()
        await kill_leader(three_brokers, group)
        await group.end()
