"""The anchor keeps groups that move from broker to broker. test_retention_with_kafka.py covers an
outage of the whole cluster."""

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.errors import UpstreamError
from kafka_codecs.error_codes import ErrorCode
from tests.support.direct_clients import anchor_in, until_anchored
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, find_coordinator, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster, KafkaNode
from tests.support.until import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

TRANSIENT = {0, 14, 15, 16}
"""Errors after which a client retries."""


class Committer:
    """A member that continues from coordinator to coordinator."""

    def __init__(self, gateway: Gateway, group: str) -> None:
        self.gateway = gateway
        self.group = group
        self.epoch = 0
        self.stored = 0
        self.codes: set[int] = set()

    async def run(self) -> None:
        """Send heartbeats and commits repeatedly."""
        while True:
            try:
                async with group_client(self.gateway.address, self.group) as client:
                    while await self._once(client):
                        await trio.sleep(0.1)
            except (UpstreamError, OSError):
                await trio.sleep(0.1)

    async def _once(self, client: GroupClient) -> bool:
        beat = await client.native("n", self.epoch)
        self.codes.add(beat.error_code)
        if beat.error_code:
            return False
        self.epoch = beat.member_epoch
        (code,) = (
            await client.commit({0: self.stored + 1}, member_id="n", epoch=self.epoch)
        ).values()
        self.codes.add(code)
        self.stored += code == 0
        return code == 0

    async def until_more(self, commits: int) -> None:
        """Wait until this many more commits are stored."""
        wanted = self.stored + commits
        await until(lambda: self.stored >= wanted)


async def test_the_anchor_follows_its_coordinator(three_brokers: KafkaCluster) -> None:
    """The anchor also follows when the old broker returns. It stays the same member, unless the
    answer to a commit was lost with the broker."""
    group = fresh_group("moving")
    async with (
        whole_gateway(three_brokers.addresses) as gateway,
        trio.open_nursery() as nursery,
    ):
        committer = Committer(gateway, group)
        nursery.start_soon(committer.run)
        await committer.until_more(1)
        coordinator = (await find_coordinator(three_brokers.addresses[0], group)).node_id
        node: KafkaNode = three_brokers.brokers[coordinator]
        others = [broker for id_, broker in three_brokers.brokers.items() if id_ != coordinator]
        async with group_client(("127.0.0.1", node.port), group) as direct:
            before = await anchor_in(direct)
        with capture_logs() as lines:
            await node.kill()
            await committer.until_more(5)
            async with group_client(("127.0.0.1", others[0].port), group) as direct:
                held = await until_anchored(direct)
                is_same = held.members[0].member_id == before.members[0].member_id
                assert (await direct.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            await three_brokers.start()
            await committer.until_more(20)
        nursery.cancel_scope.cancel()
    losses = [line["reason"] for line in lines if line["event"] == "anchor_lost"]
    assert is_same or losses
    # Another event may follow, because the cluster still named the dead broker.
    assert losses[:1] in ([], ["the answer to a commit was lost"])
    assert committer.codes <= TRANSIENT
    assert not [line for line in lines if line["log_level"] == "error"]
    async with group_client(("127.0.0.1", others[0].port), group) as direct:
        assert (await direct.fetch_offsets())[0] >= committer.stored
