"""Kills, pauses, cuts off, drains and starts gateways of a fleet at random moments, under load.

    python -m tests.e2e.fleet_loop --release 4.4 --minutes 10

Three gateways on three machines of a network of its own share the groups of one state topic, in
front of a real cluster. Needs Linux, and root or `unshare --map-root-user`. A round is one thing
that happens to one gateway, and lasts until every group has committed again. Prints the records
that were lost, the partitions that were owned twice, the offsets that went back, the rebalances
that were caused, how long groups could not commit, and how long it took until another gateway
served the groups of a silent one. The exit status is 1 if there was any of the first four, or a
gateway that ended by itself.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import CommittedReport, ConsumedReport, ConsumerReport
from gateway.demo.upstream import DemoCluster
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.bench.processes import enter_private_network
from tests.e2e.fleet_network import CLUSTER, Machine, open_network
from tests.support import group_stage
from tests.support.clients import Client
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.group_stage import PARTITIONS, GroupStage, on_kafka
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.kafka_release import LISTENER_PROTOCOLS, kafka_release
from tests.support.ports import free_port
from tests.support.promises import PromiseBroken
from tests.support.serve_process import ServeProcess, command

MACHINES = 3
BROKERS = 2
RATE = 50
"""Records a second. Each group reads all of them."""
START_LIMIT_S = 300.0
LOOK_INTERVAL_S = 0.1
ROUND_LIMIT_S = 120.0
"""A group that has not committed by then is stuck."""
SILENCE_S = 9.0, 14.0
"""Longer than the lease, and than the session in the fleet's group."""
SILENCES = ("pause", "partition", "cut")
"""A process stands still, it cannot reach the cluster, its machine cannot be reached."""
ASK_LIMIT_S = 0.5
"""How long a gateway may take to say whether it serves a group."""
QUIET_S = 3.0
"""How long each round continues after every group has committed."""
NATIVE_SESSIONS = "--group-consumer-session-timeout-ms=45000"
CLASSIC_SESSIONS = "--session-timeout-ms=45000"
"""A flag of the clients."""

RDKAFKA = Client(library="librdkafka", assignor="cooperative-sticky")
KINDS: Sequence[tuple[Sequence[Client], int]] = (
    ((RDKAFKA, RDKAFKA), 2),
    ((Client(library="java", assignor="cooperative-sticky"),), 1),
    ((Client(library="java", protocol="consumer"),), 1),
    ((RDKAFKA,), 9),
    ((Client(library="librdkafka", protocol="consumer"),), 9),
    ((Client(library="franz-go", protocol="consumer"),), 7),
    ((Client(library="franz-go", assignor="cooperative-sticky"),), 2),
    ((Client(library="aiokafka"),), 2),
    ((Client(library="sarama"),), 3),
    ((Client(library="kafkajs"),), 2),
    ((Client(library="kafka-go"),), 2),
)
"""The members of a group, and in how many of forty groups."""
REBALANCE_BY_THEMSELVES = ("sarama", "kafkajs", "kafka-go")
"""Whenever their coordinator changes, at a broker too."""
SILENT_ON_COMMITS = "sarama"
"""A library that does not say whether a commit was acknowledged: its records count instead."""


def clients_of(groups: int) -> Iterator[Sequence[Client]]:
    """The members of this many groups."""
    kinds = [clients for clients, count in KINDS for _ in range(count)]
    return (kinds[number * len(kinds) // groups % len(kinds)] for number in range(groups))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the gateways run, and in front of what."""

    kafka: KafkaCluster
    machines: Sequence[Machine]
    upstream: str
    """The addresses of the cluster for gateways."""
    folder: Path


@dataclass(slots=True)
class Results:
    """What has happened so far."""

    rounds: Counter[str] = field(default_factory=Counter)
    gaps_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each group and round, the longest time between two of its commits, by what happened."""
    served_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """How long it took until another gateway served each group of a silent one."""
    disturbed: Counter[str] = field(default_factory=Counter)
    """Groups that rebalanced in a round, by what happened and the library."""
    by_themselves: Counter[str] = field(default_factory=Counter)
    """Groups of clients that rebalance whenever their coordinator changes."""
    problems: list[str] = field(default_factory=list)


class AckedLedger(Ledger):
    """A ledger that also has the times of the group's commits."""

    def __init__(self) -> None:
        super().__init__(PARTITIONS)
        self.acked_s: list[float] = []
        self.shown_by: type[ConsumerReport] = CommittedReport
        """What counts as a commit."""

    def record(self, process: Process, report: ConsumerReport) -> None:
        """Enter one report."""
        super().record(process, report)
        if isinstance(report, self.shown_by):
            self.acked_s.append(report.at_s)


class LoopStage(GroupStage):
    """A group of the loop."""

    def __init__(self, nursery: trio.Nursery, upstream: DemoCluster, gateway: ServeProcess) -> None:
        super().__init__(nursery, upstream, gateway)
        self.ledger = self.acked = AckedLedger()

    @property
    def client(self) -> Client:
        """The library of its members."""
        return next(iter(self.members.values())).client

    async def begin(self, clients: Sequence[Client], bootstrap: str) -> None:
        """Have its members join."""
        if clients[0].library == SILENT_ON_COMMITS:
            self.acked.shown_by = ConsumedReport
        for number, client in enumerate(clients):
            flags = () if client.protocol == "consumer" else (CLASSIC_SESSIONS,)
            await self.join(f"m{number}", client, *flags, bootstrap=bootstrap)


class FleetRounds:
    """The gateways, and the groups behind them."""

    def __init__(
        self,
        surroundings: Surroundings,
        nursery: trio.Nursery,
        rng: random.Random,
        *,
        processes: int,
    ) -> None:
        self.results = Results()
        self._rng = rng
        self._processes = processes
        self._machines = machines = surroundings.machines
        port = free_port()
        self._bootstrap = ",".join(f"{machine.host}:{port}" for machine in machines)
        flags = (
            "--state=kafka",
            f"--state-topic={fresh_group('state-of-loop')}",
            "--fleet=true",
            NATIVE_SESSIONS,
            *([f"--processes={processes}"] if processes else []),
        )
        self._gateways = [
            ServeProcess(
                nursery,
                [
                    *machine.within,
                    *command(
                        surroundings.upstream,
                        f"{machine.host}:{port}",
                        surroundings.folder / machine.host,
                        *flags,
                    ),
                ],
                f"{machine.host}:{port}",
            )
            for machine in machines
        ]
        self._away: set[int] = set(range(len(machines)))
        self.stages: list[LoopStage] = []

    @property
    def gateway(self) -> ServeProcess:
        """The first gateway."""
        return self._gateways[0]

    async def start(self, number: int) -> None:
        """Start a gateway that is away."""
        gateway = self._gateways[number]
        starts = len(gateway.events("gateway_started"))
        await gateway.start()
        await gateway.until_event("gateway_started", starts + 1)
        self._away.discard(number)

    async def begin_groups(self, groups: Sequence[LoopStage]) -> None:
        """Have their members join, and wait until each group has all partitions."""
        self.stages = list(groups)
        for stage, clients in zip(groups, clients_of(len(groups)), strict=True):
            await stage.begin(clients, self._bootstrap)
        with trio.move_on_after(START_LIMIT_S):
            while not all(map(owns_all, groups)):
                await trio.sleep(LOOK_INTERVAL_S)
            await self._until_committed(time.monotonic())
            return
        for stage in groups:
            if not owns_all(stage):
                fates = [member.child.fate for member in stage.members.values()]
                self.results.problems.append(f"{stage.group} has not begun: {fates}")

    async def play_round(self) -> None:
        """Have one thing happen to one gateway."""
        here = sorted(set(range(len(self._machines))) - self._away)
        what = "join"
        if not self._away or (len(here) > 1 and self._rng.random() < 0.5):
            what = self._rng.choice(("kill", "drain", *SILENCES))
        number = self._rng.choice(here if what != "join" else sorted(self._away))
        owned = {stage.group for stage in self.stages if await self._owns(number, stage.group)}
        started_s = time.monotonic()
        with trio.move_on_after(ROUND_LIMIT_S) as limit:
            await self._do(what, number, owned)
            await self._until_committed(time.monotonic())
            await trio.sleep(QUIET_S)
        self._record_round(what, owned, started_s, time.monotonic())
        if limit.cancelled_caught:
            late = [
                f"{stage.client}: {stage.troubles[-3:]}"
                for stage in self.stages
                if stage.acked.acked_s[-1] < started_s
            ]
            self.results.problems.append(
                f"{what} of {self._machines[number].host}, no commits: {late}"
            )
        self._check_gateways()

    async def _do(self, what: str, number: int, owned: Set[str]) -> None:
        gateway, machine = self._gateways[number], self._machines[number]
        match what:
            case "kill" if self._processes:  # the parent starts it again
                os.kill(self._pick_process(gateway), signal.SIGKILL)
            case "kill":
                await gateway.kill()
                self._away.add(number)
            case "pause":
                pid = self._pick_process(gateway)
                os.kill(pid, signal.SIGSTOP)
                await self._stay_silent(what, number, owned)
                with suppress(ProcessLookupError):  # its parent has killed it
                    os.kill(pid, signal.SIGCONT)
            case "partition":
                machine.cut_from_cluster()
                await self._stay_silent(what, number, owned)
                machine.join_cluster()
            case "cut":
                machine.cut_off()
                await self._stay_silent(what, number, owned)
                machine.come_back()
            case "drain":
                status = await gateway.terminate()
                self._away.add(number)
                if status != 0:
                    self.results.problems.append(f"a drain of {machine.host} ended with {status}")
            case _:
                await self.start(number)

    async def _stay_silent(self, what: str, number: int, owned: Set[str]) -> None:
        """Wait while a gateway is silent, and look when another one serves its groups."""
        started_s = time.monotonic()
        others = sorted(set(range(len(self._machines))) - self._away - {number})

        async def await_owner(group: str) -> None:
            while not any([await self._owns(other, group) for other in others]):
                await trio.sleep(LOOK_INTERVAL_S)
            self.results.served_s[what].append(time.monotonic() - started_s)

        ends_s = trio.current_time() + self._rng.uniform(*SILENCE_S)
        with trio.move_on_at(ends_s):
            async with trio.open_nursery() as nursery:
                for group in owned:
                    nursery.start_soon(await_owner, group)
        await trio.sleep_until(ends_s)

    async def _owns(self, number: int, group: str) -> bool:
        """Whether a gateway says that it has the group, and serves it."""
        host, port = self._gateways[number].address
        with trio.move_on_after(ASK_LIMIT_S), suppress(UpstreamError):
            named = await find_coordinator((host, port), group)
            if named.host != host:
                return False
            async with await BrokerConnection.open(named.host, named.port) as connection:
                beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
                answer = await connection.ask(beat)
                return bool(answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID)
        return False

    def _pick_process(self, gateway: ServeProcess) -> int:
        """One of the gateway's processes."""
        latest = {line["slot"]: line["pid"] for line in gateway.events("process_started")}
        return self._rng.choice(sorted(latest.values())) if latest else gateway.pid

    async def _until_committed(self, since_s: float) -> None:
        """Wait until every group has committed since then."""
        while not all(stage.acked.acked_s[-1:] > [since_s] for stage in self.stages):
            await trio.sleep(LOOK_INTERVAL_S)

    def _record_round(self, what: str, owned: Set[str], started_s: float, ended_s: float) -> None:
        self.results.rounds[what] += 1
        longest: list[tuple[float, str]] = []
        for stage in self.stages:
            times_s = sorted(at_s for at_s in stage.acked.acked_s if started_s <= at_s <= ended_s)
            gaps_s = [later - at_s for at_s, later in pairwise([started_s, *times_s, ended_s])]
            whose = "its groups" if stage.group in owned else "other groups"
            self.results.gaps_s[f"{what}, {whose}"].append(max(gaps_s))
            longest.append((max(gaps_s), f"{stage.client}, {whose}, {stage.group}"))
            moved = stage.ledger.disturbance(None, started_s, ended_s)
            if moved.partitions_moved or moved.members_disturbed:
                is_habit = stage.client.library in REBALANCE_BY_THEMSELVES
                counts = self.results.by_themselves if is_habit else self.results.disturbed
                counts[f"{what}, {stage.client}"] += 1
        worst = "; ".join(f"{gap_s:.1f} s {about}" for gap_s, about in sorted(longest)[:-4:-1])
        print(
            f"{datetime.now(UTC):%H:%M:%S} {what} for {ended_s - started_s:.0f} s: {worst}",
            flush=True,
        )

    def _check_gateways(self) -> None:
        for number, gateway in enumerate(self._gateways):
            lines = [line for line in gateway.other_lines if line]
            if lines:
                self.results.problems.append(f"{self._machines[number].host}: {lines[-40:]}")
                gateway.other_lines.clear()

    def keep_logs(self, folder: Path) -> None:
        """Write what each gateway has logged."""
        for machine, gateway in zip(self._machines, self._gateways, strict=True):
            lines = (f"{json.dumps(line)}\n" for line in gateway.log)
            (folder / f"{machine.host}.log").write_text("".join(lines))

    async def end(self) -> None:
        """Let every group read and commit everything, and check its ledger."""
        produced = await self.stages[0].stop_producer()

        async def end_one(stage: LoopStage) -> None:
            try:
                await stage.end_after(produced)
            except (PromiseBroken, AssertionError) as error:
                self.results.problems.append(f"{stage.group}: {str(error)[:2000]}")

        async with trio.open_nursery() as nursery:
            for stage in self.stages:
                nursery.start_soon(end_one, stage)


def owns_all(stage: GroupStage) -> bool:
    """Whether each partition has one owner."""
    owners = stage.ledger.owners()
    return len(owners) == PARTITIONS and all(len(names) == 1 for names in owners.values())


@asynccontextmanager
async def open_rounds(
    surroundings: Surroundings, seed: int, *, groups: int, processes: int
) -> AsyncIterator[FleetRounds]:
    """A fleet of three gateways with this many groups, once all consume."""
    group_stage.RATE = RATE
    async with on_kafka(surroundings.kafka)(PARTITIONS) as upstream, trio.open_nursery() as nursery:
        rng = random.Random(seed)
        rounds = FleetRounds(surroundings, nursery, rng, processes=processes)
        try:
            for number in range(MACHINES):
                await rounds.start(number)
            stages = [
                LoopStage(nursery, replace(upstream, group=fresh_group("loop")), rounds.gateway)
                for _ in range(groups)
            ]
            await stages[0].produce(beside=True)
            await rounds.begin_groups(stages)
            yield rounds
        finally:
            nursery.cancel_scope.cancel()


@contextmanager
def open_surroundings(release: str) -> Iterator[Surroundings]:
    """Machines, and a cluster that has an address of its own for them."""
    addresses = [f"{CLUSTER}:{free_port()}" for _ in range(BROKERS)]
    listeners = [f"FLEET://{address}" for address in addresses]
    with (
        open_network(MACHINES) as machines,
        tempfile.TemporaryDirectory() as folder,
        running_kafka(
            release,
            BROKERS,
            {"listener.security.protocol.map": f"{LISTENER_PROTOCOLS},FLEET:PLAINTEXT"},
            of_brokers=[{"listeners": one, "advertised.listeners": one} for one in listeners],
        ) as kafka,
    ):
        yield Surroundings(kafka, machines, ",".join(addresses), Path(folder))


def print_results(results: Results) -> None:
    """Print what has happened so far."""
    counts = ", ".join(f"{count} {what}" for what, count in sorted(results.rounds.items()))
    print(f"{results.rounds.total()} rounds: {counts}")
    for what, gaps_s in sorted(results.gaps_s.items()):
        deciles_s = statistics.quantiles(gaps_s, n=10) if len(gaps_s) > 1 else gaps_s * 9
        print(
            f"{what}: longest time between two commits of a group: median"
            f" {statistics.median(gaps_s):.1f} s, nine of ten {deciles_s[8]:.1f} s,"
            f" worst {max(gaps_s):.1f} s"
        )
    for what, times_s in sorted(results.served_s.items()):
        print(
            f"{what}: another gateway served its groups after: median"
            f" {statistics.median(times_s):.1f} s, worst {max(times_s):.1f} s"
        )
    for what, count in sorted(results.disturbed.items()):
        print(f"rebalanced: {count} times, {what}")
    for what, count in sorted(results.by_themselves.items()):
        print(f"rebalanced by themselves: {count} times, {what}")
    for problem in results.problems:
        print(f"problem: {problem}")
    print(f"{len(results.problems)} problems, rebalances {results.disturbed.total()}", flush=True)


async def play(surroundings: Surroundings, options: argparse.Namespace) -> Results:
    """Play rounds until there were enough."""
    ends_at_s = time.monotonic() + 60 * options.minutes
    async with open_rounds(
        surroundings, options.seed, groups=options.groups, processes=options.processes
    ) as rounds:
        print(
            f"all groups consume after {60 * options.minutes - ends_at_s + time.monotonic():.0f} s"
        )
        for number in range(options.rounds):
            if time.monotonic() > ends_at_s or rounds.results.problems:
                break
            await rounds.play_round()
            if number % 5 == 4:
                print_results(rounds.results)
        if options.logs is not None:
            rounds.keep_logs(options.logs)
        await rounds.end()
        return rounds.results


def main() -> None:
    """Play rounds, and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--release", default="4.4")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--processes", type=int, default=0, help="of each gateway, with a parent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no round after it")
    parser.add_argument("--logs", type=Path, help="keep the logs of the gateways in this folder")
    options = parser.parse_args()
    kafka_release(options.release)  # the private network leads to no server of packages
    for clients, _count in KINDS:
        for client in clients:
            client.program()
    if not enter_private_network():
        sys.exit("this needs a network of its own: run it as root, or with unshare --map-root-user")
    with open_surroundings(options.release) as surroundings:
        results = trio.run(partial(play, surroundings, options))
    print_results(results)
    sys.exit(1 if results.problems or results.disturbed else 0)


if __name__ == "__main__":
    main()
