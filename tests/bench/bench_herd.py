"""How long a herd of consumers waits when its gateway is killed and started again.

    .venv/bin/python tests/bench/bench_herd.py [--members N] [--tls]

Native members in groups of twenty, in front of librdkafka's mock cluster. Each has a connection on
which it asks for its coordinator, and one for its heartbeats, as clients do. All of them connect as
soon as the port is open again. It prints the time until each member's heartbeat has succeeded, and
the processor time until then of the gateway and of the clients, whose requests are encoded before.
"""

import argparse
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
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
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import decode_response_header
from tests.bench.processes import Server, allow_many_connections, die_with_parent
from tests.support.certificate_authority import CertificateAuthority
from tests.support.mock_cluster import running_mock_cluster
from tests.support.ports import HOST, free_port, is_open
from tests.support.wire import SIZE, request_frame

MEMBERS = 4_000
GROUP_SIZE = 20
TOPIC = "numbers"
PARTITIONS = 40
RETRY_S = 0.1
"""How long a client waits before it asks again."""
STARTING_AT_ONCE = 100
LIMIT_S = 300
_LOOK_INTERVAL_S = 0.005
FIND_VERSION, HEARTBEAT_VERSION = 2, 1
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


def frame_of(key: ApiKey, version: int, message: Struct) -> bytes:
    """The frame of this request."""
    return request_frame(key, version, 0, encode(message, version))


VERSIONS = frame_of(
    ApiKey.API_VERSIONS,
    3,
    ApiVersionsRequest(client_software_name="herd", client_software_version="1"),
)


@asynccontextmanager
async def open_connection(port: int, tls: ssl.SSLContext | None) -> AsyncIterator[trio.abc.Stream]:
    """A connection on which the versions were asked for, as clients do. OSError or
    trio.BrokenResourceError if it fails, as from `ask`."""
    sock = trio.socket.socket()
    with sock:
        sock.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        await sock.connect((HOST, port))
        stream: trio.abc.Stream = trio.SocketStream(sock)
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_hostname=HOST)
        await ask(stream, VERSIONS)
        yield stream


async def ask(stream: trio.abc.Stream, frame: bytes) -> bytes:
    """Send a request, and return its answer without the size."""
    await stream.send_all(frame)
    received = bytearray()
    while len(received) < SIZE.size or len(received) < SIZE.size + SIZE.unpack_from(received)[0]:
        arrived = await stream.receive_some()
        if not arrived:
            raise trio.BrokenResourceError("the gateway has closed the connection")
        received += arrived
    return bytes(received[SIZE.size :])


@dataclass
class HerdMember:
    """A consumer that joins, and states what it owns as clients do after a new connection."""

    group_id: str
    member_id: str
    epoch: int = 0
    owned: tuple[TopicPartitions, ...] = ()
    answered_s: float = 0.0
    losses: int = 0
    """How often its group had removed it: it joins again."""
    find: bytes = b""
    heartbeat: bytes = b""
    """Its requests, encoded."""

    def __post_init__(self) -> None:
        find = FindCoordinatorRequest(key=self.group_id, key_type=0)
        self.find = frame_of(ApiKey.FIND_COORDINATOR, FIND_VERSION, find)
        self._encode_heartbeat()

    async def heartbeat_once(self, port: int, tls: ssl.SSLContext | None) -> None:
        """Find the coordinator and send heartbeats until one succeeds."""
        async with open_connection(port, tls) as bootstrap:
            body = _body(await ask(bootstrap, self.find), ApiKey.FIND_COORDINATOR, FIND_VERSION)
        coordinator = decode(FindCoordinatorResponse, body, FIND_VERSION)
        if coordinator.error_code:
            await trio.sleep(RETRY_S)
            return
        async with open_connection(coordinator.port, tls) as connection:
            while True:
                received = await ask(connection, self.heartbeat)
                body = _body(received, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION)
                answered = decode(ConsumerGroupHeartbeatResponse, body, HEARTBEAT_VERSION)
                if answered.error_code == ErrorCode.NONE:
                    break
                if answered.error_code in _LOST:
                    self.epoch, self.owned = 0, ()
                    self.losses += 1
                    self._encode_heartbeat()
                await trio.sleep(RETRY_S)
        self.answered_s = time.monotonic()
        self._take(answered)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        before = self.epoch, self.owned
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = tuple(answer.assignment.topic_partitions)
        if before != (self.epoch, self.owned):
            self._encode_heartbeat()

    def _encode_heartbeat(self) -> None:
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=(TOPIC,),
            topic_partitions=self.owned,
        )
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        self.heartbeat = frame_of(key, HEARTBEAT_VERSION, heartbeat)


def _body(answer: bytes, key: ApiKey, version: int) -> bytes:
    _, start = decode_response_header(key, version, answer)
    return answer[start:]


async def beat_until_answered(member: HerdMember, port: int, tls: ssl.SSLContext | None) -> None:
    """Send the heartbeat of `heartbeat_once`, again after connections that fail."""
    while not member.answered_s:
        try:
            await member.heartbeat_once(port, tls)
        except (OSError, trio.BrokenResourceError):
            await trio.sleep(RETRY_S)


async def beat_all(
    members: Sequence[HerdMember], port: int, tls: ssl.SSLContext | None, at_once: int
) -> None:
    """Have a heartbeat of every member answered, with a limit of how many are sent at a time."""
    limit = trio.CapacityLimiter(at_once)

    async def beat(member: HerdMember) -> None:
        member.answered_s = 0.0
        async with limit:
            await beat_until_answered(member, port, tls)

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(beat, member)


@contextmanager
def started_gateway(
    folder: Path, upstream: str, port: int, flags: Sequence[str]
) -> Iterator[Server]:
    """A gateway with its state in the folder, from before its port is open until it is killed."""
    command = [
        *(sys.executable, "-m", "gateway", "serve", f"--upstream={upstream}"),
        *(f"--listen={HOST}:{port}", f"--state-dir={folder}", "--log-format=json"),
        *("--groups-host=*", "--max-connections=20000", "--max-connections-per-address=20000"),
        *flags,
    ]
    with (folder / "log").open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=_with_bytecode(folder),
            preexec_fn=die_with_parent,  # noqa: PLW1509  # this process may be killed
        )
        try:
            yield Server(port=port, pid=process.pid)
        finally:
            process.kill()
            process.wait()


def _with_bytecode(folder: Path) -> Mapping[str, str]:
    """An environment in which Python keeps what it compiles, as it does for users: compiling takes
    longer than the start itself."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPYCACHEPREFIX": f"{folder.with_name('bytecode')}"}


async def until_open(port: int) -> None:
    """Wait until the gateway listens."""
    while not is_open(port):
        await trio.sleep(_LOOK_INTERVAL_S)


async def settle(members: Sequence[HerdMember], port: int, tls: ssl.SSLContext | None) -> None:
    """Heartbeat until no member's epoch or partitions change."""
    before: object = None
    while before != (now := [(member.epoch, member.owned) for member in members]):
        before = now
        await beat_all(members, port, tls, STARTING_AT_ONCE)


async def measure(
    count: int, folder: Path, tls: ssl.SSLContext | None, flags: Sequence[str]
) -> None:
    """Let the members join, kill the gateway, and print how they find the next one."""
    members = [
        HerdMember(group_id=f"herd-{number // GROUP_SIZE}", member_id=f"{uuid4()}")
        for number in range(count)
    ]
    port = free_port()
    async with running_mock_cluster() as cluster:
        await cluster.create_topic(TOPIC, PARTITIONS)
        upstream = cluster.bootstrap_servers
        with trio.fail_after(LIMIT_S):
            with started_gateway(folder, upstream, port, flags):
                await until_open(port)
                await settle(members, port, tls)
            for member in members:
                member.losses = 0
            started_s = time.monotonic()
            with started_gateway(folder, upstream, port, flags) as gateway:
                await until_open(port)
                open_s, start_cpu_s = time.monotonic(), gateway.cpu_ns / 1e9
                clients_start_s = time.process_time()
                await beat_all(members, port, tls, count)
                clients_cpu_s = time.process_time() - clients_start_s
                cpu_s = gateway.cpu_ns / 1e9 - start_cpu_s
    waited = sorted(member.answered_s - open_s for member in members)
    sys.stdout.write(
        f"{count} members in {-(-count // GROUP_SIZE)} groups\n"
        f"listens after {open_s - started_s:.2f} s, CPU {start_cpu_s:.2f} s\n"
        f"answered after it: half {statistics.median(waited):.2f} s,"
        f" 99 % {waited[int(len(waited) * 0.99)]:.2f} s, all {waited[-1]:.2f} s;"
        f" {sum(member.losses for member in members)} members lost\n"
        f"CPU {cpu_s:.2f} s, {1e6 * cpu_s / (2 * count):.0f} µs a connection;"
        f" of the clients {clients_cpu_s:.2f} s\n"
    )


def main() -> None:
    """Measure one herd."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench herd")
    parser.add_argument("--members", type=int, default=MEMBERS, metavar="N")
    parser.add_argument("--tls", action="store_true", help="clients connect with TLS")
    options = parser.parse_args()
    allow_many_connections()
    with tempfile.TemporaryDirectory(prefix="groupferry-bench-") as name:
        folder, flags = Path(name), list[str]()
        tls = None
        if options.tls:
            files = CertificateAuthority.in_folder(folder / "tls").issue("gateway", HOST)
            flags = [f"--tls-cert={files.cert}", f"--tls-key={files.key}"]
            tls = ssl.create_default_context(cafile=files.ca)
        state = folder / "state"
        state.mkdir()
        trio.run(measure, options.members, state, tls, flags)


if __name__ == "__main__":
    main()
