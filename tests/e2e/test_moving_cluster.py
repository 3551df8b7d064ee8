"""A running group while brokers restart, die, or are all down.

Clients and cluster are real, and the ledger shows whether a record was lost or a partition had two
owners.
"""

from pathlib import Path

import pytest
import trio

from tests.support.clients import Client
from tests.support.group_client import find_coordinator
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import on_first_release, with_new_protocol

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

CLASSIC = Client(library="librdkafka", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")
AWAY_S = 15
"""Several sessions of 6 s."""
HANG_S = 0.5
"""Members send commits that the brokers have not answered when they are killed."""
UNDER_WAY_S = 2
"""By then unanswered commits and fetches have begun."""
LONGER_SESSIONS = "--session-timeout-ms=12000"
"""Two commits in a row may hold up the heartbeats behind them for six seconds: one waits for its
answer, the next for the anchor."""
DRAIN_TIMEOUT_S = 3
ANCHORS_LEAVE_TIMEOUT_S = 5
SLACK_S = 3


async def start_mixed_group(group: GroupStage, *options: str) -> None:
    """Two classic members and a native one."""
    await group.join("a", CLASSIC, *options)
    await group.join("b", CLASSIC, *options)
    await group.join("c", NATIVE, *options)
    await group.wait_until_settled("consumer")
    await group.progress()


@with_new_protocol("_three_brokers")
async def test_brokers_restart_one_after_another(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """Leaders and the coordinator move away and return, as in an upgrade of the cluster."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await start_mixed_group(group)
        for broker in three_brokers.brokers.values():
            await broker.stop()
            await group.progress()
            await three_brokers.start()
            await group.wait_until_settled("consumer")
            await group.progress()
        await group.end()


async def test_the_coordinator_is_killed_during_a_roll(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """While the broker is dead the group converts, and a member changes its protocol."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await group.join("a", CLASSIC)
        await group.join("b", CLASSIC)
        await group.wait_until_settled("classic")
        await group.progress()
        coordinator = (await find_coordinator(three_brokers.addresses[0], group.group)).node_id
        await group.leave("a")
        await three_brokers.brokers[coordinator].kill()
        await group.join("a", NATIVE)
        await group.wait_until_settled("consumer")
        await group.progress()
        await group.leave("b")
        await three_brokers.start()
        await group.join("b", NATIVE)
        await group.wait_until_settled("consumer")
        await group.progress()
        await group.end()


@on_first_release("_three_brokers")
async def test_a_group_survives_an_outage_of_the_whole_cluster(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """All brokers die together, for several sessions, with some members' commits in flight. The
    gateway answers the members, so the group stays unchanged, and all continue with their
    partitions afterwards."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await start_mixed_group(group)
        before = len(group.gateway.events("member_joined"))
        for broker in three_brokers.brokers.values():
            broker.pause()
        await trio.sleep(HANG_S)
        async with trio.open_nursery() as killing:
            for broker in three_brokers.brokers.values():
                killing.start_soon(broker.kill)
        await group.gateway.until_event("upstream_lost")
        await trio.sleep(AWAY_S)
        await three_brokers.start()
        await group.gateway.until_event("upstream_back")
        await group.progress()
        await group.wait_until_settled("consumer")
        assert group.gateway.events("member_fenced") == []
        assert len(group.gateway.events("member_joined")) == before
        assert group.gateway.events("member_left") == []
        await group.end()


@on_first_release("_three_brokers")
async def test_the_coordinator_hangs(three_brokers: KafkaCluster, tmp_path: Path) -> None:
    """Its connections stay open without answers, and the cluster chooses another coordinator."""
    async with open_group(tmp_path, open_upstream=on_kafka(three_brokers)) as group:
        await start_mixed_group(group, LONGER_SESSIONS)
        before = len(group.gateway.events("member_joined"))
        coordinator = (await find_coordinator(three_brokers.addresses[0], group.group)).node_id
        three_brokers.brokers[coordinator].pause()
        try:
            await group.progress(1000)
            await group.wait_until_settled("consumer")
        finally:
            three_brokers.brokers[coordinator].resume()
        await three_brokers.until_whole()
        await group.progress()
        await group.wait_until_settled("consumer")
        assert len(group.gateway.events("member_joined")) == before
        assert group.gateway.events("member_left") == []
        await group.end()


@with_new_protocol("_three_brokers")
async def test_a_gateway_ends_in_time_while_the_cluster_hangs(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """After SIGTERM, commits and fetches in flight are abandoned, and so are the anchors."""
    flags = (f"--drain-timeout-ms={DRAIN_TIMEOUT_S * 1000}",)
    async with open_group(tmp_path, *flags, open_upstream=on_kafka(three_brokers)) as group:
        await start_mixed_group(group)
        for broker in three_brokers.brokers.values():
            broker.pause()
        try:
            await trio.sleep(UNDER_WAY_S)
            with trio.fail_after(DRAIN_TIMEOUT_S + ANCHORS_LEAVE_TIMEOUT_S + SLACK_S):
                assert await group.gateway.terminate() == 0
        finally:
            for broker in three_brokers.brokers.values():
                broker.resume()
        assert group.gateway.other_lines == []
        assert [line for line in group.gateway.log if line["level"] == "error"] == []
        await three_brokers.until_whole()
