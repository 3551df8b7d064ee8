"""The cluster forgets the offsets of groups that nobody is in, and not those of ours.

Slow, a minute and a half: Kafka's retention cannot be shorter than a minute. Both releases are
waited for at once.
"""

import pytest
import trio

from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster, running_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

SHORT = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1_000}
EXPIRY_LIMIT_S = 150
FURTHER_CHECKS_S = 5
BEAT_INTERVAL_S = 3.0


async def outlive(cluster: KafkaCluster) -> None:
    """A group whose member commits once, beside one whose offset nobody keeps."""
    quiet, nobodys = fresh_group("quiet"), fresh_group("nobodys")
    async with (
        whole_gateway(cluster.addresses) as gateway,
        group_client(gateway.address, quiet) as member,
        group_client(cluster.addresses[0], quiet) as direct,
        group_client(cluster.addresses[0], nobodys) as control,
        trio.open_nursery() as nursery,
    ):
        joined = await member.native("n")
        assert await member.commit({0: 7}, member_id="n", epoch=joined.member_epoch) == {0: 0}
        assert await control.commit({0: 7}, version=8) == {0: 0}

        async def stay() -> None:
            while True:
                await trio.sleep(BEAT_INTERVAL_S)
                assert (await member.native("n", joined.member_epoch)).error_code == 0

        nursery.start_soon(stay)
        with trio.fail_after(EXPIRY_LIMIT_S):
            while (await control.committed())[0] != -1:  # noqa: ASYNC110, RUF100
                await trio.sleep(1)
        await trio.sleep(FURTHER_CHECKS_S)
        assert (await direct.committed())[0] == 7
        nursery.cancel_scope.cancel()


def test_offsets_of_a_quiet_group_outlive_the_retention() -> None:
    """It has a member in the cluster: the anchor."""

    async def both(old: KafkaCluster, new: KafkaCluster) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outlive, old)
            nursery.start_soon(outlive, new)

    with (
        running_kafka("3.9", brokers=1, settings=SHORT) as old,
        running_kafka("4.3", brokers=1, settings=SHORT) as new,
    ):
        trio.run(both, old, new)
