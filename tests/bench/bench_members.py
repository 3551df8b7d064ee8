"""What a large native group costs while it forms and when a member leaves, compared with Apache
Kafka.

    .venv/bin/python tests/bench/bench_members.py [--short] [--keep] [--only TEXT]

Members with a connection each join a group at the same time, on a topic of 3,000 partitions. They
acknowledge each assignment immediately, and otherwise send heartbeats at an interval, until all of
them have the group's epoch and their partitions. Then one leaves, and the others settle again.
Processor time is that of groupferry, or of Kafka's broker, in all and per call.
"""

import heapq
import itertools
import selectors
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import trio

from kafka_codecs import decode, encode
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_codecs.error_codes import ErrorCode
from tests.bench.bench_group_calls import CONFIGS, JAVA_OPTIONS, LONG_MS, NATIVE_VERSION, RELEASE
from tests.bench.comparison import FULL, SUBJECT, Form, Results, main_of
from tests.bench.processes import (
    PeerMissing,
    Server,
    allow_many_connections,
    enter_private_network,
    gateway,
    required_peer,
)
from tests.support.group_client import find_coordinator
from tests.support.kafka_broker import TOPIC, running_kafka
from tests.support.kafka_release import kafka_release
from tests.support.ports import HOST
from tests.support.wire import SIZE, request_frame

PARTITIONS = 3_000
SIZES, SIZES_SHORT = (100, 1_000, 3_000, 10_000), (100,)
ROUNDS, ROUNDS_SHORT = 3, 1
WARM_UP = 100
"""Members of the group that each server serves before the first row."""
INTERVAL_S = 0.5
LIMIT_S = 120
MAX_SIZE = max(SIZES)
"""Kafka refuses more than 200 members by default."""
MAX_CONNECTIONS = MAX_SIZE + 1_000
CONNECTION_LIMITS = "max-connections", "max-connections-per-address"
API_VERSIONS_VERSION = 3
HEADER_BYTES = 4 + 1
"""The correlation id and the tags before an answer."""
MAX_ANSWER_BYTES = 1 << 16
_ASK_AGAIN = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Cost = dict[str, float]


@dataclass(slots=True, eq=False)
class Member:
    """A native member on a connection of its own, with one request at a time."""

    group_id: str
    connection: socket.socket
    member_id: str = field(default_factory=lambda: f"{uuid4()}")
    epoch: int = 0
    owned: tuple[TopicPartitions, ...] = ()
    must_acknowledge: bool = True
    is_waiting: bool = False
    received: bytearray = field(default_factory=bytearray)

    @property
    def count(self) -> int:
        """The number of its partitions."""
        return sum(len(topic.partitions) for topic in self.owned)

    def send(self, *, leaves: bool = False) -> None:
        """Send the next heartbeat."""
        is_join = not self.epoch
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=-1 if leaves else self.epoch,
            rebalance_timeout_ms=LONG_MS if is_join else -1,
            subscribed_topic_names=(TOPIC,) if is_join else None,
            topic_partitions=self.owned if self.must_acknowledge else None,
        )
        self.connection.sendall(_frame(heartbeat))
        self.is_waiting = True

    def wait(self) -> None:
        """Wait for the answer."""
        while not self.receive():
            pass

    def receive(self) -> bool:
        """Take what has arrived of the answer. False if it is not complete."""
        self.received += self.connection.recv(MAX_ANSWER_BYTES)
        if len(self.received) < SIZE.size:
            return False
        (size,) = SIZE.unpack_from(self.received)
        if len(self.received) < SIZE.size + size:
            return False
        body = bytes(self.received[SIZE.size + HEADER_BYTES :])
        self.received.clear()
        self.is_waiting = False
        answer = decode(ConsumerGroupHeartbeatResponse, body, NATIVE_VERSION)
        if answer.error_code in _ASK_AGAIN:
            return True
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        assignment = answer.assignment
        self.must_acknowledge = assignment is not None and assignment.topic_partitions != self.owned
        if assignment is not None:
            self.owned = assignment.topic_partitions
        return True


def _frame(message: ConsumerGroupHeartbeatRequest) -> bytes:
    body = encode(message, NATIVE_VERSION)
    return request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, NATIVE_VERSION, 0, body)


def connect(group_id: str, port: int, size: int) -> list[Member]:
    """Members whose connections are open, and have had their first answer."""
    members = []
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    body = encode(request, API_VERSIONS_VERSION)
    frame = request_frame(ApiKey.API_VERSIONS, API_VERSIONS_VERSION, 0, body)
    for _ in range(size):
        connection = socket.create_connection((HOST, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(frame)
        (left,) = SIZE.unpack(connection.recv(SIZE.size, socket.MSG_WAITALL))
        connection.recv(left, socket.MSG_WAITALL)
        members.append(Member(group_id, connection))
    return members


def settle(members: Sequence[Member], server: Server, leaver: Member | None = None) -> Cost:
    """Send heartbeats until every partition has its owner, and return what that cost the server.
    `leaver` leaves first."""
    before_cpu_ns, started_s = server.cpu_ns, time.monotonic()
    epochs = Counter(member.epoch for member in members)
    unacknowledged = sum(member.must_acknowledge for member in members)
    owned = sum(member.count for member in members)
    # Members may have one epoch, and one of them all partitions, before the first target assignment
    # that knows them all: Kafka 4.3 and later compute one per assignment interval.
    largest_share = -(-PARTITIONS // len(members))
    too_many = sum(member.count > largest_share for member in members)
    calls = 0
    order = itertools.count()
    due = [(started_s, next(order), member) for member in members]
    with selectors.EpollSelector() as selector:
        for member in members:
            selector.register(member.connection, selectors.EVENT_READ, member)
        if leaver is not None:
            calls += 1
            leaver.send(leaves=True)
            leaver.wait()
        while len(epochs) > 1 or unacknowledged or owned < PARTITIONS or too_many:
            now_s = time.monotonic()
            assert now_s - started_s < LIMIT_S, "the group does not settle"
            while due and due[0][0] <= now_s:
                calls += 1
                heapq.heappop(due)[2].send()
            for key, _ in selector.select(max(0.0, due[0][0] - now_s) if due else INTERVAL_S):
                member = key.data
                epoch, count, was_unacknowledged = (
                    member.epoch,
                    member.count,
                    member.must_acknowledge,
                )
                if not member.receive():
                    continue
                epochs[epoch] -= 1
                if not epochs[epoch]:
                    del epochs[epoch]
                epochs[member.epoch] += 1
                owned += member.count - count
                too_many += (member.count > largest_share) - (count > largest_share)
                unacknowledged += member.must_acknowledge - was_unacknowledged
                wait_s = 0.0 if member.must_acknowledge else INTERVAL_S
                heapq.heappush(due, (time.monotonic() + wait_s, next(order), member))
    cpu_us = (server.cpu_ns - before_cpu_ns) / 1e3
    wall_s = time.monotonic() - started_s
    for member in members:
        if member.is_waiting:
            member.wait()
    return {"cpu_s": cpu_us / 1e6, "wall_s": wall_s, "calls": calls, "us_per_call": cpu_us / calls}


def form_and_shrink(server: Server, group_id: str, size: int) -> tuple[Cost, Cost]:
    """What the joins of a group of this size cost, and one leave of it."""
    port = trio.run(find_coordinator, (HOST, server.port), group_id).port
    members = connect(group_id, port, size)
    try:
        joins = settle(members, server)
        leaver = members.pop()
        with leaver.connection:
            return joins, settle(members, server, leaver)
    finally:
        for member in members:
            member.connection.close()


def measure_all(results: Results, form: Form, servers: Mapping[str, Server]) -> None:
    """All rows."""
    for name, server in servers.items():
        form_and_shrink(server, f"warm-up-{name}", WARM_UP)
    is_full = form is FULL
    for size in SIZES if is_full else SIZES_SHORT:
        rows = f"{size} native members join at once", f"one of {size} native members leaves"
        if not any(map(results.wants, rows)):
            continue
        samples: dict[str, list[tuple[Cost, Cost]]] = {name: [] for name in servers}
        for number in range(ROUNDS if is_full else ROUNDS_SHORT):
            for name, server in servers.items():
                group_id = f"members-{name}-{size}-{number}"
                samples[name].append(form_and_shrink(server, group_id, size))
        for i, row in enumerate(rows):
            costs = {name: [costs[i] for costs in pairs] for name, pairs in samples.items()}
            results.record(row, costs)


def measure(results: Results, form: Form) -> None:
    """Start Kafka and a gateway in front of it, and measure."""
    try:
        with required_peer("Apache Kafka"):
            kafka_release(RELEASE)
    except PeerMissing as reason:
        results.skip(f"{reason}")
        return
    enter_private_network()
    allow_many_connections()
    settings = {**CONFIGS, "group.consumer.max.size": MAX_SIZE, "num.partitions": PARTITIONS}
    flags = [f"--{name.replace('.', '-')}={value}" for name, value in CONFIGS.items()]
    flags += [f"--{name}={MAX_CONNECTIONS}" for name in CONNECTION_LIMITS]
    with (
        running_kafka(RELEASE, brokers=1, settings=settings, java_options=JAVA_OPTIONS) as cluster,
        gateway(cluster.bootstrap_servers, *flags) as ours,
    ):
        kafka = Server(port=cluster.brokers[1].port, pid=cluster.brokers[1].pid)
        measure_all(results, form, {"Kafka": kafka, SUBJECT: ours})


if __name__ == "__main__":
    main_of("members", measure)
