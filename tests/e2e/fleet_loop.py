"""Kills, pauses, drains and starts gateways of a fleet at random moments, under load.

    python -m tests.e2e.fleet_loop --release 4.4 --minutes 10

Three gateways on three loopback addresses share the groups of one state topic, in front of a real
cluster. A round is one thing that happens to one of them, and lasts until every group has
committed again. Prints the records that were lost, the partitions that were owned twice, the
offsets that went back, the rebalances that were caused, and how long groups could not commit. The
exit status is 1 if there was any of the first three, or a gateway that ended by itself.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import trio

from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import CommittedReport, ConsumerReport
from gateway.demo.upstream import DemoCluster
from tests.support import group_stage
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import PARTITIONS, GroupStage, on_kafka
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.ports import free_port
from tests.support.promises import PromiseBroken
from tests.support.serve_process import ServeProcess, command

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
RATE = 50
"""Records a second, of which each group reads all."""
START_LIMIT_S = 180.0
LOOK_INTERVAL_S = 0.1
ROUND_LIMIT_S = 120.0
"""A group that has not committed by then is stuck."""
PAUSE_S = 8.0, 14.0
"""Longer than the lease, and than the session in the fleet's group."""
QUIET_S = 3.0
"""How long each round goes on after every group has committed."""
NATIVE_SESSIONS = "--group-consumer-session-timeout-ms=45000"
CLASSIC_SESSIONS = "--session-timeout-ms=45000"
"""A flag of the programs of librdkafka and Java."""

RDKAFKA = Client(library="librdkafka", assignor="cooperative-sticky")
KINDS: Sequence[tuple[Sequence[Client], int]] = (
    ((RDKAFKA, RDKAFKA), 2),
    ((Client(library="java", assignor="cooperative-sticky"),), 1),
    ((Client(library="java", protocol="consumer"),), 1),
    ((RDKAFKA,), 12),
    ((Client(library="librdkafka", protocol="consumer"),), 12),
    ((Client(library="franz-go", protocol="consumer"),), 12),
)
"""The members of a group, and in how many of forty groups."""


def clients_of(groups: int) -> Iterator[Sequence[Client]]:
    """The members of so many groups."""
    kinds = [clients for clients, count in KINDS for _ in range(count)]
    return (kinds[number * len(kinds) // groups % len(kinds)] for number in range(groups))


@dataclass(slots=True)
class Results:
    """What has happened so far."""

    rounds: Counter[str] = field(default_factory=Counter)
    gaps_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each group and round, the longest time between two of its commits, by what happened."""
    disturbed: Counter[str] = field(default_factory=Counter)
    """Groups that rebalanced in a round, by what happened and the library."""
    problems: list[str] = field(default_factory=list)


class AckedLedger(Ledger):
    """A ledger that also has the times of the group's commits."""

    def __init__(self) -> None:
        super().__init__(PARTITIONS)
        self.acked_s: list[float] = []

    def hear(self, process: Process, report: ConsumerReport) -> None:
        """Enter one report."""
        super().hear(process, report)
        if isinstance(report, CommittedReport):
            self.acked_s.append(report.at_s)


class LoopStage(GroupStage):
    """A group of the loop."""

    def __init__(self, nursery: trio.Nursery, upstream: DemoCluster, gateway: ServeProcess) -> None:
        super().__init__(nursery, upstream, gateway)
        self.ledger = self.acked = AckedLedger()


class FleetRounds:
    """The gateways, and the groups behind them."""

    def __init__(
        self,
        kafka: KafkaCluster,
        folder: Path,
        nursery: trio.Nursery,
        rng: random.Random,
        *,
        processes: int,
    ) -> None:
        self.results = Results()
        self._rng = rng
        self._processes = processes
        upstream = ",".join(f"{host}:{port}" for host, port in kafka.addresses)
        port = free_port()
        self._bootstrap = ",".join(f"{host}:{port}" for host in HOSTS)
        flags = (
            "--state=kafka",
            f"--state-topic={fresh_group('state-of-loop')}",
            "--fleet=true",
            NATIVE_SESSIONS,
            *([f"--processes={processes}"] if processes > 1 else []),
        )
        self._gateways = [
            ServeProcess(
                nursery,
                command(upstream, f"{host}:{port}", folder / host, *flags),
                f"{host}:{port}",
            )
            for host in HOSTS
        ]
        self._away: set[int] = set(range(len(HOSTS)))
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
            for number, client in enumerate(clients):
                flags = () if client.protocol == "consumer" else (CLASSIC_SESSIONS,)
                await stage.join(f"m{number}", client, *flags, bootstrap=self._bootstrap)
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
        here = sorted(set(range(len(HOSTS))) - self._away)
        what = "join"
        if not self._away or (len(here) > 1 and self._rng.random() < 0.5):
            what = self._rng.choice(("kill", "pause", "drain"))
        number = self._rng.choice(here if what != "join" else sorted(self._away))
        began_s = time.monotonic()
        with trio.move_on_after(ROUND_LIMIT_S) as limit:
            await self._do(what, number)
            await self._until_committed(time.monotonic())
            await trio.sleep(QUIET_S)
        self._record_round(what, began_s, time.monotonic())
        if limit.cancelled_caught:
            late = [
                f"{next(iter(stage.members.values())).client}: {stage.troubles[-3:]}"
                for stage in self.stages
                if stage.acked.acked_s[-1] < began_s
            ]
            self.results.problems.append(f"{what} of {HOSTS[number]}, no commits: {late}")
        self._check_gateways()

    async def _do(self, what: str, number: int) -> None:
        gateway = self._gateways[number]
        match what:
            case "kill" if self._processes > 1:  # the parent starts it again
                os.kill(self._pick_process(gateway), signal.SIGKILL)
            case "kill":
                await gateway.kill()
                self._away.add(number)
            case "pause":
                pid = self._pick_process(gateway)
                os.kill(pid, signal.SIGSTOP)
                await trio.sleep(self._rng.uniform(*PAUSE_S))
                with suppress(ProcessLookupError):  # its parent has killed it
                    os.kill(pid, signal.SIGCONT)
            case "drain":
                status = await gateway.terminate()
                self._away.add(number)
                if status != 0:
                    self.results.problems.append(f"a drain of {HOSTS[number]} ended with {status}")
            case _:
                await self.start(number)

    def _pick_process(self, gateway: ServeProcess) -> int:
        """One of the gateway's processes."""
        latest = {line["slot"]: line["pid"] for line in gateway.events("process_started")}
        return self._rng.choice(sorted(latest.values())) if latest else gateway.pid

    async def _until_committed(self, since_s: float) -> None:
        """Wait until every group has committed since then."""
        while not all(stage.acked.acked_s[-1:] > [since_s] for stage in self.stages):
            await trio.sleep(LOOK_INTERVAL_S)

    def _record_round(self, what: str, began_s: float, ended_s: float) -> None:
        self.results.rounds[what] += 1
        for stage in self.stages:
            times_s = sorted(at_s for at_s in stage.acked.acked_s if began_s <= at_s <= ended_s)
            gaps_s = [later - at_s for at_s, later in pairwise([began_s, *times_s, ended_s])]
            self.results.gaps_s[what].append(max(gaps_s))
            moved = stage.ledger.disturbance(None, began_s, ended_s)
            if moved.partitions_moved or moved.members_disturbed:
                client = next(iter(stage.members.values())).client
                self.results.disturbed[f"{what}, {client}"] += 1

    def _check_gateways(self) -> None:
        for number, gateway in enumerate(self._gateways):
            lines = [line for line in gateway.other_lines if line]
            if lines:
                self.results.problems.append(f"{HOSTS[number]}: {lines[-40:]}")
                gateway.other_lines.clear()

    async def end(self) -> None:
        """Let every group read and commit everything, and check its ledger."""
        produced = await self.stages[0].produced()

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
    kafka: KafkaCluster, folder: Path, seed: int, *, groups: int, processes: int
) -> AsyncIterator[FleetRounds]:
    """A fleet of three gateways with so many groups, once all consume."""
    group_stage.RATE = RATE
    async with on_kafka(kafka)(PARTITIONS) as upstream, trio.open_nursery() as nursery:
        rounds = FleetRounds(kafka, folder, nursery, random.Random(seed), processes=processes)
        try:
            for number in range(len(HOSTS)):
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
    for what, count in sorted(results.disturbed.items()):
        print(f"rebalanced: {count} times, {what}")
    for problem in results.problems:
        print(f"problem: {problem}")
    print(f"{len(results.problems)} problems, rebalances {results.disturbed.total()}", flush=True)


async def play(kafka: KafkaCluster, folder: Path, options: argparse.Namespace) -> Results:
    """Play rounds until there were enough."""
    ends_at_s = time.monotonic() + 60 * options.minutes
    async with open_rounds(
        kafka, folder, options.seed, groups=options.groups, processes=options.processes
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
        await rounds.end()
        return rounds.results


def main() -> None:
    """Play rounds, and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--release", default="4.4")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--processes", type=int, default=1, help="of each gateway")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no round after it")
    options = parser.parse_args()
    with running_kafka(options.release) as kafka, tempfile.TemporaryDirectory() as folder:
        results = trio.run(partial(play, kafka, Path(folder), options))
    print_results(results)
    sys.exit(1 if results.problems else 0)


if __name__ == "__main__":
    main()
