"""What several processes cost, and how long groups are without one that serves them.

    .venv/bin/python tests/bench/bench_fleet.py [--faults N] [--only TEXT] [--state kafka] [--short]

In front of Apache Kafka. Cost: the same requests to a single gateway and to fleets of one, two and
four processes; processor time and memory are those of all processes with their parent. Hand-over: a
member of each of a dozen groups sends a heartbeat every 50 ms, at the coordinator that it has found
last, and looks for another one as clients do. A process of a random slot is killed, or restarted by
command, once all serve their own groups; the figure is the longest time between two good heartbeats
of any group of that process.

Nodes: what clients have of the coordinator nodes (`fleet_nodes.py`), in front of the embedded
cluster. Refusing: the requests of clients while their coordinator's address refuses.
"""

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.commands.show_gateways import find_states
from gateway.control.client import give
from gateway.control.messages import RestartCommand
from gateway.fleet.member import SHARDS, FleetMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from tests.bench.bench_group_calls import (
    CONFIGS,
    MEMBERS,
    RELEASE,
    classic_group,
    commits,
    heartbeats,
    native_group,
    native_heartbeats,
)
from tests.bench.fleet_nodes import print_nodes, print_refusing
from tests.bench.processes import Load, Requests, Server, load, running
from tests.support.group_client import GroupClient, find_coordinator, fresh_group, group_client
from tests.support.kafka_broker import running_kafka
from tests.support.ports import HOST, free_port
from tests.support.until import until_answered

FLEETS = (1, 2, 4)
ROUNDS = 5
HEARTBEATS, COMMITS, WARM_UP = 6_000, 1_500, 3_000
CONNECTIONS = 10
GROUPS = 12
BEAT_INTERVAL_S = 0.05
LIMIT_S = 60.0
PROCESSES_OF_HANDOVERS = 3
BROKERS, SHORT_BROKERS = (3, 10, 100), (3, 10)
SHORT_FAULTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway(Server):
    """A gateway with all of its processes."""

    folder: Path

    @property
    def pids(self) -> Sequence[int]:
        """The parent, or the only process, and those below it."""
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return (self.pid, *map(int, text.split()))

    @property
    def cpu_ns(self) -> int:
        """The processor time of all of them."""
        return sum(Server(port=0, pid=pid).cpu_ns for pid in self.pids)

    @property
    def memory_kib(self) -> int:
        """Their memory; shared pages count by their share."""
        return sum(Server(port=0, pid=pid).memory_kib for pid in self.pids)


@contextmanager
def gateway(upstream: str, processes: int, state: str) -> Iterator[Gateway]:
    """`groupferry serve`; with 0 processes a single gateway."""
    port = free_port()
    flags = [f"--{name.replace('.', '-')}={value}" for name, value in CONFIGS.items()]
    flags += [f"--state={state}", f"--state-topic={fresh_group('state')}"]
    if processes:
        flags.append(f"--processes={processes}")
    with tempfile.TemporaryDirectory(
        prefix="groupferry-bench-", ignore_cleanup_errors=True
    ) as folder:
        command = [
            *(sys.executable, "-m", "gateway", "serve", f"--upstream={upstream}"),
            *(f"--listen={HOST}:{port}", f"--state-dir={folder}", "--log-format=json"),
            *("--groups-host=*", "--max-connections-per-address=9000", *flags),
        ]
        with running("groupferry", command, port) as server:
            yield Gateway(port=server.port, pid=server.pid, folder=Path(folder))


async def until_at_home(folder: Path, processes: int) -> Mapping[int, int]:
    """Wait until each process serves its own shards. Returns the process ids by slot."""

    async def pids() -> Mapping[int, int]:
        states = await find_states(folder)
        lines = [state.gateway and state.gateway.process for state in states]
        homes = [line.own_shards if line else 0 for line in lines]
        held = [len(line.shards) if line else 0 for line in lines]
        is_home = len(lines) == processes and sum(homes) == sum(held) == SHARDS
        return {line.slot: line.pid for line in lines if line} if is_home else {}

    return await until_answered(pids)


# -- cost ----------------------------------------------------------------------------------------


def measure_costs(upstream: str, state: str) -> None:
    """Processor time of a request, and memory."""
    for processes in (0, *FLEETS):
        name = f"{processes} processes" if processes else "a single gateway"
        with gateway(upstream, processes, state) as server:
            if processes:
                trio.run(until_at_home, server.folder, processes)
            idle_mib = server.memory_kib / 1024
            classic, _cost = trio.run(classic_group, server, f"classic-{processes}")
            native = trio.run(native_group, server, f"native-{processes}")
            figures = [
                f"{row} {measure(server, requests, port, count):.1f} us"
                for row, requests, port, count in (
                    ("Heartbeat", heartbeats(classic), classic.port, HEARTBEATS),
                    ("ConsumerGroupHeartbeat", native_heartbeats(native), native.port, HEARTBEATS),
                    ("OffsetCommit", commits(classic), classic.port, COMMITS),
                )
            ]
            memory = f"{idle_mib:.0f} MiB without clients"
            print(f"{name}: {', '.join(figures)}, {memory}", flush=True)


def measure(server: Server, requests: Requests, port: int, count: int) -> float:
    """The median processor time of a request, in microseconds."""
    with load(server, requests, CONNECTIONS, port) as sending:
        sending.measure(WARM_UP)
        return statistics.median(sample(sending, count) for _ in range(ROUNDS))


def sample(sending: Load, count: int) -> float:
    """The processor time of a request, in one round."""
    return sending.measure(count).cpu_us


# -- hand-over -----------------------------------------------------------------------------------


class Member:
    """The only member of a group, and when it had good heartbeats."""

    def __init__(self, bootstrap: tuple[str, int], group_id: str) -> None:
        self.group_id = group_id
        self.worst_s = 0.0
        self._bootstrap = bootstrap
        self._joined: JoinGroupResponse | None = None
        self._good_s = 0.0

    def begin(self) -> None:
        """Begin to look for the longest time."""
        self.worst_s = 0.0

    async def enter(self) -> None:
        """Join."""
        async with group_client(self._bootstrap, self.group_id) as client:
            self._joined = await client.enter(session_timeout_ms=60_000)

    async def beat(self) -> None:
        """Send heartbeats until cancelled."""
        self._good_s = trio.current_time()
        while True:
            try:
                coordinator = await find_coordinator(self._bootstrap, self.group_id)
                async with await BrokerConnection.open(
                    coordinator.host, coordinator.port
                ) as connection:
                    await self._beat_at(GroupClient(connection, self.group_id))
            except UpstreamError:
                pass
            await trio.sleep(BEAT_INTERVAL_S)

    async def _beat_at(self, client: GroupClient) -> None:
        assert self._joined is not None
        while True:
            code = (await client.beat(self._joined)).error_code
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                return
            assert code == ErrorCode.NONE, f"{self.group_id}: error {code}"
            now_s = trio.current_time()
            self.worst_s = max(self.worst_s, now_s - self._good_s)
            self._good_s = now_s
            await trio.sleep(BEAT_INTERVAL_S)


async def measure_handovers(server: Gateway, fault: str, faults: int) -> None:
    """Have processes end, and print the times."""
    fleet = FleetMember(slot=0, slots=PROCESSES_OF_HANDOVERS, shards=SHARDS)
    members = [Member((HOST, server.port), f"group-{number}") for number in range(GROUPS)]
    rng = random.Random(46)
    times_s: list[float] = []
    await until_at_home(server.folder, PROCESSES_OF_HANDOVERS)
    async with trio.open_nursery() as nursery:
        for member in members:
            await member.enter()
            nursery.start_soon(member.beat)
        for _ in range(faults):
            pids = await until_at_home(server.folder, PROCESSES_OF_HANDOVERS)
            slot = rng.choice(sorted(pids))
            own = [member for member in members if fleet.slot_of(member.group_id) == slot]
            await trio.sleep(0.5)
            for member in own:
                member.begin()
            if fault == "kill":
                os.kill(pids[slot], signal.SIGKILL)
            else:
                await give(server.folder, RestartCommand(processes=(slot,)))
            while (await until_at_home(server.folder, PROCESSES_OF_HANDOVERS))[slot] == pids[slot]:
                pass
            await trio.sleep(0.5)
            times_s.append(max(member.worst_s for member in own))
        nursery.cancel_scope.cancel()
    times_s.sort()
    print(
        f"{len(times_s)} x {fault}, {PROCESSES_OF_HANDOVERS} processes, {GROUPS} groups: median"
        f" {statistics.median(times_s):.2f} s, 90 % {times_s[int(len(times_s) * 0.9)]:.2f} s,"
        f" worst {times_s[-1]:.2f} s; there and back",
        flush=True,
    )


def main() -> None:
    """Measure everything, or what is named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--only", default="", help="rows with TEXT in their name", metavar="TEXT")
    parser.add_argument("--state", choices=("sqlite", "kafka"), default="sqlite")
    parser.add_argument("--short", action="store_true", help="a few faults, and few brokers")
    options = parser.parse_args()
    faults = SHORT_FAULTS if options.short else options.faults
    print(f"load {re.split(',', subprocess.getoutput('uptime'))[-3].strip()}", flush=True)
    if options.only in "nodes":
        trio.run(print_nodes, SHORT_BROKERS if options.short else BROKERS)
    settings = {**CONFIGS, "num.partitions": MEMBERS}
    if options.only in "nodes" and options.only:
        return
    with running_kafka(RELEASE, brokers=1, settings=settings) as kafka:
        if options.only in "cost":
            measure_costs(kafka.bootstrap_servers, options.state)
        if options.only in "refusing":
            trio.run(print_refusing, kafka)
        for fault in ("kill", "restart"):
            if options.only in fault:
                processes = PROCESSES_OF_HANDOVERS
                with gateway(kafka.bootstrap_servers, processes, options.state) as server:
                    started_s = time.monotonic()
                    trio.run(measure_handovers, server, fault, faults)
                    print(f"in {time.monotonic() - started_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
