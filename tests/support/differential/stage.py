"""Plays scripts: a broker and a gateway per profile, many scripts at a time, each in own groups."""

import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import trio

from tests.support.differential.deviations import Deviation
from tests.support.differential.duel import Duel
from tests.support.differential.profiles import Profile
from tests.support.differential.script import Script
from tests.support.differential.side import Side
from tests.support.differential.topic_admin import TopicAdmin
from tests.support.gateway import whole_gateway
from tests.support.group_client import group_client
from tests.support.kafka_broker import KafkaCluster

RELEASE = "4.3"
AT_A_TIME = 12
SCRIPT_TIMEOUT_S = 60
MAX_GROUPS = 10_000
WARM_UP_GROUPS = 10
TOPICS = {"foo": 3, "bar": 2, "zar": 1, "six": 6}
"""Topics of all scripts, with their partitions; nobody changes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a script ended."""

    steps: int
    deviations: frozenset[Deviation]
    story: str
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The running brokers, by profile."""

    clusters: Mapping[Profile, KafkaCluster]

    async def play(self, scripts: Iterable[Script]) -> dict[str, Outcome]:
        """Play these scripts, each against its profile; the outcomes by name."""
        outcomes: dict[str, Outcome] = {}
        limit = trio.CapacityLimiter(AT_A_TIME)
        async with trio.open_nursery() as nursery:
            for profile in self.clusters:
                chosen = [each for each in scripts if each.profile is profile]
                nursery.start_soon(self._play_profile, profile, chosen, outcomes, limit)
        return outcomes

    async def _play_profile(
        self,
        profile: Profile,
        scripts: Iterable[Script],
        outcomes: dict[str, Outcome],
        limit: trio.CapacityLimiter,
    ) -> None:
        broker = self.clusters[profile].addresses[0]
        topic_admin = TopicAdmin(broker)
        topics = {
            name: (await topic_admin.create(name, count)).topic_id for name, count in TOPICS.items()
        }
        config = profile.group_config()
        async with whole_gateway([broker], groups=config, max_groups=MAX_GROUPS) as gateway:
            address = (await gateway.listeners())[1]
            await _warm_up(broker, address)
            async with trio.open_nursery() as nursery:
                for script in scripts:
                    await limit.acquire_on_behalf_of(script)

                    async def run(script: Script = script) -> None:
                        try:
                            sides = _sides(script, broker, address, topics)
                            outcomes[script.name] = await _play(script, *sides, topic_admin)
                        finally:
                            limit.release_on_behalf_of(script)

                    nursery.start_soon(run)


async def _warm_up(*servers: tuple[str, int]) -> None:
    """The first requests of a broker's life are slow: let no script mistake that for waiting."""
    for server in servers:
        for _ in range(WARM_UP_GROUPS):
            async with group_client(server, f"warm-up-{uuid4()}") as client:
                await client.enter()
                await client.commit({0: 1})
                await client.native("native")


def _sides(
    script: Script, broker: tuple[str, int], gateway: tuple[str, int], topics: dict[str, UUID]
) -> tuple[Side, Side]:
    run = uuid4().hex[:6]
    shared = dict(topics)
    kafka = Side(name="kafka", address=broker, group=f"{script.name}-{run}-k", topics=shared)
    ours = Side(name="gateway", address=gateway, group=f"{script.name}-{run}-g", topics=shared)
    return kafka, ours


async def _play(script: Script, kafka: Side, gateway: Side, topic_admin: TopicAdmin) -> Outcome:
    failure = None
    async with trio.open_nursery() as nursery:
        duel = Duel(
            kafka,
            gateway,
            profile=script.profile,
            nursery=nursery,
            topic_admin=topic_admin,
        )
        try:
            with trio.fail_after(SCRIPT_TIMEOUT_S):
                await script.play(duel)
        except AssertionError as error:
            failure = str(error)
        except Exception:  # one script that breaks shall not take the others along
            failure = f"{duel.story}\n{traceback.format_exc()}"
        nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await kafka.close()
        await gateway.close()
    return Outcome(
        steps=duel.steps,
        deviations=frozenset(duel.deviations),
        story=duel.story,
        failure=failure,
    )


@contextmanager
def running_stage(profiles: Iterable[Profile]) -> Iterator[Stage]:
    """Brokers for these profiles, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="groupferry-stage-") as folder:
        clusters: dict[Profile, KafkaCluster] = {}
        for profile in dict.fromkeys(profiles):
            home = Path(folder) / profile.name
            home.mkdir()
            clusters[profile] = KafkaCluster(RELEASE, home, 1, profile.settings)
        try:
            trio.run(_start, clusters.values())
            yield Stage(clusters)
        finally:
            for cluster in clusters.values():
                cluster.kill_now()


async def _start(clusters: Iterable[KafkaCluster]) -> None:
    async with trio.open_nursery() as nursery:
        for cluster in clusters:
            nursery.start_soon(cluster.start)
