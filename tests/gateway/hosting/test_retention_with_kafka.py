"""The cluster expires the offsets of empty groups, but not those of hosted groups.

The test takes a minute and a half, because Kafka's retention is at least a minute. All releases run
in parallel, and meanwhile their only broker is killed and restarted. All groups share the one
partition of the offsets topic, so that a group that cannot be loaded would take the others with it.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.errors import UpstreamError
from kafka_codecs.error_codes import ErrorCode
from tests.support.direct_clients import anchor_in, until_anchored
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster, running_kafka
from tests.support.releases import WITH_ANCHORS
from tests.support.until import until_answered

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

SHORT = {
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 1_000,
    "group.max.session.timeout.ms": 40_000,  # less than the anchor requests first
}
EXPIRY_LIMIT_S = 150
FURTHER_CHECKS_S = 5
AWAY_S = 15
BEAT_INTERVAL_S = 3.0
SESSION_TIMEOUT_MS = 40_000
UNSUBSCRIBED = "letters"
LOADING = {14, 15, 16}
"""Errors of a coordinator that has just started, after which a client retries."""


async def stay(gateway: Gateway, group: str, epoch: int, codes: set[int]) -> None:
    """A member that commits nothing, and reconnects after a lost connection."""
    while True:
        try:
            async with group_client(gateway.address, group) as member:
                while True:
                    codes.add((await member.native("n", epoch)).error_code)
                    await trio.sleep(BEAT_INTERVAL_S)
        except (UpstreamError, OSError):
            await trio.sleep(0.5)


async def outlive(cluster: KafkaCluster) -> None:
    """A group whose member commits once, also for a topic without subscribers; a group whose offset
    may expire; and one with a consumer in the cluster itself."""
    quiet, nobodys, direct_one = fresh_group("quiet"), fresh_group("nobodys"), fresh_group("direct")
    await cluster.make_topic(UNSUBSCRIBED)
    (broker,) = cluster.brokers.values()
    codes: set[int] = set()
    async with group_client(cluster.addresses[0], nobodys) as control:
        assert await control.commit({0: 7}, version=8) == {0: 0}
    async with whole_gateway(cluster.addresses) as gateway, trio.open_nursery() as nursery:
        async with group_client(gateway.address, quiet) as member:
            epoch = (await member.native("n")).member_epoch
            identity = {"member_id": "n", "epoch": epoch}
            assert await member.commit({0: 7}, **identity) == {0: 0}  # type: ignore[arg-type]
            stored = await member.commit({0: 8}, topic=UNSUBSCRIBED, **identity)  # type: ignore[arg-type]
            assert stored == {0: 0}
        nursery.start_soon(stay, gateway, quiet, epoch, codes)
        async with group_client(cluster.addresses[0], quiet) as direct:
            before = await anchor_in(direct)
        async with group_client(cluster.addresses[0], direct_one) as consumer:
            joined = await consumer.enter(session_timeout_ms=SESSION_TIMEOUT_MS)
        await broker.kill()
        await trio.sleep(AWAY_S)
        await broker.start()
        async with (
            group_client(cluster.addresses[0], quiet) as direct,
            group_client(cluster.addresses[0], nobodys) as control,
            group_client(cluster.addresses[0], direct_one) as consumer,
        ):
            beaten = await until_answered(
                partial(consumer.beat, joined), lambda answer: answer.error_code not in LOADING
            )
            assert beaten.error_code == 0
            held = await until_anchored(direct)
            assert held.members[0].member_id == before.members[0].member_id
            assert (await direct.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert (await control.fetch_offsets())[0] == 7
            with trio.fail_after(EXPIRY_LIMIT_S):
                await until_answered(control.fetch_offsets, lambda offsets: offsets[0] == -1)
            await trio.sleep(FURTHER_CHECKS_S)
            assert (await direct.fetch_offsets())[0] == 7
            assert (await direct.fetch_offsets(UNSUBSCRIBED))[0] == 8
        nursery.cancel_scope.cancel()
    assert codes <= {0, *LOADING}


def test_offsets_of_a_quiet_group_survive_the_retention() -> None:
    """The anchor is its member in the cluster, and also survives an outage of the cluster."""

    async def all_at_once(clusters: Iterable[KafkaCluster]) -> None:
        async with trio.open_nursery() as nursery:
            for cluster in clusters:
                nursery.start_soon(outlive, cluster)

    with ExitStack() as stack, capture_logs() as lines:
        trio.run(
            all_at_once,
            [
                stack.enter_context(running_kafka(release, brokers=1, settings=SHORT))
                for release in WITH_ANCHORS
            ],
        )
    assert not [line for line in lines if line["log_level"] == "error"]
