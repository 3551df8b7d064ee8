"""What group requests cost: Heartbeat, ConsumerGroupHeartbeat and OffsetCommit, beside peers.

    .venv/bin/python tests/bench/bench_group_calls.py [--short] [--keep]

groupferry hosts a classic and a native group of 100 members, in front of Apache Kafka. The same
requests go to groups of the same kind in that Kafka (with Java's own compilers), and to a bare Trio
server with frames of the same size. Each connection sends for another member. Processor time is
that of groupferry, Kafka's broker, or the bare server alone.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import trio

from kafka_codecs import encode
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.bench.comparison import FULL, SUBJECT, Arm, Form, Results, compare, main_of, say
from tests.bench.processes import (
    PeerMissing,
    Requests,
    Server,
    compiled,
    enter_private_network,
    gateway,
    required,
    running,
)
from tests.support.commits import commit_of
from tests.support.group_client import GroupClient, find_coordinator, group_client
from tests.support.kafka_broker import TOPIC, KafkaCluster, running_kafka
from tests.support.kafka_release import kafka_release
from tests.support.ports import HOST, free_port
from tests.support.wire import request_frame

RELEASE = "4.3"
JAVA_OPTIONS = ("-Xms512m", "-Xmx512m")
"""Those of Kafka's own start script, but for the size of the heap."""
MEMBERS = 100
LONG_MS = 600_000
"""Sessions outlive the rounds of other servers."""
INITIAL_DELAY_MS = 2_000
CONFIGS: Mapping[str, int] = {
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    "group.consumer.session.timeout.ms": LONG_MS,
    "group.consumer.max.session.timeout.ms": LONG_MS,
}
FORM_LIMIT_S = 120
HEARTBEATS, COMMITS = 20_000, 5_000
WARM_UP = 5_000
"""Java compiles what it has run a few thousand times. The short form does not judge by it."""
CONNECTIONS, CONNECTIONS_SHORT = (1, 10, 100), (10,)
HEARTBEAT_VERSION, NATIVE_VERSION, COMMIT_VERSION = 4, 1, 9
ERROR_OF_A_HEARTBEAT = 13  # after size, correlation id, tags and throttle time

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group at rest."""

    group_id: str
    port: int
    """Of its coordinator."""
    members: Sequence[tuple[str, int, int]]
    """The id, epoch or generation, and a partition of each member."""


async def classic_group(address: Address, group_id: str) -> Group:
    """Classic members that join at once, each with one partition."""
    members: list[tuple[str, int, int]] = []

    async def member(number: int) -> None:
        async with group_client(address, group_id) as client:
            joined = await client.join(version=3, session_timeout_ms=LONG_MS)
            assert not joined.error_code, joined
            shares = {each.member_id: {TOPIC: [i]} for i, each in enumerate(joined.members)}
            synced = await client.sync(joined, shares)
            assert not synced.error_code, synced
            members.append((joined.member_id, joined.generation_id, number))

    with trio.fail_after(FORM_LIMIT_S):
        async with trio.open_nursery() as nursery:
            for number in range(MEMBERS):
                nursery.start_soon(member, number)
        found = await find_coordinator(address, group_id)
    assert len({epoch for _, epoch, _ in members}) == 1, "the members joined in several rounds"
    return Group(group_id=group_id, port=found.port, members=members)


async def native_group(address: Address, group_id: str) -> Group:
    """Native members that have all partitions of the target."""
    with trio.fail_after(FORM_LIMIT_S):
        async with group_client(address, group_id) as client:
            epochs = {str(uuid4()): 0 for _ in range(MEMBERS)}
            owned: dict[str, Mapping[UUID, Sequence[int]]] = {each: {} for each in epochs}
            while not await _is_settled(client, epochs, owned):
                await trio.sleep(0.2)
        found = await find_coordinator(address, group_id)
    return Group(
        group_id=group_id,
        port=found.port,
        members=[(each, epoch, _first(owned[each])) for each, epoch in epochs.items()],
    )


async def _is_settled(
    client: GroupClient, epochs: dict[str, int], owned: dict[str, Mapping[UUID, Sequence[int]]]
) -> bool:
    """One heartbeat of every member, and whether nothing is left to do."""
    before = dict(epochs)
    changes = 0
    for member_id, epoch in before.items():
        answer = await client.native(
            member_id, epoch, owned=owned[member_id], version=NATIVE_VERSION
        )
        assert not answer.error_code, answer
        epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            now = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
            changes += now != owned[member_id]
            owned[member_id] = now
    # The target may lag behind the last member that joined.
    is_even = all(sum(map(len, share.values())) == 1 for share in owned.values())
    return is_even and not changes and epochs == before and len(set(epochs.values())) == 1


def _first(share: Mapping[UUID, Sequence[int]]) -> int:
    return next(iter(share.values()))[0]


def heartbeats(group: Group) -> Requests:
    """Heartbeats of every member of a classic group."""
    return _requests(
        [
            HeartbeatRequest(group_id=group.group_id, member_id=id_, generation_id=epoch)
            for id_, epoch, _ in group.members
        ],
        HeartbeatResponse(),
        HEARTBEAT_VERSION,
        ERROR_OF_A_HEARTBEAT,
    )


def native_heartbeats(group: Group) -> Requests:
    """Heartbeats in which nothing has changed, of every member of a native group."""
    return _requests(
        [
            ConsumerGroupHeartbeatRequest(
                group_id=group.group_id, member_id=id_, member_epoch=epoch
            )
            for id_, epoch, _ in group.members
        ],
        ConsumerGroupHeartbeatResponse(member_id=group.members[0][0], error_message=None),
        NATIVE_VERSION,
        ERROR_OF_A_HEARTBEAT,
    )


def commits(group: Group) -> Requests:
    """A commit of one partition by every member."""
    partition = OffsetCommitResponsePartition(partition_index=0)
    topic = OffsetCommitResponseTopic(name=TOPIC, partitions=(partition,))
    return _requests(
        [
            commit_of({TOPIC: {number: 7}}, group_id=group.group_id, member_id=id_, epoch=epoch)
            for id_, epoch, number in group.members
        ],
        OffsetCommitResponse(topics=(topic,)),
        COMMIT_VERSION,
        # After size, correlation id, tags, throttle time, two counts, the name and the partition.
        ERROR_OF_A_HEARTBEAT + 1 + 1 + len(TOPIC) + 1 + 4,
    )


def _requests(messages: Sequence[Struct], answer: Struct, version: int, error_at: int) -> Requests:
    key = messages[0].SCHEMA.api_key
    assert key is not None
    frames = [request_frame(key, version, 0, encode(message, version)) for message in messages]
    start = 4 + 4 + 1  # size, correlation id and tags
    return Requests(
        frames=frames, answer_bytes=start + len(encode(answer, version)), error_at=error_at
    )


@contextmanager
def echo_arm(requests: Requests) -> Iterator[Arm]:
    """A bare Trio server with answers of the same size."""
    port = free_port()
    program = Path(__file__).with_name("echo.py")
    command = [sys.executable, f"{program}", f"{port}", f"{requests.answer_bytes}"]
    with running("echo", command, port) as server:
        yield Arm(name="echo", server=server, requests=requests)


def measure_all(results: Results, form: Form, cluster: KafkaCluster) -> None:
    """All rows."""
    kafka = Server(port=cluster.brokers[1].port, pid=cluster.brokers[1].pid)
    flags = [f"--{name.replace('.', '-')}={value}" for name, value in CONFIGS.items()]
    with gateway(cluster.bootstrap_servers, *flags) as ours:
        servers = {"Kafka": kafka, SUBJECT: ours}
        say(f"forming groups of {MEMBERS}")
        classic = {
            name: trio.run(classic_group, (HOST, server.port), f"classic-{name}")
            for name, server in servers.items()
        }
        native = {
            name: trio.run(native_group, (HOST, server.port), f"native-{name}")
            for name, server in servers.items()
        }

        def compare_each(
            row: str,
            groups: Mapping[str, Group],
            requests_of: Callable[[Group], Requests],
            count: int,
        ) -> None:
            arms = [
                Arm(name=name, server=servers[name], requests=requests_of(group), port=group.port)
                for name, group in groups.items()
            ]
            with echo_arm(requests_of(groups[SUBJECT])) as echo:
                for connections in CONNECTIONS if form is FULL else CONNECTIONS_SHORT:
                    compare(
                        results,
                        row,
                        [echo, *arms],
                        form,
                        connections=connections,
                        count=count,
                        warm_up=WARM_UP if form is FULL else None,
                    )

        compare_each("Heartbeat", classic, heartbeats, HEARTBEATS)
        compare_each("ConsumerGroupHeartbeat", native, native_heartbeats, HEARTBEATS)
        compare_each("OffsetCommit, classic group", classic, commits, COMMITS)
        compare_each("OffsetCommit, native group", native, commits, COMMITS)


def measure(results: Results, form: Form) -> None:
    """Start Kafka, and measure."""
    try:
        compiled("load")
        with required("Apache Kafka"):
            kafka_release(RELEASE)
    except PeerMissing as reason:
        results.skip(f"{reason}")
        return
    enter_private_network()
    settings = {**CONFIGS, "num.partitions": MEMBERS}
    with running_kafka(RELEASE, brokers=1, settings=settings, java_options=JAVA_OPTIONS) as cluster:
        measure_all(results, form, cluster)


if __name__ == "__main__":
    main_of("group_calls", measure)
