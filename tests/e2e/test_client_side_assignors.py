"""A group with an assignor of its own moves to the new protocol and back (KIP-848, "Client Side
Mode"), in front of a real broker.

The assignor needs the members' user data: their weights. `GroupStage.wait_until_settled` checks
each step, and `GroupStage.end` the whole run: no record is lost, no partition has two owners, and
the cluster has all commits.
"""

import os
import random
from pathlib import Path

import pytest
import trio

from gateway.demo.group_view import Protocol
from tests.support.clients import Client
from tests.support.group_stage import (
    PARTITIONS,
    SETTLE_LIMIT_S,
    GroupStage,
    on_kafka,
    open_group,
)
from tests.support.kafka_broker import KafkaCluster
from tests.support.matrix import NATIVE
from tests.support.promises import promise
from tests.support.releases import LAST_CLASSIC, NEWEST, on_release
from tests.support.until import until

ON = "--client-side-assignors=true"
SEED = int(os.environ.get("GROUPFERRY_TEST_SEED", "1"))
LONG_SESSIONS = "--session-timeout-ms=45000"
"""The clients' default."""
WEIGHTS = {"a": 1, "b": 1, "c": 2}


def classic(name: str) -> Client:
    """The Java client with an assignor of the test."""
    return Client(library="java", assignor=f"weights={WEIGHTS[name]}")


def native(name: str) -> Client:
    """The project's own client."""
    return Client(library="reference", protocol="consumer", assignor=f"weights={WEIGHTS[name]}")


@pytest.fixture
def _clients() -> None:
    """Skip the test unless the clients can be started."""
    classic("a").program()


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group has settled in this protocol and its members consume. Then each has the
    partitions that its weight entitles it to. A killed gateway may let classic members rejoin once
    more, and Java owns nothing meanwhile."""
    await group.wait_until_settled(protocol)
    await group.progress(50)
    total = sum(WEIGHTS[name] for name in group.members)
    wanted = {name: PARTITIONS * WEIGHTS[name] // total for name in group.members}
    with trio.move_on_after(SETTLE_LIMIT_S):
        await until(lambda: group.shares() == wanted)
    assert group.shares() == wanted


@pytest.mark.kafka
@on_release(NEWEST)
@pytest.mark.usefixtures("_clients")
async def test_a_group_with_its_own_assignor_rolls_up_and_down(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The partitions follow the weights in the classic group, in the mixed one, where some weights
    are user data of version -1, and in the native one."""
    async with open_group(tmp_path, ON, open_upstream=on_kafka(kafka)) as group:
        for name in WEIGHTS:
            await group.join(name, classic(name))
        await settle(group, "classic")
        for goal in (native, classic):
            for name in WEIGHTS:
                await group.leave(name)
                await group.join(name, goal(name))
                is_last = goal is classic and name == "c"
                await settle(group, "classic" if is_last else "consumer")
        assert await group.end() > 0
        assert group.ledger.delivered_again() == 0, group.troubles
        assert group.conversions() == ["classic->consumer", "consumer->classic"]
        computed = {line["assignor"] for line in group.gateway.events("target_computed")}
        assert computed == {"weights"}


@pytest.mark.long
@pytest.mark.kafka
@on_release(LAST_CLASSIC)
@pytest.mark.usefixtures("_clients")
async def test_the_roll_survives_kills_of_the_gateway(kafka: KafkaCluster, tmp_path: Path) -> None:
    """One in each step, while members join, compute and reconcile. The gateway forgets which member
    was told to compute, and tells another one."""
    dice = random.Random(SEED)
    long_native_sessions = "--group-consumer-session-timeout-ms=45000"
    async with open_group(
        tmp_path, ON, long_native_sessions, open_upstream=on_kafka(kafka), limit_s=600
    ) as group:
        for name in WEIGHTS:
            await group.join(name, classic(name), LONG_SESSIONS)
        await settle(group, "classic")
        for goal in (native, classic):
            for name in WEIGHTS:
                await group.leave(name)
                flags = [LONG_SESSIONS] if goal is classic else []
                await group.join(name, goal(name), *flags)
                await trio.sleep(dice.uniform(0, 4))
                await group.gateway.kill()
                await group.gateway.start()
                is_last = goal is classic and name == "c"
                await settle(group, "classic" if is_last else "consumer")
        assert await group.end() > 0
        promise(group.ledger.held_after_fencing() == set(), group.troubles)
        computed = {line["assignor"] for line in group.gateway.events("target_computed")}
        assert computed == {"weights"}


async def test_members_share_by_weight(tmp_path: Path) -> None:
    """The member that is told to compute does so, also after a member has left."""
    async with open_group(tmp_path, ON) as group:
        for name in WEIGHTS:
            await group.join(name, native(name))
        await settle(group, "consumer")
        await group.leave("b")
        await group.join("b", native("b"))
        await settle(group, "consumer")
        await group.end()
        computed = {line["assignor"] for line in group.gateway.events("target_computed")}
        assert computed == {"weights"}
        assert group.ledger.delivered_again() == 0


async def test_a_gateway_without_client_side_assignors_ignores_them(tmp_path: Path) -> None:
    """By default they are off. The client shares its group with another one as any client does."""
    async with open_group(tmp_path) as group:
        await group.join("c", native("c"))
        await group.join("native", NATIVE)
        await group.wait_until_settled("consumer")
        await group.progress(50)
        assert group.shares() == {"c": 4, "native": 4}
        await group.leave("c")
        await group.wait_until_settled("consumer")
        await group.end()
        assert group.ledger.delivered_again() == 0
