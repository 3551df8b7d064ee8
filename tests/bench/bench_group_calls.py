"""What group requests cost: heartbeats, commits (with each state log) and joins, compared with
peers.

    .venv/bin/python tests/bench/bench_group_calls.py [--short] [--keep] [--only TEXT]

groupferry hosts a classic and a native group of 100 members, in front of Apache Kafka. The same
requests go to groups of the same kind in that Kafka (with Java's own compilers), and to a bare Trio
server with frames of the same size. Each connection sends for another member. Processor time is
that of groupferry, Kafka's broker, or the bare server alone.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs import encode
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupResponse
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
    compile_native,
    enter_private_network,
    gateway,
    required_peer,
    running,
)
from tests.support.commits import commit_of
from tests.support.group_client import GroupClient, find_coordinator, group_client
from tests.support.kafka_broker import TOPIC, KafkaCluster, running_kafka
from tests.support.kafka_release import kafka_release
from tests.support.ports import HOST, free_port
from tests.support.until import until_answered
from tests.support.wire import request_frame

RELEASE = "4.3"
JAVA_OPTIONS = ("-Xms512m", "-Xmx512m")
"""The options of Kafka's own start script, except for the size of the heap."""
MEMBERS = 100
LONG_MS = 1_800_000
"""Sessions outlive the rounds of other servers."""
INITIAL_DELAY_MS = 1_000
CONFIGS: Mapping[str, int] = {
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    "group.consumer.session.timeout.ms": LONG_MS,
    "group.consumer.max.session.timeout.ms": LONG_MS,
}
FORM_LIMIT_S = 120
HEARTBEATS, COMMITS = 6_000, 1_500
"""Requests of a round: the scheduler counts nanoseconds, so short rounds suffice."""
WARM_UP, WARM_UP_AGAIN = 5_000, 500
"""Java compiles what it has run a few thousand times: the first number before the row's first
round, the second once for each further number of connections. The short form does not judge by
it."""
CONNECTIONS, CONNECTIONS_SHORT = (1, 10, 100), (10,)
JOINING, JOINING_SHORT = (10, 100, 1_000), (100,)
OTHER_LOGS = ("memory", "kafka")
"""State logs other than the default, which is an SQLite file."""
HEARTBEAT_VERSION, NATIVE_VERSION, COMMIT_VERSION = 4, 1, 9
ERROR_OF_A_HEARTBEAT = 13  # after size, correlation id, tags and throttle time


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group at rest."""

    group_id: str
    port: int
    """The port of the group's coordinator."""
    members: Sequence[tuple[str, int, int]]
    """The id, epoch or generation, and a partition of each member."""


def is_admitted(answer: JoinGroupResponse | ConsumerGroupHeartbeatResponse) -> bool:
    """Whether the coordinator has loaded the group. On a busy machine it may need several requests,
    because the cluster is asked about the group first."""
    return answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def classic_group(
    server: Server, group_id: str, size: int = MEMBERS
) -> tuple[Group, dict[str, float]]:
    """Classic members that join together, as new clients do, and what that cost the server. Each of
    the first has a partition."""
    members: list[tuple[str, int, int]] = []

    async def enter(client: GroupClient, number: int) -> None:
        join = partial(client.join, session_timeout_ms=LONG_MS)
        joined = await until_answered(join, is_admitted)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await join(joined.member_id)
        assert not joined.error_code, joined
        ids = [member.member_id for member in joined.members]
        shares = {id_: {TOPIC: [i] if i < MEMBERS else []} for i, id_ in enumerate(ids)}
        synced = await client.sync(joined, shares)
        assert not synced.error_code, synced
        members.append((joined.member_id, joined.generation_id, number))

    with trio.fail_after(FORM_LIMIT_S):
        coordinator = await find_coordinator((HOST, server.port), group_id)
        async with AsyncExitStack() as stack:
            clients = [
                GroupClient(
                    await stack.enter_async_context(
                        await BrokerConnection.open(coordinator.host, coordinator.port)
                    ),
                    group_id,
                )
                for _ in range(size)
            ]
            before_s, before_cpu_ns = time.monotonic(), server.cpu_ns
            async with trio.open_nursery() as nursery:
                for number, client in enumerate(clients):
                    nursery.start_soon(enter, client, number)
            cost = {
                "wall_s": time.monotonic() - before_s,
                "cpu_s": (server.cpu_ns - before_cpu_ns) / 1e9,
            }
    assert len({epoch for _, epoch, _ in members}) == 1, "the members joined in several rounds"
    return Group(group_id=group_id, port=coordinator.port, members=members), cost


async def native_group(server: Server, group_id: str, size: int = MEMBERS) -> Group:
    """Native members that have all partitions of the target."""
    address = (HOST, server.port)
    with trio.fail_after(FORM_LIMIT_S):
        async with group_client(address, group_id) as client:
            epochs = {str(uuid4()): 0 for _ in range(size)}
            owned: dict[str, Mapping[UUID, Sequence[int]]] = {member_id: {} for member_id in epochs}
            await until_answered(lambda: _is_settled(client, epochs, owned))
        coordinator = await find_coordinator(address, group_id)
    return Group(
        group_id=group_id,
        port=coordinator.port,
        members=[
            (member_id, epoch, _first(owned[member_id])) for member_id, epoch in epochs.items()
        ],
    )


async def _is_settled(
    client: GroupClient, epochs: dict[str, int], owned: dict[str, Mapping[UUID, Sequence[int]]]
) -> bool:
    """One heartbeat of every member, and whether nothing is left to do."""
    before = dict(epochs)
    changes = 0
    for member_id, epoch in before.items():
        beat = partial(
            client.native, member_id, epoch, owned=owned[member_id], version=NATIVE_VERSION
        )
        answer = await until_answered(beat, is_admitted)
        assert not answer.error_code, answer
        epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            now = {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}
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
            name: trio.run(classic_group, server, f"classic-{name}")[0]
            for name, server in servers.items()
        }
        native = {
            name: trio.run(native_group, server, f"native-{name}")
            for name, server in servers.items()
        }

        def compare_each(
            row: str,
            groups: Mapping[str, Group],
            requests_of: Callable[[Group], Requests],
            count: int,
        ) -> None:
            compare_row(results, form, row, servers, groups, requests_of, count)

        compare_each("Heartbeat", classic, heartbeats, HEARTBEATS)
        compare_each("ConsumerGroupHeartbeat", native, native_heartbeats, HEARTBEATS)
        compare_each("OffsetCommit, classic group", classic, commits, COMMITS)
        compare_each("OffsetCommit, native group", native, commits, COMMITS)
        measure_joins(results, form, servers)
    for state in OTHER_LOGS if form is FULL else ():
        row = f"OffsetCommit, native group, state {state}"
        if not results.wants(row):
            continue
        with gateway(cluster.bootstrap_servers, *flags, f"--state={state}") as ours:
            servers = {"Kafka": kafka, SUBJECT: ours}
            groups = {**native, SUBJECT: trio.run(native_group, ours, f"native-{state}")}
            compare_row(results, form, row, servers, groups, commits, COMMITS)


def compare_row(
    results: Results,
    form: Form,
    row: str,
    servers: Mapping[str, Server],
    groups: Mapping[str, Group],
    requests_of: Callable[[Group], Requests],
    count: int,
) -> None:
    """The same requests to the group of each server, and to a bare Trio server."""
    arms = [
        Arm(name=name, server=servers[name], requests=requests_of(group), port=group.port)
        for name, group in groups.items()
    ]
    with echo_arm(requests_of(groups[SUBJECT])) as echo:
        warm_up = WARM_UP if form is FULL else None
        for connections in CONNECTIONS if form is FULL else CONNECTIONS_SHORT:
            compare(
                results,
                row,
                [echo, *arms],
                form,
                connections=connections,
                count=count,
                warm_up=warm_up,
            )
            warm_up = WARM_UP_AGAIN if form is FULL else None


def measure_joins(results: Results, form: Form, servers: Mapping[str, Server]) -> None:
    """Classic groups that form at the same time. Wall time includes the initial delay, and the
    clients, which are Python."""
    for size in JOINING if form is FULL else JOINING_SHORT:
        if not results.wants(row := f"{size} classic members join at once"):
            continue
        samples: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
        for number in range(form.rounds if form is FULL else 1):
            for name, server in servers.items():
                group_id = f"joining-{name}-{size}-{number}"
                samples[name].append(trio.run(classic_group, server, group_id, size)[1])
        results.record(row, samples)


def measure(results: Results, form: Form) -> None:
    """Start Kafka, and measure."""
    try:
        compile_native("load")
        with required_peer("Apache Kafka"):
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
