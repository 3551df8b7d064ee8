"""A live group, some of whose consumers are behind the gateway while others bypass it.

`GroupStage.wait_until_settled` checks that the gateway shows one group, whose partitions have one
owner each. `GroupStage.end` checks the clients' own reports: no record is lost, no partition had
two owners.
"""

from pathlib import Path

import pytest
import trio

from gateway.demo.group_view import Protocol
from tests.support.clients import Client
from tests.support.group_client import group_client
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import with_new_protocol

LIMIT_S = 300
LONG_SESSIONS = "--session-timeout-ms=45000"
"""The clients' default: no member is fenced on a busy machine, or while the gateway restarts."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

CLASSIC = Client(library="librdkafka", assignor="cooperative-sticky")
JAVA = Client(library="java", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")
JAVA_NATIVE = Client(library="java", protocol="consumer")


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group has settled and consumes."""
    await group.wait_until_settled(protocol)
    await group.progress(50)


async def come_and_go(group: GroupStage, one: Client, other: Client, *flags: str) -> None:
    """Half of the members bypass the gateway, half join behind it. They consume through a restart
    of the gateway; then those that bypassed it move behind it, one at a time."""
    await group.join("beside-1", one, *flags, beside=True)
    await group.progress(50)
    await group.join("behind-1", one, *flags)
    await group.join("beside-2", other, *flags, beside=True)
    await group.join("behind-2", other, *flags)
    await settle(group, one.protocol)
    # A commit that a rebalance overtakes is refused, as without the gateway.
    assert [trouble for trouble in group.troubles if ": commit: " not in trouble] == []
    await group.gateway.kill()
    await trio.sleep(1)  # the members behind it find nobody meanwhile, and retry
    await group.gateway.start()
    await settle(group, one.protocol)
    for name in ("beside-1", "beside-2"):
        await group.leave(name)
        await settle(group, one.protocol)
        await group.join(name, one, *flags)
        await settle(group, one.protocol)
    assert group.gateway.events("hosting_started") == []
    reasons = [event["reason"] for event in group.gateway.events("group_forwarded")]
    assert "beside-1" in reasons[0]


async def test_classic_consumers_behind_and_bypassing_the_gateway_share_a_group(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The cluster coordinates all of them."""
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        await come_and_go(group, CLASSIC, JAVA, LONG_SESSIONS)
        async with group_client(kafka.addresses[0], group.group) as direct:
            described = await direct.describe()
        assert (described.protocol_type, described.protocol_data, len(described.members)) == (
            "consumer",
            "cooperative-sticky",
            4,
        )
        await group.end()


@with_new_protocol()
async def test_native_consumers_behind_and_bypassing_the_gateway_share_a_group(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """On a cluster with the new protocol, native heartbeats pass too."""
    async with open_group(tmp_path, open_upstream=on_kafka(kafka), limit_s=LIMIT_S) as group:
        await come_and_go(group, NATIVE, JAVA_NATIVE)
        async with group_client(kafka.addresses[0], group.group) as direct:
            described = await direct.described_as_consumer_group()
        assert len(described.members) == 4
        await group.end()
