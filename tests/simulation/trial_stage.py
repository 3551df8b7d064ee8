"""Plays scripts at a real broker of one release and at the simulated one, many at a time.

A cluster has two brokers: the first waits for an initial delay, the second does not. Scripts whose
group moves begin at the second, which is shut down once all of them have come that far.
"""

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

import trio

from coordinator.interface.topics import Topic, Topics
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest
from tests.simulation.broker import Broker
from tests.simulation.broker_profiles import BrokerProfile
from tests.simulation.broker_side import RealSide, SimulatedSide
from tests.support.differential.both_sides import Asked, BothSides, Difference, failure_of
from tests.support.differential.profiles import Profile
from tests.support.differential.stage import TOPICS
from tests.support.differential.topic_admin import TopicAdmin
from tests.support.group_values import make_topics
from tests.support.installs import HEAVY, one_at_a_time
from tests.support.kafka_broker import KafkaCluster

DELAY_MS = 2_000
DELAYED = Profile("delayed", {"group.initial.rebalance.delay.ms": f"{DELAY_MS}"})
QUICK = Profile("quick", {})
NODES = (DELAYED, QUICK)
"""The settings of the brokers, in order."""
AT_A_TIME = 24
TRIES = 2
CASE_TIMEOUT_S = 60
LOOK_INTERVAL_S = 0.05
SAME_TIME_S = 0.7
LAST_FIND_OF_ONE_KEY = 3
LAST_FETCH_OF_ONE_GROUP = 5
COPIES = {
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.replication.factor": 1,
}


class BothBrokers(BothSides):
    """A script's view of the real broker and the simulated one."""

    sides: tuple[RealSide, SimulatedSide]
    mover: "Mover"
    has_moved = False

    async def move(self) -> None:
        """Have another broker coordinate the group."""
        self._tell("-- the coordinator moves")
        real, simulated = self.sides
        self.has_moved = True
        await self.mover.move(real)
        simulated.move()
        await self._settle([])

    def _compare(self, asked: Asked) -> None:
        """Compare the answers, and the times at which a parked request was answered, unless the
        coordinator has moved: the real one needs seconds for that."""
        super()._compare(asked)
        times_s = asked.answered_s.values()
        is_parked = asked is self._waited.get(asked.who)
        if is_parked and not self.has_moved and max(times_s) - min(times_s) > SAME_TIME_S:
            raise Difference(f"{self.transcript}\nDIFFERENT TIMES: {asked.answered_s}")


Play = Callable[[BothBrokers], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One script, for some releases."""

    name: str
    play: Play
    releases: frozenset[str]
    is_delayed: bool
    """Whether the first round of a group waits."""
    moves: bool

    @property
    def settings(self) -> Profile:
        """The settings of its broker."""
        return DELAYED if self.is_delayed else QUICK


@dataclass(slots=True)
class Mover:
    """Shuts down the second broker once all scripts that wait for it have come that far."""

    cluster: KafkaCluster
    expected: int
    moved: trio.Event = field(default_factory=trio.Event)

    async def move(self, side: RealSide) -> None:
        """Wait until the first broker coordinates the group."""
        await self.arrive()
        await self.moved.wait()
        side.move_to(self.cluster.addresses[0])
        while not await _is_loaded(side):
            await trio.sleep(LOOK_INTERVAL_S)

    async def arrive(self) -> None:
        """One script less to wait for."""
        self.expected -= 1
        if not self.expected:
            await self.cluster.brokers[2].stop()
            self.moved.set()


async def _is_loaded(side: RealSide) -> bool:
    try:
        async with await BrokerConnection.open(*side.address) as connection:
            fetch = OffsetFetchRequest(group_id=side.group, topics=None)
            answer = await connection.ask(fetch, LAST_FETCH_OF_ONE_GROUP)
            return bool(answer.error_code == ErrorCode.NONE)
    except UpstreamError:
        return False


@dataclass(frozen=True, slots=True)
class TrialStage:
    """A running cluster of the profile's release."""

    cluster: KafkaCluster
    profile: BrokerProfile

    async def play(self, cases: Sequence[Case]) -> dict[str, str]:
        """Play these cases. Return the transcripts of those that differ, by name."""
        admin = TopicAdmin(self.cluster.addresses[0])
        topics = {}
        for name, count in TOPICS.items():
            if self.profile.has_native_members:
                made = await admin.create(name, count)
                topics[name] = Topic(name=name, topic_id=made.topic_id, partition_count=count)
            else:  # whose clients need no topic ids
                await self.cluster.make_topic(name)
                topics[name] = make_topics(**{name: count}).by_name[name]
        quiet = [case for case in cases if not case.moves]
        failures = await self._play_all(quiet, topics, admin)
        for _ in range(1, TRIES):
            again = [case for case in quiet if case.name in failures]
            failures = await self._play_all(again, topics, admin)
        moving = [case for case in cases if case.moves]
        return failures | await self._play_all(moving, topics, admin, limit=len(moving))

    async def _play_all(
        self,
        cases: Sequence[Case],
        topics: dict[str, Topic],
        admin: TopicAdmin,
        limit: int = AT_A_TIME,
    ) -> dict[str, str]:
        failures: dict[str, str] = {}
        limiter = trio.CapacityLimiter(max(limit, 1))
        mover = Mover(self.cluster, len(cases))

        async def play(case: Case) -> None:
            async with limiter:
                try:
                    failure = await self._play(case, topics, admin, mover)
                finally:
                    if case.moves and not mover.moved.is_set():
                        await mover.arrive()
            if failure is not None:
                failures[case.name] = failure

        async with trio.open_nursery() as nursery:
            for case in cases:
                nursery.start_soon(play, case)
        return failures

    async def _play(
        self, case: Case, topics: dict[str, Topic], admin: TopicAdmin, mover: Mover
    ) -> str | None:
        node_id = NODES.index(case.settings) + 1
        ids = {name: topic.topic_id for name, topic in topics.items()}
        group = await self._group_id(case.name, node_id)
        real = RealSide(
            name="kafka",
            address=self.cluster.addresses[node_id - 1],
            group=group,
            topics=dict(ids),
            profile=self.profile,
        )
        simulated = self._play_simulated(case, group, topics, ids)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(simulated.pass_time)
            both = BothBrokers(
                real,
                simulated,
                profile=case.settings,
                nursery=nursery,
                topic_admin=admin,
                release=self.profile.release,
            )
            both.mover = mover
            failure = await failure_of(both, case.play, CASE_TIMEOUT_S)
            nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await real.close()
        return failure

    def _play_simulated(
        self, case: Case, group: str, topics: dict[str, Topic], ids: dict[str, UUID]
    ) -> SimulatedSide:
        config = case.settings.group_config()
        delay_ms = config.classic_initial_rebalance_delay_ms
        profile = replace(self.profile, initial_rebalance_delay_ms=delay_ms)
        return SimulatedSide(
            name="simulated",
            address=("", 0),
            group=group,
            topics=dict(ids),
            broker=Broker(profile, Topics(topics, version=1, names_version=1), config),
        )

    async def _group_id(self, name: str, node_id: int) -> str:
        """A new id of a group that this broker coordinates."""
        async with await BrokerConnection.open(*self.cluster.addresses[0]) as connection:
            while True:
                group = f"{name}-{uuid4().hex[:6]}"
                request = FindCoordinatorRequest(key=group)
                answer = await connection.ask(request, LAST_FIND_OF_ONE_KEY)
                if answer.node_id == node_id:
                    return group


@contextmanager
def running_trial_stage(profile: BrokerProfile) -> Iterator[TrialStage]:
    """A cluster of this release, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="groupferry-brokers-") as folder:
        settings = [_settings_of(node, profile) for node in NODES]
        cluster = KafkaCluster(
            profile.release, Path(folder), len(NODES), COPIES, of_brokers=settings
        )
        # Scripts depend on the times of answers, so no other test may start a cluster meanwhile.
        with one_at_a_time(HEAVY):
            try:
                trio.run(cluster.start)
                yield TrialStage(cluster, profile)
            finally:
                cluster.kill_now()


def _settings_of(node: Profile, profile: BrokerProfile) -> dict[str, str]:
    """The settings of a node, as far as the release knows them: Kafka 3.9 does not start with the
    names of assignors."""
    return {
        name: value
        for name, value in node.settings.items()
        if profile.has_native_members or not name.startswith("group.consumer.")
    }
