"""The embedded cluster: its detection and its gaps."""

import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.embedded import is_embedded
from kafka_codecs.apis import ApiKey
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.support.gateway import whole_gateway
from tests.support.group_client import group_client
from tests.support.mock_cluster import running_mock_cluster


def test_the_embedded_cluster_is_known_by_its_missing_apis() -> None:
    """Every Kafka since 0.9 describes groups."""
    assert is_embedded({ApiKey.HEARTBEAT: (0, 4)})
    assert not is_embedded({ApiKey.HEARTBEAT: (0, 4), ApiKey.DESCRIBE_GROUPS: (0, 5)})


async def test_every_group_is_hosted_in_front_of_it() -> None:
    """Whatever the settings say of empty groups: it cannot serve them."""
    with trio.fail_after(20):
        async with (
            running_mock_cluster() as upstream,
            whole_gateway(upstream.bootstrap, host_patterns=()) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            await upstream.create_topic("numbers", 3)
            await client.enter()
            assert "group_created" in [event.name for event in gateway.events]


async def test_offsets_of_all_topics_are_those_that_are_committed() -> None:
    """Admin tools name no topic. Kafka then returns exactly the committed offsets."""
    with trio.fail_after(20):
        async with (
            running_mock_cluster() as upstream,
            whole_gateway(upstream.bootstrap) as gateway,
            group_client(gateway.address, "g") as client,
            await BrokerConnection.open(*gateway.address) as connection,
        ):
            await upstream.create_topic("numbers", 3)
            await client.commit({0: 7, 2: 9})

            one: OffsetFetchResponse = await connection.ask(
                OffsetFetchRequest(group_id="g", topics=None), 5
            )
            many: OffsetFetchResponse = await connection.ask(
                OffsetFetchRequest(
                    groups=(
                        OffsetFetchRequestGroup(group_id="g", topics=None),
                        OffsetFetchRequestGroup(group_id="empty", topics=None),
                    )
                ),
                9,
            )

            (topic,) = one.topics
            stored = {p.partition_index: p.committed_offset for p in topic.partitions}
            assert (topic.name, stored) == ("numbers", {0: 7, 2: 9})
            assert [len(group.topics) for group in many.groups] == [1, 0]
