"""Real Apache Kafka for tests: a KRaft cluster on the loopback, one Java process per node.

With three brokers or more, the controller is a separate node, so that a test may kill any broker,
even all of them. In smaller clusters the first broker is the controller as well, which saves a
process. Brokers keep their ports and data, and a test may add one. `kafka/pom.xml` has the
versions.
"""

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.support.group_client import group_client
from tests.support.installs import HEAVY, one_at_a_time
from tests.support.kafka_jars import FETCH_TIMEOUT_S
from tests.support.kafka_node import KafkaNode
from tests.support.kafka_release import (
    CONTROLLER_ID,
    LISTENER_PROTOCOLS,
    QUICK_START,
    START_TIMEOUT_S,
    kafka_release,
)
from tests.support.ports import HOST, free_port
from tests.support.until import until_answered

__all__ = ["FETCH_TIMEOUT_S", "PARTITIONS", "TOPIC", "KafkaCluster", "KafkaNode", "running_kafka"]

Address = tuple[str, int]

TOPIC = "numbers"
PARTITIONS = 3
AUTO_CREATE = "auto.create.topics.enable"
REPLICAS = 3
"""In clusters whose brokers tests stop. Followers would fetch each record in smaller ones too."""
_GROUPS_LOOKED_AT = 12  # enough groups to reach every coordinator


class KafkaCluster:
    """A running cluster."""

    def __init__(
        self,
        release: str,
        folder: Path,
        brokers: int,
        settings: Mapping[str, object],
        *,
        of_brokers: Sequence[Mapping[str, object]] = (),
        java_options: tuple[str, ...] = QUICK_START,
    ) -> None:
        """`release` is one of `kafka/pom.xml`, for example "4.4". Every node has `settings`; the
        first brokers have those of `of_brokers` as well, in order; `listeners` and
        `advertised.listeners` among them are added to the plain one."""
        self.release = release
        self._files = kafka_release(release, java_options)
        self._folder = folder
        is_separate = brokers >= REPLICAS
        self._controller_id = CONTROLLER_ID if is_separate else 1
        self._controller_port = free_port()
        replicas = REPLICAS if is_separate else 1
        # Small and fast: one offsets partition per broker, no initial rebalance delay, and a short
        # broker session.
        self._settings: dict[str, object] = {
            "controller.quorum.voters": f"{self._controller_id}@{HOST}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": LISTENER_PROTOCOLS,
            "num.partitions": PARTITIONS,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": brokers,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.num.partitions": brokers,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000,
            "replica.fetch.backoff.ms": 100,
            # Idle nodes take CPU time from the tests: fewer threads that poll, and fewer empty
            # records in the controller's log.
            "num.network.threads": 1,
            "num.io.threads": 3,
            "background.threads": 2,
            "metadata.max.idle.interval.ms": 5000,
            # By default a broker allocates and clears 128 MiB for the compaction of its logs.
            "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
            **settings,
        }
        self._of_brokers = of_brokers
        self._controllers = [self._new_controller()] if is_separate else []
        self.brokers: dict[int, KafkaNode] = {}
        """Keyed by node id, from 1."""
        for _ in range(brokers):
            self._new_broker()

    @property
    def has_new_protocol(self) -> bool:
        """Whether its coordinators support KIP-848."""
        return int(self.release.partition(".")[0]) >= 4

    @property
    def protocols(self) -> tuple[str, ...]:
        """The values of `group.protocol` that its coordinators support."""
        return ("classic", "consumer") if self.has_new_protocol else ("classic",)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses of all brokers by node id, including those of brokers that are down."""
        return tuple((HOST, broker.port) for broker in self.brokers.values())

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    async def start(self) -> None:
        """Start all nodes that are down, and wait until the cluster is whole."""
        async with trio.open_nursery() as nursery:
            for node in self._nodes():
                if not node.is_running:
                    nursery.start_soon(node.start)
        await self.until_whole()

    async def add_broker(self) -> int:
        """Add a broker, wait until the cluster has it, and return its node id."""
        node_id = self._new_broker()
        await self.start()
        return node_id

    async def make_topic(self, name: str) -> None:
        """Create the topic if it is missing, and wait until every broker has it: otherwise it might
        appear to a consumer later and cause a rebalance."""
        for address in self.addresses:
            await _make_topic(address, name)

    async def until_whole(self) -> None:
        """Wait until all brokers know each other, all coordinators have loaded their groups, and
        all replicas are in sync. Creates the topic `numbers` if it is missing, unless brokers are
        not to create topics by themselves."""
        with trio.fail_after(START_TIMEOUT_S):
            if self._settings.get(AUTO_CREATE, True):
                await self.make_topic(TOPIC)
            for number in range(_GROUPS_LOOKED_AT):
                await _look_at_offsets(self.addresses[0], f"ready-{number}")
            for address in self.addresses:
                await _until_in_sync(address, set(self.brokers))

    def kill_now(self) -> None:
        """Kill all nodes at the end of all tests. Their data is in the temporary folder."""
        for node in self._nodes():
            node.kill_now()

    def _nodes(self) -> list[KafkaNode]:
        return [*self._controllers, *self.brokers.values()]

    def _new_controller(self) -> KafkaNode:
        settings = self._settings | {
            "process.roles": "controller",
            "node.id": CONTROLLER_ID,
            "listeners": self._controller_listener,
        }
        home = self._folder / "controller"
        controller = KafkaNode(self._files, home, settings, self._controller_port)
        controller.format(CONTROLLER_ID)
        return controller

    @property
    def _controller_listener(self) -> str:
        return f"CONTROLLER://{HOST}:{self._controller_port}"

    def _new_broker(self) -> int:
        node_id = len(self.brokers) + 1
        port = free_port()
        own = self._of_brokers[node_id - 1] if node_id <= len(self._of_brokers) else {}
        plain = f"PLAINTEXT://{HOST}:{port}"
        listeners = [plain, *filter(None, [str(own.get("listeners", ""))])]
        advertised = "advertised.listeners"
        roles = ["broker"]
        if node_id == self._controller_id:
            listeners.append(self._controller_listener)
            roles.append("controller")
        settings = {
            **self._settings,
            **own,
            "process.roles": ",".join(roles),
            "node.id": node_id,
            "listeners": ",".join(listeners),
            **({advertised: f"{plain},{own[advertised]}"} if advertised in own else {}),
        }
        broker = KafkaNode(self._files, self._folder / f"broker-{node_id}", settings, port)
        broker.format(node_id)
        self.brokers[node_id] = broker
        return node_id


@contextmanager
def running_kafka(
    release: str,
    brokers: int = 2,
    settings: Mapping[str, object] | None = None,
    java_options: tuple[str, ...] = QUICK_START,
    of_brokers: Sequence[Mapping[str, object]] = (),
) -> Iterator[KafkaCluster]:
    """Run a cluster within the block. See `KafkaCluster`."""
    with tempfile.TemporaryDirectory(prefix="groupferry-kafka-") as folder:
        cluster = KafkaCluster(
            release,
            Path(folder),
            brokers,
            settings or {},
            java_options=java_options,
            of_brokers=of_brokers,
        )
        try:
            with one_at_a_time(HEAVY):
                trio.run(cluster.start)
            yield cluster
        finally:
            cluster.kill_now()


# The gateway's own client sends these: librdkafka's admin client sometimes crashed here.


async def _make_topic(address: Address, name: str) -> None:
    """Wait until the broker knows the topic and all leaders of its partitions."""
    topic = MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=(topic,), allow_auto_topic_creation=True)
    await until_answered(
        lambda: _ask(address, request),
        lambda seen: (
            sum(partition.leader_id >= 0 for partition in seen.topics[0].partitions) >= PARTITIONS
        ),
    )


async def _until_in_sync(address: Address, brokers: set[int]) -> None:
    """Wait until the broker knows all brokers, and every partition is fully replicated."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)

    def is_in_sync(seen: MetadataResponse) -> bool:
        partitions = itertools.chain.from_iterable(topic.partitions for topic in seen.topics)
        return {broker.node_id for broker in seen.brokers} == brokers and all(
            set(partition.isr_nodes) == set(partition.replica_nodes) and partition.leader_id >= 0
            for partition in partitions
        )

    await until_answered(lambda: _ask(address, request), is_in_sync)


async def _ask(address: Address, request: MetadataRequest) -> MetadataResponse:
    async with await BrokerConnection.open(*address) as connection:
        answer: MetadataResponse = await connection.ask(request, 9)
        return answer


async def _look_at_offsets(address: Address, group: str) -> None:
    """Wait until the group's coordinator has loaded its offsets partition."""
    request = OffsetFetchRequest(group_id=group, topics=None)

    async def are_loaded() -> bool:
        try:
            async with group_client(address, group) as client:
                answer: OffsetFetchResponse = await client.connection.ask(request, 5)
                return answer.error_code == 0
        except UpstreamError:  # its coordinator is shutting down
            return False

    await until_answered(are_loaded)
