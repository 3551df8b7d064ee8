"""What relaying costs, compared with HAProxy and a C program that copies bytes.

    .venv/bin/python tests/bench/bench_relay.py [--short] [--keep]

All stand before the same C program, which answers with prepared frames. Small fetches show round
trips and what the relay adds to their latency; large ones, and Produce, show throughput. At the
end, connections that idle show their memory, and its peak when they all begin together. Processor
time is that of the relay alone.
"""

import os
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from uuid import UUID

import trio

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs import encode
from kafka_codecs.api_versions import ApiVersion, ApiVersionsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_codecs.header import encode_response_header
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kafka_codecs.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.bench.comparison import DIRECT, FULL, SUBJECT, Arm, Form, Results, compare, main_of
from tests.bench.processes import (
    PeerMissing,
    Requests,
    Sample,
    Server,
    allow_many_connections,
    compile_native,
    enter_private_network,
    gateway,
    load,
    one_core,
    running,
)
from tests.support.fake_broker import KAFKA_3
from tests.support.ports import HOST, free_port
from tests.support.wire import make_frame, produce_frame, request_frame

SMALL, KIB, MIB = 100, 1024, 1024 * 1024
FETCHED = {12: SMALL, 13: KIB, 14: 64 * KIB, 15: MIB}
"""The size of a Fetch answer, by the request's version: the broker knows no other difference."""
PRODUCED = (64 * KIB, MIB)
PRODUCE_VERSION = 9
PRODUCED_ANSWER = ProduceResponse(
    responses=(
        TopicProduceResponse(
            name="numbers", partition_responses=(PartitionProduceResponse(index=0, base_offset=0),)
        ),
    )
)
VERSIONS = {**KAFKA_3, ApiKey.API_VERSIONS: (0, 4)}
ERROR_OF_A_FETCH = 13  # after size, correlation id, tags and throttle time
ROUND_TRIPS = 20_000
ROUND_TRIP_CONNECTIONS, BULK_CONNECTIONS = (1, 100, 1_000), 4
BYTES = 500_000_000
"""Relayed per round, in at most `ROUND_TRIPS` frames."""
IDLE = 1_000
IDLE_PEERS = ("HAProxy", SUBJECT)
ANSWER_LIMIT_S, SETTLE_S = 30, 0.5

HAPROXY = """
global
    maxconn 5000
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    {options}
listen kafka
    bind {host}:{port} {bind}
    server broker {host}:{broker} {server}
"""
SPLICED = "option splice-request\n    option splice-response"

StartRelay = Callable[[Server], AbstractContextManager[Server]]


def answers(port: int) -> bytes:
    """The broker's answers, in the format of `native/broker.c`."""
    broker = MetadataResponseBroker(node_id=1, host=HOST, port=port)
    metadata = MetadataResponse(brokers=(broker,), cluster_id="bench")
    spoken = ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in VERSIONS.items()
        )
    )
    bodies = {
        **{(ApiKey.API_VERSIONS, v): encode(spoken, v) for v in range(5)},
        **{(ApiKey.METADATA, v): encode(metadata, v) for v in range(13)},
        (ApiKey.PRODUCE, PRODUCE_VERSION): encode(PRODUCED_ANSWER, PRODUCE_VERSION),
        # Without an error, then as many bytes as it takes.
        **{(ApiKey.FETCH, v): bytes(size - 9) for v, size in FETCHED.items()},
    }
    return b"".join(
        struct.pack(">hh", key, version)
        + make_frame(encode_response_header(key, version, 0) + body)
        for (key, version), body in bodies.items()
    )


def fetch(version: int) -> Requests:
    """A fetch of one partition."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    topic = FetchTopic(topic="numbers", topic_id=UUID(int=1), partitions=(partition,))
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(topic,))
    frame = request_frame(ApiKey.FETCH, version, 0, encode(request, version))
    return Requests(frames=[frame], answer_bytes=FETCHED[version], error_at=ERROR_OF_A_FETCH)


def produce(size: int) -> Requests:
    """Records of this size for one partition."""
    topics = {b"numbers": [bytes(size)]}
    (produced,) = (
        frame for frame in _frames(answers(0)) if frame[:2] == (ApiKey.PRODUCE, PRODUCE_VERSION)
    )
    return Requests(
        frames=[produce_frame(PRODUCE_VERSION, topics)],
        answer_bytes=produced[2],
        # After size, correlation id, tags, two counts, the topic's name and the partition.
        error_at=4 + 4 + 1 + 1 + 1 + len("numbers") + 1 + 4,
    )


def _frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The key, version and whole size of each answer."""
    at = 0
    while at < len(data):
        key, version, size = struct.unpack_from(">hhi", data, at)
        yield key, version, size + 4
        at += 8 + size


@contextmanager
def broker() -> Iterator[Server]:
    """The broker behind all relays."""
    port = free_port()
    with tempfile.NamedTemporaryFile() as prepared:
        prepared.write(answers(port))
        prepared.flush()
        command = [f"{compile_native('broker')}", f"{port}", prepared.name]
        with running("broker", command, port) as server:
            yield server


@contextmanager
def c_relay(behind: Server) -> Iterator[Server]:
    """The C program that copies."""
    port = free_port()
    command = [f"{compile_native('relay')}", f"{port}", f"{behind.port}"]
    with running("C relay", command, port) as server:
        yield server


@contextmanager
def haproxy(
    behind: Server, *, options: str = "", bind: str = "", server: str = ""
) -> Iterator[Server]:
    """HAProxy in TCP mode, with one thread. `bind` and `server` are keywords for either side."""
    program = shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")
    if program is None:
        raise PeerMissing("HAProxy: not installed (Debian's package haproxy)")
    port = free_port()
    with tempfile.NamedTemporaryFile("w") as config:
        config.write(
            HAPROXY.format(
                host=HOST,
                port=port,
                broker=behind.port,
                options=options,
                bind=bind,
                server=server,
            )
        )
        config.flush()
        with running("HAProxy", [program, "-db", "-f", config.name], port) as started:
            yield started


@contextmanager
def haproxy_splicing(behind: Server) -> Iterator[Server]:
    """HAProxy that moves bytes within the kernel where it can."""
    with haproxy(behind, options=SPLICED) as server:
        yield server


@contextmanager
def groupferry(behind: Server) -> Iterator[Server]:
    """The gateway's listener of the broker."""
    with gateway(f"{HOST}:{behind.port}") as server:
        yield Server(port=trio.run(listener, server.port), pid=server.pid)


async def listener(bootstrap_port: int, access: Access = PLAIN_ACCESS) -> int:
    """The port that a gateway has opened for the broker."""
    async with await BrokerConnection.open(HOST, bootstrap_port, access=access) as connection:
        answer: MetadataResponse = await connection.ask(MetadataRequest(topics=()))
    return answer.brokers[0].port


RELAYS: dict[str, StartRelay] = {
    "C relay": c_relay,
    "HAProxy": haproxy,
    "HAProxy splicing": haproxy_splicing,
    SUBJECT: groupferry,
}


def per_gb(size: int) -> Callable[[Sample], dict[str, float]]:
    """Figures of relayed bytes."""

    def figures_of(sample: Sample) -> dict[str, float]:
        return {
            "wall_s_per_gb": sample.wall_us * 1000 / size,
            "cpu_s_per_gb": sample.cpu_us * 1000 / size,
        }

    return figures_of


def measure_round_trips(
    results: Results, form: Form, behind: Server, relays: dict[str, Server]
) -> None:
    """Small frames."""
    servers = {DIRECT: behind, **relays}
    servers.pop("HAProxy splicing", None)
    requests = fetch(12)
    arms = [Arm(name=name, server=server, requests=requests) for name, server in servers.items()]
    with one_core(*servers.values()):
        compare(results, "Round trip on one core", arms, form, connections=1, count=ROUND_TRIPS)
    for connections in ROUND_TRIP_CONNECTIONS if form is FULL else ROUND_TRIP_CONNECTIONS[1:2]:
        compare(results, "Round trip", arms, form, connections=connections, count=ROUND_TRIPS)


def measure_bulk(results: Results, form: Form, relays: dict[str, Server]) -> None:
    """Large frames, in either direction."""
    rows = [(f"Fetch {size_in_words(s)}", fetch(v), s) for v, s in FETCHED.items() if s != SMALL]
    rows += [(f"Produce {size_in_words(size)}", produce(size), size) for size in PRODUCED]
    for row, requests, size in rows:
        compare(
            results,
            row,
            [Arm(name=name, server=address, requests=requests) for name, address in relays.items()],
            form,
            connections=BULK_CONNECTIONS,
            count=min(BYTES // size, ROUND_TRIPS),
            figures_of=per_gb(size),
        )


def size_in_words(size: int) -> str:
    """The size in words."""
    if size < KIB:
        return f"{size} B"
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def measure_idle(results: Results, form: Form, behind: Server, names: list[str]) -> None:
    """The memory of connections that have had one answer, compared with HAProxy. Memory is not
    freed immediately, so each round has new processes."""
    row, peak_row = f"Idle connection of {IDLE}", f"Idle, first requests of {IDLE} at once, peak"
    if not (results.wants(row) or results.wants(peak_row)):
        return
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    peaks: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(form.rounds if form is FULL else 1):
        for name in names:
            with RELAYS[name](behind) as server:
                with load(server, fetch(12), 1):
                    before_kib = server.memory_kib
                    with load(server, fetch(12), IDLE):
                        grown_kib = server.memory_kib - before_kib
                samples[name].append({"kib": grown_kib / IDLE})
            with RELAYS[name](behind) as server, load(server, fetch(12), 1):
                peaks[name].append({"kib": peak_of_first_requests_kib(server) / IDLE})
    results.record(row, samples)
    results.record(peak_row, peaks)


def peak_of_first_requests_kib(server: Server) -> int:
    """The memory that connections take at the peak, when silent clients all send together."""
    requests, before_kib = fetch(12), server.resident_kib
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection((HOST, server.port), ANSWER_LIMIT_S))
            for _ in range(IDLE)
        ]
        time.sleep(SETTLE_S)
        os.kill(server.pid, signal.SIGSTOP)
        for client in clients:
            client.sendall(requests.frames[0])
        os.kill(server.pid, signal.SIGCONT)
        for client in clients:
            received = client.recv(requests.answer_bytes, socket.MSG_WAITALL)
            assert len(received) == requests.answer_bytes
            assert not any(received[ERROR_OF_A_FETCH : ERROR_OF_A_FETCH + 2])
    return server.peak_kib - before_kib


def measure(results: Results, form: Form) -> None:
    """All rows."""
    enter_private_network()
    allow_many_connections()
    with ExitStack() as stack:
        try:
            compile_native("load")
            behind = stack.enter_context(broker())
        except PeerMissing as reason:
            results.skip(f"{reason}")
            return
        relays: dict[str, Server] = {}
        for name, start in RELAYS.items():
            try:
                relays[name] = stack.enter_context(start(behind))
            except PeerMissing as reason:
                results.skip(f"{name}: {reason}")
        measure_round_trips(results, form, behind, relays)
        measure_bulk(results, form, relays)
        measure_idle(results, form, behind, [name for name in relays if name in IDLE_PEERS])


if __name__ == "__main__":
    main_of("relay", measure)
