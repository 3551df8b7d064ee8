"""What a roll costs a group, through groupferry and through Apache Kafka itself.

    .venv/bin/python tests/bench/bench_roll.py [--quick] [--repeats N] [--only TEXT]... [--keep]
        [--members N] [--partitions N] [--upset] [--plots FOLDER]

Members are restarted one by one, to the new protocol and back, with the clients' default
heartbeats. The arms take turns: a plain restart of classic members before Kafka, Kafka's own
migration, groupferry before the same Kafka and before one that lacks the new protocol. The figures
come from the clients' callbacks (`roll_costs.py`), so they do not depend on any coordinator's word.
`--quick` has fewer members, partitions and rows; `--only TEXT` runs what has TEXT in its name, and
may be repeated; `--upset` lets a member leave for good and another crash in the middle of the roll;
`--keep` writes the table into `gateway/docs/rolls.md`, where rows that it did not measure stay.
Each row has the load of the machine at its end, because it may have been busy.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import trio

from gateway.demo import reports
from gateway.demo.child import Child, run_child
from gateway.demo.group_view import Protocol
from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import (
    AssignedReport,
    LostReport,
    ProducedReport,
    RevokedReport,
    TroubledReport,
)
from tests.bench.comparison import say
from tests.bench.processes import PeerMissing, gateway, required_peer
from tests.bench.roll_costs import RollStep, costs_of, medians, merge_tables, plot_of, table_of
from tests.bench.roll_picture import costs_in, picture_of
from tests.support.client_programs import Library, program
from tests.support.clients import HANGING, Client, ClientProcess, run_client
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.kafka_release import kafka_release
from tests.support.ports import HOST
from tests.support.until import until

PAGE = Path(__file__).parents[2] / "gateway" / "docs" / "rolls.md"
PICTURE = PAGE.with_name("roll.svg")
MARK = "<!-- From here on generated: poe bench roll --keep -->\n"
NEW, OLD = "4.3", "3.9"
RATE = 200
QUIET_S, UNEVEN_QUIET_S = 3.5, 12.0
"""How long a group must stay as it is to count as settled: longer than a classic heartbeat interval
if its members own equally much, else longer than two native ones."""
SETTLE_LIMIT_S = 120
CLOSE_LIMIT_S = 60
MEMBER = "member-"
LOOK_INTERVAL_S = 0.1
WORDS_MAX = 160
"""Characters of a reason in the table."""
DEFAULT_TIMERS = "session.timeout.ms=45000\nheartbeat.interval.ms=3000\n"
"""The timers of classic clients; the demo's own are shorter. The group sets those of native
members."""
CONFIGS: Mapping[Protocol, str] = {"classic": DEFAULT_TIMERS, "consumer": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A way to serve the group."""

    name: str
    release: str = NEW
    is_ours: bool = False
    goes_native: bool = True


ARMS = (
    Arm(name="Kafka 4.3, plain restart", goes_native=False),
    Arm(name="Kafka 4.3, own migration"),
    Arm(name="groupferry on 4.3", is_ours=True),
    Arm(name="groupferry on 3.9", is_ours=True, release=OLD),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """One row: the clients, and how long a process is away."""

    libraries: tuple[Library, ...]
    """Members take turns."""
    kind: str
    assignor: str
    is_static: bool = False
    gap_s: int

    def __str__(self) -> str:
        return f"{' beside '.join(self.libraries)} {self.kind}, gap {self.gap_s} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    members: int
    partitions: int
    gaps_s: Sequence[int]
    libraries: Sequence[tuple[Library, ...]]
    repeats: int
    is_upset: bool = False
    """Whether a member leaves for good and another crashes in the middle of the roll."""


FULL = Size(
    members=8,
    partitions=48,
    gaps_s=(1, 5, 30),
    libraries=(("librdkafka",), ("java",), ("librdkafka", "java")),
    repeats=3,
)
QUICK = Size(members=4, partitions=12, gaps_s=(1,), libraries=(("librdkafka",),), repeats=1)


def rolls_of(size: Size) -> Iterator[Roll]:
    """Every row, the short gaps first."""
    for gap_s in size.gaps_s:
        for libraries in size.libraries:
            eager = Roll(libraries=libraries, kind="eager", assignor="range", gap_s=gap_s)
            yield eager
            if len(libraries) == 1:  # cooperative-sticky has another format in each
                yield replace(eager, kind="cooperative", assignor="cooperative-sticky")
                yield replace(eager, kind="static", is_static=True)


class NotSettledError(Exception):
    """The group did not settle, or a client ended, with the reason."""


class RolledGroup:
    """The group of one roll, whose members' callbacks fill a ledger."""

    def __init__(
        self,
        nursery: trio.Nursery,
        roll: Roll,
        size: Size,
        bootstrap: str,
        folder: Path,
        *,
        configs: Mapping[Protocol, str] = CONFIGS,
    ) -> None:
        """`configs`: what clients of each protocol get, as NAME=VALUE lines."""
        self._nursery = nursery
        self._roll = roll
        self._size = size
        self._bootstrap = bootstrap
        self._folder = folder
        for protocol, config in configs.items():
            (folder / protocol).write_text(config)
        self._members: dict[str, tuple[Process, ClientProcess]] = {}
        self._hung: list[ClientProcess] = []
        self._incarnations = 0
        self._moved_s = 0.0
        self._troubles: list[str] = []
        self._producer: Child | None = None
        self.group = self.topic = f"roll-{time.monotonic_ns()}"
        self.ledger = Ledger(size.partitions)
        self.produced: ProducedReport | None = None

    async def produce(self, bootstrap: str) -> None:
        """Start the producer, which bypasses the gateway."""
        arguments = [
            f"--bootstrap={bootstrap}",
            f"--topic={self.topic}",
            f"--partitions={self._size.partitions}",
            f"--rate={RATE}",
        ]
        run = partial(
            run_child,
            "gateway.demo.producer",
            arguments,
            name="producer",
            on_line=self._hear_producer,
        )
        self._producer = await self._nursery.start(run)

    async def join(self, name: str, protocol: Protocol) -> None:
        """Start a member's process."""
        self._incarnations += 1
        process = Process(member=name, incarnation=self._incarnations)
        library = self._roll.libraries[_number(name) % len(self._roll.libraries)]
        client = Client(library=library, protocol=protocol, assignor=self._roll.assignor)
        arguments = [
            f"--bootstrap={self._bootstrap}",
            f"--topic={self.topic}",
            f"--group={self.group}",
            *(["--static"] if self._roll.is_static else []),
            f"--security={self._folder / protocol}",
        ]
        run = partial(
            run_client,
            client,
            arguments,
            name=name,
            on_line=partial(self._hear, process),
            within=HANGING if library == "librdkafka" else (),
        )
        self._members[name] = process, await self._nursery.start(run)

    async def leave(self, name: str) -> None:
        """End a member's process in good order."""
        process, child = self._members.pop(name)
        try:
            await child.close()
        except AssertionError as reason:  # it takes longer on a busy machine
            raise NotSettledError(f"{reason}") from reason
        self.ledger.process_ended(process, time.monotonic())

    async def crash(self, name: str) -> None:
        """Kill a member's process."""
        process, child = self._members.pop(name)
        await child.kill()
        self.ledger.process_ended(process, time.monotonic())

    async def hang(self, name: str) -> None:
        """Let a member's application poll no more. From now on nobody reads its partitions."""
        process, child = self._members.pop(name)
        child.hang()
        self._hung.append(child)
        self.ledger.process_ended(process, time.monotonic())

    def owned_by(self, name: str) -> int:
        """How many partitions a member owns."""
        return sum(name in owners for owners in self.ledger.owners().values())

    async def wait_until_settled(self) -> float:
        """Wait until every partition has one owner among the present processes, and stays so.
        Returns the time of the last callback."""
        with trio.move_on_after(SETTLE_LIMIT_S):
            while True:
                quiet_s = QUIET_S if self._is_even() else UNEVEN_QUIET_S
                if self._is_owned() and time.monotonic() - self._moved_s >= quiet_s:
                    return self._moved_s
                await trio.sleep(LOOK_INTERVAL_S)
        raise NotSettledError(f"did not settle: {self._troubles[-1:]}")

    async def end(self) -> None:
        """Stop the producer, let the members read everything, and check what may never happen."""
        assert self._producer is not None
        await self._producer.finish(CLOSE_LIMIT_S)
        assert self.produced is not None
        acknowledged = self.produced.acknowledged
        with trio.move_on_after(CLOSE_LIMIT_S):
            await until(lambda: not self.ledger.never_delivered(acknowledged))
        for name in list(self._members):
            await self.leave(name)
        for child in self._hung:
            await child.kill()
        lost = self.ledger.never_delivered(self.produced.acknowledged)
        twice = self.ledger.owned_twice()
        back = self.ledger.went_back()
        if lost or twice or back:
            raise NotSettledError(f"{lost} records lost, owned twice {twice}, went back {back}")

    def _is_owned(self) -> bool:
        owners = self.ledger.owners()
        present = set().union(*owners.values())
        for _, child in self._members.values():
            if child.ended.is_set():
                raise NotSettledError(child.fate)
        return all(len(members) == 1 for members in owners.values()) and present == set(
            self._members
        )

    def _is_even(self) -> bool:
        loads = [self.owned_by(name) for name in self._members]
        return max(loads) - min(loads) <= 1

    def _hear(self, process: Process, line: str) -> None:
        report = reports.decode(line)
        assert not isinstance(report, ProducedReport)
        self.ledger.record(process, report)
        if isinstance(report, AssignedReport | RevokedReport | LostReport) and report.partitions:
            self._moved_s = report.at_s
        elif isinstance(report, TroubledReport):
            self._troubles.append(f"{process.member}: {report.doing}: {report.error}")

    def _hear_producer(self, line: str) -> None:
        report = reports.decode(line)
        if isinstance(report, ProducedReport):
            self.produced = report


def _number(name: str) -> int:
    return int(name.removeprefix(MEMBER))


async def run_roll(
    arm: Arm, roll: Roll, size: Size, bootstrap: str, cluster: KafkaCluster, plots: Path | None
) -> dict[str, float]:
    """Restart every member twice, and return the figures. In a roll that is upset, the last member
    leaves for good in the middle, and the one before it crashes. NotSettledError."""
    names = [f"{MEMBER}{number}" for number in range(size.members)]
    steps: list[RollStep] = []
    with tempfile.TemporaryDirectory(prefix="groupferry-roll-") as folder:
        async with trio.open_nursery() as nursery:
            group = RolledGroup(nursery, roll, size, bootstrap, Path(folder))
            await cluster.make_topic(group.topic)
            await group.produce(cluster.bootstrap_servers)
            for name in names:
                await group.join(name, "classic")
            await group.wait_until_settled()
            there: Protocol = "consumer" if arm.goes_native else "classic"
            protocols: tuple[Protocol, ...] = (there, "classic")
            for protocol in protocols:
                for name in [*names]:
                    if name not in names:
                        continue
                    is_upset = size.is_upset and len(steps) == size.members // 2
                    floor_s = group.owned_by(name) * roll.gap_s
                    started_s = time.monotonic()
                    await group.leave(name)
                    if is_upset:
                        await group.leave(names.pop())
                        await group.crash(names[-1])
                    await trio.sleep(roll.gap_s)
                    await group.join(name, protocol)
                    if is_upset:
                        await group.join(names[-1], "classic")
                    settled_s = await group.wait_until_settled()
                    steps.append(
                        RollStep(
                            member=name,
                            protocol=protocol,
                            started_s=started_s,
                            settled_s=settled_s,
                            floor_s=floor_s,
                        )
                    )
            costs = costs_of(group.ledger, size.partitions, steps)
            await group.end()
            nursery.cancel_scope.cancel()
    costs["twice"] = group.ledger.delivered_again()
    costs["load"] = os.getloadavg()[0]
    if plots is not None:
        title = f"{roll}, {arm.name}"
        drawn = plot_of(title, group.ledger, size.partitions, steps)
        (plots / f"{title.replace(' ', '-').replace(',', '')}.svg").write_text(drawn)
    return costs


@contextmanager
def serve_arm(arm: Arm, cluster: KafkaCluster) -> Iterator[str]:
    """The bootstrap address of an arm: Kafka's own, or a new gateway's."""
    if not arm.is_ours:
        yield cluster.bootstrap_servers
        return
    with gateway(cluster.bootstrap_servers) as server:
        yield f"{HOST}:{server.port}"


def attempt(
    arm: Arm, roll: Roll, size: Size, cluster: KafkaCluster, plots: Path | None
) -> dict[str, float]:
    """The figures of one roll. NotSettledError."""
    reason: NotSettledError | None = None
    with serve_arm(arm, cluster) as bootstrap:
        try:
            return trio.run(run_roll, arm, roll, size, bootstrap, cluster, plots)
        except* NotSettledError as group:
            reason = _first(group)
    assert reason is not None
    raise reason


def _first(group: BaseExceptionGroup[NotSettledError]) -> NotSettledError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def measure(
    size: Size, only: Sequence[str], plots: Path | None
) -> dict[str, dict[str, dict[str, float] | str]]:
    """The figures of every row and arm, medians over the repeats, or why there are none."""
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    refused: dict[tuple[str, str], str] = {}
    arms = [arm for arm in ARMS if any(is_wanted(roll, arm, only) for roll in rolls_of(size))]
    settings = {
        "num.partitions": size.partitions,
        "group.consumer.migration.policy": "bidirectional",
    }
    with ExitStack() as stack:
        clusters = {
            release: stack.enter_context(running_kafka(release, brokers=1, settings=settings))
            for release in sorted({arm.release for arm in arms})
        }
        for _ in range(size.repeats):
            for roll in rolls_of(size):
                for arm in arms:
                    name = f"{roll}, {arm.name}"
                    if not is_wanted(roll, arm, only):
                        continue
                    try:
                        costs = attempt(arm, roll, size, clusters[arm.release], plots)
                    except NotSettledError as reason:
                        refused[str(roll), arm.name] = f"{reason}"[:WORDS_MAX]
                        say(f"{name}: {reason}")
                    else:
                        figures.setdefault(str(roll), {}).setdefault(arm.name, []).append(costs)
                        say(f"{name}: " + ", ".join(f"{k} {v:.3g}" for k, v in costs.items()))
    return {
        str(roll): {
            arm.name: medians(runs)
            if (runs := figures.get(str(roll), {}).get(arm.name))
            else refused[str(roll), arm.name]
            for arm in arms
            if (str(roll), arm.name) in refused or figures.get(str(roll), {}).get(arm.name)
        }
        for roll in rolls_of(size)
    }


def is_wanted(roll: Roll, arm: Arm, only: Sequence[str]) -> bool:
    """Whether the row is to be measured: all are if nothing is named."""
    name = f"{roll}, {arm.name}".lower()
    return not only or any(text.lower() in name for text in only)


def main() -> None:
    """Run the rows, print the table, and write it into the docs if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one library, one gap, a small group")
    parser.add_argument("--keep", action="store_true", help="write the table into the docs")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[], help="rows with TEXT in their name"
    )
    parser.add_argument("--members", type=int, metavar="N")
    parser.add_argument("--partitions", type=int, metavar="N")
    parser.add_argument("--upset", action="store_true", help="a scale-down and a crash in mid-roll")
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="write a plot of the steps of each roll"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="measure each row N times")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    size = replace(
        size,
        repeats=options.repeats or size.repeats,
        members=options.members or size.members,
        partitions=options.partitions or size.partitions,
        is_upset=options.upset,
    )
    wanted = [
        roll for roll in rolls_of(size) if any(is_wanted(roll, a, options.only) for a in ARMS)
    ]
    if not wanted:
        parser.error("no row has that in its name: " + "; ".join(map(str, rolls_of(size))))
    if options.plots is not None:
        options.plots.mkdir(parents=True, exist_ok=True)
    try:
        with required_peer("the clients"):
            for library in {library for roll in wanted for library in roll.libraries}:
                program(library)
        with required_peer("Apache Kafka"):
            for arm in ARMS:
                kafka_release(arm.release)
    except PeerMissing as reason:
        sys.exit(f"cannot measure: {reason}")
    table = table_of(measure(size, options.only, options.plots))
    say(table)
    if options.keep:
        written, _, old_table = PAGE.read_text().partition(MARK)
        how = f"{size.members} members, {size.partitions} partitions, {os.cpu_count()} processors"
        PAGE.write_text(f"{written}{MARK}\n{how}.\n\n{merge_tables(old_table, table)}")
        PICTURE.write_text(picture_of(costs_in(PAGE.read_text())))


if __name__ == "__main__":
    main()
