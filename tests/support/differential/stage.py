"""Plays scripts on one cluster, with a broker and a gateway per profile, many at a time.

A script's group belongs to the broker of its profile, because the stage looks for a group id that
does.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.list_groups import ListGroupsRequest
from tests.support.differential.both_sides import BothSides, failure_of
from tests.support.differential.deviations import Deviation
from tests.support.differential.profiles import Profile
from tests.support.differential.script import Script
from tests.support.differential.side import Side
from tests.support.differential.topic_admin import TopicAdmin
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.installs import HEAVY, one_at_a_time
from tests.support.kafka_broker import KafkaCluster
from tests.support.until import until_answered

Address = tuple[str, int]

AT_A_TIME = 12
SCRIPT_TIMEOUT_S = 60
TRIES = 3
"""A real difference shows every time. Timers run in real time on both sides, so on a machine that
stalls a step may come after a timer that it should precede."""
MAX_GROUPS = 10_000
WARM_UP_GROUPS = 10
GROUP_IDS_TRIED = 50
TOPICS = {"foo": 3, "bar": 2, "zar": 1, "six": 6}
"""The topics of all scripts with their partitions. They never change."""
ONE_COPY = {
    "default.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "share.coordinator.state.topic.replication.factor": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a script."""

    steps: int
    deviations: frozenset[Deviation]
    transcript: str
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A running cluster whose brokers have these profiles, in this order."""

    cluster: KafkaCluster
    profiles: Sequence[Profile]

    async def play(self, scripts: Sequence[Script]) -> dict[str, Outcome]:
        """Play these scripts, each with its profile. Returns the outcomes by name."""
        outcomes: dict[str, Outcome] = {}
        limit = trio.CapacityLimiter(AT_A_TIME)
        topic_admin = TopicAdmin(self.cluster.addresses[0])
        topics = {
            name: (await topic_admin.create(name, count)).topic_id for name, count in TOPICS.items()
        }
        async with trio.open_nursery() as nursery:
            for node_id, profile in enumerate(self.profiles, start=1):
                hall = Hall(self.cluster, node_id, profile, topics)
                chosen = [script for script in scripts if script.profile is profile]
                nursery.start_soon(hall.play, chosen, outcomes, limit)
        return outcomes


@dataclass(frozen=True, slots=True)
class Hall:
    """The broker and the gateway of one profile."""

    cluster: KafkaCluster
    node_id: int
    profile: Profile
    topics: dict[str, UUID]

    async def play(
        self,
        scripts: Sequence[Script],
        outcomes: dict[str, Outcome],
        limit: trio.CapacityLimiter,
    ) -> None:
        """Play scripts. `limit` is the most at a time over all profiles."""
        broker = self.cluster.addresses[self.node_id - 1]
        config = self.profile.group_config()
        topic_admin = TopicAdmin(broker)
        upstream = self.cluster.addresses
        async with whole_gateway(upstream, groups=config, max_groups=MAX_GROUPS) as gateway:
            ours = (await gateway.listeners())[self.node_id]
            for address in (broker, ours):
                await self._warm_up(address)

            async def play(script: Script) -> None:
                kafka, gateway = await self._sides(script, broker, ours)
                outcomes[script.name] = await _play(
                    script, kafka, gateway, topic_admin, self.cluster.release
                )

            async def play_among_others(script: Script) -> None:
                try:
                    await play(script)
                finally:
                    limit.release_on_behalf_of(script)

            async with trio.open_nursery() as nursery:
                for script in scripts:
                    await limit.acquire_on_behalf_of(script)
                    nursery.start_soon(play_among_others, script)
            for _ in range(1, TRIES):
                for script in scripts:
                    if outcomes[script.name].failure is not None:
                        await play(script)

    async def _sides(self, script: Script, broker: Address, ours: Address) -> tuple[Side, Side]:
        shared = dict(self.topics)
        groups = await self._group_ids(script.name, 2)
        kafka = Side(name="kafka", address=broker, group=groups[0], topics=shared)
        gateway = Side(name="gateway", address=ours, group=groups[1], topics=shared)
        return kafka, gateway

    async def _group_ids(self, name: str, count: int) -> list[str]:
        group_ids: list[str] = []
        async with await BrokerConnection.open(*self.cluster.addresses[0]) as connection:
            while len(group_ids) < count:
                keys = tuple(f"{name}-{uuid4().hex[:6]}" for _ in range(GROUP_IDS_TRIED))
                answer = await connection.ask(FindCoordinatorRequest(coordinator_keys=keys), 4)
                group_ids += [
                    coordinator.key
                    for coordinator in answer.coordinators
                    if coordinator.node_id == self.node_id
                ]
        return group_ids[:count]

    async def _warm_up(self, address: Address) -> None:
        """Send some requests first, because slow first answers would look like parked requests."""
        for group in await self._group_ids("warm-up", WARM_UP_GROUPS):
            async with await BrokerConnection.open(*address) as connection:
                client = GroupClient(connection, group)
                await client.enter()
                await client.commit({0: 1})
                await client.native("native")
                ask = partial(connection.ask, ListGroupsRequest())
                await until_answered(ask, lambda listed: not listed.error_code)


async def _play(
    script: Script, kafka: Side, gateway: Side, topic_admin: TopicAdmin, release: str
) -> Outcome:
    async with trio.open_nursery() as nursery:
        both = BothSides(
            kafka,
            gateway,
            profile=script.profile,
            nursery=nursery,
            topic_admin=topic_admin,
            release=release,
            may_deviate=script.may_deviate,
        )
        failure = await failure_of(both, script.play, SCRIPT_TIMEOUT_S)
        nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await kafka.close()
        await gateway.close()
    return Outcome(
        steps=both.steps,
        deviations=frozenset(both.deviations),
        transcript=both.transcript,
        failure=failure,
    )


@contextmanager
def running_stage(release: str, profiles: Iterable[Profile]) -> Iterator[Stage]:
    """Brokers of this release for these profiles, for the length of the block."""
    chosen = tuple(dict.fromkeys(profiles))
    with tempfile.TemporaryDirectory(prefix="groupferry-stage-") as folder:
        cluster = KafkaCluster(
            release,
            Path(folder),
            len(chosen),
            ONE_COPY,
            of_brokers=[profile.settings for profile in chosen],
        )
        # Scripts depend on the times of answers, so no other test may start a cluster meanwhile.
        with one_at_a_time(HEAVY):
            try:
                trio.run(cluster.start)
                yield Stage(cluster, chosen)
            finally:
                cluster.kill_now()
