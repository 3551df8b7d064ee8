"""A gateway that is killed repeatedly at random moments of a roll harms no client.

GROUPFERRY_TEST_KILLS=60 pytest tests/e2e/test_killed_gateway.py is a long run. The name of the test
has the seed of the moments, and GROUPFERRY_TEST_SEED chooses another.
"""

import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gateway.demo.group_view import Protocol
from tests.support.clients import Client
from tests.support.group_stage import GroupStage, on_kafka, open_group
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.promises import promise
from tests.support.releases import CHOSEN, LAST_CLASSIC

KILLS = int(os.environ.get("GROUPFERRY_TEST_KILLS", "12"))
SEED = int(os.environ.get("GROUPFERRY_TEST_SEED", "1"))
SECONDS_PER_KILL = 15
UP_S, DOWN_S = (0.0, 3.0), (0.0, 1.5)
"""How long a gateway runs, perhaps too short to start, and how long none runs."""
CALM_S = 2.0
LONG_SESSIONS = "--session-timeout-ms=45000"
"""The clients' default. With a shorter session they give up by themselves."""
LONG_NATIVE_SESSIONS = "--group-consumer-session-timeout-ms=45000"
"""The gateway's default for native members: on a busy machine a member may be silent for six
seconds. A fenced member that leaves before it learns of the fence would seem to have owned
another's partitions until then."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(FETCH_TIMEOUT_S + KILLS * SECONDS_PER_KILL),
]

CLASSIC = Client(library="librdkafka", assignor="cooperative-sticky")
OTHER = Client(library="java", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")


class Killer:
    """Kills the gateway at random moments and restarts it."""

    def __init__(self, group: GroupStage, seed: int) -> None:
        self.kills = 0
        self._group = group
        self._dice = random.Random(seed)

    async def kill(self, times: int) -> None:
        """Kill it this many times. The last one survives."""
        for _ in range(times):
            await trio.sleep(self._dice.uniform(*UP_S))
            await self._group.gateway.kill()
            self.kills += 1
            await trio.sleep(self._dice.uniform(*DOWN_S))
            await self._group.gateway.start()

    @asynccontextmanager
    async def killing(self, times: int) -> AsyncIterator[None]:
        """Kill while the block runs. The block ends when both have finished."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.kill, times)
            yield


async def settle(group: GroupStage, protocol: Protocol) -> None:
    """Wait until the group has settled and consumes."""
    await group.wait_until_settled(protocol)
    await group.progress(50)
    await trio.sleep(CALM_S)


@pytest.mark.parametrize("kafka", CHOSEN if KILLS > 12 else [LAST_CLASSIC], indirect=True)
@pytest.mark.parametrize("state", ["sqlite", "kafka"] if KILLS > 12 else ["sqlite"])
@pytest.mark.parametrize("seed", [SEED])
async def test_a_roll_survives_repeated_kills_of_the_gateway(
    kafka: KafkaCluster, state: str, seed: int, tmp_path: Path
) -> None:
    """Two librdkafka consumers and a Java one roll up and down. No record is lost, no partition has
    two owners, and no commit is undone. In a settled group no client is assigned or revoked
    partitions."""
    limit_s = 120 + KILLS * SECONDS_PER_KILL
    classic = {"a": CLASSIC, "b": OTHER, "c": CLASSIC}
    steps = [(name, NATIVE) for name in classic] + list(classic.items())
    at_rest, in_motion = divmod(KILLS, len(steps))
    flags = (f"--state={state}", LONG_NATIVE_SESSIONS)
    async with open_group(
        tmp_path, *flags, open_upstream=on_kafka(kafka), limit_s=limit_s
    ) as group:
        killer = Killer(group, seed)
        for name, client in classic.items():
            await group.join(name, client, LONG_SESSIONS)
        await settle(group, "classic")
        for number, (name, client) in enumerate(steps):
            during_step = 1 + (number < in_motion)
            async with killer.killing(during_step):
                await group.leave(name)
                await group.join(name, client, LONG_SESSIONS)
            kind: Protocol = "classic" if number == len(steps) - 1 else "consumer"
            await settle(group, kind)
            since_s = time.monotonic()
            await killer.kill(at_rest - 1)
            await settle(group, kind)
            disturbance = group.ledger.disturbance(None, since_s, time.monotonic())
            assert (disturbance.partitions_moved, disturbance.members_disturbed) == (0, 0), (
                group.troubles
            )
        await group.end()
        assert killer.kills == KILLS
        promise(group.ledger.held_after_fencing() == set(), group.troubles)
